"""Cluster changes during a run, by a timeline of steps or a scaling policy.

One thread evaluates triggers, and each change has its own thread, so that a node can be killed while data moves. All
changes are recorded as events of the run. In a control run, only the first trigger is evaluated and nothing changes.
"""

import importlib.util
import math
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from loadframe.analyze.rates import RateName
from loadframe.analyze.verdict.rules import change_failed_text
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.event_kinds import (
    BALANCING,
    BROKEN_OFF,
    DECIDED,
    FAILED,
    FIRED,
    HELD,
    NEVER,
    OVER,
    STARTED,
)
from loadframe.base.units import format_duration
from loadframe.cluster import Balancing, Cluster
from loadframe.cluster.change import Tell
from loadframe.cluster.node import Node
from loadframe.cluster.view import sharing
from loadframe.experiment.file.elastic import CHANGES, PolicyEntry, Step
from loadframe.experiment.runner.listener import RunHook
from loadframe.experiment.runner.node_samplers import process_samplers
from loadframe.experiment.runner.triggers import LiveMetrics, NotBefore, RunState, Trigger
from loadframe.load import Progress
from loadframe.observe import Sample
from loadframe.record import RunWriter


@dataclass(frozen=True)
class PolicyInput:
    """Input of a policy: means since its last decision. Times in s, rates in 1/s."""

    time: float  #: since the start of the measured window
    nodes: int
    cpu: float  #: share of the CPU limit of the nodes
    throughput: float  #: in the unit of the objective: requests, documents or events
    errors: float
    response_p99: float | None  #: maximum over the seconds, or None without answers


Policy = Callable[[PolicyInput], int]


def thresholds(below: float, above: float) -> Policy:
    """Return the policy that adds a node above a mean CPU share (0 to 1) of `above`, and removes one below `below`."""

    def decide(seen: PolicyInput) -> int:
        """Return the number of nodes: one more, one fewer, or the same."""
        return seen.nodes + (seen.cpu > above) - (seen.cpu < below)

    return decide


def target_tracking(share: float) -> Policy:
    """Return the policy that keeps the mean CPU share near `share` (0 to 1), with nodes in proportion to CPU use."""

    def decide(seen: PolicyInput) -> int:
        """Return the number of nodes, rounded up, with which the CPU share would meet the target."""
        return math.ceil(seen.nodes * seen.cpu / share - 1e-9)

    return decide


def policy_of(entry: PolicyEntry, folder: Path) -> Policy:
    """Return the policy of an entry. Python files are relative to `folder`; BadInput for one that cannot be used."""
    if entry.thresholds is not None:
        return thresholds(entry.thresholds.below, entry.thresholds.above)
    if entry.target is not None:
        return target_tracking(entry.target)
    return _load_function(entry.python or "", folder)


def _load_function(words: str, folder: Path) -> Policy:
    """Execute a user's file and return its function, given as `FILE.py:FUNCTION`, relative to `folder`.

    BadInput if the file or the function is missing, or the file fails.
    """
    name, _, function = words.rpartition(":")
    path = folder / name
    if not name or not path.is_file():
        raise BadInput(f"the policy {words!r} does not exist", remedy="write FILE.py:FUNCTION, relative to this file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"cannot load the policy file: {type(error).__name__}: {error}"
        raise BadInput(what, where=str(path), remedy="run `python FILE.py` to see where it fails") from error
    policy = getattr(module, function, None)
    if not callable(policy):
        raise BadInput(f"{path.name} has no function {function!r}", where=str(path))
    checked: Policy = policy
    return checked


Report = Callable[[str], None]


def change_text(step: Step) -> str:
    """Return the change of a step for display, such as `add 1`, `kill node-1` or `set NAME LEVEL, NAME LEVEL`."""
    key = next(key for key in CHANGES if getattr(step, key) is not None)
    value = getattr(step, key)
    return f"{key} {', '.join(f'{name} {level}' for name, level in value.items()) if key == 'set' else value}"


def carry_out(step: Step, cluster: Cluster, report: Report, tell: Tell) -> None:
    """Apply the change of a step and wait until it is complete; LoadframeError if it fails.

    `report` gets progress lines. `tell` gets, at each poll, what is balanced in words and the `Balancing` that is left;
    it may raise to abort. Changes other than `add`, `remove` and `start` do not call it.
    """
    if step.add is not None:
        cluster.grow(step.add, report, tell=tell)
    elif step.remove is not None:
        cluster.shrink(step.remove, report, tell=tell)
    elif step.kill is not None:
        cluster.kill(step.kill)
    elif step.start is not None:
        _start(step.start, cluster, report, tell)
    elif step.pause is not None:
        cluster.pause(step.pause)
    elif step.resume is not None:
        cluster.resume(step.resume)
    elif step.cut is not None:
        cluster.cut(step.cut)
    elif step.restore is not None:
        cluster.restore(step.restore)
    elif step.set is not None:
        cluster.configure(step.set)


def _start(name: str, cluster: Cluster, report: Report, tell: Tell) -> None:
    """Restart the stopped node `name` with its data, and all other stopped nodes. LoadframeError if it is running."""
    if any(node.name == name and node.alive for node in cluster.nodes):
        raise LoadframeError(f"cannot start {name}, because it is running", remedy="kill it in an earlier step")
    cluster.mend(report, tell=tell)


#: Interval between evaluations of triggers, and time limit for aborting changes at the end of a run, s.
_LOOK = 0.2
_PATIENCE = 60.0


@dataclass(frozen=True)
class TriggeredStep:
    """A step with its trigger."""

    step: Step
    trigger: Trigger


@dataclass(frozen=True)
class BoundedPolicy:
    """A policy with its bounds."""

    entry: PolicyEntry
    policy: Policy


class Director(RunHook):
    """Hook that executes the cluster changes of one run: a timeline or a policy; none in a `control` run."""

    disturbs = True

    def __init__(
        self,
        cluster: Cluster,
        plan: Sequence[TriggeredStep] | BoundedPolicy,
        report: Callable[[str], None],
        *,
        control: bool,
        holds: bool,
        rate: RateName = "throughput",
    ) -> None:
        """Take the changes to make, none with `control`; `holds` keeps the number of clients constant after the first.

        In a control run, `holds` applies from the time at which the first change would begin.
        `report` receives progress lines; `rate` selects the unit of throughput.
        """
        self._cluster = cluster
        self._plan = plan
        self._report = report
        self._control = control
        #: Whether the number of clients stays constant after the first change.
        self._holds = holds
        self._metrics = LiveMetrics(rate)
        self._over = threading.Event()
        self._happened = threading.Event()
        self._threads: list[threading.Thread] = []
        self._changes: list[_Change] = []
        self._deviations: list[str] = []
        self._failure: LoadframeError | None = None
        self._origin = 0.0
        #: Seconds of the load that earlier triggers on the load have used.
        self._since = 0

    def begin(self, writer: RunWriter) -> None:
        """Store the writer for events."""
        self._writer = writer

    def phase(self, start: float, warmup: float) -> None:
        """Start the watching thread. The plan's times count from `start` + `warmup`.

        `start` is the start of the load, s since the run began; `warmup` the longest length of its warm-up, s.
        """
        self._origin = start + warmup
        self._begin(self._policy if isinstance(self._plan, BoundedPolicy) else self._timeline)

    def progress(self, progress: Progress) -> None:
        """Pass the progress to the live metrics."""
        self._metrics.progress(progress)

    def held(self) -> bool:
        """Return whether the number of clients must stay constant from now on."""
        return self._holds and self._happened.is_set()

    def failure(self) -> LoadframeError | None:
        """Return the first error of a policy or trigger, or unexpected one of a change; it ends the run."""
        return self._failure

    def end(self) -> list[str]:
        """Abort running changes, waiting up to 60 s for each thread; return the deviations from the plan.

        In a control run, also the cluster's deviations from its specification. One sentence each.
        """
        self._over.set()
        for thread in self._threads:
            thread.join(_PATIENCE)
        if self._control:
            self._deviations += self._cluster.deviations()
        return self._deviations

    def _begin(self, target: Callable[[], None]) -> None:
        """Run `target` in a new daemon thread; its error makes the run fail."""
        thread = threading.Thread(target=lambda: self._run_guarded(target), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_guarded(self, target: Callable[[], None]) -> None:
        """Run `target` and store its error, if it is the first, so that the run fails; raise nothing."""
        try:
            target()
        except BaseException as error:
            failure = error if isinstance(error, LoadframeError) else _broken("changing the cluster", error)
            self._failure = self._failure or failure

    def _now(self) -> float:
        """Return the time since the start of the measured window, s; negative during the warm-up."""
        return self._writer.elapsed() - self._origin

    def _timeline(self) -> None:
        """Take the steps in order, each when its trigger fires; end at the first step whose trigger does not fire.

        In a control run, record the first trigger and change nothing.
        """
        assert not isinstance(self._plan, BoundedPolicy)
        eye = _CpuWatcher(self._cluster, self._metrics)
        for number, planned in enumerate(self._plan, start=1):
            began = self._now()
            seen = self._wait(planned, began, eye)
            if seen is None:
                within = planned.step.within
                in_time = within is None or self._over.is_set()
                self._missed(number, planned, "before the run was over" if in_time else _within(within))
                return
            self._writer.event(
                FIRED, step=number, trigger=planned.trigger.description, seen=seen, control=self._control
            )
            self._hold()
            if self._control:
                return
            if isinstance(planned.trigger, NotBefore):
                # The same seconds must not fire the next trigger, too.
                self._since = len(self._metrics.seconds())
            self._change(number, planned.step)

    def _hold(self) -> None:
        """Note that the first change is due; with `holds`, record once that the number of clients is constant."""
        if self._holds and not self._happened.is_set():
            self._writer.event(HELD)
        self._happened.set()

    def _missed(self, number: int, planned: TriggeredStep, when: str) -> None:
        """Record that the trigger of step `number` did not fire, also as a deviation; `when` ends that sentence."""
        self._writer.event(NEVER, step=number, trigger=planned.trigger.description)
        self._deviations.append(
            f"step {number} was not taken: its trigger, {planned.trigger.description}, did not fire {when}"
        )

    def _wait(self, planned: TriggeredStep, began: float, eye: "_CpuWatcher") -> str | None:
        """Wait for the trigger and return its reason, or None after `within` or at the end of the run.

        `began` is the start of the wait, s since the start of the measured window. Polls every 0.2 s, and samples CPU
        with `eye`.
        """
        within = planned.step.within
        while not self._over.is_set():
            now = self._now()
            eye.look(now)
            over = self._changes[-1].over if self._changes else None
            seen = planned.trigger.fires(RunState(now, self._metrics, over, self._since))
            if seen is not None:
                return seen
            if within is not None and now - began > within:
                return None
            self._over.wait(_LOOK)
        return None

    def _change(self, number: int, step: Step) -> None:
        """Start the change of step `number` (from 1) in a new thread, and add its state to `_changes`."""
        change = _Change()
        self._changes.append(change)
        self._begin(lambda: self._carry_out(number, step, change))

    def _carry_out(self, number: int, step: Step, change: "_Change") -> None:
        """Change the cluster, and record start and end as events: completed, failed, or broken off by the run's end.

        A LoadframeError is recorded, not raised; it is also a deviation if it is a BadInput (fault `treatment`) or the
        generator's. If the run is over, nothing changes.
        """
        words = change_text(step)
        if self._over.is_set():
            # The trigger fired while the run ended. The cluster is about to stop, so do not change it.
            change.finished = True
            self._writer.event(BROKEN_OFF, step=number, change=words)
            return
        self._writer.event(STARTED, step=number, change=words)
        reported_unit: str | None = None

        def tell(what: str, balancing: Balancing) -> None:
            """Record the balancing that is left; raise _RunEndedError, which aborts the change, if the run is over."""
            nonlocal reported_unit
            if self._over.is_set():
                raise _RunEndedError("the run is over")
            if reported_unit != balancing.unit:
                # The unit changes, because a node joins before its data moves.
                self._writer.event(BALANCING, step=number, what=what, unit=balancing.unit)
                reported_unit = balancing.unit
            self._writer.telemetry(self._writer.elapsed(), "cluster", "balancing.left", balancing.left)

        try:
            carry_out(step, self._cluster, self._report, tell)
        except LoadframeError as error:
            change.finished = True
            if self._over.is_set():
                self._writer.event(BROKEN_OFF, step=number, change=words)
                return
            fault = (
                "treatment" if isinstance(error, BadInput) else "generator" if error.fault == "generator" else "store"
            )
            self._writer.event(FAILED, step=number, change=words, cause=error.what, fault=fault)
            if fault != "store":
                self._deviations.append(change_failed_text(number, words, error.what))
            return
        change.over, change.finished = self._now(), True
        self._writer.event(OVER, step=number, change=words)

    def _policy(self) -> None:
        """Ask the policy every `every` s, and add or remove nodes up to its answer within its bounds.

        Does not ask in the warm-up, in a control run, during a change, or for `cooldown` s after a decision.
        LoadframeError for an exception of the policy.
        """
        assert isinstance(self._plan, BoundedPolicy)
        entry, decide = self._plan.entry, self._plan.policy
        eye = _CpuWatcher(self._cluster, self._metrics)
        asked, quiet_until, number = 0.0, 0.0, 0
        while not self._over.wait(_LOOK):
            now = self._now()
            eye.look(now)
            changing = bool(self._changes) and not self._changes[-1].finished
            if now < asked + entry.every or now < quiet_until or changing or self._control:
                continue
            seen = self._observed(now, now - asked)
            asked = now
            if seen is None:
                continue
            try:
                asked_for = int(decide(seen))
            except Exception as error:
                raise _broken("the policy", error) from error
            wanted = min(max(asked_for, entry.least), entry.most)
            if wanted == seen.nodes:
                continue
            number, quiet_until = number + 1, now + entry.cooldown
            self._writer.event(DECIDED, step=number, nodes=wanted, cpu=seen.cpu, throughput=seen.throughput)
            self._hold()
            more = wanted - seen.nodes
            key = "add" if more > 0 else "remove"
            self._change(number, Step.model_validate({"at": now, key: abs(more)}))

    def _observed(self, now: float, span: float) -> PolicyInput | None:
        """Return the input of the policy at `now`: means of the last `span` s, and the largest p99 of a second.

        None until throughput and CPU use are known. At least 1 s is used.
        """
        length = max(round(span), 1)
        last, cpu = self._metrics.seconds()[-length:], self._metrics.cpu(length)
        if not last or cpu is None:
            return None
        return PolicyInput(
            time=now,
            nodes=self._cluster.size,
            cpu=cpu,
            throughput=sum(second.throughput for second in last) / len(last),
            errors=sum(second.errors for second in last) / len(last),
            response_p99=max((second.response_p99 for second in last if second.response_p99 is not None), default=None),
        )


def _broken(what: str, error: BaseException) -> LoadframeError:
    """Return a LoadframeError, `WHAT failed`, for an unexpected error, with its type, text, last file and line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return LoadframeError(f"{what} failed: {why}", remedy=f"see {last.filename}, line {last.lineno}")


def _within(seconds: float | None) -> str:
    """Return the text `within TIME` for a number of seconds. None counts as 0."""
    return f"within {format_duration(seconds or 0.0)}"


class _RunEndedError(LoadframeError):
    """Aborts a change at the end of the run."""


class _Change:
    """State of a change."""

    def __init__(self) -> None:
        """Begin a change that has not ended."""
        #: End of a successful change, s since the start of the measured window.
        self.over: float | None = None
        self.finished = False


def data_processes(nodes: Sequence[Node]) -> dict[str, str]:
    """Map the name of each process with CPU time that counts for triggers and policies to the name of its data node.

    These are the data nodes themselves, and companions that share the limits of one.
    """
    keeping = {node.name: node.name for node in nodes if not node.companion}
    return keeping | sharing(nodes)


class _CpuWatcher:
    """Samples the CPU of each data node once a second, as a share of its limit."""

    def __init__(self, cluster: Cluster, metrics: LiveMetrics) -> None:
        """Take the cluster to sample, and the metrics that receive the samples.

        Shares are of the nodes' CPU limit or, without an enforced one, of all CPUs of the node's machine.
        """
        self._metrics = metrics
        limits = cluster.describe()["limits"]
        self._limit = limits["cpus"] if limits["enforced_by"] != "none" else None
        self._cluster = cluster
        self._samplers = process_samplers(cluster)
        self._due = 0.0

    def _usable(self, node: Node) -> float:
        """Return the number of CPUs that a node may use."""
        if self._limit is not None:
            return float(self._limit)
        if node.machine is None or node.machine.here:
            return psutil.cpu_count() or 1
        return len(node.machine.facts.cores)

    def look(self, now: float) -> None:
        """Add the CPU share of each data node, with its companions, to the metrics, at most once a second.

        `now` is in s since the start of the measured window; calls during the warm-up, below 0, are ignored. Waits up
        to 3 s for a machine that does not answer; its nodes are then without a share.
        """
        if now < self._due:
            return
        self._due = now + 1.0
        seen = [look for sampler in self._samplers for look in sampler.sample(now) if isinstance(look, Sample)]
        nodes = {node.name: node for node in self._cluster.nodes}
        of_node = data_processes(list(nodes.values()))
        shares: dict[str, float] = defaultdict(float)
        for look in seen:
            name = of_node.get(look.source.removeprefix("node:"))
            if look.metric == "process.cpu" and name:
                shares[f"node:{name}"] += look.value / self._usable(nodes[name])
        self._metrics.look(shares)
