"""Finds dips that come at irregular distances: stretches of seconds far below all others.

Far is beyond what the scatter of the others reaches, taken from their median deviation, so that the dips themselves do
not widen it. A slow wave is not found, nor is a single stop, which does not come again.
"""

import numpy as np

from loadframe.analyze.autocorrelation import detrended
from loadframe.analyze.dips.periods import Dips, Series

_LEAST = 40
#: A dip lies so many standard deviations below the level, and by so much of it.
_DEVIATIONS, _DEPTH = 6.0, 0.3
#: The median deviation of normal noise is the standard deviation by this.
_NORMAL = 1.4826
#: So many dips at least come again, and they are less than so much of the time: else they are the level.
_DIPS, _MOST = 3, 1 / 3


def irregular_dips(throughput: Series) -> Dips | None:
    """Return the dips in throughputs of successive seconds, 1/s, at whatever distances; None where there are none."""
    values = np.asarray(throughput, dtype=float)
    if len(values) < _LEAST or values.mean() <= 0:
        return None
    residuals = detrended(values)
    level = values - residuals + float(np.median(residuals))
    below = level - values
    scatter = _NORMAL * float(np.median(np.abs(below)))
    inside = below > np.maximum(_DEVIATIONS * scatter, _DEPTH * level)
    stretches = int((np.diff(np.concatenate([[0], inside.astype(int)])) == 1).sum())
    if stretches < _DIPS or inside.mean() > _MOST:
        return None
    lost, mean = np.maximum(below, 0.0), float(level.mean())
    depth = float(below[inside].mean()) / mean
    length = float(inside.sum()) / stretches
    return Dips(None, length, depth, mean, inside, lost, float(lost[inside].sum() / level.sum()))
