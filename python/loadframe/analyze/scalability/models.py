"""Models of throughput over size in closed form, without fitting.

Universal Scalability Law (USL): Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapters 4 to 6.

    X(N) = L N / D(N),   D(N) = 1 + s (N - 1) + k N (N - 1)

L is the throughput at N = 1 (lambda), s contention (sigma), k coherency (kappa). k = 0 is Amdahl's law, s = k = 0 is
linear scaling. The hard knee, min(L N, C), describes an unshared resource that is exhausted. For work that grows with N
(weak scaling) Gustafson's law applies, L (N - s (N - 1)), which is not a case of the USL.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ModelName = Literal["linear", "gustafson", "amdahl", "usl", "knee"]
#: Strong scaling: constant work while N grows; weak scaling: the work grows with N.
Scaling = Literal["strong", "weak"]


def usl_throughput(theta: Array, n: Array) -> Array:
    """Return X(N) for parameters (L, s, k) in the last axis of `theta`: shape `theta.shape[:-1] + n.shape`.

    The result is nan where a superlinear fit (s < 0) has no finite throughput.
    """
    lam, sigma, kappa = (theta[..., i, None] for i in range(3))
    demand = 1 + sigma * (n - 1) + kappa * n * (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(demand > 0, lam * n / demand, np.nan)


def knee_throughput(theta: Array, n: Array) -> Array:
    """Return min(L N, C) for parameters (L, C) in the last axis of `theta`; C may be infinite."""
    return np.minimum(theta[..., 0, None] * n, theta[..., 1, None])


def gustafson_throughput(theta: Array, n: Array) -> Array:
    """Return L (N - s (N - 1)) for parameters (L, s) in the last axis of `theta`."""
    lam, share = theta[..., 0, None], theta[..., 1, None]
    grown: Array = lam * (n - share * (n - 1))
    return grown


def peak_size(theta: Array, least: float = 1.0) -> Array:
    """Return N* = sqrt((1 - s) / k), at least `least`; infinite if k = 0."""
    sigma, kappa = theta[..., 1], theta[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.sqrt(np.maximum(1 - sigma, 0) / kappa)
    return np.where(kappa > 0, np.maximum(peak, least), np.inf)


@dataclass(frozen=True)
class ScalabilityModel:
    """One model: its name, the names of its free parameters, and its curve."""

    name: ModelName
    parameters: tuple[str, ...]
    curve: Callable[[Array, Array], Array]

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return len(self.parameters)


LINEAR = ScalabilityModel("linear", ("lambda",), usl_throughput)
GUSTAFSON = ScalabilityModel("gustafson", ("lambda", "serial"), gustafson_throughput)
AMDAHL = ScalabilityModel("amdahl", ("lambda", "sigma"), usl_throughput)
KNEE = ScalabilityModel("knee", ("lambda", "ceiling"), knee_throughput)
USL = ScalabilityModel("usl", ("lambda", "sigma", "kappa"), usl_throughput)

#: From simple to rich; of two equally good models the earlier one is selected.
LADDER = (LINEAR, AMDAHL, KNEE, USL)
#: The models of each kind of scaling.
LADDERS: dict[Scaling, tuple[ScalabilityModel, ...]] = {
    "strong": LADDER,
    "weak": (LINEAR, GUSTAFSON, AMDAHL, KNEE, USL),
}
