"""Checks before a load starts: what is refused, ports of sources, and a cluster that is ready."""

import contextlib
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import format_duration
from loadframe.cluster import Cluster
from loadframe.cluster.view import unready
from loadframe.experiment.runner.listener import Listener
from loadframe.load import Generator, validate_plan
from loadframe.workload import ResolvedPhase


def require_ports(phase: ResolvedPhase) -> None:
    """BadInput if nothing can listen where a source of the phase does."""
    for name, source in phase.sources.items():
        if "listen" in source:
            _require(str(source["listen"]["address"]), name)


def _require(address: str, source: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with contextlib.closing(socket.socket(family, kind, protocol)) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(where)
            tried.listen()
    except OSError as error:
        what = f"nothing can listen at {address}: {error.strerror or error}"
        raise BadInput(what, where=f"source {source}", remedy="choose another port, or end what has it") from None


def check_load(
    phases: Iterable[ResolvedPhase], driver: str, target: Mapping[str, Any], generator: Generator, nodes: int
) -> None:
    """BadInput if the engine would refuse the load: said before a node starts and before a store is changed.

    `target` is what is known of the cluster by then, as `Cluster.target` has it.
    """
    # Nothing is sent to these addresses; the cluster's own may not be known yet.
    hosts = [f"127.0.0.1:{port}" for port in range(1, nodes + 1)]
    generator.require(driver)
    everything = {**generator.target(), **target}
    for phase in phases:
        load = {"threads": generator.threads, "ranks": max(len(generator.members()), 1)}
        _require_documents(phase, load["ranks"])
        require_ports(phase)
        _require_one_manager(phase, load["ranks"])
        validate_plan(phase.plan(seed=0, hosts=hosts, driver=driver, target=everything, **load))


def _require_documents(phase: ResolvedPhase, ranks: int) -> None:
    """BadInput if a phase that sends a whole corpus has fewer documents than ranks."""
    for name, corpus in phase.corpora.items() if phase.exhausts and ranks > 1 else ():
        documents = corpus.get("documents") or corpus.get("at_most")
        if documents is not None and documents < ranks:
            raise BadInput(
                f"{ranks} ranks are to send the {documents} documents of {name}, so some would have none",
                where=f"phase {phase.name}",
                remedy="load with fewer ranks, or take more documents",
            )


def _require_one_manager(phase: ResolvedPhase, ranks: int) -> None:
    """BadInput if several ranks are to take events into days that roll over or are deleted meanwhile."""
    for name, form in phase.operations.items() if ranks > 1 else ():
        if "manage_indices" in form:
            what = "when an index follows another"
        elif form.get("delete_days", {}).get("keep") is not None:
            what = "which days are deleted"
        else:
            continue
        raise BadInput(
            f"{ranks} ranks would have to agree {what}, and cannot: {name} needs one",
            where=f"phase {phase.name}",
            remedy="load with one rank and more threads, or leave the operation out",
        )


#: Time between two looks, s.
_LOOK = 0.5


def wait_until_ready(cluster: Cluster, phase: str, within: float, listener: Listener) -> None:
    """Wait up to `within` s; StoreFailed, with the cluster's state, where it is not ready by then.

    What was declared and cannot be, such as a second copy on a single node, is not waited for.
    """
    end = time.monotonic() + within
    told = False
    while state := _unready(cluster):
        if time.monotonic() > end:
            raise StoreFailed(
                f"the cluster was not ready for the phase within {format_duration(within)}: {state}",
                where=f"phase {phase}",
                remedy="repair it, give it longer (ready_within), or allow that state (allow_bad)",
            )
        if not told:
            listener.step(f"waiting up to {format_duration(within)} for the cluster: {state}")
            told = True
        interrupts.check()
        time.sleep(_LOOK)


def _unready(cluster: Cluster) -> str:
    try:
        return "; ".join(unready(cluster.health(), cluster.size))
    except LoadframeError as error:
        return error.what
