"""Execution of one phase on the engine, and the settings of the load generator."""

import base64
import contextlib
import json
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from loadframe import _engine
from loadframe.base import interrupts
from loadframe.base.errors import BadInput, GeneratorFailed, LoadframeError
from loadframe.base.machine_references import on
from loadframe.base.procfs import cpu_quota, own_groups
from loadframe.base.units import counted
from loadframe.ranks.coordinator import Rank, present
from loadframe.ranks.phase_top import PhaseOfRanks
from loadframe.record.redact import command, plain, without
from loadframe.workload.phases import MAIN

#: Node selection. `fixed`: each client has one host, assigned round robin; `nearest`: one host near its rank;
#: `round_robin`: all hosts in turn; `all`: the host with the fewest requests in flight.
Spread = Literal["fixed", "round_robin", "all", "nearest"]
#: Secret keys of a shared credentials file.
_AWS_SECRETS = ("aws_secret_access_key", "aws_session_token")
#: Drivers of stores whose nodes all accept any request, as `nearest` requires.
_ANY_NODE = ("http", "search")
#: Drivers without kernel timestamps. The engine refuses them, too, but only once a plan can be made.
_WITHOUT_TIMESTAMPS = ("cql", "null")


@dataclass(frozen=True)
class Generator:
    """Settings of the load generator.

    `connections` limits the connections of all ranks together; with None each client has its own. `ranks` None means
    all started ranks.
    """

    threads: int = 1
    spread: Spread = "fixed"
    connections: int | None = None
    ranks: int | None = None
    #: For `nearest`: a recorded assignment by phase, from a manifest, to repeat.
    nearest_as: Mapping[str, Any] | None = None
    #: Whether to record each request.
    samples: bool = False
    #: Share of the HTTP requests to trace.
    trace: float | None = None
    #: Whether each worker has its own core and waits awake shortly before a request is due.
    spin: bool = False
    #: Whether to measure the generator's overhead by the kernel's timestamps of requests and answers.
    kernel_timestamps: bool = False

    def members(self) -> Sequence[Rank]:
        """Return the ranks that generate load; empty if one process does, also if one rank is chosen.

        BadInput if fewer ranks were started than required, or if spinning ranks of a machine share cores.
        """
        hub = present()
        if hub is not None:
            chosen = hub.choose(self.ranks)
            if self.spin:
                _require_separate_cores(chosen)
            return chosen if len(chosen) > 1 else ()
        if self.ranks is not None and self.ranks > 1:
            raise BadInput(
                f"{self.ranks} ranks are required, but this command was started as one process",
                remedy=f"start it with --ranks {self.ranks}, mpirun -n {self.ranks} or srun --ntasks={self.ranks}",
            )
        return ()

    def require(self, driver: str) -> None:
        """Raise BadInput if this driver does not support the node selection (`spread`) or kernel timestamps."""
        if self.kernel_timestamps and driver in _WITHOUT_TIMESTAMPS:
            raise BadInput(
                f"kernel timestamps do not support the driver {driver}, whose library hides its connections",
                remedy="remove --kernel-timestamps (kernel_timestamps in a file), or measure another store",
            )
        if self.spread == "nearest" and driver not in _ANY_NODE:
            raise BadInput(
                f"--spread nearest does not support the driver {driver}, which selects the node with the data",
                remedy="remove --spread nearest, or use a store whose nodes accept any request, such as opensearch",
            )

    def require_own_cores(self, *, shared: bool) -> None:
        """Raise BadInput if this generator spins on cores that are `shared` with the nodes, or under a CPU quota.

        A quota of one core more than its threads suffices. Do nothing unless it spins.
        """
        if not self.spin:
            return
        if shared:
            raise BadInput(
                "spin requires cores that nothing else uses, and the nodes may use every core of this machine",
                remedy="reserve cores for the nodes with --cores, such as --cores 2-3, or omit spin",
            )
        quotas = [quota for group in own_groups() if (quota := cpu_quota(group)) is not None]
        if quotas and min(quotas) < self.threads + 1:
            raise BadInput(
                f"spin with {counted(self.threads, 'thread')} requires {self.threads + 1} cores, and a control group"
                f" limits Loadframe to the CPU time of {min(quotas):g}",
                remedy="raise the quota of the group, use fewer threads, or omit spin",
            )

    def target(self) -> dict[str, Any]:
        """Return the generator's part of the target in the engine's plan: `spread`, and `connections` if limited.

        The engine gets `fixed` for `nearest`.
        """
        limit = {} if self.connections is None else {"connections": self.connections}
        return {"spread": "fixed" if self.spread == "nearest" else self.spread, **limit}

    def tracing(self) -> dict[str, Any]:
        """Return the key `trace` of the engine's plan of one phase, with a new random id at each call; empty if off."""
        return {} if self.trace is None else {"trace": {"share": self.trace, "run": secrets.randbits(63)}}

    def timestamping(self) -> dict[str, Any]:
        """Return the switch for kernel timestamps in the engine's plan and in a manifest; empty if they are off."""
        return {"kernel_timestamps": True} if self.kernel_timestamps else {}

    def taking_part(self) -> dict[str, Any]:
        """Return `threads`, `ranks` (their number) and, of several ranks, their numbers as `members`.

        The form is that of an outcome. BadInput as for `members`.
        """
        members = [rank.rank for rank in self.members()]
        named = {"members": members} if members else {}
        return {"threads": self.threads, "ranks": max(len(members), 1), **named}

    def describe(self) -> dict[str, Any]:
        """Return the generator's part of a manifest: threads, ranks with their machines, and settings.

        BadInput as `members`.
        """
        members = self.members()
        return {
            "ranks": max(len(members), 1),
            "threads": self.threads,
            "spread": self.spread,
            "connections": self.connections,
            "samples": self.samples,
            **({"trace": self.trace} if self.trace is not None else {}),
            **({"spin": True} if self.spin else {}),
            **self.timestamping(),
            **({"members": [{"rank": rank.rank, "machine": rank.machine} for rank in members]} if members else {}),
        }


def _require_separate_cores(ranks: Sequence[Rank]) -> None:
    """Raise BadInput if two ranks of one machine (same `boot` id) may use the same core (in `cores`)."""
    for machine in {rank.boot for rank in ranks}:
        used = [core for rank in ranks if rank.boot == machine for core in rank.cores]
        if len(used) > len(set(used)):
            raise BadInput(
                "spin requires cores that nothing else uses, and several ranks may use the same core",
                remedy="bind each rank to its own cores (mpirun --bind-to, srun --cpu-bind), or omit spin",
            )


T = TypeVar("T")

#: Seconds from a decision on the window to the first second that it may choose, so that it reaches all ranks in time.
_AHEAD = 2
#: Interval between reports of progress, and between checks for an interrupt, s.
_REPORT = 0.2


@dataclass(frozen=True)
class SourceProgress:
    """Counts of a source of events so far."""

    lines: int
    accepted: int
    indexed: int
    dead_letters: int  #: invalid lines, and events that the store rejected
    waiting: int
    spilled: int  #: waiting events on disk
    kinds: Mapping[str, int]  #: events acknowledged by the store, by kind
    reader_cpu: Sequence[float]  #: CPU time of each reading thread, s
    address: str | None  #: the address on which it listens
    visible: int | None = None  #: events received no later than the newest probed event that a query returned
    dropped: int = 0  #: events that the transformation dropped

    @property
    def unacknowledged(self) -> int:
        """Accepted events without an answer of the store: waiting, or in a request."""
        # The counts are not of one instant.
        return max(self.lines - self.dropped - self.dead_letters - self.indexed, 0)


class Requests(NamedTuple):
    """Numbers of requests of an operation so far."""

    due: int  #: finished, or dropped because too many were in flight
    failed: int  #: failed or dropped


@dataclass(frozen=True)
class Progress:
    """Totals of a phase so far, rates of its last second, times in s, None in a second without an answer."""

    seconds: int
    requests: int
    errors: int
    documents: int
    throughput: int
    documents_throughput: int
    response_p50: float | None
    response_p99: float | None
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)
    operations: Mapping[str, Requests] = field(default_factory=dict)
    in_flight: int = 0  #: requests in flight at the end of the last second
    oldest_in_flight: float | None = None  #: time since the oldest of these was due; None without any


#: Returns the measures of a phase: totals since it began and the values of its last second; also after its end. Each
#: call takes the `spans` recorded since the last one.
ReadMeasures = Callable[[], Mapping[str, Any]]
#: Returns the reader of the measures of the current phase, during that phase.
OpenMeasures = Callable[[], ReadMeasures]


def _progress(state: dict[str, Any]) -> Progress:
    """Convert the engine's progress of a phase to `Progress`; times of 0 (no request) become None."""
    times = {name: state[name] or None for name in ("response_p50", "response_p99", "oldest_in_flight")}
    sources = {
        name: SourceProgress(**{entry.name: counts.get(entry.name) for entry in fields(SourceProgress)})
        for name, counts in state.get("sources", {}).items()
    }
    operations = {name: Requests(*counts) for name, counts in state["operations"].items()}
    return Progress(**{**state, **times, "sources": sources, "operations": operations})


#: The engine's result of a phase: the content of `outcome.json`.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Closing:
    """Shutdown of an ingesting phase after an interrupt: accepted events are sent for up to `patience` s."""

    patience: float
    tell: Callable[[], None]  #: called when the shutdown begins


@dataclass(frozen=True)
class Adjustment:
    """A decision on the measured window: the ends of the warm-up and of the window, s after the start of the load."""

    measured_from: int | None = None
    until: int | None = None


class PhaseFailed(GeneratorFailed):
    """The generator failed during a phase. `outcome` covers the time until the failure."""

    def __init__(self, what: str, outcome: Outcome) -> None:
        """Take the error's text, which follows `the generator failed: `, and the outcome so far."""
        super().__init__(f"the generator failed: {what}", remedy="the load differed from the plan; run it again")
        self.outcome = outcome


def run_phase(
    plan: Mapping[str, Any],
    folder: Path,
    tell: Callable[[Progress], None],
    hosts: Callable[[], Sequence[str]] | None = None,
    held: Callable[[], bool] | None = None,
    cores: Collection[int] | None = None,
    started: Callable[[float], None] | None = None,
    ranks: Sequence[Rank] = (),
    answered: Callable[[str, bytes], None] | None = None,
    closing: Closing | None = None,
    window: Callable[[int, int], Adjustment | None] | None = None,
    measuring: Callable[[OpenMeasures], None] | None = None,
) -> Outcome:
    """Run a phase that records into `folder`; return its outcome.

    - `ranks` generate the load, each its part of the plan; without ranks this process does.
    - `started` is called with the start of the load, s since the run began (`began` in the plan).
    - `measuring` is called once the load starts, with access to the phase's measures over all ranks.
    - `tell` and `hosts` are called every 0.2 s. `hosts` returns the current hosts of the (measured) target.
    - `cores` are the cores of the worker threads.
    - `answered` gets the newest answers to the operations in the plan's `answers`, at most one a second each; with
      several ranks it gets none.
    - `window` chooses the measured window of an `adjustable` plan. It is called after each recorded second with the
      number of recorded seconds, and with the first second that it may choose.
    - Once `held` returns True, the number of clients of closed streams stays constant, regardless of stages.

    An interrupt, or a KeyboardInterrupt of `tell`, ends the phase within a second. The outcome then has `interrupted`
    set. The interrupt is raised, unless the caller defers interrupts or it came from `tell`. With `closing`, the first
    interrupt only stops the sources: the phase ends when all accepted events are sent. A second interrupt, or the end
    of `closing.patience`, ends it earlier with `interrupted` set.

    No load is running when this returns or raises. BadInput, before anything is sent, if the engine refuses the plan;
    PhaseFailed, with the outcome so far, if the generator fails or the window is chosen too late; LoadframeError if the
    records cannot be written, or if the engine refuses new hosts.
    """
    with interrupts.deferred():
        handle = _start(plan, folder, cores, ranks)
        try:
            if started:
                started(handle.offset)
            if measuring:
                measuring(lambda: _reader(handle.measures()))
            # With several targets, only the hosts of the measured target may change.
            present = plan["target"].get("targets", {}).get(MAIN, plan["target"]).get("hosts", [])
            patience, recorded, late = math.inf, 0, None
            while not handle.wait(_REPORT):
                if interrupts.pending() and closing:
                    interrupts.answer()
                    handle.close()
                    closing.tell()
                    patience, closing = time.monotonic() + closing.patience, None
                if interrupts.pending() or time.monotonic() > patience:
                    break
                progress = _tell_progress(handle, tell)
                if window and progress.seconds > recorded:
                    recorded = progress.seconds
                    soonest = math.ceil(time.monotonic() - handle.started) + _AHEAD
                    late = _adjust(handle, window(recorded, soonest))
                    if late:
                        break
                _tell_answers(handle, answered)
                if hosts and (now := list(hosts())) != present:
                    _follow(handle, now)
                    present = now
                if held and held():
                    handle.hold()
                    held = None
        except KeyboardInterrupt:
            # Also raised by `tell`, the only way to end a phase outside the main thread.
            pass
        finally:
            handle.stop()
            # Waits until the load has ended.
            outcome = _outcome(handle)
            _mask_messages(outcome, _secrets(plan["target"]))
            _tell_answers(handle, answered)
        if failed := outcome["failed"] or late:
            raise PhaseFailed(failed, outcome)
        return outcome


def _tell_progress(handle: _engine.Handle | PhaseOfRanks, tell: Callable[[Progress], None]) -> Progress:
    """Return the current progress, and pass it to `tell`.

    `tell` is not called if the end of the phase cut the last second short: its rate would look like a drop.
    """
    progress = _progress(handle.progress())
    if progress.seconds <= max(time.monotonic() - handle.started, 0.0):
        tell(progress)
    return progress


def _reader(measures: "_engine.Measures") -> ReadMeasures:
    """Return a function that reads the measures of a phase: totals, and the `spans` recorded since its last call."""

    def read() -> Mapping[str, Any]:
        """Return the totals so far, and as `spans` the requests traced since the last call."""
        totals: Mapping[str, Any] = json.loads(measures.read())
        return {**totals, "spans": json.loads(measures.spans())}

    return read


def _adjust(handle: _engine.Handle | PhaseOfRanks, adjustment: Adjustment | None) -> str | None:
    """Set the measured window from a decision, if any; return None, or the error text if it came too late.

    A process that was stopped for some seconds decides too late.
    """
    if adjustment is None:
        return None
    try:
        handle.adjust(adjustment.measured_from, adjustment.until)
    except ValueError as error:
        return f"the measured window was chosen too late: {error}"
    return None


def _tell_answers(handle: _engine.Handle | PhaseOfRanks, answered: Callable[[str, bytes], None] | None) -> None:
    """Call `answered`, if given, with operation name and bytes of each answer since the last call."""
    if answered:
        for operation, answer in handle.answers():
            answered(operation, answer)


def _start(
    plan: Mapping[str, Any], folder: Path, cores: Collection[int] | None, ranks: Sequence[Rank]
) -> _engine.Handle | PhaseOfRanks:
    """Start the load of a plan, on the ranks or else in this process, and return its handle; errors as `_ask`."""
    hub = present()
    if hub is not None and ranks:
        return _ask(plan, lambda _: hub.phase(plan, folder, ranks, cores))
    with on(cores):
        return _ask(plan, lambda text: _engine.start(text, folder))


def _follow(handle: _engine.Handle | PhaseOfRanks, hosts: list[str]) -> None:
    """Send the load to these hosts (`host:port`) from now on; LoadframeError if the engine refuses them.

    With several ranks, it does not wait: a rank that refuses them is lost later.
    """
    try:
        handle.set_hosts(hosts)
    except _engine.PlanRefused as error:
        remedy = "make sure that this machine can resolve the names of nodes that join"
        raise LoadframeError(f"cannot send load to the changed cluster: {error}", remedy=remedy) from None


def _outcome(handle: _engine.Handle | PhaseOfRanks) -> Outcome:
    """Wait until the load has ended and return its outcome; GeneratorFailed if the engine failed to record."""
    try:
        outcome: Outcome = json.loads(handle.outcome())
    except RuntimeError as error:
        raise _unrecorded(str(error)) from None
    return outcome


def _unrecorded(why: str) -> GeneratorFailed:
    """Return, not raise, the error for an engine that could not start or record, with its reason."""
    return GeneratorFailed(
        f"the generator failed: {why}",
        remedy="check free disk space and the limit of processes",
    )


class FirstEvent:
    """Search for the first event of a source before its phase, which reads all lines again.

    A port that it opens closes with the object, unless the phase has taken it over. BadInput for unusable fields.
    """

    def __init__(self, phase: str, source: Mapping[str, Any]) -> None:
        """Create the search for a source in the format of plans; `phase` is for messages. Opens nothing yet."""
        self._plan = {"phase": phase}
        self._search = _ask(self._plan, lambda _: _engine.FirstEvent(json.dumps(source)))

    def wait(self, patience: float) -> None:
        """Return once the source has an event.

        BadInput if the source ends without an event, none arrives within `patience` s, a file is damaged, or the port
        cannot be opened. Interruptible, as `_ask`; call `stop` then.
        """
        try:
            _ask(self._plan, lambda _: self._search.wait(patience))
        except BadInput as error:
            remedy = (
                "nothing was dropped: check the source, and its lines with"
                " `loadframe check WORKLOAD --offline --lines FILE`"
            )
            raise BadInput(error.what, where=error.where, remedy=remedy) from None

    def stop(self) -> None:
        """End a `wait` that was interrupted."""
        self._search.stop()


def validate_plan(plan: Mapping[str, Any]) -> None:
    """Raise BadInput if the engine would refuse the plan, for example for a malformed corpus or operation.

    Runs no load, but lets the driver verify the target. Other errors as `_ask`.
    """
    _ask(plan, _engine.validate)


def check_operations(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Send each operation of a plan once; return the request, answer and judgement of each, in the plan's order.

    An operation that ingests events is only rendered; an operation that lacks a captured value is not sent. Secrets in
    requests and in answers are masked: those with a telling name, and the credentials of the target. Errors as `_ask`.
    """
    answers = _ask(plan, _engine.check)
    # Read after the answers, because a file of credentials can change meanwhile.
    secrets = _secrets(plan["target"])
    shown = [{**plain(answer), "request": _request(plan, answer["request"])} for answer in answers]
    return [
        {**answer, **{key: without(answer[key], secrets) for key in ("request", "answer", "message") if answer[key]}}
        for answer in shown
    ]


def _mask_messages(part: Any, secrets: Collection[str]) -> None:
    """Mask the credentials of the target in all messages of an outcome, in place, because stores can echo them."""
    if isinstance(part, list):
        for element in part:
            _mask_messages(element, secrets)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key == "message" and isinstance(value, str):
                part[key] = without(value, secrets)
            else:
                _mask_messages(value, secrets)


def _secrets(target: Mapping[str, Any]) -> set[str]:
    """Return the secrets of a plan's target and of its named parts; see `_credentials`."""
    return set[str]().union(*map(_credentials, [target, *target.get("targets", {}).values()]))


def _credentials(target: Mapping[str, Any]) -> set[str]:
    """Return the secrets that requests to the target contain or are signed with, in each form that they are sent in.

    `target` is in the format of plans. Includes the present ones of the `auth_file`, which the generator reads again;
    an unreadable file is ignored. May include an empty text.
    """
    ((scheme, auth),) = target.get("auth", {"": None}).items()
    texts = set[str]()
    if "auth_file" in target:
        with contextlib.suppress(OSError):
            texts |= set(Path(target["auth_file"]).read_text(encoding="utf-8", errors="replace").splitlines())
    match scheme:
        case "basic":
            texts.add(auth["password"])
            texts |= {base64.b64encode(f"{auth['user']}:{text}".encode()).decode() for text in texts}
        case "aws":
            entries = [text.partition("=") for text in texts]
            texts = {value.strip() for name, _, value in entries if name.strip() in _AWS_SECRETS}
            texts |= {auth["secret_key"], auth["session_token"] or ""}
        case "api_key":
            texts.add(auth)
            for text in list(texts):
                # Stores show a key as `id:key` or as the Base64 of that.
                with contextlib.suppress(ValueError):
                    name, colon, key = base64.b64decode(text, validate=True).decode().partition(":")
                    texts |= {f"{name}:{key}", key} if colon else set()
                if ":" in text:
                    texts |= {base64.b64encode(text.encode()).decode(), text.partition(":")[2]}
        case "bearer":
            texts.add(auth)
    return texts


def render_operations(plan: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return name and request of each operation of a plan, without sending it; None if the request depends on sending.

    Secrets in requests are masked. Errors as `_ask`.
    """
    rendered = _ask(plan, _engine.render)
    return [(name, None if request is None else _request(plan, request)) for name, request in rendered]


def preview_lines(plan: Mapping[str, Any], source: str, lines: Sequence[bytes]) -> list[tuple[str, str]]:
    """Read lines as the source of that name in a plan does, and store nothing; errors as `_ask`.

    Return for each line `event` and the transformed line, `dropped` and an empty text, or `dead letter` and the reason.
    """
    form = plan["sources"][source]
    events = json.dumps(form["events"])
    return _ask(plan, lambda _: _engine.preview_lines(events, form["longest_line"], list(lines)))


def _request(plan: Mapping[str, Any], request: str) -> str:
    """Return a request's text with its secrets masked.

    In Redis commands no key or quote marks which word is a secret, so they have rules of their own.
    """
    shown: str = command(request) if plan["target"]["driver"] == "redis" else plain(request)
    return shown


def _ask(plan: Mapping[str, Any], ask: Callable[[str], T]) -> T:
    """Call `ask` with the plan as JSON and return its result; BadInput if the engine or the target refuses the plan.

    GeneratorFailed if the engine fails. Interruptible: KeyboardInterrupt when an interrupt arrives.
    """
    text = json.dumps(plan)
    try:
        return interrupts.interruptible(lambda: ask(text))
    except _engine.PlanRefused as error:
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}") from None
    except _engine.TargetRefused as error:
        remedy = "check the credentials and the TLS options"
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}", remedy=remedy) from None
    except RuntimeError as error:
        raise GeneratorFailed(f"the generator failed: {error}", where=f"phase {plan['phase']}") from None
    except _engine.StartFailed as error:
        raise _unrecorded(str(error)) from None
