"""Estimated duration and resources of an experiment."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadframe.base.units import format_duration
from loadframe.experiment.design import Design
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.model import REMOTE_HOSTS
from loadframe.workload import ResolvedPhase, Workload, least_seconds, walks_journeys
from loadframe.workload.forms import every_form
from loadframe.workload.phases import Phase

#: Overhead of a run, s, and documents/s that a small cluster ingests, both measured with embedded stores on two cores.
#: Each store estimates the start of its clusters.
RUN_OVERHEAD = 0.5
INGEST_RATE = 10_000.0
#: Assumed length of phases with a fixed number of requests, s: mostly refreshes and merges.
REQUESTS_SECONDS = 2.0

#: Explains why `length_is_known` is False.
UNKNOWN = "the length depends on how long users take for their journeys"

#: Length above which the command asks for confirmation, s.
LONG = 24 * 3600.0


def estimate(design: Design, experiment: Experiment) -> float:
    """Return the expected seconds from the start of the first cluster to the end of the last run.

    A lower bound if the length is unknown: think times and pauses of users, without response times.
    """
    return sum(run_seconds(design, experiment).values())


def run_seconds(design: Design, experiment: Experiment) -> dict[str, float]:
    """Return the expected seconds by run; the first run of each cluster includes its start and its preparation."""
    from loadframe.cluster import Cluster

    seconds: dict[str, float] = {}
    workloads: dict[str, Workload] = {}
    for group in design.groups():
        spec = experiment.cluster_spec(group[0].treatment)
        for run in group:
            key = repr(experiment.workload_parameters(run.treatment))
            workload = workloads.get(key) or workloads.setdefault(key, experiment.workload_at(run.treatment))
            seconds[run.id] = RUN_OVERHEAD + experiment.kind.seconds(experiment, workload, run.treatment)
            if run is group[0]:
                phases = {phase.name: phase for phase in workload.file.phases}
                if not experiment.exists:
                    seconds[run.id] += Cluster.start_seconds(spec["store"], spec["nodes"])
                seconds[run.id] += sum(phase_seconds(workload, phases[name]) for name in experiment.prepared)
    return seconds


def length_is_known(experiment: Experiment) -> bool:
    """Return whether the length of a run is predictable; not if users end it after a number of journeys."""
    phases = {phase.name: phase for phase in experiment.workload.file.phases}
    lasting = () if experiment.file.duration is not None else experiment.measured
    return not any(walks_journeys(phases[name]) for name in (*experiment.prepared, *lasting))


def length_text(seconds: float, known: bool) -> str:
    """Return an estimate for display: `about 5 min`, or `at least 5 min` if the length is not known."""
    return f"{'about' if known else 'at least'} {format_duration(seconds)}"


def resolved_seconds(phase: ResolvedPhase) -> float | None:
    """Estimate the length of a resolved phase, s; corpora of unknown length count as empty.

    None if the phase ends with the journeys of its users.
    """
    stops = [phase.stop, *({"journeys": stream.journeys} for stream in phase.streams if stream.journeys)]
    if any("journeys" in stop for stop in stops):
        return None
    if phase.duration is not None:
        return phase.warmup + phase.duration
    if phase.stop != "exhausted":
        return phase.warmup + REQUESTS_SECONDS
    documents = sum(corpus.get("documents") or 0 for corpus in phase.corpora.values())
    streams = [_stream_seconds(source["generate"]) for source in phase.sources.values() if "generate" in source]
    return phase.warmup + max([documents / INGEST_RATE, *streams])


def phase_seconds(
    workload: Workload,
    phase: Phase,
    warmup: float | None = None,
    duration: float | None = None,
    rate: float | None = None,
    **_: object,
) -> float:
    """Estimate the length of a phase at these levels, s; other levels are ignored.

    A lower bound if the phase ends with the journeys of its users.
    """
    before = phase.warmup if warmup is None else warmup
    measured = phase.duration if duration is None else duration
    if measured is not None:
        return before + measured
    if walks_journeys(phase):
        return before + least_seconds(phase)
    if phase.requests is not None:
        return before + (phase.requests / rate if rate else REQUESTS_SECONDS)
    bulks = {
        form.bulk.corpus
        for stream in phase.named_streams
        for name in stream.weights
        for form in every_form(workload.file.operations[name]).values()
        if form.bulk is not None
    }
    generated = [
        workload.file.sources[stream.source].generate for stream in phase.named_streams if stream.source is not None
    ]
    streams = [_stream_seconds(generate.plan()) for generate in generated if generate is not None]
    return before + max([sum(workload.documents(corpus) for corpus in bulks) / INGEST_RATE, *streams])


def _stream_seconds(generate: Mapping[str, Any]) -> float:
    """Estimate the length of a generated source, s; 0 if its rate changes or it is endless."""
    rate, documents = generate["rate"], generate.get("documents") or 0
    if not generate["paced"]:
        return documents / INGEST_RATE
    return documents / min(rate, INGEST_RATE) if isinstance(rate, int | float) and rate > 0 else 0.0


@dataclass(frozen=True)
class ResourceEstimate:
    """Expected duration and machines of an experiment that runs without interruption."""

    runs: int  #: maximum, if the number depends on results
    seconds: float  #: expected, of all runs; a lower bound unless `known`
    nodes: int  #: of the largest cluster
    machines: int  #: for its nodes
    generators: int  #: further machines, only for ranks
    missing: tuple[str, ...] = ()  #: sentences on unknowns that affect the duration
    known: bool = True  #: whether the duration is predictable

    @property
    def machine_hours(self) -> float:
        """Machines times hours, the node-hours of a batch system."""
        return (self.machines + self.generators) * self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {
            "runs": self.runs,
            "seconds": round(self.seconds),
            "length_known": self.known,
            "nodes": self.nodes,
            "machines": self.machines,
            "generators": self.generators,
            "machine_hours": round(self.machine_hours, 2),
            "missing": list(self.missing),
        }


def resource_estimate(experiment: Experiment, generators: int | None = None) -> ResourceEstimate:
    """Estimate the resources of an experiment with the largest number of runs.

    `generators` is the number of machines for ranks; by default one, or none if ranks may share machines with nodes.
    """
    most = experiment.kind.largest_design(experiment)
    nodes = experiment.kind.most_nodes(experiment)
    store = experiment.file.store
    machines = 1
    if store.host in REMOTE_HOSTS:
        machines = math.ceil(nodes / (store.placement.per_machine or 1))
        if generators is None:
            generators = 0 if store.placement.share else 1
    known = length_is_known(experiment)
    missing = (*_missing(experiment, most), *(() if known else (UNKNOWN,)))
    return ResourceEstimate(
        len(most.runs), estimate(most, experiment), nodes, machines, generators or 0, missing, known
    )


def _missing(experiment: Experiment, most: Design) -> Iterator[str]:
    """Yield a sentence for each corpus of the first run with missing files."""
    workload = experiment.workload_at(most.runs[0].treatment)
    for corpus in workload.file.corpora:
        if names := workload.missing(corpus):
            count = f"{workload.documents(corpus):,}"
            yield (
                f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} missing: the estimate assumes"
                f" {count} {'document' if count == '1' else 'documents'} in corpus {corpus}"
            )
