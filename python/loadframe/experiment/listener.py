"""Receives the progress of long work. The command line draws it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadframe.load import Progress


class Listener:
    """Ignores all progress; subclasses override what they show."""

    def step(self, text: str) -> None:
        """Something begins that takes a while: a node starts, a collection is made."""

    def remark(self, text: str) -> None:
        """Something that the user should read, now or later."""

    def expect(self, parts: Mapping[str, float | None]) -> None:
        """All that is to come: its parts by name (runs, or phases of a run), with about how long each takes, s, or None
        where nobody knows."""

    def part(self, name: str) -> None:
        """A part of what is expected begins: a run with the start of its cluster, if it needs one, or a phase."""

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Run `index` (from 0) of an experiment's `runs` begins."""

    def phase(self, name: str, seconds: float | None) -> None:
        """A phase begins; `seconds` is how long it lasts, where that is known."""

    def progress(self, progress: "Progress") -> None:
        """The phase goes on."""
