"""Several measured values, each drawn towards what they have in common, so that the best is not the luckiest.

The greatest of some noisy values is greater than its truth on average, the more so the more values and the more noise.
An empirical-Bayes estimate is not: values are taken as drawn from a normal distribution about a common mean (or about a
regression on known columns), whose spread the values themselves tell (Efron and Morris, "Stein's paradox in
statistics", Scientific American 236, 1977; Morris, "Parametric empirical Bayes inference", Journal of the American
Statistical Association 78, 1983). Here the spread is averaged over, with half of the prior weight on none at all, and
the rest flat on the share by which a value of typical noise is drawn in.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]

#: Shares by which values may be drawn in, closer together near 0, where values differ by much more than their noise.
#: The last is all of the way, for values that do not differ.
_EDGES = np.concatenate([[0.0], np.geomspace(1e-9, 0.025, 16), np.linspace(0.05, 1.0, 39)])
_SHARES = np.append((_EDGES[1:] + _EDGES[:-1]) / 2, 1.0)
_PRIOR = np.append(np.diff(_EDGES) / 2, 0.5)


@dataclass(frozen=True, eq=False)
class Shrunken:
    """Values after shrinkage, and the standard deviation that each is left with."""

    values: Array
    errors: Array


def shrink(values: Array, variances: Array, design: Array | None = None) -> Shrunken:
    """Return the values drawn towards their common mean; `variances` are those of each value's noise, above 0.

    With `design` (values, columns), which must have independent columns, they are drawn towards the regression on it.
    Where there are as many columns as values nothing is common, and they stay as they are.
    """
    columns = np.ones((len(values), 1)) if design is None else design
    if len(values) <= columns.shape[1]:
        return Shrunken(values, np.sqrt(variances))
    typical = 1 / float(np.mean(1 / variances))
    likelihoods, means, spreads = [], [], []
    for share in _SHARES:
        between = typical * (1 - share) / share
        weights = 1 / (variances + between)
        information = columns.T @ (weights[:, None] * columns)
        inverse = np.linalg.inv(information)
        common = columns @ (inverse @ (columns.T @ (weights * values)))
        drawn = variances * weights
        rest = values - common
        likelihoods.append((np.log(weights).sum() - np.linalg.slogdet(information)[1] - weights @ rest**2) / 2)
        means.append(values - drawn * rest)
        spreads.append(variances * (1 - drawn) + drawn**2 * np.einsum("ij,jk,ik->i", columns, inverse, columns))
    posterior = special.softmax(np.array(likelihoods) + np.log(_PRIOR))
    centres = np.array(means)
    middle: Array = posterior @ centres
    spread: Array = np.sqrt(posterior @ (np.array(spreads) + (centres - middle) ** 2))
    return Shrunken(middle, spread)
