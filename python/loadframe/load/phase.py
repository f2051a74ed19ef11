"""Runs one phase on the engine. It shows no progress and decides nothing about the run."""

import json
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from loadframe import _engine
from loadframe.base import interrupts
from loadframe.base.errors import BadInput, GeneratorFailed, LoadframeError
from loadframe.ranks.coordinator import Rank, present
from loadframe.ranks.phase_top import PhaseOfRanks
from loadframe.ranks.threads import on
from loadframe.record.redact import command, plain
from loadframe.workload.targets import MAIN

#: Interval between checks for an interrupt, s.
_LOOK = 0.1

T = TypeVar("T")


def interruptible(call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise what it raises; KeyboardInterrupt as soon as an interrupt arrives.

    The call runs in another thread, on the cores of this one. Its result after an interrupt is discarded.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="engine-call", daemon=True).start()
    while not wait([future], _LOOK).done:
        interrupts.check()
    return future.result()


#: Interval between reports of progress, and between checks for an interrupt, s.
_TELL = 0.2


@dataclass(frozen=True)
class SourceProgress:
    """What has come of a source of events so far: lines, and events that the store took or that wait for it."""

    lines: int
    accepted: int
    indexed: int
    dead_letters: int  #: lines that are not events, and events that the store refused
    waiting: int
    spilled: int  #: of those that wait, how many are on disk
    kinds: Mapping[str, int]  #: events that the store took, by their kind
    reader_cpu: Sequence[float]  #: CPU time of each thread that reads it, s
    address: str | None  #: where it listens
    visible: int | None = None  #: events that came no later than the newest one that was looked for and seen


@dataclass(frozen=True)
class Progress:
    """Totals of a phase so far, rates of its last second, times in s; None in a second without an answer."""

    seconds: int
    requests: int
    errors: int
    documents: int
    throughput: int
    documents_throughput: int
    response_p50: float | None
    response_p99: float | None
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)


def _progress(told: dict[str, Any]) -> Progress:
    """Return what the engine tells; its times are 0 where nothing was answered, and no response takes no time."""
    times = {name: told[name] or None for name in ("response_p50", "response_p99")}
    sources = {
        name: SourceProgress(**{entry.name: said.get(entry.name) for entry in fields(SourceProgress)})
        for name, said in told.get("sources", {}).items()
    }
    return Progress(**{**told, **times, "sources": sources})


#: The engine's account of a phase that has ended: the content of `outcome.json`.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Closing:
    """How a phase that takes events in ends at an interrupt: what was accepted is sent, for so many s at most."""

    patience: float
    tell: Callable[[], None]  #: called when it begins


class PhaseFailed(GeneratorFailed):
    """A part of the generator failed while the phase ran. `outcome` covers what was measured until then."""

    def __init__(self, what: str, outcome: Outcome) -> None:
        super().__init__(f"the generator failed: {what}", remedy="the load was not what was asked for: run it again")
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
) -> Outcome:
    """Run a phase that records into `folder`; return its outcome.

    `ranks` are those that load, each its part of the plan; without any it is this process.

    `started` is called with the instant at which the load begins, in s since the run began (`began` in the plan).
    `hosts` is called at every report of progress and returns the target's hosts, of several those of the one that is
    measured; by default they do not change.
    `cores`: the worker threads run on these cores alone.
    `answered` is told the newest answers to the operations that the plan names under `answers`, each at most once a
    second. They are the answers that the load gets; with several ranks there are none.
    Once `held` returns true, the number of clients of closed streams stays as it is, whatever their stages say.
    An interrupt (Ctrl-C) ends the phase within a second and is then raised, unless the caller defers interrupts: the
    outcome has `interrupted` set then, and the caller decides what becomes of the run. With `closing` the first
    interrupt only has sources give no more events, and is forgotten: the phase ends when those that were accepted are
    sent, or with the next interrupt, or when the patience is over, which both set `interrupted`. A `tell` that raises
    KeyboardInterrupt ends the phase likewise, and nothing is raised. An interrupt after the phase leaves the outcome as
    it is. No part of the load is still running when this returns or raises.
    BadInput if the engine refuses the plan, before anything is sent; PhaseFailed, with the outcome so far, if a part of
    the generator fails; LoadframeError if the records cannot be written.
    """
    with interrupts.deferred():
        handle = _start(plan, folder, cores, ranks)
        try:
            if started:
                started(handle.offset)
            # Of several targets the one that is measured may change its hosts.
            present = plan["target"].get("targets", {}).get(MAIN, plan["target"]).get("hosts", [])
            patience = math.inf
            while not handle.wait(_TELL):
                if interrupts.asked() and closing:
                    interrupts.answer()
                    handle.close()
                    closing.tell()
                    patience, closing = time.monotonic() + closing.patience, None
                if interrupts.asked() or time.monotonic() > patience:
                    break
                tell(_progress(handle.progress()))
                _tell_answers(handle, answered)
                if hosts and (now := list(hosts())) != present:
                    _follow(handle, now)
                    present = now
                if held and held():
                    handle.hold()
                    held = None
        except KeyboardInterrupt:
            # `tell` may raise it too: outside the main thread that is the only way to end a phase from outside.
            pass
        finally:
            handle.stop()
            # Waits until no part of the load is running, whatever was raised.
            outcome = _outcome(handle)
            _tell_answers(handle, answered)
        if outcome["failed"]:
            raise PhaseFailed(outcome["failed"], outcome)
        return outcome


def _tell_answers(handle: _engine.Handle | PhaseOfRanks, answered: Callable[[str, bytes], None] | None) -> None:
    if answered:
        for operation, answer in handle.answers():
            answered(operation, answer)


def _start(
    plan: Mapping[str, Any], folder: Path, cores: Collection[int] | None, ranks: Sequence[Rank]
) -> _engine.Handle | PhaseOfRanks:
    hub = present()
    if hub is not None and ranks:
        return _ask(plan, lambda _: hub.phase(plan, folder, ranks, cores))
    with on(cores):
        return _ask(plan, lambda text: _engine.start(text, folder))


def _follow(handle: _engine.Handle | PhaseOfRanks, hosts: list[str]) -> None:
    try:
        handle.set_hosts(hosts)
    except _engine.PlanRefused as error:
        remedy = "make sure that this machine can resolve the names of nodes that join"
        raise LoadframeError(f"the load cannot follow the cluster: {error}", remedy=remedy) from None


def _outcome(handle: _engine.Handle | PhaseOfRanks) -> Outcome:
    try:
        outcome: Outcome = json.loads(handle.outcome())
    except RuntimeError as error:
        raise _unrecorded(str(error)) from None
    return outcome


def _unrecorded(why: str) -> GeneratorFailed:
    return GeneratorFailed(
        f"the generator failed: {why}",
        remedy="check free disk space and the limit of processes",
    )


def validate_plan(plan: Mapping[str, Any]) -> None:
    """Raise BadInput if the engine would refuse the plan, for example for a malformed corpus or operation."""
    _ask(plan, _engine.validate)


def check_operations(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Send each operation of a plan once; return the request, answer and judgement of each, in the plan's order.

    Secrets in requests and in answers are blanked.
    """
    answers = _ask(plan, _engine.check)
    return [{**plain(answer), "request": _request(plan, answer["request"])} for answer in answers]


def render_operations(plan: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return each operation of a plan with the request that it would send; None where only sending creates one.

    Secrets in requests are blanked.
    """
    rendered = _ask(plan, _engine.render)
    return [(name, None if request is None else _request(plan, request)) for name, request in rendered]


def _request(plan: Mapping[str, Any], request: str) -> str:
    """Return a request without its secrets. In Redis commands no key or quote marks which word is a secret."""
    shown: str = command(request) if plan["target"]["driver"] == "redis" else plain(request)
    return shown


def _ask(plan: Mapping[str, Any], ask: Callable[[str], T]) -> T:
    """Ask the engine something about a plan; BadInput if the engine or the target refuses the plan."""
    text = json.dumps(plan)
    try:
        return interruptible(lambda: ask(text))
    except _engine.PlanRefused as error:
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}") from None
    except _engine.TargetRefused as error:
        remedy = "check the credentials and the TLS options"
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}", remedy=remedy) from None
    except RuntimeError as error:
        raise GeneratorFailed(f"the generator failed: {error}", where=f"phase {plan['phase']}") from None
    except _engine.StartFailed as error:
        raise _unrecorded(str(error)) from None
