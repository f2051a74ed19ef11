"""A phase that several ranks load, as the main thread of rank 0 sees it: with the face of the engine's own handle."""

import json
import threading
from collections.abc import Callable
from typing import Any

from loadframe.ranks.top import Top

#: Has something done in the thread that talks to the ranks.
Tell = Callable[[Callable[[], None]], None]


class PhaseOfRanks:
    """The engine's handle, for all ranks of a phase together."""

    def __init__(self, top: Top, tell: Tell) -> None:
        """Wait until the phase has begun; raise what the ranks refused it for."""
        self._top = top
        self._tell = tell
        self._over = threading.Event()
        top.done.add_done_callback(lambda _: self._over.set())
        #: When the load begins, s after the run.
        self.offset: float = top.begun.result()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        return self._over.wait(seconds)

    def stop(self) -> None:
        """End the load on all ranks."""
        self._tell(lambda: self._top.everybody("stop"))

    def close(self) -> None:
        """Take nothing more from sources on any rank."""
        self._tell(lambda: self._top.everybody("close"))

    def hold(self) -> None:
        """Keep the number of clients on all ranks."""
        self._tell(lambda: self._top.everybody("hold"))

    def set_hosts(self, hosts: list[str]) -> None:
        """Change the target's hosts on all ranks."""
        self._tell(lambda: self._top.everybody("hosts", hosts=hosts))

    def progress(self) -> dict[str, Any]:
        """Return the figures of the last second, over all ranks."""
        figures: dict[str, Any] = self._top.recorder.progress()
        return figures

    def answers(self) -> list[tuple[str, bytes]]:
        """Return no answers: those of the ranks stay where they are."""
        return []

    def outcome(self) -> str:
        """Wait for the end; return the outcome of all ranks as JSON text. RuntimeError if the records are broken."""
        return json.dumps(self._top.done.result())
