"""What sources of events did in the last second, in words for the terminal."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from loadframe.units import format_count

if TYPE_CHECKING:
    from loadframe.load import SourceProgress


class EventWords:
    """Turns what is told of sources so far into rates; `clock` gives s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: dict[str, tuple[float, SourceProgress]] = {}
        self._last: dict[str, str] = {}
        self._second = -1

    def begin(self) -> None:
        """Forget what was told: another phase begins."""
        self._before, self._last, self._second = {}, {}, -1

    def addresses(self, sources: "Mapping[str, SourceProgress]") -> list[str]:
        """Return where sources listen of which nothing was told before, in words; ask before `words`."""
        return [
            f"{name} listens at {source.address}"
            for name, source in sources.items()
            if source.address and name not in self._before
        ]

    def words(self, second: int, sources: "Mapping[str, SourceProgress]") -> str:
        """Write what each source did since the second before; the same words again within a second."""
        now = self._clock()
        for name, source in sources.items():
            began, before = self._before.setdefault(name, (now, source))
            if second != self._second and now > began:
                accepted, indexed = ((getattr(source, key) - getattr(before, key)) / (now - began) for key in _RATES)
                self._before[name] = (now, source)
                self._last[name] = (
                    f"{format_count(round(accepted))} events/s accepted, {format_count(round(indexed))} indexed"
                )
        self._second = second
        return "  ".join(
            f"{name}: {self._last.get(name, 'no events yet')}, {format_count(source.waiting)} waiting,"
            f" {format_count(source.dead_letters)} dead letter{'s' * (source.dead_letters != 1)}"
            for name, source in sources.items()
        )


_RATES = ("accepted", "indexed")
