"""The generator of a run's load, and how it spreads requests over hosts and connections."""

from dataclasses import dataclass
from typing import Any, Literal

#: Which host a request goes to: always the client's own, each host in turn, or the one with the fewest in flight.
Spread = Literal["fixed", "round_robin", "all"]


@dataclass(frozen=True)
class Generator:
    """Worker threads, how requests are spread over hosts, and how many connections the clients share.

    `connections` is a limit over all threads; with None each client has its own.
    """

    threads: int = 1
    spread: Spread = "fixed"
    connections: int | None = None

    def target(self) -> dict[str, Any]:
        """Return the generator's part of the target in the engine's plan."""
        limit = {} if self.connections is None else {"connections": self.connections}
        return {"spread": self.spread, **limit}

    def describe(self) -> dict[str, Any]:
        """Return the generator's part of a manifest."""
        return {"ranks": 1, "threads": self.threads, "spread": self.spread, "connections": self.connections}
