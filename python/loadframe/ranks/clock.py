"""Offsets between clocks by round trips: the smallest round trip says most, and half of it is how wrong it can be."""

from collections.abc import Iterable
from dataclasses import dataclass

#: How long ranks sleep between looks for the next message of a round trip, s. Those that did not sleep would keep each
#: other from the cores of a busy machine, and one that has slept is the next to have one.
BRISK = 0.0002


@dataclass(frozen=True)
class Offset:
    """What to add to a time of the nearer clock to have one of the farther, and how wrong that may be, s."""

    seconds: float = 0.0
    uncertainty: float = 0.0

    def behind(self, nearer: "Offset") -> "Offset":
        """Return the offset from the clock that `nearer` begins at."""
        return Offset(self.seconds + nearer.seconds, self.uncertainty + nearer.uncertainty)


def offset(trips: Iterable[tuple[float, float, float]]) -> Offset:
    """Return the offset by round trips: sent and received on the nearer clock, answered between on the farther."""
    sent, answered, received = min(trips, key=lambda trip: trip[2] - trip[0])
    return Offset(answered - (sent + received) / 2, (received - sent) / 2)
