"""Runs one phase on the engine. It draws no progress itself and decides nothing about the run."""

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe import _engine
from loadframe.errors import BadInput, GeneratorFailed, LoadframeError
from loadframe.record.redact import command, plain

#: How often progress is told, s. Between two tellings the interpreter is free, and an interrupt is heard at once.
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


def run_phase(
    plan: Mapping[str, Any],
    folder: Path,
    tell: Callable[[Progress], None],
    hosts: Callable[[], Sequence[str]] | None = None,
    held: Callable[[], bool] | None = None,
    cores: Collection[int] | None = None,
) -> Outcome:
    """Run a phase that records into `folder`; return its outcome.

    `hosts` is asked, as often as progress is told, which hosts the target has now; by default they stay as they are.
    The worker threads run on these `cores` alone, if some are named.
    Once `held` says so, the clients of closed streams who are there stay, and no others come, whatever their stages.
    An interrupt (Ctrl-C) ends the phase within a second: the outcome then has `interrupted` set, and the caller
    decides what becomes of the run. BadInput if the engine refuses the plan, before anything was sent;
    LoadframeError when the generator itself fails.
    """
    try:
        with _on(cores):
            handle = _engine.start(json.dumps(plan), folder)
    except _engine.PlanRefused as error:
        raise BadInput(str(error), where=f"phase {plan['phase']}") from None
    present = plan["target"].get("hosts", [])
    try:
        while not handle.wait(_TELL):
            tell(Progress(**handle.progress()))
            if hosts and (now := list(hosts())) != present:
                _follow(handle, now)
                present = now
            if held and held():
                handle.hold()
                held = None
    except BaseException as error:
        handle.stop()
        outcome = _outcome(handle)
        if isinstance(error, KeyboardInterrupt):
            return outcome
        raise
    return _outcome(handle)


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
        raise GeneratorFailed(f"the generator failed: {error}", remedy="see whether the disk is full") from None
    return outcome


def validate_plan(plan: Mapping[str, Any]) -> None:
    """Raise BadInput if the engine would refuse the plan: a malformed corpus, an operation that makes no sense."""
    try:
        _engine.validate(json.dumps(plan))
    except _engine.PlanRefused as error:
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}") from None


def check_operations(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Send each operation of a plan once; return request, answer and judgement of each, in the plan's order.

    Secrets that the workload has in a request, or the store in an answer, are blanked.
    """
    try:
        answers = _engine.check(json.dumps(plan))
    except _engine.PlanRefused as error:
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}") from None
    return [{**plain(answer), "request": _request(plan, answer["request"])} for answer in answers]


def _request(plan: Mapping[str, Any], request: str) -> str:
    """Return a request without its secrets. Redis has neither keys nor quotes that tell which word is one."""
    shown: str = command(request) if plan["target"]["driver"] == "redis" else plain(request)
    return shown


def render_operations(plan: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return each operation of a plan with the request that it would send; None where only sending makes one.

    Secrets that the workload has in a request are blanked.
    """
    try:
        rendered = _engine.render(json.dumps(plan))
    except _engine.PlanRefused as error:
        raise BadInput(plain(str(error)), where=f"phase {plan['phase']}") from None
    return [(name, None if request is None else _request(plan, request)) for name, request in rendered]
