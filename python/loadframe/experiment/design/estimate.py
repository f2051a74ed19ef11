"""Estimated duration and resources of an experiment, with the minimum time that users wait in their journeys."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import format_duration
from loadframe.experiment.design import Design
from loadframe.experiment.experiment import Experiment, MeasuredRate
from loadframe.experiment.file.factors import COLLECTIONS, SETTINGS, Level
from loadframe.experiment.file.model import REMOTE_HOSTS
from loadframe.workload import ResolvedPhase, Workload
from loadframe.workload.collection_use import only_reads
from loadframe.workload.forms import every_form
from loadframe.workload.journeys import JourneyStep, Repeat
from loadframe.workload.pacing import AutoDuration, AutoWarmup, ThinkDraw, ThinkTime, longest, shortest
from loadframe.workload.phases import ANY, Load, Phase, Stream

#: Overhead of a run, s, and documents/s that a small cluster ingests, both measured with embedded stores on two cores.
#: Each store estimates the start of its clusters.
RUN_OVERHEAD = 0.5
INGEST_RATE = 10_000.0
#: Assumed length of phases with few requests, s, mostly refreshes and merges; and requests/s of a small cluster.
REQUESTS_SECONDS = 2.0
REQUEST_RATE = 1_000.0
#: A phase that takes longer than this at the assumed rates, s, depends too much on them: its length is a lower bound.
MOST_ASSUMED = 60.0
#: Rates for lower bounds, 1/s: beyond those of the published studies (191,539 documents/s on three nodes).
MOST_REQUESTS, MOST_DOCUMENTS = 50_000.0, 200_000.0

_JOURNEYS = "the length depends on how long users take for their journeys"
_WORK = "phase {phase} ends after {work}, and its rate is not known before the first run; counted with {rate}/s at most"

#: An estimate whose lower end is above this share of its upper end is not shown as a range.
_RANGE = 0.99

#: Length above which the command asks for confirmation, s.
LONG = 24 * 3600.0


def estimate(design: Design, experiment: Experiment) -> float:
    """Return the expected seconds from the start of the first cluster to the end of the last run.

    An upper bound if the length of a run is automatic. A lower bound if the length is unknown; see `why_unknown`.
    """
    return sum(run_seconds(design, experiment).values())


def least_estimate(design: Design, experiment: Experiment) -> float:
    """Return the seconds that `estimate` would return if all automatic lengths were as short as possible."""
    return sum(run_seconds(design, experiment, shortest_share(experiment)).values())


def shortest_share(experiment: Experiment) -> float:
    """Return the shortest length of the measured phases, with warm-up, as a share of the longest.

    The longest includes the waits for an empty queue, the shortest does not. 1 without automatic lengths and waits.
    """
    least = most = 0.0
    phases = {phase.name: phase for phase in experiment.workload.file.phases}
    for name in experiment.measured:
        chosen = [getattr(experiment.file, key) for key in ("warmup", "duration")]
        written = (phases[name].warmup, phases[name].duration)
        lengths = [phase if file is None else file for file, phase in zip(chosen, written, strict=True)]
        least += sum(shortest(length) for length in lengths if length is not None)
        most += sum(longest(length) for length in lengths if length is not None) + (phases[name].wait_for_queue or 0.0)
    return least / most if most else 1.0


def run_seconds(design: Design, experiment: Experiment, share: float = 1.0) -> dict[str, float]:
    """Return the expected seconds by run identifier; the first run of each cluster includes its start and preparation.

    Runs on an existing cluster prepare only what the runs before them did not. `share` scales the loads of the runs, as
    for the shortest ones (`shortest_share`). BadInput, with the position, for an invalid value in a treatment.
    """
    seconds: dict[str, float] = {}
    # Repeated runs of a treatment have equal lengths.
    loads: dict[str, float] = {}
    starts: dict[Hashable, float] = {}
    # State and data of the last runs on each existing cluster.
    last: dict[str, tuple[str, str]] = {}
    fills_once = experiment.exists and experiment.file.fills_once
    reuses = experiment.exists and experiment.file.store.data == "reuse"
    writing: dict[str, bool] = {}
    for group in design.groups():
        for run in group:
            treatment = repr(sorted(run.treatment.items()))
            if treatment not in loads:
                workload = experiment.workload_at(run.treatment)
                loads[treatment] = RUN_OVERHEAD + share * experiment.kind.seconds(experiment, workload, run.treatment)
                writing[treatment] = fills_once and not _only_reads(experiment, workload)
            seconds[run.id] = loads[treatment]
            if run is group[0]:
                is_filled = is_warm = False
                if fills_once or reuses:
                    hosts, now = experiment.hosts(run.treatment), (run.state, _data(experiment, run.treatment))
                    state, data = last.get(hosts, ("", ""))
                    is_filled = reuses or data == now[1]
                    # Transitions may restart nodes, so they leave cold ones.
                    is_warm = is_filled and state == now[0] and experiment.file.kind != "elastic"
                    last[hosts] = now
                key = (treatment, is_filled, is_warm)
                if key not in starts:
                    starts[key] = _start_seconds(experiment, run.treatment, is_filled=is_filled, is_warm=is_warm)
                seconds[run.id] += starts[key]
            if writing[treatment] and not reuses:
                # The next runs need new data.
                last.pop(experiment.hosts(run.treatment), None)
    return seconds


def _only_reads(experiment: Experiment, workload: Workload) -> bool:
    """Return whether the measured and finishing phases of `workload` only read."""
    phases = [phase for phase in workload.file.phases if phase.name in {*experiment.measured, *experiment.finished}]
    operations = {name for phase in phases for stream in phase.named_streams for name in stream.weights}
    forms = [form for name in operations for form in every_form(workload.file.operations[name]).values()]
    return all(only_reads(form.dump()) for form in forms)


def _data(experiment: Experiment, treatment: Mapping[str, Level]) -> str:
    """Return the levels that may determine the data of a treatment's runs, as an identifier.

    These are nodes, keys of collections, and parameters that affect the prepared phases.
    """
    shaping = experiment.workload.shaping(experiment.prepared)
    parameters = experiment.workload_parameters(treatment).items()
    levels = [(name, level) for name, level in treatment.items() if name == "nodes" or name.startswith(COLLECTIONS)]
    return repr(sorted([*levels, *((name, level) for name, level in parameters if name in shaping)]))


def _start_seconds(experiment: Experiment, treatment: Mapping[str, Level], *, is_filled: bool, is_warm: bool) -> float:
    """Return the expected seconds to start the cluster of a treatment, unless it exists, and to prepare it.

    A filled cluster (`is_filled`) needs no phases with `prepares: true`, a warm one (`is_warm`) no other phases of
    `prepare`. BadInput, with the position, for an unknown store or a setting that is invalid without those of factors.
    """
    from loadframe.cluster import Cluster

    workload = experiment.workload_at(treatment)
    phases = {phase.name: phase for phase in workload.file.phases}
    prepared = (
        phase_length(workload, phases[name], experiment.measured_rates.get(name))
        for name in experiment.prepared
        if not (is_filled if phases[name].prepares else is_warm)
    )
    start = 0.0
    if not experiment.exists:
        spec = experiment.cluster_spec(treatment)
        # An impossible level of a factor must not prevent the runs of other levels.
        common = {name: value for name, value in spec["settings"].items() if f"{SETTINGS}{name}" not in treatment}
        try:
            _require_common(spec["store"], spec["settings"], common)
            start = Cluster.start_seconds(spec["store"], spec["nodes"], spec["settings"])
        except BadInput as error:
            words = f"{error.where} {error.what}"
            named = (name for name in experiment.file.store.settings if name in words)
            place = ("store", "settings", name) if (name := next(named, "")) else ("store",)
            raise experiment.document.error(place, error.what, error.remedy) from None
    return start + sum(length.seconds for length in prepared)


def _require_common(store: str, settings: Mapping[str, Any], common: Mapping[str, Any]) -> None:
    """Raise BadInput for `settings` if the `common` ones, those outside factors, are invalid with the same error.

    Common settings can require one of a factor, such as MongoDB's `routers` with levels of `members`.
    """
    from loadframe.cluster import Cluster

    try:
        Cluster.require_settings(store, settings, "")
    except BadInput as error:
        try:
            Cluster.require_settings(store, common, "")
        except BadInput as again:
            if again.what == error.what:
                raise


def length_is_known(experiment: Experiment) -> bool:
    """Return whether the length of the runs is predictable; see `why_unknown`."""
    return why_unknown(experiment) is None


def why_unknown(experiment: Experiment) -> str | None:
    """Return why the length of the runs is only a lower bound, as a phrase, or None if it is predictable.

    It is a bound if a phase ends after a number of journeys, or after much work at an unknown rate.
    """
    measured = [] if experiment.file.duration is not None else [*experiment.measured]
    seen = set()
    for run in experiment.kind.largest_design(experiment).runs:
        times = experiment.overrides(run.treatment)
        key = repr((experiment.workload_parameters(run.treatment), times.get("rate"), times.get("duration")))
        if key in seen:
            continue
        seen.add(key)
        workload = experiment.workload_at(run.treatment)
        phases = {phase.name: phase for phase in workload.file.phases}
        for name in (*experiment.prepared, *measured, *experiment.finished):
            levels = times if name in measured else {}
            length = phase_length(workload, phases[name], experiment.measured_rates.get(name), **levels)
            if length.unknown:
                return length.unknown
    return None


def length_text(seconds: float, known: bool, least: float | None = None) -> str:
    """Return an estimate in s for display: `about 5 min`, or `at least 5 min` if the length is not known.

    `least` is the shortest length (s) with automatic lengths: if it is over 1 % below a known length, the result is
    `2 min to 5 min`.
    """
    if known and least is not None and least < _RANGE * seconds:
        return f"{format_duration(least)} to {format_duration(seconds)}"
    return f"{'about' if known else 'at least'} {format_duration(seconds)}"


def resolved_seconds(phase: ResolvedPhase) -> float | None:
    """Estimate the length of a resolved phase with its warm-up, s; corpora of unknown length count as empty.

    An automatic length counts with its limit. None if the phase ends with the journeys of its users.
    """
    ending = [stream for stream in phase.streams if not phase.ends_with or stream.name in phase.ends_with]
    timed = [longest(stream.duration) for stream in ending if stream.duration is not None]
    if timed and phase.ends_with:
        return phase.longest_warmup + min(timed)
    stops = [phase.stop, *({"journeys": stream.journeys} for stream in phase.streams if stream.journeys)]
    if any("journeys" in stop for stop in stops):
        return None
    if phase.duration is not None:
        return phase.longest_warmup + max([phase.duration, *timed])
    of_phase = phase.stop.get("requests", 0) if isinstance(phase.stop, dict) else 0
    requests = max([of_phase, *(stream.requests or 0 for stream in ending)])
    lengths = [requests / REQUEST_RATE, *timed]
    if phase.exhausts:
        lengths.append(sum(corpus.get("documents") or 0 for corpus in phase.corpora.values()) / INGEST_RATE)
        lengths += [_stream_seconds(source["generate"]) for source in phase.sources.values() if "generate" in source]
    elif requests:
        lengths.append(REQUESTS_SECONDS)
    return phase.warmup + max(lengths)


@dataclass(frozen=True)
class Length:
    """Expected length of a phase, s. With `unknown`, the reason, it is a lower bound."""

    seconds: float
    unknown: str | None = None


def phase_length(
    workload: Workload,
    phase: Phase,
    known: MeasuredRate | None = None,
    *,
    warmup: float | AutoWarmup | None = None,
    duration: float | AutoDuration | None = None,
    rate: float | None = None,
    **_: object,
) -> Length:
    """Estimate the length of a phase with its warm-up at these levels (s; rate in 1/s); ignore other levels.

    A level of None is the phase's own. `known` is the rate of its earlier runs. Without it, a phase with much work has
    only a lower bound, and so has one that ends with journeys. An automatic length, and the wait for an empty queue,
    count with their upper limits.
    """
    before = longest(phase.warmup if warmup is None else warmup) + (phase.wait_for_queue or 0.0)
    measured = phase.duration if duration is None else duration
    # Another duration replaces the end conditions of all streams.
    ending = [
        stream
        for stream in phase.named_streams
        if duration is None and stream.ends_itself and phase.ends_with in (None, ANY, stream.name)
    ]
    timed = [longest(stream.duration) for stream in ending if stream.duration is not None]
    if timed and phase.ends_with is not None:
        return Length(before + min(timed))
    if measured is not None:
        return Length(before + max([longest(measured), *timed]))
    if walks_journeys(phase):
        return Length(before + max([least_seconds(phase), *timed]), _JOURNEYS)
    lengths = [Length(before + seconds) for seconds in timed]
    lengths += [
        _of_requests(phase.name, stream, stream.requests, before, rate if stream.is_open else None)
        for stream in ending
        if stream.requests is not None
    ]
    if phase.requests is not None:
        lengths.append(_of_requests(phase.name, phase, phase.requests, before, rate, known))
    else:
        lengths.append(_of_documents(workload, phase, known, before))
    return Length(
        max(length.seconds for length in lengths), next((it.unknown for it in lengths if it.unknown is not None), None)
    )


def _of_requests(
    phase: str, load: Load, requests: int, before: float, rate: float | None, known: MeasuredRate | None = None
) -> Length:
    """Return the length of a phase, given by its name, that ends after `requests` of `load`; `before` s precede them.

    `rate` (1/s, of requests or groups) replaces the rate of the load, unless None. `known` is the rate of earlier runs,
    for a closed loop. Without a rate, see `_of_work`.
    """
    offered = rate or (load.rate if isinstance(load.rate, int | float) else None)
    if per_second := offered * load.group if offered else known and known.requests:
        return Length(before + requests / per_second)
    least = max(REQUESTS_SECONDS, requests / REQUEST_RATE)
    return _of_work(phase, before, requests, "requests", least, MOST_REQUESTS)


def _of_documents(workload: Workload, phase: Phase, known: MeasuredRate | None, before: float) -> Length:
    """Return the length of a phase that ends with its corpora and generated sources; `before` s precede them.

    `known` is the rate of its earlier runs. Without corpora and generated events, only `before` remains.
    """
    bulks = {
        form.bulk.corpus
        for stream in phase.named_streams
        for name in stream.weights
        for form in every_form(workload.file.operations[name]).values()
        if form.bulk is not None
    }
    sources = [workload.file.sources[stream.source].generate for stream in phase.named_streams if stream.source]
    plans = [generate.plan() for generate in sources if generate is not None]
    streams = [_stream_seconds(plan) for plan in plans if plan["paced"]]
    documents = sum(workload.documents(corpus) for corpus in bulks)
    # A source without pace is work at an unknown rate, as a corpus is.
    documents += sum(plan.get("documents") or 0 for plan in plans if not plan["paced"])
    if known and known.documents:
        return Length(before + max([documents / known.documents, *streams]))
    length = _of_work(phase.name, before, documents, "documents", documents / INGEST_RATE, MOST_DOCUMENTS)
    return Length(max([length.seconds, *(before + seconds for seconds in streams)]), length.unknown)


def _of_work(phase: str, before: float, work: int, of: str, assumed: float, most: float) -> Length:
    """Return the length of a phase that ends after `work` requests or documents; `before` s precede it.

    It is `assumed` s if these are at most `MOST_ASSUMED`, else a lower bound: the work at the rate `most` (1/s), at
    least `MOST_ASSUMED`. `of` is `requests` or `documents`, for the reason.
    """
    if assumed <= MOST_ASSUMED:
        return Length(before + assumed)
    reason = _WORK.format(phase=phase, work=f"{work:,} {of}", rate=f"{most:,.0f} {of}")
    return Length(before + max(MOST_ASSUMED, work / most), reason)


def _stream_seconds(generate: Mapping[str, Any]) -> float:
    """Estimate the length of a generated source, s, from the entry `generate` of a plan.

    0 for a paced source whose rate changes, or that is endless.
    """
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
    least_seconds: float | None = None  #: if all automatic lengths are as short as possible

    @property
    def machine_hours(self) -> float:
        """Machines of nodes and generators times hours, the node-hours of a batch system."""
        return (self.machines + self.generators) * self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON, in whole seconds; `least_seconds` is `seconds` if no length is automatic."""
        return {
            "runs": self.runs,
            "seconds": round(self.seconds),
            "least_seconds": round(self.seconds if self.least_seconds is None else self.least_seconds),
            "length_known": self.known,
            "nodes": self.nodes,
            "machines": self.machines,
            "generators": self.generators,
            "machine_hours": round(self.machine_hours, 2),
            "missing": list(self.missing),
        }


def resource_estimate(
    experiment: Experiment, generators: int | None = None, remaining: Design | None = None
) -> ResourceEstimate:
    """Estimate the resources of an experiment with the largest number of runs, or of its `remaining` runs.

    `generators` is the number of machines for ranks; None: 1 if nodes are on machines that ranks may not share, else 0.
    """
    most = remaining or experiment.kind.largest_design(experiment)
    nodes = experiment.kind.most_nodes(experiment)
    store = experiment.file.store
    machines = 1
    if store.host in REMOTE_HOSTS:
        machines = math.ceil(nodes / (store.placement.per_machine or 1))
        if generators is None:
            generators = 0 if store.placement.share else 1
    unknown = why_unknown(experiment)
    missing = (*_missing(experiment, most), *filter(None, (unknown,)))
    return ResourceEstimate(
        len(most.runs),
        estimate(most, experiment),
        nodes,
        machines,
        generators or 0,
        missing,
        unknown is None,
        least_estimate(most, experiment),
    )


def _missing(experiment: Experiment, most: Design) -> Iterator[str]:
    """Yield a sentence for each corpus with missing files, in the workload of the first run of `most`."""
    workload = experiment.workload_at(most.runs[0].treatment)
    for corpus in workload.file.corpora:
        if names := workload.missing(corpus):
            count = f"{workload.documents(corpus):,}"
            yield (
                f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} missing: the estimate assumes"
                f" {count} {'document' if count == '1' else 'documents'} in corpus {corpus}"
            )


@dataclass(frozen=True)
class _Walk:
    """Waiting time of a user over some steps, in seconds.

    It is split at the last request, because waits after the last request of all do not prolong the phase.
    """

    before: float = 0.0  #: up to the last request
    after: float = 0.0  #: after the last request; all of it if some branch sends no request
    requests: bool = False  #: whether every branch sends a request
    leaves: bool = False  #: whether the journey may end within the steps

    @property
    def whole(self) -> float:
        """Whole waiting time, s."""
        return self.before + self.after

    def then(self, later: "_Walk") -> "_Walk":
        """Return the walk over these steps and then over `later`; only these steps if the journey may end in them."""
        if self.leaves:
            return self
        if later.requests:
            return _Walk(self.whole + later.before, later.after, True, later.leaves)
        return _Walk(self.before, self.after + later.whole, self.requests, later.leaves)


def walks_journeys(phase: Phase) -> bool:
    """Return whether a phase, or a stream of it, ends after a number of journeys."""
    return phase.journeys is not None or any(stream.journeys is not None for stream in phase.streams or ())


def least_seconds(phase: Phase) -> float:
    """Return the mean seconds that users of a phase wait during their journeys, without response times.

    With several streams, the longest of them; 0 without users or a number of journeys.
    """
    return max((_least(stream, stream.journeys or phase.journeys or 0) for stream in phase.named_streams), default=0.0)


def _least(stream: Stream, journeys: int) -> float:
    """Return the mean seconds that a stream's users wait, if each completes `journeys` journeys; 0 without users."""
    if not journeys or stream.users is None:
        return 0.0
    arrives = (stream.arrive_over or 0.0) * (stream.users - 1) / stream.users
    walk = _walked(stream.journey or (), _mean_think_time)
    least = arrives + (journeys - 1) * _mean(stream.think_time) + _times(journeys, walk)
    if stream.pacing is not None:
        least = max(least, arrives + (journeys - 1) * stream.pacing + walk.before)
    if stream.clock is None or stream.clock.shared or stream.clock.scale is None:
        return least
    # A user who is behind the clock does not wait, so think times may overlap pauses.
    paused = _times(journeys, _walked(stream.journey or (), lambda step: step.pause or 0.0))
    return max(least, paused / stream.clock.scale)


def _times(journeys: int, walk: _Walk) -> float:
    """Return the waiting time, s, of `journeys` equal journeys, without the waits after the very last request."""
    return journeys * walk.whole - walk.after


def _mean_think_time(step: JourneyStep) -> float:
    """Return the mean seconds that a user waits after a step's request and in its `think`."""
    return _mean(step.think) + _mean(step.think_time)


def _mean(time: ThinkTime | None) -> float:
    """Return the mean of a think time, s; 0 for None."""
    if not isinstance(time, ThinkDraw):
        return time or 0.0
    if time.uniform is not None:
        return sum(time.uniform) / 2
    return time.normal[0] if time.normal is not None else time.exponential or 0.0


def _walked(steps: Sequence[JourneyStep], waits: Callable[[JourneyStep], float]) -> _Walk:
    """Return a user's waiting time over these steps; `waits` returns the seconds of one step."""
    walk = _Walk()
    for step in steps:
        if not step.left_out:
            walk = walk.then(_step(step, waits))
    return walk


def _step(step: JourneyStep, waits: Callable[[JourneyStep], float]) -> _Walk:
    """Return a user's waiting time over one step: the mean over a choice, the minimum of both ways of a condition.

    A step that is skipped if a value is missing counts 0; after one that leaves then, the journey may end.
    """
    if step.repeat is not None:
        return _loop(step.repeat, waits)
    if step.operation is not None:
        # A skipped step also skips its think time.
        return _Walk() if step.missing == "skip" else _Walk(0.0, waits(step), True, step.missing == "leave")
    if step.choose is not None:
        total = sum(way.weight for way in step.choose)
        ways = [_walked(way.steps, waits) for way in step.choose]
        weighed = [(way.weight / total, walk) for way, walk in zip(step.choose, ways, strict=True)]
        before = sum(share * walk.before for share, walk in weighed)
        return _either(ways, before, sum(share * walk.after for share, walk in weighed))
    if step.when is not None:
        ways = [_walked(steps or (), waits) for steps in (step.steps, step.otherwise)]
        before = min(walk.before for walk in ways)
        return _either(ways, before, min(walk.whole for walk in ways) - before)
    if step.timed is not None:
        return _walked(step.timed.steps, waits)
    return _Walk(after=waits(step), leaves=step.leave is not None)


def _loop(loop: Repeat, waits: Callable[[JourneyStep], float]) -> _Walk:
    """Return a user's waiting time over a loop: 0 with `until`, one pass if the journey may end in it, else all."""
    inner = _walked(loop.steps, waits)
    if loop.until is not None:
        # It may end before the first pass.
        return _Walk(leaves=inner.leaves)
    times = 1 if inner.leaves else loop.times
    return _Walk(times * inner.whole - inner.after, inner.after, inner.requests, inner.leaves)


def _either(ways: Sequence[_Walk], before: float, after: float) -> _Walk:
    """Return the walk over one of several ways, which waits `before` s up to its last request and `after` s after it.

    The caller computes both from `ways`. If some way sends no request, all waits count as after it.
    """
    leaves = any(walk.leaves for walk in ways)
    requests = all(walk.requests for walk in ways)
    return _Walk(before, after, True, leaves) if requests else _Walk(0.0, before + after, False, leaves)
