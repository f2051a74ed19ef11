"""Detection of periodic dips in a series of throughputs by second.

The autocorrelation of the detrended series has a local maximum at the period. Seconds are correlated anyway, so the
threshold comes from 200 first-order autoregressive series with the same correlation and length: the maximum must exceed
99 of 100. Folding the series at the period then locates the dip within it. Slow waves are found as well as short stops;
dips at irregular distances are not.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.autocorrelation import detrended, lag_one

Series = npt.NDArray[np.float64]

#: Smallest number of periods in the series, and shortest period, s.
_CYCLES = 3
_SHORTEST = 4
#: Shortest series that is searched, s.
_LEAST = 40
_SURROGATES = 200
_LEVEL = 0.01
#: Maxima with at least this share of the highest count: the first is the period, the others its multiples.
_NEARLY = 0.7
#: Dips below this share of the level are ignored.
_SHALLOW = 0.05


@dataclass(frozen=True, eq=False)
class Dips:
    """Recurring dips: `period` and `length` in s, `depth` as a share of `level` (1/s).

    Irregular dips have no `period`; their `length` is the mean. `inside` marks the seconds within dips. `lost` is the
    deficit of each second relative to the level, 1/s. `share` is the deficit within dips as a share of the work at that
    level.
    """

    period: float | None
    length: float
    depth: float
    level: float
    inside: npt.NDArray[np.bool_]
    lost: Series
    share: float

    @property
    def begins(self) -> list[int]:
        """The first second of each dip."""
        before = np.concatenate([[False], self.inside[:-1]])
        return [int(second) for second in np.flatnonzero(self.inside & ~before)]


def periodic_dips(throughput: Series) -> Dips | None:
    """Return the periodic dips in throughputs of successive seconds, 1/s, or None without any."""
    values = np.asarray(throughput, dtype=float)
    if len(values) < _LEAST or values.mean() <= 0 or np.ptp(values) == 0:
        return None
    residuals = detrended(values)
    lags = _lags(len(values))
    heights = _heights(residuals, lags)
    if not len(heights) or heights.max() <= _threshold(len(values), lag_one(residuals), lags):
        return None
    first = int(np.flatnonzero(heights >= _NEARLY * heights.max())[0])
    return _folded(values, residuals, _refined(residuals, int(lags[first])))


def _lags(seconds: int) -> npt.NDArray[np.int64]:
    return np.arange(_SHORTEST, seconds // _CYCLES + 1)


def _correlations(residuals: Series) -> Series:
    """Return the unbiased autocorrelation at each lag from 0 on."""
    n = len(residuals)
    spectrum = np.fft.rfft(residuals, 2 * n)
    products = np.fft.irfft(np.abs(spectrum) ** 2)[:n]
    correlations: Series = products / (n - np.arange(n)) / (products[0] / n)
    return correlations


def _heights(residuals: Series, lags: npt.NDArray[np.int64]) -> Series:
    """Return the autocorrelation at the lags with a local maximum, and 0 at the others."""
    known = _correlations(residuals)
    at = known[lags]
    peak = (at >= known[lags - 1]) & (at >= known[lags + 1])
    return np.where(peak, np.maximum(at, 0.0), 0.0)


def _threshold(seconds: int, rho: float, lags: npt.NDArray[np.int64]) -> float:
    """Return the 99th percentile of the highest local maximum of series without a period."""
    from scipy.signal import lfilter  # slow to import, and few runs need it

    random = np.random.default_rng(1)
    highest = []
    for _ in range(_SURROGATES):
        noise = random.standard_normal(seconds)
        noise[0] /= np.sqrt(1 - rho**2)
        series = lfilter([1.0], [1.0, -rho], noise)
        highest.append(float(_heights(detrended(series), lags).max(initial=0.0)))
    return float(np.quantile(highest, 1 - _LEVEL))


def _refined(residuals: Series, lag: int) -> float:
    """Return the period between whole seconds, from its farthest multiple that has a maximum nearby."""
    known = _correlations(residuals)
    period = float(lag)
    for multiple in range(2, int(2 * len(residuals) / 3 / lag) + 1):
        middle = round(multiple * period)
        near = np.arange(max(middle - 2, 1), min(middle + 3, len(known)))
        if len(near) < 5 or known[near].max() <= 0:
            break
        period = float(near[np.argmax(known[near])]) / multiple
    return period


def _folded(values: Series, residuals: Series, period: float) -> Dips | None:
    places = (np.arange(len(values)) % period).astype(int)
    count = int(places.max()) + 1
    folded = np.array([residuals[places == place].mean() for place in range(count)])
    usual = float(np.median(folded))
    deepest = int(np.argmin(folded))
    half = usual - (usual - folded[deepest]) / 2
    places_inside = {deepest}
    for step in (1, -1):
        place = (deepest + step) % count
        while folded[place] < half and place not in places_inside:
            places_inside.add(place)
            place = (place + step) % count
    inside = np.isin(places, sorted(places_inside))
    # The level follows the trend: the deficit is relative to the surrounding seconds.
    trend = values - residuals
    level = trend + float(np.median(residuals[~inside])) if (~inside).any() else trend
    lost = np.maximum(level - values, 0.0)
    mean = float(level.mean())
    depth = float((level[inside] - values[inside]).mean()) / mean
    if depth < _SHALLOW:
        return None
    return Dips(period, len(places_inside), depth, mean, inside, lost, float(lost[inside].sum() / level.sum()))
