"""Reads an experiment's folder: what was asked, and what came of each run, failed and missing ones included."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.analyze.failures import Failure, failures, recorded_reasons
from loadframe.analyze.figures import (
    STATES,
    TOLERANCE,
    UNKNOWN,
    VALUE,
    Evidence,
    Figure,
    FigureName,
    codes_about,
    failed_share,
    figure,
    measured_figures,
    stretch_of,
)
from loadframe.analyze.verdict.rules import Fault, effect_of, fault_of
from loadframe.base.errors import BadInput
from loadframe.record import Manifest, Run
from loadframe.record.attempts import attempts
from loadframe.record.fingerprint import changes
from loadframe.record.schema import FORMAT
from loadframe.record.schema.model import as_document
from loadframe.record.schema.summary import (
    Figures,
    OperationFigures,
    PhaseSummary,
    RecordedFigure,
    RecordedReason,
    RecordedVerdict,
    StreamSummary,
)

if TYPE_CHECKING:
    from loadframe.record import HistogramLog

EXPERIMENT_FILE = "experiment.json"
_RUNS = "runs"
#: The first of these that a run was spoilt by is whose fault that is.
_FAULTS: tuple[Fault, ...] = ("store", "generator", "cluster")
#: Kinds of experiments that take what the store did wrong for a result. The others choose among treatments, and one at
#: which requests fail must not be chosen.
_TAKE_FAULTS = ("scale", "compare", "elastic")


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """One run of the design: its treatment and its folder's content; without a folder it was not made yet."""

    id: str
    block: int | None
    treatment: Mapping[str, Any]
    run: Run | None

    def as_dict(self) -> dict[str, Any]:
        """Return for JSON how the run stands: its treatment, status, verdict."""
        return {
            "run": self.id,
            "treatment": dict(self.treatment),
            "status": self.status,
            "failure": self.failure,
            "verdict": as_document(self.verdict),
            "figures": self.states(),
            "store_failures": [failure.as_dict() for failure in self.failures],
        }

    @cached_property
    def status(self) -> str:
        """`done`, `failed`, `interrupted`, or `missing`."""
        return self.run.summary.status if self.run else "missing"

    @property
    def failure(self) -> str | None:
        """What failed, where the status is `failed`."""
        return self.run.summary.failure if self.run else None

    @property
    def verdict(self) -> RecordedVerdict | None:
        """The verdict, where the run came so far."""
        return self.run.summary.verdict if self.run else None

    @property
    def usable(self) -> bool:
        """Whether it is sound, and no reason of its verdict is the store's fault."""
        return self.sound and not any(fault_of(reason.code) == "store" for reason in self.reasons)

    @cached_property
    def sound(self) -> bool:
        """Whether some of its figures are the store's at its treatment, as good or bad as the store was then.

        It is done, and a figure is good or bounded; `figure` tells which. What else is wrong with it (errors, drops, a
        rate that was not achieved, unsteadiness) is the store's doing, and a result.
        """
        if self.status != "done" or self.verdict is None:
            return False
        if not self._qualities:
            return not any(effect_of(reason.code) == "unknown" for reason in self.reasons)
        return any(entry.state != "unknown" for entry in self._qualities.values())

    @property
    def bounded(self) -> bool:
        """Whether it is sound, and a figure of it is bounded."""
        return self.sound and any(entry.state == "bounded" for entry in self._qualities.values())

    @property
    def narrow(self) -> bool:
        """Whether its throughput is known to 5 %, so that its seconds show what the store did."""
        phases = {entry.phase for entry in self._qualities.values()}
        allowed = stretch_of(self.figure(phase, "throughput") for phase in phases)
        return allowed.high <= 1 + TOLERANCE

    def states(self) -> dict[str, dict[str, str]]:
        """Return for each phase that was measured how well its figures were: good, bounded or unknown.

        Of times the worst of the phase's operations is meant.
        """
        worst: dict[str, dict[str, str]] = {}
        for entry in self._qualities.values() if self.status == "done" else ():
            of_phase = worst.setdefault(entry.phase, {})
            known = of_phase.get(entry.figure, "good")
            of_phase[entry.figure] = max(known, entry.state, key=STATES.index)
        return worst

    @property
    def fault(self) -> Fault | None:
        """Whose fault it is that the run is not sound; None where it is sound, was not made, or the cause is unknown.

        A store that failed has failed, whatever the generator did at that time.
        """
        if self.sound or self.run is None:
            return None
        if self.status == "done":
            faults = {fault_of(reason.code) for reason in self.reasons if effect_of(reason.code) == "unknown"}
            return next((fault for fault in _FAULTS if fault in faults), None)
        return next((fault for fault in _FAULTS if self.run and fault == self.run.summary.fault), None)

    @cached_property
    def reasons(self) -> tuple[RecordedReason, ...]:
        """The reasons of its verdict; empty where it has none."""
        return recorded_reasons(self.run) if self.run else ()

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The failures of the store in it."""
        return failures(self.run) if self.run else ()

    @property
    def store_failed(self) -> bool:
        """Whether the store failed in the run as a whole, so that its figures, if any, are those of a failed store."""
        return any(failure.of_run for failure in self.failures)

    @property
    def requests_failed(self) -> bool:
        """Whether the store failed in the run as a whole, or too many requests of a sound run failed."""
        return self.store_failed or (self.sound and any(failure.kind == "requests" for failure in self.failures))

    @property
    def why_failed(self) -> str:
        """How the store failed in the run as a whole; empty where it did not."""
        return "; ".join(failure.words for failure in self.failures if failure.of_run)

    @property
    def why(self) -> str:
        """Why it is left out or doubted, in one line: what failed, its verdict's causes, or its status."""
        if self.failure:
            return self.failure.strip().splitlines()[0]
        words = dict.fromkeys([*(f.words for f in self.failures), *(reason.cause for reason in self.reasons)])
        return "; ".join(words) or ("not made yet" if self.status == "missing" else self.status)

    @property
    def qualities(self) -> tuple[RecordedFigure, ...]:
        """How well each figure of the measured phases was measured."""
        return tuple(self._qualities.values())

    def quality(self, phase: str, name: FigureName, operation: str | None = None) -> RecordedFigure | None:
        """Return how well a figure of a phase was measured: response and service times those of an operation.

        None where the run has no such figure, or did not come to its end.
        """
        if self.status != "done" or self.verdict is None:
            return None
        known = self._qualities.get((phase, name, operation))
        if known is None and (entry := self.phase(phase)) and entry.prepares:
            # Preparing phases are judged where nothing else was measured, and looked at for themselves.
            entries = measured_figures(self._evidence(entry))
            known = next((it for it in entries if (it.figure, it.operation) == (name, operation)), None)
        return known

    def figure(self, phase: str, name: FigureName, operation: str | None = None, statistic: str = VALUE) -> Figure:
        """Return a figure with its bounds: `statistic` is `p99` and the like for times, which are of an `operation`.

        The share of errors may be of one operation; how well it was measured is known of the phase.
        """
        entry = self.phase(phase)
        if entry is None:
            return UNKNOWN
        value: float | None
        if name == "throughput":
            value = entry.throughput
        elif name == "documents":
            value = entry.documents_per_second
        elif name == "errors":
            chosen = entry.single if operation is None else entry.operations
            value = failed_share([it for key, it in chosen.items() if operation in (None, key)])
            operation = None
        else:
            figures = self.figures(phase, operation or "")
            latency = getattr(figures, name) if figures else None
            value = latency.at(statistic) if latency else None
        return figure(self.quality(phase, name, operation), value, statistic)

    @cached_property
    def _qualities(self) -> Mapping[tuple[str, str, str | None], RecordedFigure]:
        if self.run is None or self.verdict is None:
            return {}
        # Reasons that are read otherwise today than they were recorded have other figures.
        known = self.verdict.figures if self.reasons == self.verdict.reasons else ()
        recorded = known or tuple(
            entry
            for phase in self.run.summary.measured or self.run.summary.phases
            for entry in measured_figures(self._evidence(phase))
        )
        return {(entry.phase, entry.figure, entry.operation): entry for entry in recorded}

    def _evidence(self, phase: PhaseSummary) -> Evidence:
        """Return what the figures of a phase are judged by when they were not when the run was made."""
        assert self.run is not None
        codes = codes_about(self.reasons, phase.name, [entry.name for entry in self.run.summary.phases])
        return Evidence(phase, self.run.summary.generator, codes, self._histograms)

    def _histograms(self) -> "HistogramLog | None":
        """Return the run's histograms; None where they are lost, as bounds can do without."""
        try:
            return self.run.histograms if self.run else None
        except BadInput:
            return None

    @property
    def manifest(self) -> Manifest:
        """The run's manifest; empty where the run is missing."""
        return self.run.manifest if self.run else Manifest(FORMAT)

    @property
    def nodes(self) -> int | None:
        """The number of nodes: the treatment's, or that of the cluster."""
        nodes = self.treatment.get("nodes", self.manifest.store.nodes)
        return None if nodes is None else int(nodes)

    def clients(self, phase: str) -> int | None:
        """The number of closed clients in a phase: the treatment's, or its streams'.

        None where the load is open, or the number goes through stages.
        """
        if "clients" in self.treatment:
            return int(self.treatment["clients"])
        streams = self.streams(phase)
        numbers = [stream.clients for stream in streams if isinstance(stream.clients, int)]
        return sum(numbers) if streams and len(numbers) == len(streams) else None

    def streams(self, phase: str) -> tuple[StreamSummary, ...]:
        """Return the streams of a phase; empty where the run never came to it."""
        entry = self.phase(phase)
        return entry.streams if entry else ()

    def operations(self, phase: str) -> Mapping[str, OperationFigures]:
        """Return the figures of a phase's operations; empty where the run never came to it."""
        entry = self.phase(phase)
        return entry.operations if entry else {}

    def figures(self, phase: str, name: str) -> Figures | None:
        """Return those of an operation of a phase, or of a part of one (`OPERATION.PART`); None if it has none."""
        operations = self.operations(phase)
        operation, _, part = name.rpartition(".")
        return operations.get(name) or (operations[operation].parts.get(part) if operation in operations else None)

    def phase(self, name: str) -> PhaseSummary | None:
        """Return a phase's entry in the summary; None where the run never came to it."""
        phases = self.run.summary.phases if self.run else ()
        return next((phase for phase in phases if phase.name == name), None)


@dataclass(frozen=True, eq=False)
class RecordedExperiment:
    """An experiment's folder: `description` is the content of experiment.json, `runs` follow the design's order.

    Runs that were not designed but follow from others come last.
    """

    path: Path
    description: Mapping[str, Any]
    runs: tuple[RecordedRun, ...]
    #: Runs that failed and were made again. No figure contains them; failures of the store in them still count.
    attempts: tuple[RecordedRun, ...] = ()

    def counts(self, run: RecordedRun) -> bool:
        """Return whether figures rest on a run; see `takes_faults`. The curves of elastic experiments need seconds."""
        if self.description["kind"] == "elastic" and not run.narrow:
            return False
        return run.sound if self.takes_faults else run.usable

    @property
    def used(self) -> tuple[RecordedRun, ...]:
        """The runs that figures rest on."""
        return tuple(run for run in self.runs if self.counts(run))

    @property
    def unusable(self) -> tuple[RecordedRun, ...]:
        """The runs that give no figure for another reason than a failure of the store, which is a result."""
        whole = self.description["kind"] == "elastic"
        return tuple(run for run in self.runs if not run.store_failed and not (run.sound and (run.narrow or not whole)))

    @property
    def left_out(self) -> tuple[RecordedRun, ...]:
        """The runs that no figure contains: spoilt, failed, interrupted or missing."""
        used = {id(run) for run in self.used}
        return tuple(run for run in self.runs if id(run) not in used)

    @property
    def failed(self) -> tuple[RecordedRun, ...]:
        """The runs and earlier attempts in which the store failed as a whole, in the figures or not."""
        return tuple(run for run in (*self.runs, *self.attempts) if run.store_failed)

    @property
    def counted(self) -> tuple[RecordedRun, ...]:
        """The runs, and earlier attempts that the store failed: making a run again does not undo its failure."""
        return (*self.runs, *(attempt for attempt in self.attempts if attempt.store_failed))

    @property
    def changed(self) -> tuple[str, ...]:
        """How Loadframe or the machine changed from one session of the folder to the next."""
        instruments = [session["instrument"] for session in self.description.get("sessions", ())]
        return tuple(dict.fromkeys(text for pair in pairwise(instruments) for text in changes(*pair)))

    @property
    def takes_faults(self) -> bool:
        """Whether runs in which only the store was at fault are in the figures."""
        return self.description["kind"] in _TAKE_FAULTS

    @property
    def faulty(self) -> tuple[RecordedRun, ...]:
        """The runs that are in the figures although the store was at fault."""
        return tuple(run for run in self.runs if self.takes_faults and run.sound and not run.usable)


def read_experiment(path: Path) -> RecordedExperiment:
    """Read an experiment's folder; BadInput if it is not one, or a run in it is broken."""
    file = path / EXPERIMENT_FILE
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        entries = [*description["design"], *description.get("further", [])]
        design = [(entry["run"], entry["block"], dict(entry["treatment"])) for entry in entries]
        for key in ("experiment", "kind", "factors", "measure"):
            description[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"this is not an experiment's folder: {_words(error)}",
            where=str(file),
            remedy=f"name a folder that `loadframe run` wrote, with its {EXPERIMENT_FILE}",
        ) from error
    runs = []
    for name, block, treatment in design:
        folder = path / _RUNS / name
        runs.append(RecordedRun(name, block, treatment, Run(folder) if folder.exists() else None))
    return RecordedExperiment(path, description, tuple(runs), read_attempts(path))


def read_attempts(path: Path) -> tuple[RecordedRun, ...]:
    """Return the earlier attempts of an experiment's runs; BadInput if one is broken."""
    return tuple(
        RecordedRun(f"{it.run_id}, attempt {it.number}", it.run.manifest.block, it.run.manifest.treatment, it.run)
        for it in attempts(path)
    )


def excluded(runs: Iterable[RecordedRun]) -> list[dict[str, str]]:
    """Return for JSON the names of runs that figures leave out, each with the reason."""
    return [{"run": run.id, "reason": run.why} for run in runs]


def by_treatment(folder: RecordedExperiment) -> Iterator[tuple[Mapping[str, Any], list[tuple[RecordedRun, Run]]]]:
    """Yield each treatment of the runs that figures rest on, in the order of the factors' levels, with these runs.

    What is read of them through the second of each pair is let go of with the list: experiments have thousands of runs.
    """
    groups: dict[str, list[RecordedRun]] = {}
    for run in folder.used:
        groups.setdefault(json.dumps(run.treatment, sort_keys=True), []).append(run)
    levels = {**folder.description["factors"], "variant": list(folder.description.get("variants", {}))}
    for runs in sorted(groups.values(), key=lambda runs: _place(runs[0].treatment, levels)):
        yield runs[0].treatment, [(run, Run(run.run.path)) for run in runs if run.run]


def _place(treatment: Mapping[str, Any], levels: Mapping[str, Sequence[Any]]) -> list[float]:
    """Return where a treatment stands among others: by the levels as they are listed, then by other numbers."""
    place = []
    for name, level in sorted(treatment.items(), key=lambda item: item[0] not in levels):
        if level in levels.get(name, ()):
            place.append(float(list(levels[name]).index(level)))
        else:
            place.append(float(level) if isinstance(level, int | float) else 0.0)
    return place


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "the file cannot be read"
    return f"it lacks {error}" if isinstance(error, KeyError) else "the file cannot be read"
