"""Repeated runs gathered by size: all that the fits need to know of the data.

A weighted least-squares fit to repeated runs is the fit to their means plus a constant (the pure error), because runs
of one size share one prediction and one weight. So solvers see one row per distinct size, however many runs there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadframe.analyze.scalability.models import Array
from loadframe.errors import BadInput

Residuals = Literal["relative", "absolute"]

#: Throughputs are believed to this relative resolution where nothing else is said: exact data must not make a variance
#: of nothing.
RESOLUTION = 1e-6

#: Squares of what is nearer to 0 than this, or farther from it than the inverse, have no exact place in a float.
_LEAST = 1e-100
_MOST_SIZES = 200


@dataclass(frozen=True, eq=False)
class Observations:
    """Runs by size: `sizes` ascending and distinct, `runs[i]` the throughputs at `sizes[i]`.

    `resolution` is the relative standard deviation of an error that all runs of a size share, such as that of a search
    on a grid of rates: repeated runs do not show it.
    """

    sizes: Array
    runs: tuple[Array, ...]
    residuals: Residuals
    resolution: float = RESOLUTION

    @property
    def means(self) -> Array:
        """Mean throughput at each size."""
        return np.array([run.mean() for run in self.runs])

    @property
    def counts(self) -> Array:
        """Number of runs at each size."""
        return np.array([float(run.size) for run in self.runs])

    @property
    def total(self) -> int:
        """Number of runs."""
        return sum(run.size for run in self.runs)

    @property
    def is_replicated(self) -> bool:
        """Whether each size was run at least twice, so that noise can be told from misfit."""
        return all(run.size > 1 for run in self.runs)

    def weights(self, means: Array) -> Array:
        """Return the weight of each size's mean: sqrt(runs), over the mean where residuals are relative."""
        roots = np.sqrt(self.counts)
        return roots / means if self.residuals == "relative" else np.broadcast_to(roots, means.shape)

    @property
    def scale(self) -> Array:
        """What one run's deviation is divided by: the mean at its size (relative), or 1 (absolute)."""
        return self.means if self.residuals == "relative" else np.ones_like(self.means)

    @property
    def pure_error(self) -> float:
        """Sum of squared deviations of runs from their size's mean, in units of `scale`."""
        return float(sum(np.sum(((run - run.mean()) / s) ** 2) for run, s in zip(self.runs, self.scale, strict=True)))

    @property
    def least_sum(self) -> float:
        """The sum of squares below which the data's own resolution hides any difference."""
        typical = 1.0 if self.residuals == "relative" else float(self.means.mean())
        return self.total * (self.resolution * typical) ** 2

    def without_largest(self) -> "Observations":
        """Return the same observations without the largest size."""
        return Observations(self.sizes[:-1], self.runs[:-1], self.residuals, self.resolution)


def gather(pairs: Sequence[tuple[float, float]], residuals: Residuals, resolution: float = RESOLUTION) -> Observations:
    """Gather (n, throughput) pairs by n; BadInput for numbers that are not positive and finite or under 3 sizes."""
    for position, (n, throughput) in enumerate(pairs, start=1):
        _check(n, throughput, f"observation {position}")
    by_size: dict[float, list[float]] = {}
    for n, throughput in pairs:
        by_size.setdefault(float(n), []).append(float(throughput))
    if len(by_size) < 3:
        found = "no size" if not by_size else f"only {len(by_size)} distinct size{'s' * (len(by_size) > 1)}"
        raise BadInput(f"{found}: a scalability model needs at least 3", remedy="measure at more sizes; 6 is better")
    if len(by_size) > _MOST_SIZES:
        raise BadInput(
            f"{len(by_size)} distinct sizes: more than {_MOST_SIZES} are no scalability experiment",
            remedy="give runs of one size the same n, so that they count as repetitions",
        )
    sizes = sorted(by_size)
    return Observations(np.array(sizes), tuple(np.array(by_size[n]) for n in sizes), residuals, resolution)


def _check(n: float, throughput: float, where: str) -> None:
    for what, number in (("size", n), ("throughput", throughput)):
        if not _LEAST < number < 1 / _LEAST:
            raise BadInput(
                f"the {what} {number:g} is not positive and finite",
                where=where,
                remedy="a fit needs sizes and throughputs above 0; leave failed runs out",
            )
    if n < 1:
        raise BadInput(
            f"the size {n:g} is below 1, where the models begin",
            where=where,
            remedy="count sizes in units of the smallest",
        )
