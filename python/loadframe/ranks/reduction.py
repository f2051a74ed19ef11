"""Adds the seconds of a rank and of the ranks below it, as they become complete."""

from collections.abc import Callable, Hashable, Iterable

#: What a source has sent of a second: any form that can be added.
Add = Callable[[list[bytes]], bytes]


class Reduction:
    """Waits for each second of each source, and gives their sum when no source can still have something to say of it.

    A source sends its seconds in their order and may leave some out; then it ends.
    """

    def __init__(self, sources: Iterable[Hashable], add: Add) -> None:
        self._add = add
        #: The second after the last that a source has sent.
        self._next: dict[Hashable, int] = dict.fromkeys(sources, 0)
        self._parts: dict[int, list[bytes]] = {}

    def take(self, source: Hashable, second: int, part: bytes) -> None:
        """Take what a source says of a second; ignored of a source that has ended."""
        if source in self._next:
            self._next[source] = second + 1
            self._parts.setdefault(second, []).append(part)

    def end(self, source: Hashable) -> None:
        """Wait for nothing more of a source."""
        self._next.pop(source, None)

    @property
    def awaited(self) -> int:
        """The second that is not complete yet; 0 when all sources have ended."""
        return min(self._next.values(), default=0)

    @property
    def open(self) -> frozenset[Hashable]:
        """The sources that have not ended."""
        return frozenset(self._next)

    def complete(self) -> list[tuple[int, bytes]]:
        """Return the seconds that have become complete, in their order, with their sums."""
        until = min(self._next.values(), default=None)
        done = sorted(second for second in self._parts if until is None or second < until)
        return [(second, self._sum(self._parts.pop(second))) for second in done]

    def _sum(self, parts: list[bytes]) -> bytes:
        return parts[0] if len(parts) == 1 else self._add(parts)
