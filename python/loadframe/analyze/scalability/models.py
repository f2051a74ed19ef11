"""The curves of throughput against size, and what can be said of them in closed form.

Universal Scalability Law: Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapters 4 to 6. Nothing is fitted
here.

    X(N) = L N / D(N),   D(N) = 1 + s (N - 1) + k N (N - 1)

L is the throughput of one (lambda), s contention (sigma), k coherency (kappa). k = 0 is Amdahl's law, s = k = 0 is
linear scaling. The hard knee, min(L N, C), is what an unshared resource does that simply runs out. Where the work grows
with N (weak scaling) there is also Gustafson's law, L (N - s (N - 1)), which is not a case of the USL.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ModelName = Literal["linear", "gustafson", "amdahl", "usl", "knee"]
#: Whether the work stays as it is while N grows (strong), or grows with N (weak).
Scaling = Literal["strong", "weak"]


def usl_throughput(theta: Array, n: Array) -> Array:
    """Return X(N) for parameters (L, s, k) in the last axis of `theta`: shape `theta.shape[:-1] + n.shape`.

    Where a superlinear fit (s < 0) has no finite throughput any more, the result is nan.
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
    """Return N* = sqrt((1 - s) / k), not below `least`; infinite where k = 0."""
    sigma, kappa = theta[..., 1], theta[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.sqrt(np.maximum(1 - sigma, 0) / kappa)
    return np.where(kappa > 0, np.maximum(peak, least), np.inf)


@dataclass(frozen=True)
class ScalabilityModel:
    """One rung of the ladder: its name, the names of its free parameters, its curve."""

    name: ModelName
    parameters: tuple[str, ...]
    curve: Callable[[Array, Array], Array]

    @property
    def size(self) -> int:
        """How many parameters are free."""
        return len(self.parameters)


LINEAR = ScalabilityModel("linear", ("lambda",), usl_throughput)
GUSTAFSON = ScalabilityModel("gustafson", ("lambda", "serial"), gustafson_throughput)
AMDAHL = ScalabilityModel("amdahl", ("lambda", "sigma"), usl_throughput)
KNEE = ScalabilityModel("knee", ("lambda", "ceiling"), knee_throughput)
USL = ScalabilityModel("usl", ("lambda", "sigma", "kappa"), usl_throughput)

#: Simplest first: where two models are equally good, the earlier one is taken.
LADDER = (LINEAR, AMDAHL, KNEE, USL)
#: The models of each kind of scaling.
LADDERS: dict[Scaling, tuple[ScalabilityModel, ...]] = {
    "strong": LADDER,
    "weak": (LINEAR, GUSTAFSON, AMDAHL, KNEE, USL),
}
