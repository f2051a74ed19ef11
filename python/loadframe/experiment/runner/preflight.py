"""Checks before a load: validity of the plan, free ports for sources, readiness of the cluster."""

import contextlib
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import counted, format_duration
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.cluster.view import unready
from loadframe.experiment.runner.listener import Listener
from loadframe.load import Generator, validate_plan
from loadframe.workload import ResolvedPhase


def require_ports(phase: ResolvedPhase) -> None:
    """Raise BadInput if this process cannot listen at the address of a source of the phase."""
    for name, source in phase.sources.items():
        if "listen" in source:
            _require(str(source["listen"]["address"]), name)


def _require(address: str, source: str) -> None:
    """Raise BadInput unless this process can listen at an address; the port is free again afterwards."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with contextlib.closing(socket.socket(family, kind, protocol)) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(where)
            tried.listen()
    except (OSError, UnicodeError) as error:
        what = f"cannot listen at {address}: {getattr(error, 'strerror', None) or error}"
        raise BadInput(
            what, where=f"source {source}", remedy="choose another port, or stop the process that uses it"
        ) from None


def check_load(
    phases: Iterable[ResolvedPhase],
    driver: str,
    target: Mapping[str, Any],
    generator: Generator,
    nodes: int,
    spec: ClusterSpec | None = None,
) -> None:
    """Raise BadInput if the engine would refuse the load; called before a node starts or a store changes.

    `driver` is the store's, and `nodes` the number of its nodes. `target` is the part of `Cluster.target` that is known
    before the start. `spec` is that of a cluster of Loadframe. Also for ports that are in use, corpora with fewer
    documents than ranks, and cores that the generator cannot have.
    """
    # Placeholders, because the addresses of the nodes may not be known yet.
    hosts = [f"127.0.0.1:{port}" for port in range(1, nodes + 1)]
    generator.require(driver)
    generator.require_own_cores(shared=spec is not None and spec.shares_cores)
    full_target = {**generator.target(), **target}
    for phase in phases:
        load = {"threads": generator.threads, "ranks": max(len(generator.members()), 1)}
        _require_documents(phase, load["ranks"])
        require_ports(phase)
        _require_one_manager(phase, load["ranks"])
        plan = phase.plan(seed=0, hosts=hosts, driver=driver, target=full_target, **load)
        validate_plan({**plan, **generator.tracing(), **generator.timestamping()})


def _require_documents(phase: ResolvedPhase, ranks: int) -> None:
    """Raise BadInput if a phase sends a whole corpus with fewer documents, if their number is known, than ranks."""
    for name, corpus in phase.corpora.items() if phase.exhausts and ranks > 1 else ():
        documents = corpus.get("documents") or corpus.get("at_most")
        if documents is not None and documents < ranks:
            raise BadInput(
                f"{name} has {counted(documents, 'document')} for {ranks} ranks, so some ranks would be idle",
                where=f"phase {phase.name}",
                remedy="use fewer ranks or more documents",
            )


def _require_one_manager(phase: ResolvedPhase, ranks: int) -> None:
    """Raise BadInput for operations that manage indices, or keep a number of days, on several ranks."""
    for name, form in phase.operations.items() if ranks > 1 else ():
        if "manage_indices" in form:
            what = "when to roll over an index"
        elif form.get("delete_days", {}).get("keep") is not None:
            what = "which days to delete"
        else:
            continue
        raise BadInput(
            f"{name} requires a single rank; {ranks} ranks cannot agree {what}",
            where=f"phase {phase.name}",
            remedy="use one rank with more threads, or remove the operation",
        )


#: Interval between two polls of the cluster state, s.
_LOOK = 0.5
#: Longest wait, s, for work that a store completes without help, such as copies of new collections; no error follows.
SETTLING = 10.0


def wait_until_ready(
    cluster: Cluster, phase: str, within: float | None, listener: Listener, *, acceptable: bool = True
) -> None:
    """Wait up to `within` s until the cluster is ready; StoreFailed, with its state, on timeout.

    None: wait up to `SETTLING` s, and return in any case, with a remark. A state without moving data that outlasted
    such a wait is not waited for again. `acceptable` is whether the user can accept the state instead.
    Replicas that cannot exist, such as a second replica on a single node, are not waited for. `phase` is its name, for
    the message. KeyboardInterrupt after an interrupt.
    """
    limit = SETTLING if within is None else within
    end = time.monotonic() + limit
    reported = False
    while True:
        state, can_change = _unready_state(cluster)
        if not state:
            cluster.unsettled = None
        if not state or (within is None and state == cluster.unsettled):
            return
        if time.monotonic() > end:
            if within is None:
                cluster.unsettled = None if can_change else state
                listener.remark(f"the load begins, although the cluster was not ready after {limit:.0f} s: {state}")
                return
            accept = ", or accept the state with --allow-bad (allow_bad: true in an experiment)" if acceptable else ""
            raise StoreFailed(
                f"the cluster was not ready within {format_duration(limit)}: {state}",
                where=f"phase {phase}",
                remedy=f"repair the cluster, or raise ready_within{accept}{cluster.access.status_hint}",
            )
        if not reported:
            listener.step(f"waiting up to {format_duration(limit)} for the cluster: {state}")
            reported = True
        interrupts.check()
        time.sleep(_LOOK)


def _unready_state(cluster: Cluster) -> tuple[str, bool]:
    """Return why the cluster is not ready, and whether waiting may help: data moves, or its health is unknown.

    The reasons are those of `unready`, or the error of the health check; empty if the cluster is ready.
    """
    try:
        health = cluster.health()
    except LoadframeError as error:
        return error.what, True
    return "; ".join(unready(health, cluster.size)), health.moving > 0
