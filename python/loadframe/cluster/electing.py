"""Takes the right to be elected from nodes, where a cluster has more of them than its size asks for.

A node's vote has to be with others before it is stopped, so this is done to nodes that run, one after the other, when a
cluster has just been started again. That a node may be elected it can be told whenever it starts; see planned.electors.
"""

from collections.abc import Collection
from dataclasses import replace

from loadframe.cluster import launch
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.node import Node
from loadframe.cluster.planned import again
from loadframe.cluster.software import Software
from loadframe.store import Store


def settle(change: ClusterChange, software: Software) -> None:
    """Restart those that are too many as nodes that nobody elects: their data stays where it is."""
    for node in _surplus(change.store, change.roster.nodes, change.spec.nodes):
        change.report(f"restarting {node.name}, which is not to be elected any more")
        change.store.resign(change.addresses, node.member())
        assert node.process
        node.process.throttle(False)
        node.process.stop()
        change.roster.edit([node], lambda node: replace(node, elects=False))
        launch.start(
            change.spec,
            software,
            change.host,
            change.folder,
            [again(node)],
            change.roster,
            founding=False,
            password=change.password,
        )
        running = [other for other in change.roster.nodes if other.alive]
        patience = change.patience(f"restarting {node.name}", running)
        change.store.reunite([other.member() for other in running], patience)
        launch.wait_until_ready(change.store, running, change.spec.nodes)
        change.store.stay(change.addresses, node.member())
        change.equip(node.name)


def _surplus(store: Store, nodes: Collection[Node], size: int) -> list[Node]:
    wanted = store.electors(size)
    elected = sorted((node for node in nodes if node.elects and node.number is not None), key=lambda node: node.name)
    return [] if wanted is None else elected[wanted:][::-1]
