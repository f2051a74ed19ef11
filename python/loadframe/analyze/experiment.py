"""The folder of an experiment: its description and its runs, including failed and missing ones."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    is_valid,
    measured_figures,
    stretch_of,
)
from loadframe.analyze.verdict.rules import Fault, effect_of, fault_of
from loadframe.base.errors import BadInput
from loadframe.record import Manifest, Run
from loadframe.record.machine import changes
from loadframe.record.reader import attempts
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Figures, OperationFigures
from loadframe.record.schema.model import as_document
from loadframe.record.schema.summary import PhaseSummary, RecordedFigure, RecordedReason, RecordedVerdict, StreamSummary

if TYPE_CHECKING:
    from loadframe.record import HistogramLog

EXPERIMENT_FILE = "experiment.json"
_RUNS = "runs"
#: Components to blame for an invalid run, by precedence.
_FAULTS: tuple[Fault, ...] = ("store", "generator", "cluster")
#: Kinds of experiments that include runs with store failures in their figures. The other kinds choose among
#: treatments, and must not choose one with failing requests; settings include overloaded and unsteady runs.
_TAKE_FAULTS = ("scale", "compare", "elastic")


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """One run of the design: its treatment and its folder (`run` is None if the run is missing)."""

    id: str
    block: int | None
    treatment: Mapping[str, Any]
    run: Run | None

    def uncached(self) -> "RecordedRun":
        """Return the same run without its loaded content, which is read again into the copy and freed with it.

        Use the copy to walk over the thousands of runs of an experiment. A missing run stays missing.
        """
        return replace(self, run=Run(self.run.path) if self.run else None)

    def as_dict(self) -> dict[str, Any]:
        """Return the run's treatment, status, verdict, figures' states and store failures for JSON."""
        return {
            "run": self.id,
            "treatment": dict(self.treatment),
            "status": self.status,
            "failure": self.failure,
            "verdict": as_document(self.verdict) | {"valid": self.sound} if self.verdict else None,
            "figures": self.states(),
            "store_failures": [failure.as_dict() for failure in self.failures],
        }

    @cached_property
    def treatment_key(self) -> str:
        """The treatment as JSON with sorted keys, to group runs by it."""
        return json.dumps(dict(self.treatment), sort_keys=True)

    @cached_property
    def status(self) -> str:
        """`done`, `failed`, `interrupted`, or `missing`."""
        return self.run.summary.status if self.run else "missing"

    @property
    def failure(self) -> str | None:
        """The failure that the run's summary records, or None without one, and for a missing run."""
        return self.run.summary.failure if self.run else None

    @property
    def verdict(self) -> RecordedVerdict | None:
        """The run's verdict; None if the run is missing or ended before it was judged."""
        return self.run.summary.verdict if self.run else None

    @property
    def usable(self) -> bool:
        """Whether the run is valid (`sound`) and its verdict does not blame the store."""
        return self.sound and not any(fault_of(reason.code) == "store" for reason in self.reasons)

    @cached_property
    def sound(self) -> bool:
        """Whether the run is valid: done and judged, and at least one of its figures is good or bounded.

        Errors, drops, an unachieved rate and unsteadiness are results of the store and leave a run valid. A run without
        figures is valid unless a reason makes figures unknown.
        """
        if self.status != "done" or self.verdict is None:
            return False
        return is_valid(self._qualities.values(), [reason.code for reason in self.reasons])

    @property
    def bounded(self) -> bool:
        """Whether the run is valid and at least one of its figures is bounded."""
        return self.sound and any(entry.state == "bounded" for entry in self._qualities.values())

    @property
    def narrow(self) -> bool:
        """Whether the upper bound of the throughput is within 5 % of it in each measured phase.

        Throughputs that are unknown or 0 do not count: a run without any other is narrow.
        """
        phases = {entry.phase for entry in self._qualities.values()}
        allowed = stretch_of(self.figure(phase, "throughput") for phase in phases)
        return allowed.high <= 1 + TOLERANCE

    def states(self) -> dict[str, dict[str, str]]:
        """Return the state of each figure (good, bounded or unknown) by measured phase; empty unless the run is done.

        For times it is the worst state among the phase's operations.
        """
        worst: dict[str, dict[str, str]] = {}
        for entry in self._qualities.values() if self.status == "done" else ():
            of_phase = worst.setdefault(entry.phase, {})
            known = of_phase.get(entry.figure, "good")
            of_phase[entry.figure] = max(known, entry.state, key=STATES.index)
        return worst

    @property
    def fault(self) -> Fault | None:
        """The component to blame for an invalid run; None if the run is valid or missing, or the cause is unknown.

        In a run that is done, only reasons that make figures unknown count. Of several components, the store comes
        first, then the generator, then the cluster.
        """
        if self.sound or self.run is None:
            return None
        if self.status == "done":
            faults = {fault_of(reason.code) for reason in self.reasons if effect_of(reason.code) == "unknown"}
            return next((fault for fault in _FAULTS if fault in faults), None)
        return next((fault for fault in _FAULTS if self.run and fault == self.run.summary.fault), None)

    @cached_property
    def reasons(self) -> tuple[RecordedReason, ...]:
        """The reasons of the run's verdict; empty if it has none."""
        return recorded_reasons(self.run) if self.run else ()

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The store's failures in the run; empty for a missing run."""
        return failures(self.run) if self.run else ()

    @property
    def store_failed(self) -> bool:
        """Whether the whole run counts as a failure of the store."""
        return any(failure.of_run for failure in self.failures)

    @property
    def requests_failed(self) -> bool:
        """Whether the whole run counts as the store's failure, or it is valid with too many failed requests."""
        return self.store_failed or (self.sound and any(failure.kind == "requests" for failure in self.failures))

    @property
    def survived(self) -> bool:
        """Whether the run is valid, and does not count as the store's failure (`requests_failed`).

        Overloaded and unsteady runs are included: without them, only the good runs of a treatment would count.
        """
        return self.sound and not self.requests_failed

    @property
    def why_failed(self) -> str:
        """How the store failed, for a run that as a whole counts as its failure (`store_failed`); else empty."""
        return "; ".join(failure.words for failure in self.failures if failure.of_run)

    @property
    def why(self) -> str:
        """Why the run is excluded or doubted, in one line.

        Its failure; else the store's failures and the causes of its verdict; else its status, `not run yet` if missing.
        """
        if self.failure:
            return self.failure.strip().splitlines()[0]
        words = dict.fromkeys([*(f.words for f in self.failures), *(reason.cause for reason in self.reasons)])
        return "; ".join(words) or ("not run yet" if self.status == "missing" else self.status)

    @property
    def qualities(self) -> tuple[RecordedFigure, ...]:
        """The quality of each figure of the measured phases, recorded or computed; empty without a run or a verdict."""
        return tuple(self._qualities.values())

    def quality(self, phase: str, name: FigureName, operation: str | None = None) -> RecordedFigure | None:
        """Return the quality of a phase's figure; response and service times need an `operation`, others need None.

        None if the run is not done or not judged, or lacks the figure. That of a preparing phase is computed if not
        recorded.
        """
        if self.status != "done" or self.verdict is None:
            return None
        known = self._qualities.get((phase, name, operation))
        if known is None and (entry := self.phase(phase)) and entry.prepares:
            # Preparing phases are judged only if nothing else was measured, so their figures are computed here.
            entries = measured_figures(self._evidence(entry))
            known = next((it for it in entries if (it.figure, it.operation) == (name, operation)), None)
        return known

    def figure(self, phase: str, name: FigureName, operation: str | None = None, statistic: str = VALUE) -> Figure:
        """Return a figure with its bounds, in 1/s, s or as a share; UNKNOWN if the run did not reach the phase.

        Times need an `operation` and a `statistic` such as `p99`. The share of errors may be of one operation; its
        quality is always the phase's.
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
        """Return the state of each figure by phase, name and operation; empty without a run or a verdict.

        The recorded states are computed again if this version judges the run differently.
        """
        if self.run is None or self.verdict is None:
            return {}
        # Recorded figures do not hold for reasons that this version reads differently.
        known = self.verdict.figures if self.reasons == self.verdict.reasons else ()
        recorded = known or tuple(
            entry
            for phase in self.run.summary.measured or self.run.summary.phases
            for entry in measured_figures(self._evidence(phase))
        )
        return {(entry.phase, entry.figure, entry.operation): entry for entry in recorded}

    def _evidence(self, phase: PhaseSummary) -> Evidence:
        """Return the input for judging a phase's figures, with the verdict's reasons as this version reads them.

        For figures without a recorded quality, or with one that rests on other reasons. AssertionError if the run is
        missing.
        """
        assert self.run is not None
        codes = codes_about(self.reasons, phase.name, [entry.name for entry in self.run.summary.phases])
        return Evidence(phase, self.run.summary.generator, codes, self.histograms)

    def histograms(self) -> "HistogramLog | None":
        """Return the run's histograms; None if they are lost (bounds then rest on the summary)."""
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
        """The number of nodes, from the treatment or else from the store, or None for a store of unknown size."""
        nodes = self.treatment.get("nodes", self.manifest.store.nodes)
        return None if nodes is None else int(nodes)

    def clients(self, phase: str) -> int | None:
        """Return the number of closed clients in a phase, from the treatment or else the sum over its streams.

        Without clients in the treatment: None for an open load, for a number that changes by stages, and if the run did
        not reach the phase.
        """
        if "clients" in self.treatment:
            return int(self.treatment["clients"])
        streams = self.streams(phase)
        numbers = [stream.clients for stream in streams if isinstance(stream.clients, int)]
        return sum(numbers) if streams and len(numbers) == len(streams) else None

    def streams(self, phase: str) -> tuple[StreamSummary, ...]:
        """Return the streams of a phase; empty if the run did not reach it."""
        entry = self.phase(phase)
        return entry.streams if entry else ()

    def per_arrival(self, phase: str, stream: StreamSummary) -> int:
        """Return the number of requests that each arrival of an open loop sends: its group, or a whole journey."""
        planned = [entry for entry in self.manifest.workload.phases if entry.get("name") == phase]
        streams = [entry for of_phase in planned for entry in of_phase.get("streams", ())]
        journeys = [entry.get("journey") or () for entry in streams if entry.get("name") == stream.name]
        return max([stream.group, *map(len, journeys)])

    def operations(self, phase: str) -> Mapping[str, OperationFigures]:
        """Return the figures of a phase's operations; empty if the run did not reach it."""
        entry = self.phase(phase)
        return entry.operations if entry else {}

    def figures(self, phase: str, name: str) -> Figures | None:
        """Return the figures of an operation, or of a part of one (`OPERATION.PART`); None if the phase lacks it."""
        operations = self.operations(phase)
        operation, _, part = name.rpartition(".")
        return operations.get(name) or (operations[operation].parts.get(part) if operation in operations else None)

    def phase(self, name: str) -> PhaseSummary | None:
        """Return a phase's entry in the summary; None if the run did not reach it."""
        phases = self.run.summary.phases if self.run else ()
        return next((phase for phase in phases if phase.name == name), None)


@dataclass(frozen=True, eq=False)
class RecordedExperiment:
    """An experiment's folder: `description` is the content of experiment.json.

    `runs` are in the design's order, followed by the runs that were added after the design was made.
    """

    path: Path
    description: Mapping[str, Any]
    runs: tuple[RecordedRun, ...]
    #: Failed runs that were repeated. Figures exclude them; the store's failures in them count.
    attempts: tuple[RecordedRun, ...] = ()

    def counts(self, run: RecordedRun) -> bool:
        """Return whether figures include a run: it is valid and has no fault of the store.

        Kinds with `takes_faults` (scale, compare, elastic) also include faults of the store. Settings experiments
        include every run that `survived`. Elastic experiments also need throughputs that are known within 5 %
        (`narrow`).
        """
        if self.description["kind"] == "settings":
            return run.survived
        if self.description["kind"] == "elastic" and not run.narrow:
            return False
        return run.sound if self.takes_faults else run.usable

    @property
    def used(self) -> tuple[RecordedRun, ...]:
        """The runs that figures include."""
        return tuple(run for run in self.runs if self.counts(run))

    @property
    def unusable(self) -> tuple[RecordedRun, ...]:
        """The runs without usable figures, except runs that count as a failure of the store (a result).

        These are invalid and missing runs, and runs of elastic experiments that are not `narrow`.
        """
        whole = self.description["kind"] == "elastic"
        return tuple(run for run in self.runs if not run.store_failed and not (run.sound and (run.narrow or not whole)))

    @property
    def left_out(self) -> tuple[RecordedRun, ...]:
        """The runs that figures exclude, the missing ones among them; see `counts`."""
        used = {id(run) for run in self.used}
        return tuple(run for run in self.runs if id(run) not in used)

    @property
    def failed(self) -> tuple[RecordedRun, ...]:
        """The runs and earlier attempts that count as failures of the store, whether figures include them or not."""
        return tuple(run for run in (*self.runs, *self.attempts) if run.store_failed)

    @property
    def counted(self) -> tuple[RecordedRun, ...]:
        """The runs, and the earlier attempts that count as failures of the store (repeating does not undo these)."""
        return (*self.runs, *(attempt for attempt in self.attempts if attempt.store_failed))

    @property
    def changed(self) -> tuple[str, ...]:
        """Sentences about changes of Loadframe or the machine between successive sessions, each sentence once."""
        instruments = [session["instrument"] for session in self.description.get("sessions", ())]
        return tuple(dict.fromkeys(text for pair in pairwise(instruments) for text in changes(*pair)))

    @property
    def takes_faults(self) -> bool:
        """Whether figures include runs with faults of the store: for scale, compare and elastic."""
        return self.description["kind"] in _TAKE_FAULTS

    @property
    def faulty(self) -> tuple[RecordedRun, ...]:
        """The included runs in which the store was at fault: they are not `usable`."""
        return tuple(run for run in self.used if not run.usable)


def read_experiment(path: Path) -> RecordedExperiment:
    """Return an experiment from its folder; BadInput if it is not one, or if opening a run or an earlier attempt fails.

    The content of runs is read on first access; a run without a folder is missing.
    """
    file = path / EXPERIMENT_FILE
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        entries = [*description["design"], *description.get("further", [])]
        design = [(entry["run"], entry["block"], dict(entry["treatment"])) for entry in entries]
        for key in ("experiment", "kind", "factors", "measure"):
            description[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"this is not an experiment folder: {_words(error)}",
            where=str(file),
            remedy=f"name a folder that `loadframe run` wrote, with its {EXPERIMENT_FILE}",
        ) from error
    runs = []
    for name, block, treatment in design:
        folder = path / _RUNS / name
        runs.append(RecordedRun(name, block, treatment, Run(folder) if folder.exists() else None))
    return RecordedExperiment(path, description, tuple(runs), read_attempts(path))


def read_attempts(path: Path) -> tuple[RecordedRun, ...]:
    """Return the earlier attempts of an experiment's runs, named `RUN, attempt NUMBER`; BadInput if one is broken."""
    return tuple(
        RecordedRun(f"{it.run_id}, attempt {it.number}", it.run.manifest.block, it.run.manifest.treatment, it.run)
        for it in attempts(path)
    )


def excluded(runs: Iterable[RecordedRun]) -> list[dict[str, str]]:
    """Return these runs for JSON, each with its id and the reason for its exclusion; it does not select them."""
    return [{"run": run.id, "reason": run.why} for run in runs]


def validity(run: Run) -> bool | None:
    """Return whether a run is done with at least one good or bounded figure; None if it was not judged.

    The recorded validity is not used: earlier versions recorded runs with any reason as invalid.
    """
    return None if run.summary.verdict is None else RecordedRun(run.path.name, None, {}, run).sound


def bounding_reasons(run: Run) -> frozenset[str]:
    """Return the codes of the reasons that only bound figures of a run: they leave no figure unknown.

    Empty for an invalid or unjudged run. Failures of the store bound nothing.
    """
    if not validity(run):
        return frozenset()
    figures = RecordedRun(run.path.name, None, {}, run).qualities
    spoilt = {code for figure in figures if figure.state == "unknown" for code in figure.reasons}
    return frozenset(
        reason.code
        for reason in recorded_reasons(run)
        if reason.code not in spoilt and effect_of(reason.code) not in ("unknown", "result")
    )


def by_treatment(folder: RecordedExperiment) -> Iterator[tuple[Mapping[str, Any], list[tuple[RecordedRun, Run]]]]:
    """Yield each treatment with its included runs, in the order of the factors' levels.

    The second item of each pair is a fresh `Run`, so that its content can be freed: experiments have thousands of runs.
    """
    groups: dict[str, list[RecordedRun]] = {}
    for run in folder.used:
        groups.setdefault(run.treatment_key, []).append(run)
    levels = {**folder.description["factors"], "variant": list(folder.description.get("variants", {}))}
    for runs in sorted(groups.values(), key=lambda runs: level_order(runs[0].treatment, levels)):
        yield runs[0].treatment, [(run, Run(run.run.path)) for run in runs if run.run]


def level_order(treatment: Mapping[str, Any], levels: Mapping[str, Sequence[Any]]) -> list[float]:
    """Return a treatment's sort key: for each factor the index of its level in `levels`, factors without levels last.

    A level that is not listed counts as its number, and as 0 if it is not a number.
    """
    place = []
    for name, level in sorted(treatment.items(), key=lambda item: item[0] not in levels):
        if level in levels.get(name, ()):
            place.append(float(list(levels[name]).index(level)))
        else:
            place.append(float(level) if isinstance(level, int | float) else 0.0)
    return place


def _words(error: Exception) -> str:
    """Return in words why an experiment's description cannot be read, from the exception."""
    if isinstance(error, OSError):
        return error.strerror or "the file cannot be read"
    return f"it lacks {error}" if isinstance(error, KeyError) else "the file cannot be read"
