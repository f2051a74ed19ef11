"""Offsets between clocks from round trips. The shortest one is the most precise; its half is the uncertainty."""

from collections.abc import Iterable
from dataclasses import dataclass

#: Seconds between polls during round trips. Ranks that polled without sleep would block each other on busy machines; a
#: process that slept is scheduled first.
BRISK = 0.0002


@dataclass(frozen=True)
class Offset:
    """Difference of a remote clock to a local one, and its uncertainty, in s. Add it to local times."""

    seconds: float = 0.0
    uncertainty: float = 0.0

    def behind(self, nearer: "Offset") -> "Offset":
        """Return the offset to the base of `nearer`, for a clock that is reached through the clock of `nearer`."""
        return Offset(self.seconds + nearer.seconds, self.uncertainty + nearer.uncertainty)


def offset(trips: Iterable[tuple[float, float, float]]) -> Offset:
    """Return the offset of the shortest round trip.

    Each trip has the local time of sending, the remote time of the answer, and the local time of receiving.
    """
    sent, answered, received = min(trips, key=lambda trip: trip[2] - trip[0])
    return Offset(answered - (sent + received) / 2, (received - sent) / 2)
