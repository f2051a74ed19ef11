"""What is refused of a load before a node starts and before a store is changed."""

from collections.abc import Iterable, Mapping
from typing import Any

from loadframe.errors import BadInput
from loadframe.experiment.ports import require_ports
from loadframe.load import Generator, validate_plan
from loadframe.workload import ResolvedPhase


def require_sound(
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
