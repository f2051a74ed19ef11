"""Runs one phase on the engine. It draws no progress itself and decides nothing about the run."""

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from loadframe import _engine, interrupts
from loadframe.errors import BadInput, GeneratorFailed, LoadframeError
from loadframe.load.waiting import interruptible
from loadframe.record.redact import command, plain

T = TypeVar("T")

#: How often progress is told, and an interrupt heard, s.
_TELL = 0.2


@dataclass(frozen=True)
class Progress:
    """Figures for a person who waits: totals of the phase so far, rates of its last second, times in s."""

    seconds: int
    requests: int
    errors: int
    documents: int
    throughput: int
    documents_throughput: int
    response_p50: float
    response_p99: float


#: What the engine says of a phase when it has ended: the content of `outcome.json`.
Outcome = dict[str, Any]


class PhaseFailed(GeneratorFailed):
    """A part of the generator died while the phase ran. `outcome` is of what it had measured until then."""

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
) -> Outcome:
    """Run a phase that records into `folder`; return its outcome.

    `started` is told when the load begins, in s since the run began, which the plan says (`began`).
    `hosts` is asked, as often as progress is told, which hosts the target has now; by default they stay as they are.
    The worker threads run on these `cores` alone, if some are named.
    Once `held` says so, the clients of closed streams who are there stay, and no others come, whatever their stages.
    An interrupt (Ctrl-C) ends the phase within a second and is then raised, unless the caller defers interrupts: the
    outcome has `interrupted` set then, and the caller decides what becomes of the run. A `tell` that raises
    KeyboardInterrupt ends it likewise, and nothing is raised. An interrupt that comes when the phase is over leaves the
    outcome as it is. Nothing of the load goes on when this returns or raises.
    BadInput if the engine refuses the plan, before anything was sent; PhaseFailed, with the outcome so far, when a part
    of the generator dies; LoadframeError when the records cannot be written.
    """
    with interrupts.deferred():
        with _on(cores):
            handle = _ask(plan, lambda text: _engine.start(text, folder))
        try:
            if started:
                started(handle.offset)
            present = plan["target"].get("hosts", [])
            while not handle.wait(_TELL):
                if interrupts.asked():
                    break
                tell(Progress(**handle.progress()))
                if hosts and (now := list(hosts())) != present:
                    _follow(handle, now)
                    present = now
                if held and held():
                    handle.hold()
                    held = None
        except KeyboardInterrupt:
            # Whoever is told may raise it too, and outside the main thread nothing else ends a phase from outside.
            pass
        finally:
            handle.stop()
            # It waits until nothing of the load goes on, whatever was raised.
            outcome = _outcome(handle)
        if outcome["failed"]:
            raise PhaseFailed(outcome["failed"], outcome)
        return outcome


@contextlib.contextmanager
def _on(cores: Collection[int] | None) -> Iterator[None]:
    """Have this thread on these cores, and with it those that it starts, which stay there."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _follow(handle: _engine.Handle, hosts: list[str]) -> None:
    try:
        handle.set_hosts(hosts)
    except _engine.PlanRefused as error:
        remedy = "see that the names of nodes that join can be resolved here"
        raise LoadframeError(f"the load cannot follow the cluster: {error}", remedy=remedy) from None


def _outcome(handle: _engine.Handle) -> Outcome:
    try:
        outcome: Outcome = json.loads(handle.outcome())
    except RuntimeError as error:
        raise _unrecorded(str(error)) from None
    return outcome


def _unrecorded(why: str) -> GeneratorFailed:
    return GeneratorFailed(f"the generator failed: {why}", remedy="see whether the disk is full")


def validate_plan(plan: Mapping[str, Any]) -> None:
    """Raise BadInput if the engine would refuse the plan: a malformed corpus, an operation that makes no sense."""
    _ask(plan, _engine.validate)


def check_operations(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Send each operation of a plan once; return request, answer and judgement of each, in the plan's order.

    Secrets that the workload has in a request, or the store in an answer, are blanked.
    """
    answers = _ask(plan, _engine.check)
    return [{**plain(answer), "request": _request(plan, answer["request"])} for answer in answers]


def render_operations(plan: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return each operation of a plan with the request that it would send; None where only sending makes one.

    Secrets that the workload has in a request are blanked.
    """
    rendered = _ask(plan, _engine.render)
    return [(name, None if request is None else _request(plan, request)) for name, request in rendered]


def _request(plan: Mapping[str, Any], request: str) -> str:
    """Return a request without its secrets. Redis has neither keys nor quotes that tell which word is one."""
    shown: str = command(request) if plan["target"]["driver"] == "redis" else plain(request)
    return shown


def _ask(plan: Mapping[str, Any], ask: Callable[[str], T]) -> T:
    """Ask the engine something about a plan; BadInput if it refuses that."""
    text = json.dumps(plan)
    try:
        return interruptible(lambda: ask(text))
    except _engine.PlanRefused as error:
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}") from None
    except RuntimeError as error:
        raise GeneratorFailed(f"the generator failed: {error}", where=f"phase {plan['phase']}") from None
    except _engine.StartFailed as error:
        raise _unrecorded(str(error)) from None
