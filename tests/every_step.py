"""All steps of a workload on a cluster that runs: filled first, then each operation sent once."""

from pathlib import Path
from typing import Any

from loadframe.cluster import Cluster
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Session
from loadframe.load import Generator, check_operations
from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload


def failed_steps(cluster: Cluster, workload: ResolvedWorkload, folder: Path) -> list[dict[str, Any]]:
    """Run the phases that fill the collections, then each operation; return the answers that fail their assertions."""
    session = Session(cluster, workload, seed=1, generator=Generator(), listener=Listener())
    session.create_collections()
    session.prepare([phase for phase in workload.phases if phase.prepares or phase.stop == "exhausted"], folder)
    tried: set[str] = set()
    failed = []
    for phase in workload.phases:
        # A second attempt inserts the same documents again.
        if not phase.prepares and phase.stop != "exhausted" and not tried >= phase.operations.keys():
            tried |= phase.operations.keys()
            failed += [answer for answer in _answers(cluster, phase) if answer["error"]]
    return [answer for answer in failed if "already exists" not in answer["message"]]


def _answers(cluster: Cluster, phase: ResolvedPhase) -> list[dict[str, Any]]:
    target = cluster.target()
    return check_operations(phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=target))
