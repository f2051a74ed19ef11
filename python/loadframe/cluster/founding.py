"""Makes a cluster that was not there before."""

from loadframe import folders
from loadframe.cluster import launch
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.planned import layout
from loadframe.cluster.software import Software


def establish(change: ClusterChange, software: Software) -> None:
    """Start all its processes and have them form a cluster; return when it is ready.

    It is written down before anything runs, so that what a start that is cut off leaves is known to hold no data.
    """
    folders.make(change.folder)
    change.roster.write()
    planned = layout(change.store, change.spec)
    launch.start(
        change.spec,
        software,
        change.host,
        change.folder,
        planned,
        change.roster,
        founding=True,
        password=change.password,
    )
    nodes = change.roster.nodes
    change.store.form(
        [node.member() for node in nodes], change.spec.settings, change.patience("forming the cluster", nodes)
    )
    launch.wait_until_ready(change.store, nodes, change.spec.nodes)
    change.roster.formed = True
    change.roster.write()
