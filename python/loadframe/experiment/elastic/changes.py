"""What a step does to a cluster. Each blocks until it is done; LoadframeError says why it could not be."""

from collections.abc import Callable

from loadframe.cluster import Cluster
from loadframe.cluster.patience import Tell
from loadframe.errors import LoadframeError
from loadframe.experiment.elastic.file import CHANGES, Step

Report = Callable[[str], None]


def words_of(step: Step) -> str:
    """Write a step's change: `add 1`, `kill node-1`."""
    key = next(key for key in CHANGES if getattr(step, key) is not None)
    value = getattr(step, key)
    return f"{key} {', '.join(f'{name} {level}' for name, level in value.items()) if key == 'set' else value}"


def carry_out(step: Step, cluster: Cluster, report: Report, tell: Tell) -> None:
    """Make the change; `tell` hears once a second how far it has come, and may end it by LoadframeError."""
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
    """Start a node again that is gone, with its data, and all others that are."""
    if any(node.name == name and node.alive for node in cluster.nodes):
        raise LoadframeError(f"{name} runs, and cannot be started again", remedy="kill it in an earlier step")
    cluster.mend(report, tell=tell)
