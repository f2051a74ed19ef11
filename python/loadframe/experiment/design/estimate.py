"""Estimated duration and resources of an experiment."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadframe.base.units import format_duration
from loadframe.experiment.design.runs import Design
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.model import REMOTE_HOSTS
from loadframe.workload import ResolvedPhase, Workload, least_seconds, walks_journeys
from loadframe.workload.forms import every_form
from loadframe.workload.phases import Phase

#: Seconds of a run's own bookkeeping, and documents per second that a small cluster takes in, as seen with embedded
#: stores on two cores. What a cluster's start takes, its store knows.
RUN_OVERHEAD = 0.5
INGEST_RATE = 10_000.0
#: A number of requests says nothing about their time; such phases are refreshes and merges, or short.
REQUESTS_SECONDS = 2.0

#: Said beside a length that `length_is_known` does not know.
UNKNOWN = "its users end it with their journeys, and how long they take for them is not known"

#: An experiment that takes longer (s) should be confirmed by its user.
LONG = 24 * 3600.0


def estimate(design: Design, experiment: Experiment) -> float:
    """Return the expected seconds from the first cluster's start to the last run's end.

    They are the least where the length is not known: with what users think and pause, and without what answers take.
    """
    return sum(run_seconds(design, experiment).values())


def run_seconds(design: Design, experiment: Experiment) -> dict[str, float]:
    """Return the expected seconds of each run, by its name; the first of each cluster has its start, and its data."""
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
                seconds[run.id] += Cluster.start_seconds(spec["store"], spec["nodes"])
                seconds[run.id] += sum(phase_seconds(workload, phases[name]) for name in experiment.prepared)
    return seconds


def length_is_known(experiment: Experiment) -> bool:
    """Whether the length of a run can be told: not where users walk a number of journeys, of unknown length."""
    phases = {phase.name: phase for phase in experiment.workload.file.phases}
    lasting = () if experiment.file.duration is not None else experiment.measured
    return not any(walks_journeys(phases[name]) for name in (*experiment.prepared, *lasting))


def length_text(seconds: float, known: bool) -> str:
    """Return an estimate in words: `about 5 min`, or `at least 5 min` where the length is not known."""
    return f"{'about' if known else 'at least'} {format_duration(seconds)}"


def resolved_seconds(phase: ResolvedPhase) -> float | None:
    """Return about how long a phase lasts that is ready to be run, s; a corpus of unknown length counts as none. None
    if it ends when users have walked their journeys, of which nobody knows the length."""
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
    """Return about how long a phase lasts at these levels, s; other levels do not change its length.

    One that users end with their journeys lasts as long as that at least.
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
    """Return about how long events last that the engine makes, s; 0 where their rate changes or they do not end."""
    rate, documents = generate["rate"], generate.get("documents") or 0
    if not generate["paced"]:
        return documents / INGEST_RATE
    return documents / min(rate, INGEST_RATE) if isinstance(rate, int | float) and rate > 0 else 0.0


@dataclass(frozen=True)
class ResourceEstimate:
    """What is held for how long, while an experiment runs in one go."""

    runs: int  #: at most, where that depends on what they say
    seconds: float  #: expected, of all of them; at least these where the length is not known
    nodes: int  #: of the largest cluster
    machines: int  #: that keep its nodes
    generators: int  #: machines besides, for the ranks that load it
    missing: tuple[str, ...] = ()  #: of what the time depends on and nobody knows yet: in words
    known: bool = True  #: whether it can be told how long it takes

    @property
    def machine_hours(self) -> float:
        """Machines times hours: what a batch system charges as node-hours."""
        return (self.machines + self.generators) * self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    """Return the extent of an experiment, with as many runs as there can be.

    Machines for the generator are as given; if not, there is one unless it may share those of the nodes.
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
    """Yield a sentence for what is to be read by the first run, as by the others, and is not here."""
    workload = experiment.workload_at(most.runs[0].treatment)
    for corpus in workload.file.corpora:
        if names := workload.missing(corpus):
            count = f"{workload.documents(corpus):,}"
            yield (
                f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not here: corpus {corpus} is taken to have"
                f" {count} {'document' if count == '1' else 'documents'}, and ingestion to take as long as that"
            )
