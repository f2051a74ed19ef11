"""Which slots go where when a cluster grows, shrinks or is balanced: as few as possible, in contiguous ranges.

Ranges matter beyond tidiness: each node sends the list of its ranges around, and clients keep it.
"""

from collections.abc import Mapping, Sequence

from loadframe.store.redis.nodes import SLOTS, RedisNode

#: Slots by the ids of the node that gives them and of the one that gets them.
Routes = dict[tuple[str, str], list[int]]


def balancing(nodes: Sequence[RedisNode]) -> Routes:
    """Return what evens the nodes out: none has more than one slot above any other."""
    least, over = divmod(SLOTS, len(nodes))
    # Those that have most keep the odd ones, so that as few as possible move.
    by_size = sorted(nodes, key=lambda node: -node.size)
    share = {node.id: least + (place < over) for place, node in enumerate(by_size)}
    surplus = [(node, piece) for node in by_size for piece in _spare(node, node.size - share[node.id])]
    return _routes(surplus, by_size, {node.id: max(share[node.id] - node.size, 0) for node in by_size})


def leaving(gone: RedisNode, others: Sequence[RedisNode]) -> Routes:
    """Return what empties one node: the others get its slots, those first that have fewest."""
    wanting = dict.fromkeys((node.id for node in others), 0)
    sizes = {node.id: node.size for node in others}
    for _ in range(gone.size):
        target = min(sizes, key=lambda node: sizes[node])
        sizes[target] += 1
        wanting[target] += 1
    return _routes([(gone, piece) for piece in gone.ranges], others, wanting)


def _spare(node: RedisNode, count: int) -> list[range]:
    """Return `count` of a node's slots: its shortest ranges whole, and the end of the next one."""
    pieces: list[range] = []
    for piece in sorted(node.ranges, key=lambda piece: (len(piece), piece.start)):
        if count <= 0:
            break
        pieces.append(piece[-count:] if count < len(piece) else piece)
        count -= len(piece)
    return pieces


def _routes(
    surplus: Sequence[tuple[RedisNode, range]], targets: Sequence[RedisNode], wanting: Mapping[str, int]
) -> Routes:
    """Give the pieces to the targets, as many slots as each wants: first what borders on a target's own ranges."""
    left = dict(wanting)
    routes: Routes = {}
    rest: list[tuple[RedisNode, range]] = []

    def give(source: RedisNode, target: str, piece: range) -> None:
        routes.setdefault((source.id, target), []).extend(piece)
        left[target] -= len(piece)

    for source, whole in surplus:
        piece = whole
        # Nodes give the ends of their ranges, so a piece goes back first to the node whose range it continues.
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
