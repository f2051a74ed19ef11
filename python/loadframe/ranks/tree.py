"""Binomial tree of ranks: each has at most log2(n) neighbours and distance log2(n) to the top."""


def parent(position: int) -> int | None:
    """Return the position above, or None for the top, 0."""
    return position & (position - 1) if position else None


def children(position: int, count: int) -> list[int]:
    """Return the positions directly below, out of `count` positions."""
    lowest = position & -position if position else 1 << count.bit_length()
    below = []
    step = 1
    while step < lowest and position + step < count:
        below.append(position + step)
        step <<= 1
    return below


def depth(count: int) -> int:
    """Return the height of the tree."""
    return max((position.bit_count() for position in (count - 1, (1 << (count.bit_length() - 1)) - 1)), default=0)
