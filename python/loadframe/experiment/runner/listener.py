"""Interfaces of runs: listeners for their progress, hooks for actions, and labels. Experiment files import them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadframe.base.errors import LoadframeError
    from loadframe.load import OpenMeasures, Progress
    from loadframe.record import RunWriter


class Listener:
    """Ignores all progress; subclasses override the methods that they need."""

    def step(self, text: str) -> None:
        """Called when a slow step begins, such as the start of a node; `text` describes it."""

    def remark(self, text: str) -> None:
        """Called with a message for the user, to show now or later."""

    def expect(self, parts: Mapping[str, float | None], *, least: bool = False) -> None:
        """Called with the names of all parts (runs, or phases of a run) and their expected seconds, None if unknown.

        `least`: they may take longer, because searches have an unknown number of trials.
        """

    def part(self, name: str) -> None:
        """Called when an announced part begins: a run, including the start of its cluster, or a phase."""

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Called when run `index` (from 0) of `runs` begins or, with searches, a trial of search `index` of `runs`."""

    def trial(self, number: int, load: str, percentile: str, limit: float | None) -> None:
        """Called when trial `number` of a search begins at `load`; the SLO limits the percentile to `limit` s."""

    def judged(self, run_id: str, text: str, outcome: str) -> None:
        """Called with the `outcome` of a finished trial (passed, failed or invalid) and a line that describes it."""

    def recording(self, writer: "RunWriter") -> None:
        """Called when the recording of a run begins; `writer` accepts subscribers."""

    def phase(self, name: str, seconds: float | None) -> None:
        """Called when a phase begins; `seconds` is its length, None if unknown."""

    def measuring(self, measures: "OpenMeasures") -> None:
        """Called when a phase's load begins. `measures()`, called then, returns a reader that also works afterwards."""

    def progress(self, progress: "Progress") -> None:
        """Called with the progress of the current phase, a few times a second."""

    def answer(self, operation: str, chart: Mapping[str, Any], answer: bytes) -> None:
        """Called with the latest answer (JSON) to an operation, and its chart definition from the workload."""


class Listeners(Listener):
    """Forwards every call to several listeners."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def step(self, text: str) -> None:
        """Forward the start of a step to every listener."""
        for listener in self._listeners:
            listener.step(text)

    def remark(self, text: str) -> None:
        """Forward a message to every listener."""
        for listener in self._listeners:
            listener.remark(text)

    def expect(self, parts: Mapping[str, float | None], *, least: bool = False) -> None:
        """Forward the parts to come, with their expected (or `least`) seconds, None if unknown, to every listener."""
        for listener in self._listeners:
            listener.expect(parts, least=least)

    def part(self, name: str) -> None:
        """Forward the start of a run or phase to every listener. `name` is the part as announced."""
        for listener in self._listeners:
            listener.part(name)

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Forward the start of run `index` (from 0) of `runs` to every listener."""
        for listener in self._listeners:
            listener.run(index, runs, run_id)

    def trial(self, number: int, load: str, percentile: str, limit: float | None) -> None:
        """Forward the start of trial `number` at a load such as `512/s` to every listener.

        `limit` is the SLO's bound of the percentile, s, or None without one.
        """
        for listener in self._listeners:
            listener.trial(number, load, percentile, limit)

    def judged(self, run_id: str, text: str, outcome: str) -> None:
        """Forward the judgement of a trial to every listener: its run, a sentence, and the outcome as one word."""
        for listener in self._listeners:
            listener.judged(run_id, text, outcome)

    def recording(self, writer: "RunWriter") -> None:
        """Forward the start of a recording to every listener."""
        for listener in self._listeners:
            listener.recording(writer)

    def phase(self, name: str, seconds: float | None) -> None:
        """Forward the start of a phase, with its length in s (None if unknown), to every listener."""
        for listener in self._listeners:
            listener.phase(name, seconds)

    def measuring(self, measures: "OpenMeasures") -> None:
        """Forward the start of the load to every listener."""
        for listener in self._listeners:
            listener.measuring(measures)

    def progress(self, progress: "Progress") -> None:
        """Forward progress to every listener."""
        for listener in self._listeners:
            listener.progress(progress)

    def answer(self, operation: str, chart: Mapping[str, Any], answer: bytes) -> None:
        """Forward the latest answer to an operation, with its chart definition, to every listener."""
        for listener in self._listeners:
            listener.answer(operation, chart, answer)


class RunHook:
    """Hook for actions during a run, such as cluster changes. By default it does nothing."""

    #: Whether the hook changes the cluster on purpose, so that failures and unsteady figures do not invalidate the run.
    disturbs = False

    def begin(self, writer: "RunWriter") -> None:
        """Called at the start of the run, with the writer for its events."""

    def phase(self, start: float, warmup: float) -> None:
        """Called when a phase starts, `start` s after the run; its measured window starts at most `warmup` s later."""

    def progress(self, progress: "Progress") -> None:
        """Called a few times a second during a phase."""

    def held(self) -> bool:
        """Return whether the number of clients must stay constant from now on."""
        return False

    def failure(self) -> "LoadframeError | None":
        """Return the error of the hook, if any. It ends the load, and the run fails."""
        return None

    def after(self) -> None:
        """Called after the last phase; LoadframeError if its action fails."""

    def end(self) -> list[str]:
        """Called after the load; stop all actions and return the deviations from the plan, one sentence each."""
        return []


@dataclass(frozen=True)
class Labels:
    """Treatment, block and repetition of a run."""

    treatment: Mapping[str, Any] = field(default_factory=dict)
    block: int | None = None
    repetition: int | None = None
