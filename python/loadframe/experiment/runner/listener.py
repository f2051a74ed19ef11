"""Receives the progress of long work. The command line draws it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadframe.load import Progress
    from loadframe.record import RunWriter


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

    def recording(self, writer: "RunWriter") -> None:
        """A run begins to be recorded, by a writer that can be subscribed to."""

    def phase(self, name: str, seconds: float | None) -> None:
        """A phase begins; `seconds` is how long it lasts, where that is known."""

    def progress(self, progress: "Progress") -> None:
        """The phase goes on."""

    def answer(self, operation: str, chart: Mapping[str, Any], answer: bytes) -> None:
        """The newest answer to an operation, JSON, and how the workload says that it is drawn."""


class Listeners(Listener):
    """Several listeners that hear the same."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def step(self, text: str) -> None:
        """Tell all that something begins."""
        for listener in self._listeners:
            listener.step(text)

    def remark(self, text: str) -> None:
        """Tell all what the user should read."""
        for listener in self._listeners:
            listener.remark(text)

    def expect(self, parts: Mapping[str, float | None]) -> None:
        """Tell all what is to come."""
        for listener in self._listeners:
            listener.expect(parts)

    def part(self, name: str) -> None:
        """Tell all that a part begins."""
        for listener in self._listeners:
            listener.part(name)

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Tell all that a run of an experiment begins."""
        for listener in self._listeners:
            listener.run(index, runs, run_id)

    def recording(self, writer: "RunWriter") -> None:
        """Tell all that a run begins to be recorded."""
        for listener in self._listeners:
            listener.recording(writer)

    def phase(self, name: str, seconds: float | None) -> None:
        """Tell all that a phase begins."""
        for listener in self._listeners:
            listener.phase(name, seconds)

    def progress(self, progress: "Progress") -> None:
        """Tell all how the phase goes on."""
        for listener in self._listeners:
            listener.progress(progress)

    def answer(self, operation: str, chart: Mapping[str, Any], answer: bytes) -> None:
        """Tell all of an answer."""
        for listener in self._listeners:
            listener.answer(operation, chart, answer)
