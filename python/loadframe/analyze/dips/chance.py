"""How much of what dips cost falls into seconds of an activity, and how likely that much is by chance.

By chance means: both go on as they do, and have nothing to do with each other. Then the one could as well have begun
at any other second, so the series of the activity is shifted against that of the loss by every number of seconds, in a
circle, which keeps how either is spaced. p is the share of shifts at which as much of the loss falls into the activity
as at none. Of several activities that were looked at, the one that stands out most decides at each shift, so that any
false claim among all of them has that probability (Westfall and Young, Resampling-Based Multiple Testing, Wiley 1993).

Where dips and an activity come at the same interval, only their phase tells them apart from chance: p is then
no less than about one by the seconds of that distance, and one run of short periods cannot decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.dips.periods import Series

#: The probability of a false claim in a phase.
LEVEL = 0.05


@dataclass(frozen=True)
class Overlap:
    """The share of what was lost in an activity's seconds, beside the share of all seconds that these are; p of it."""

    lost: float
    seconds: float
    p: float

    @property
    def claimed(self) -> bool:
        """Whether that is more than chance."""
        return self.p < LEVEL and self.lost > self.seconds


def overlaps(lost: Series, busy: Sequence[npt.NDArray[np.bool_]]) -> list[Overlap]:
    """Return the overlap of what was lost in each second (at least something) with each activity's busy seconds."""
    if not busy:
        return []
    total = lost.sum()
    shifted = np.array([_at_every_shift(lost, seconds) / total for seconds in busy])
    spread = shifted.std(axis=1, keepdims=True)
    standing = (shifted - shifted.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    # Sums that differ by rounding alone are alike.
    most = standing.max(axis=0) + 1e-9
    return [
        Overlap(float(shifted[at, 0]), float(seconds.mean()), float((most >= standing[at, 0]).mean()))
        for at, seconds in enumerate(busy)
    ]


def _at_every_shift(lost: Series, busy: npt.NDArray[np.bool_]) -> Series:
    """Return how much of the loss falls into the activity at each shift; the first is none."""
    n = len(lost)
    sums: Series = np.fft.irfft(np.fft.rfft(lost) * np.conj(np.fft.rfft(busy.astype(float))), n)
    return sums
