"""Elastic experiments: effect of cluster changes under load, second by second, compared with control runs."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow.compute as pc

from loadframe.analyze.experiment import RecordedRun
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_duration, format_nodes
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.plans import hashed
from loadframe.experiment.experiment import PACES, Experiment, expression_values
from loadframe.experiment.file.elastic import ComingClients, ElasticFile, LoadEntry, RateShare, Step, Transition
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import ExperimentFile
from loadframe.experiment.kinds.base import Kind, Stage
from loadframe.experiment.runner.director import BoundedPolicy, Director, TriggeredStep, policy_of
from loadframe.experiment.runner.triggers import trigger_of
from loadframe.record import Run
from loadframe.record.machine import digest
from loadframe.workload import ResolvedPhase, ResolvedWorkload, Workload
from loadframe.workload.pacing import Arrivals, AutoDuration, AutoWarmup, longest
from loadframe.workload.phases import Phase, Stream
from loadframe.workload.resolved import with_arrivals, with_levels
from loadframe.yamlfile import Place, did_you_mean


def loaded(
    streams: tuple[Stream, ...], entry: LoadEntry, capacity: float, arrivals: Arrivals | None, phase: str
) -> tuple[Stream, ...]:
    """Return a phase's streams under a load, which exactly one of them gets; its expressions must be evaluated.

    Rates count groups and journeys; one given as a share is that share of `capacity` (requests/s). `as_written` changes
    no load. `arrivals`, unless None, replaces the arrival process of all open streams; the load's own takes precedence
    for its stream. BadInput, which names the `phase`, if not exactly one stream can take the load.
    """
    if entry.as_written:
        return with_arrivals(streams, arrivals)
    clients = entry.clients.level() if isinstance(entry.clients, ComingClients) else entry.clients
    rate = entry.rate.share * capacity if isinstance(entry.rate, RateShare) else entry.rate
    assert not isinstance(clients, str) and not isinstance(rate, str), "expressions are evaluated before"
    more = {key: getattr(entry, key) for key in ("arrivals", "max_in_flight") if getattr(entry, key) is not None}
    before = with_arrivals(streams, arrivals)
    after = with_levels(before, clients, rate, phase)
    if isinstance(entry.rate, RateShare):
        # A capacity counts requests, and a rate groups and journeys.
        (requests,) = {now.per_arrival for then, now in zip(before, after, strict=True) if now is not then}
        after = with_levels(before, clients, entry.rate.share * capacity / requests, phase)
    spaced = with_arrivals(after, arrivals)
    return tuple(
        stream if now is then else stream.model_copy(update=more)
        for then, now, stream in zip(before, after, spaced, strict=True)
    )


#: Length of the intervals from which the capacity of a cluster is taken, s.
_STRETCH = 10
#: Suffix of the identifiers of control runs, and the longest identifier without a hash.
_CONTROL = "-control"
_LONGEST = 100


class Elastic(Kind):
    """Runs every transition under every load, with the event and as a control, each on a new cluster."""

    model = ElasticFile
    open_ended = False

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput for impossible steps and loads, and rate shares without a control run to measure the capacity.

        Exactly one phase is measured, with a fixed warm-up and duration, and without `wait_for_queue`.
        """
        file, document = _elastic_file(experiment.file), experiment.document
        if file.duration is None:
            raise document.error((), "the key 'duration' is missing", "set the length of a run, such as duration: 5m")
        if len(experiment.measured) != 1:
            raise document.error(("measure",), "an elastic experiment measures exactly one phase", "name one")
        measured = next(phase for phase in experiment.workload.file.phases if phase.name == experiment.measured[0])
        for key in ("warmup", "duration"):
            if isinstance(getattr(file, key) or getattr(measured, key), AutoWarmup | AutoDuration):
                what = f"an elastic experiment requires a fixed {key}: times of its changes count from there"
                raise document.error((key,) if getattr(file, key) else (), what, f"set {key}: 1m", key=True)
        if measured.wait_for_queue is not None:
            what = "an elastic experiment does not support wait_for_queue"
            raise document.error(("measure",), what, "remove it from the phase")
        for name, transition in file.transitions.items():
            self._check_transition(experiment, name, transition)
        if file.objective == "documents" and file.capacity and any(entry.policy for entry in file.transitions.values()):
            what = "policies are scored in requests/s, but these capacities are in documents/s"
            raise document.error(("objective",), what, "remove objective, and give the capacities in requests/s")
        for name, load in file.loads.items():
            self._check_load(experiment, measured, name, load)
        for name, load in file.loads.items():
            if isinstance(load.rate, RateShare):
                _check_same_parameters(experiment, name, load.rate.of)

    def _check_load(self, experiment: Experiment, phase: Phase, name: str, load: LoadEntry) -> None:
        """Raise BadInput for a load that no stream, or more than one, of `phase` can take, or with invalid parameters.

        Also for clients that do not grow, `max_in_flight` below the size of a group, and a share that `_check_share`
        refuses.
        """
        document = experiment.document
        if isinstance(load.clients, ComingClients) and load.clients.from_ >= load.clients.most:
            what = f"most must be above from ({load.clients.from_}); got {load.clients.most}"
            raise document.error(("loads", name, "clients", "most"), what, "raise most")
        if isinstance(load.rate, RateShare):
            _check_share(experiment, phase, name, load.rate)
        streams = [stream for stream in phase.named_streams if _paced_as(stream, load)]
        _check_parameters(experiment, name, load)
        if load.as_written:
            return
        if len(phase.named_streams) > 1 and len(streams) != 1:
            what = f"the phase {phase.name!r} has {len(streams)} streams that could take this load"
            raise document.error(("loads", name), what, "measure a phase with exactly one", key=True)
        group = max((stream.group for stream in streams), default=1)
        if load.max_in_flight is not None and load.max_in_flight < group:
            what = f"max_in_flight must be at least the {group} requests of a group; got {load.max_in_flight}"
            raise document.error(("loads", name, "max_in_flight"), what, "raise max_in_flight")

    def _check_transition(self, experiment: Experiment, name: str, transition: Transition) -> None:
        """Raise BadInput for a policy that cannot be loaded, unknown loads, and impossible steps of the timeline.

        Impossible are a time or trigger after the end, `slo_broken` without an SLO, `balanced` in the first step, the
        removal of all or unknown nodes, and a cut of links without host netns.
        """
        file, document = _elastic_file(experiment.file), experiment.document
        place: tuple[str | int, ...] = ("transitions", name)
        if transition.policy is not None:
            try:
                policy_of(transition.policy, document.path.parent)
            except BadInput as error:
                raise document.error((*place, "policy", "python"), error.what, error.remedy) from None
        for index, load in enumerate(transition.loads or ()):
            if load not in file.loads:
                remedy = did_you_mean(load, file.loads)
                raise document.error((*place, "loads", index), f"unknown load {load!r}", remedy)
        nodes = started = transition.nodes or file.store.nodes
        after_load = False
        for index, step in enumerate(transition.timeline or ()):
            here = (*place, "timeline", index)
            if step.at is not None and step.at >= longest(file.duration or 0.0):
                raise document.error(
                    (*here, "at"), "the run ends before this time", "set an earlier time or a longer duration"
                )
            if step.slo_broken is not None and file.slo is None:
                raise document.error(
                    (*here, "slo_broken"), "slo_broken requires an slo", "add slo: {p99: 100ms}", key=True
                )
            if step.balanced is not None and index == 0:
                what = "the first step cannot wait for balancing, because no change precedes it"
                raise document.error((*here, "balanced"), what, "use another trigger in the first step", key=True)
            if isinstance(step.remove, int) and step.remove >= nodes:
                raise document.error((*here, "remove"), f"cannot remove {step.remove} of {format_nodes(nodes)}")
            if (step.cut or step.restore) and file.store.host != "netns":
                what = f"cut and restore require host: netns; got {file.store.host}"
                raise document.error(here, what, "set store: {host: netns}")
            _check_trigger_time(experiment, here, step, first=index == 0, after_load=after_load)
            after_load = bool(step.overloaded or step.slo_broken)
            _check_name(experiment, here, step, started)
            removed = 1 if isinstance(step.remove, str) else step.remove or 0
            nodes += (step.add or 0) - removed
            started += step.add or 0

    def parameters(self, experiment: Experiment, treatment: Mapping[str, Level]) -> Mapping[str, Level]:
        """Return the workload parameters, by name, that the treatment's load sets; empty without a load."""
        load = treatment.get("load")
        return {} if load is None else _elastic_file(experiment.file).loads[str(load)].with_

    def code(self, experiment: Experiment) -> dict[str, str]:
        """Return digests of the policy files, by description; OSError if a file is missing."""
        policies = [
            entry.policy.python for entry in _elastic_file(experiment.file).transitions.values() if entry.policy
        ]
        names = dict.fromkeys(words.rpartition(":")[0] for words in policies if words)
        return {f"policy {name}": digest([experiment.document.path.parent / name]) for name in names}

    def most_nodes(self, experiment: Experiment) -> int:
        """Return the largest number of nodes that any transition can reach."""
        return max(
            self._peak(experiment, transition) for transition in _elastic_file(experiment.file).transitions.values()
        )

    def _peak(self, experiment: Experiment, transition: Transition) -> int:
        """Return the largest number of nodes in a transition: at its start, after a step, or a policy's `most`."""
        nodes = most = transition.nodes or experiment.file.store.nodes
        for step in transition.timeline or ():
            removed = 1 if isinstance(step.remove, str) else step.remove or 0
            nodes += (step.add or 0) - removed
            most = max(most, nodes)
        return max(most, transition.policy.most if transition.policy else 0)

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return the arrival processes of the phase's open streams under each load, with repeats."""
        file = _elastic_file(experiment.file)
        phase = next(phase for phase in experiment.workload.file.phases if phase.name == experiment.measured[0])
        for name in file.loads:
            load = _load(experiment, name, {})
            streams = loaded(phase.named_streams, load, 1.0, file.arrivals, phase.name)
            yield from filter(None, (stream.spacing for stream in streams))

    def design(self, experiment: Experiment) -> Design:
        """Return each transition under each load, with and without its event, in random order within each block.

        Control runs that measure a capacity come before the runs whose rate is a share of it.
        """
        file = _elastic_file(experiment.file)
        runs = []
        for block in range(1, experiment.repetitions + 1):
            of_block = [
                _planned(experiment, block, transition, load, event=event)
                for transition in file.transitions
                for load in file.under(transition)
                for event in ((True, False) if file.control else (True,))
            ]
            runs += sorted(of_block, key=lambda run: (_has_rate_share(file, run), _salted(experiment, run)))
        return Design(experiment.seed, tuple(runs))

    def phases(
        self, experiment: Experiment, workload: ResolvedWorkload, treatment: Mapping[str, Level]
    ) -> list[ResolvedPhase]:
        """Return the measured phase under the treatment's load; rates that are shares of the capacity assume 1/s."""
        return [self._phase(experiment, workload, treatment, 1.0)]

    def seconds(self, experiment: Experiment, workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return the length of a run, s: warm-up (at most, if automatic) and duration."""
        times = experiment.overrides(treatment)
        return float(times.get("warmup", _warmup(experiment, workload)) + times["duration"])

    def record(self, stage: Stage, run: PlannedRun) -> None:
        """Record the load while a `Director` changes the cluster; LoadframeError if it fails, or without a capacity."""
        file, session = _elastic_file(stage.experiment.file), stage.session(run)
        entry = file.loads[str(run.treatment["load"])]
        transition = file.transitions[str(run.treatment["transition"])]
        capacity = _capacity(stage, run, entry.rate) if isinstance(entry.rate, RateShare) else 1.0
        phase = self._phase(stage.experiment, session.workload, run.treatment, capacity)
        director = Director(
            stage.cluster,
            _plan(stage.experiment, transition),
            stage.listener.step,
            control=not run.treatment["event"],
            holds=isinstance(entry.clients, ComingClients),
            rate=file.objective,
        )
        session.record(stage.runs_path, run.id, [phase], stage.labels(run), hook=director)

    def _phase(
        self, experiment: Experiment, workload: ResolvedWorkload, treatment: Mapping[str, Level], capacity: float
    ) -> ResolvedPhase:
        """Return the measured phase under the treatment's load; a rate share is multiplied by `capacity` (1/s).

        BadInput if the phase cannot take the load; see `ResolvedPhase.override` and `loaded`.
        """
        entry = _load(experiment, str(treatment["load"]), treatment)
        phase = workload.phase(experiment.measured[0])
        levels = experiment.overrides(treatment)
        if entry.as_written and phase.exhausts:
            # The phase ends with its source; `duration` is only the expected length.
            levels.pop("duration", None)
        phase = phase.override(**levels)
        streams = loaded(phase.streams, entry, capacity, experiment.file.arrivals, phase.name)
        return replace(phase, streams=streams)


def _check_trigger_time(experiment: Experiment, here: Place, step: Step, *, first: bool, after_load: bool) -> None:
    """Raise BadInput if a trigger needs more seconds of load than the run has, or than its `within`.

    `within` is compared in the `first` step, whose data starts with the run. It is also compared in a step right after
    one with a trigger on the load (`after_load`): seconds before that trigger fired do not count.
    """
    window, length = _elastic_file(experiment.file).window, longest(_elastic_file(experiment.file).duration or 0.0)
    stretches = {
        # An interval is compared with an earlier one of the same length.
        "overloaded": max(2.0 * step.overloaded.seconds, window) if step.overloaded else 0.0,
        "slo_broken": max(step.slo_broken, window) if step.slo_broken else 0.0,
        "balanced": step.balanced or 0.0,
    }
    for key, stretch in stretches.items():
        if stretch > length:
            what = (
                f"this can never fire: it needs {format_duration(stretch)}, but the run lasts {format_duration(length)}"
            )
            raise experiment.document.error(
                (*here, key), what, "set a longer duration, or lower the seconds of the trigger", key=True
            )
        if first and step.within is not None and stretch > step.within:
            what = f"this can never fire: it needs {format_duration(stretch)} from the start of the run"
            raise experiment.document.error((*here, "within"), what, "raise within, or shorten the window")
    later = max(float(step.overloaded.seconds) if step.overloaded else 0.0, step.slo_broken or 0.0)
    if after_load and step.within is not None and later > step.within:
        what = f"this can never fire: it needs {format_duration(later)} after the step before"
        raise experiment.document.error((*here, "within"), what, "raise within, or lower the seconds of the trigger")


def _check_name(experiment: Experiment, here: Place, step: Step, started: int) -> None:
    """Raise BadInput if a step names a `node-N` with N of at least `started`; other names are not checked."""
    for key in ("remove", "kill", "start", "pause", "resume", "cut", "restore"):
        name = getattr(step, key)
        numbered = re.fullmatch(r"node-(\d+)", name) if isinstance(name, str) else None
        if numbered and int(numbered[1]) >= started:
            what = f"{name} does not exist at this step; the first node is node-0"
            raise experiment.document.error((*here, key), what, f"name one up to node-{started - 1}")


def _elastic_file(file: ExperimentFile) -> ElasticFile:
    """Return the file as the model of this kind; AssertionError for another kind."""
    assert isinstance(file, ElasticFile)
    return file


def _load(experiment: Experiment, name: str, treatment: Mapping[str, Level]) -> LoadEntry:
    """Return the load `name` with its expressions evaluated at a treatment, whose `nodes` is the initial number.

    BadInput for an expression without a valid value.
    """
    entry, values = _elastic_file(experiment.file).loads[name], expression_values(experiment, treatment)
    keys = {key: f"loads.{name}.{key}" for key in PACES}
    return entry.model_copy(update={key: values[full] for key, full in keys.items() if full in values})


def _paced_as(stream: Stream, load: LoadEntry) -> bool:
    """Return whether the stream and the load are both open loop or both closed loop."""
    return stream.is_open == load.is_open


def _check_parameters(experiment: Experiment, name: str, load: LoadEntry) -> None:
    """Raise BadInput, with the position, for unknown workload parameters and invalid values in the load `name`."""
    document = experiment.document
    experiment.workload.with_parameters(
        load.with_, folder=document.path.parent, where=lambda key: document.where(("loads", name, "with", key))
    )


def _check_same_parameters(experiment: Experiment, name: str, of: str) -> None:
    """Raise BadInput if the load `of`, which measures the capacity for the load `name`, has other parameters."""
    loads, document = _elastic_file(experiment.file).loads, experiment.document
    loaded_with, measured_with = (
        experiment.workload.with_parameters(loads[load].with_).parameters for load in (name, of)
    )
    if differing := [key for key, value in loaded_with.items() if value != measured_with[key]]:
        what = f"the load {of!r} measures the capacity with another {differing[0]} than {name!r} has"
        raise document.error(("loads", name, "rate", "of"), what, "set the same parameters in both loads")


def _check_share(experiment: Experiment, phase: Phase, name: str, rate: RateShare) -> None:
    """Raise BadInput if no control run measures the capacity for `rate` of the load `name`.

    The load `rate.of` must exist, be closed loop and not `as_written`; each transition under the load `name` needs one
    with as many nodes under `rate.of`. Also refuses a `phase` with several streams, of which only one would get the
    rate.
    """
    file, document = _elastic_file(experiment.file), experiment.document
    place = ("loads", name, "rate", "of")
    if len(phase.named_streams) > 1:
        what = f"a rate share requires a phase with one stream; {phase.name!r} has {len(phase.named_streams)}"
        remedy = "set a rate in requests/s, or measure a phase with one stream"
        raise document.error(("loads", name, "rate"), what, remedy)
    if rate.of not in file.loads:
        raise document.error(place, f"unknown load {rate.of!r}", did_you_mean(rate.of, file.loads))
    if file.loads[rate.of].is_open:
        raise document.error(place, f"the load {rate.of!r} is open loop, so it does not measure the capacity")
    if file.loads[rate.of].as_written:
        raise document.error(place, f"the load {rate.of!r} is as_written, so it may not measure the capacity")
    if not file.control:
        raise document.error(
            place, "a rate share requires control runs to measure the capacity", "remove control: false"
        )
    for transition in file.transitions:
        if name in file.under(transition) and _base(file, transition, rate.of) is None:
            what = f"no transition with the nodes of {transition!r} runs under {rate.of!r}"
            raise document.error(place, what, f"add a transition with as many nodes under {rate.of}")


def _planned(experiment: Experiment, block: int, transition: str, load: str, *, event: bool) -> PlannedRun:
    """Return the run of a transition under a load (both by name) in a block; without `event` it is a control run."""
    file = _elastic_file(experiment.file)
    nodes = file.transitions[transition].nodes or file.store.nodes
    treatment: dict[str, Level] = {"transition": transition, "load": load, "nodes": nodes, "event": event}
    name = f"b{block}-{transition}-{load}{_CONTROL if not event else ''}"
    # A hash keeps identifiers unique if the names contain `-` or end like a control run.
    if "-" in transition or load.endswith(_CONTROL) or len(name) > _LONGEST:
        name = hashed(name, treatment)
    # A unique state, because each run changes its cluster.
    return PlannedRun(name, block, treatment, name)


def _base(file: ElasticFile, transition: str, of: str) -> str | None:
    """Return the name of a transition with as many initial nodes that runs under the load `of`; None if there is none.

    Its control run measures the capacity for `transition`, which is preferred itself.
    """

    def nodes(name: str) -> int:
        """Return the number of nodes with which a transition starts."""
        return file.transitions[name].nodes or file.store.nodes

    same = [name for name in file.transitions if of in file.under(name) and nodes(name) == nodes(transition)]
    return transition if transition in same else next(iter(same), None)


def _has_rate_share(file: ElasticFile, run: PlannedRun) -> bool:
    """Return whether the rate of the run's load is a share of a capacity."""
    return isinstance(file.loads[str(run.treatment["load"])].rate, RateShare)


def _salted(experiment: Experiment, run: PlannedRun) -> bytes:
    """Return a sort key of a run: a hash of the experiment's seed and the run's identifier, for a random order."""
    return hashlib.sha256(f"{experiment.seed}/{run.id}".encode()).digest()


def _plan(experiment: Experiment, transition: Transition) -> list[TriggeredStep] | BoundedPolicy:
    """Return the cluster changes of a transition: steps with their triggers, or a policy with its bounds."""
    file = _elastic_file(experiment.file)
    if transition.policy is not None:
        return BoundedPolicy(transition.policy, policy_of(transition.policy, experiment.document.path.parent))
    return [TriggeredStep(step, trigger_of(step, file.slo, file.window)) for step in transition.timeline or ()]


def _warmup(experiment: Experiment, workload: Workload) -> float:
    """Return the warm-up of the measured phase, s; its limit if it is automatic."""
    return next(longest(phase.warmup) for phase in workload.file.phases if phase.name == experiment.measured[0])


def _capacity(stage: Stage, run: PlannedRun, rate: RateShare) -> float:
    """Return the capacity (1/s) for a run, from the first block with a valid control run under the load `rate.of`.

    The control run has as many initial nodes as `run`; its block may be another. See `capacity_shown` for the errors.
    """
    transition = _base(_elastic_file(stage.experiment.file), str(run.treatment["transition"]), rate.of)
    assert transition
    bases = [
        _planned(stage.experiment, block, transition, rate.of, event=False)
        for block in range(1, stage.experiment.repetitions + 1)
    ]
    return capacity_shown([(base.id, stage.runs_path / base.id) for base in bases])


def capacity_shown(controls: Iterable[tuple[str, Path]]) -> float:
    """Return the best throughput, 1/s, of the first valid control run, given as pairs of identifier and folder.

    This is the largest median of successes per second in any 10 s of the measured window of its first phase. Missing
    folders are ignored. LoadframeError, with the reason, if none is valid or the first valid one has no successful
    request.
    """
    made = [RecordedRun(id_, None, {}, Run(path)) for id_, path in controls if path.exists()]
    valid = [run for run in made if run.sound and run.narrow and not run.store_failed]
    if not valid:
        listed = "; ".join(f"{run.id}: {run.why}" for run in made) or "none is recorded yet"
        raise LoadframeError(
            f"the rate is a share of the capacity, but no control run that measures it is valid ({listed})",
            remedy="remove the cause, delete the control run's folder, and run the command again with --retry-failed",
        )
    measured = valid[0].run
    assert measured is not None
    series, phase = measured.series, measured.summary.phases[0]
    rows = series.filter(pc.is_in(series["operation"], pc.cast(list(phase.single), "string")))
    counts: dict[int, int] = {}
    for second, successes in zip(rows["second"].to_pylist(), rows["successes"].to_pylist(), strict=True):
        counts[second] = counts.get(second, 0) + successes
    rates = [counts.get(second, 0) for second in phase.whole_seconds]
    best = max((median(rates[at : at + _STRETCH]) for at in range(max(len(rates) - _STRETCH + 1, 1))), default=0.0)
    if not best:
        raise LoadframeError(
            f"the rate is a share of the capacity, but {valid[0].id}, which measures it, has no successful request"
        )
    return float(best)


KIND = Elastic()
