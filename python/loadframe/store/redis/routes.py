"""Slot moves for scaling and balancing a cluster: as few slots as possible, in contiguous ranges.

Contiguous ranges keep the slot table short, which nodes exchange and clients cache.
"""

from collections.abc import Mapping, Sequence

from loadframe.store.redis.nodes import SLOTS, RedisNode

#: Slots to move, by (source id, target id).
Routes = dict[tuple[str, str], list[int]]


def balancing(nodes: Sequence[RedisNode]) -> Routes:
    """Return the moves after which nodes differ by one slot at most."""
    least, over = divmod(SLOTS, len(nodes))
    # The largest nodes keep the remainder, so that fewest slots move.
    by_size = sorted(nodes, key=lambda node: -node.size)
    share = {node.id: least + (place < over) for place, node in enumerate(by_size)}
    surplus = [(node, piece) for node in by_size for piece in _spare(node, node.size - share[node.id])]
    return _routes(surplus, by_size, {node.id: max(share[node.id] - node.size, 0) for node in by_size})


def leaving(gone: RedisNode, others: Sequence[RedisNode]) -> Routes:
    """Return the moves that empty a node; its slots go first to the nodes with the fewest."""
    demand = dict.fromkeys((node.id for node in others), 0)
    sizes = {node.id: node.size for node in others}
    for _ in range(gone.size):
        target = min(sizes, key=lambda node: sizes[node])
        sizes[target] += 1
        demand[target] += 1
    return _routes([(gone, piece) for piece in gone.ranges], others, demand)


def _spare(node: RedisNode, count: int) -> list[range]:
    """Return `count` slots of a node: its shortest ranges, and the end of the next one."""
    pieces: list[range] = []
    for piece in sorted(node.ranges, key=lambda piece: (len(piece), piece.start)):
        if count <= 0:
            break
        pieces.append(piece[-count:] if count < len(piece) else piece)
        count -= len(piece)
    return pieces


def _routes(
    surplus: Sequence[tuple[RedisNode, range]], targets: Sequence[RedisNode], demand: Mapping[str, int]
) -> Routes:
    """Distribute the ranges over the targets, with `demand` slots each, preferring ranges next to a target's own."""
    left = dict(demand)
    routes: Routes = {}
    rest: list[tuple[RedisNode, range]] = []

    def give(source: RedisNode, target: str, piece: range) -> None:
        routes.setdefault((source.id, target), []).extend(piece)
        left[target] -= len(piece)

    for source, whole in surplus:
        piece = whole
        # Nodes give away the ends of their ranges, so first return a range to the node that has the range before it.
        for node in targets:
            if any(slots.stop == piece.start for slots in node.ranges) and (taken := piece[: left[node.id]]):
                give(source, node.id, taken)
                piece = piece[len(taken) :]
        for node in targets:
            taken = piece[max(len(piece) - left[node.id], 0) :]
            if taken and any(slots.start == piece.stop for slots in node.ranges):
                give(source, node.id, taken)
                piece = piece[: len(piece) - len(taken)]
        if piece:
            rest.append((source, piece))
    for source, whole in rest:
        piece = whole
        for node in targets:
            if taken := piece[: left[node.id]]:
                give(source, node.id, taken)
                piece = piece[len(taken) :]
    return {route: sorted(slots) for route, slots in routes.items()}
