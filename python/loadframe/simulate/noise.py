"""Noise whose successive seconds depend on each other, as throughput's do."""

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter


def autoregressive(source: np.random.Generator, shape: tuple[int, ...], rho: float) -> npt.NDArray[np.float64]:
    """Return stationary normal series of mean 0 and standard deviation 1 along the last axis.

    They are autoregressive of the first order: values that are k apart have the correlation `rho` ** k.
    """
    shocks = source.standard_normal(shape)
    shocks[..., 1:] *= np.sqrt(1 - rho**2)
    series: npt.NDArray[np.float64] = lfilter([1.0], [1.0, -rho], shocks, axis=-1)
    return series
