"""Progress of event sources as text for the terminal."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from loadframe.base.units import counted, format_count

if TYPE_CHECKING:
    from loadframe.load import SourceProgress


class EventWords:
    """Rates of event sources, computed from their totals. `clock` returns s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: dict[str, tuple[float, SourceProgress]] = {}
        self._last: dict[str, str] = {}
        self._second = -1

    def begin(self) -> None:
        """Reset for the next phase."""
        self._before, self._last, self._second = {}, {}, -1

    def addresses(self, sources: "Mapping[str, SourceProgress]") -> list[str]:
        """Return the addresses of new sources as text. Call it before `words`."""
        return [
            f"{name} listens at {source.address}"
            for name, source in sources.items()
            if source.address and name not in self._before
        ]

    def words(self, second: int, sources: "Mapping[str, SourceProgress]") -> str:
        """Return the rates of each source since the previous second; unchanged within a second."""
        now = self._clock()
        for name, source in sources.items():
            # Events before the first call count as events of the first second.
            nothing = replace(source, lines=0, accepted=0, indexed=0, kinds={}, visible=None)
            began, before = self._before.setdefault(name, (now, nothing))
            if second != self._second and now > began:

                def rate(grown: int, began: float = began) -> str:
                    return format_count(round(grown / (now - began)))

                kinds = ", ".join(
                    f"{rate(count - before.kinds.get(kind, 0))} {kind}"
                    for kind, count in source.kinds.items()
                    if count > before.kinds.get(kind, 0)
                )
                self._before[name] = (now, source)
                self._last[name] = (
                    f"{rate(source.lines - before.lines)} lines/s, {rate(source.accepted - before.accepted)} events/s"
                    f" accepted, {rate(source.indexed - before.indexed)} indexed{kinds and f' ({kinds})'}"
                )
                if source.visible is not None:
                    self._last[name] += f", about {rate(source.visible - (before.visible or 0))} visible"
        self._second = second
        return "  ".join(
            f"{name}: {self._last.get(name, 'no events yet')}, {format_count(source.waiting)} waiting"
            f"{f' ({format_count(source.spilled)} on disk)' if source.spilled else ''},"
            f" {counted(source.dead_letters, 'dead letter')}"
            for name, source in sources.items()
        )
