"""How a rank reaches the others: by MPI itself, or over the process that has it."""

from typing import Protocol

from loadframe.ranks.messages import Header


class Wire(Protocol):
    """Messages between ranks. Nothing in it waits."""

    rank: int
    size: int

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message; it arrives behind those that were sent to the same rank before."""

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a message that has arrived with the rank that it is from; None if there is none."""
