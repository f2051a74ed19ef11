"""Contrasts of groups in sessions: a linear model with random block effects, and trimmed means; pure functions.

log(value) = group + session + block + noise. Groups and sessions are fixed effects; blocks have a variance. Once the
fixed effects are projected out, the data are independent along the eigenvectors of the blocks' cross products. REML is
then a search over one number: the ratio of the blocks' variance to the noise variance.

The t test ignores that this ratio is an estimate. If blocks differ little, it finds false differences too often (7.3 %
with two to three blocks, 6.8 % with six). So p is multiplied by a caution of 1 + 1.4 / sqrt(f) / (1 + ratio * size),
where f is the degrees of freedom within blocks and size is the runs per block. The constant comes from simulation; the
table of `python -m benchmarks.simulate_comparison` checks it.

Trimmed means: a fifth of the values is trimmed at each end. The error follows from the winsorised variance (Tukey and
McLaughlin, "Less vulnerable confidence and significance procedures for location based on a single sample", Sankhya A
25, 1963; for two samples Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61, 1974). With
fewer than five values nothing is trimmed.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.estimate import Estimate, half_width, on_log_scale

Array = npt.NDArray[np.float64]

#: Eigenvalues below this share of the largest belong to directions of the fixed effects.
_NOTHING = 1e-9
#: Relative resolution of values: keeps the variance of equal values above 0.
_RESOLUTION = 1e-9
#: Constant of the caution; see above.
_CAUTION = 1.4
#: Logarithms of the ratio of variances at which its search starts.
_GRID = np.linspace(math.log(1e-4), math.log(1e8), 97)


@dataclass(frozen=True)
class Observation:
    """One run's value (above 0, any unit), its group, its block and its session.

    Equal block labels in two sessions are two blocks. None: the block is unknown, or the run has none. Runs whose
    session is None share one session.
    """

    value: float
    group: Hashable
    block: Hashable = None
    session: Hashable = None


@dataclass(frozen=True)
class ContrastFit:
    """Difference of two groups' mean logarithms, its standard error, and the degrees of freedom of the error.

    Without degrees of freedom the error is unknown and infinite. `block_spread` is the standard deviation of the
    blocks. Multiply p by `caution` (1 or more), which accounts for the estimated variance of the blocks.
    """

    difference: float
    error: float
    freedom: float
    block_spread: float
    caution: float


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """The data without their fixed effects: a sum of squares along each direction in which blocks vary.

    `rest` is the sum of squares along the other `freedom` directions.
    """

    eigenvalues: Array
    squares: Array
    rest: float
    freedom: int


def fit_contrast(observations: Sequence[Observation], first: Hashable, second: Hashable) -> ContrastFit:
    """Return the second group's mean logarithm minus the first's, by the model with sessions and random blocks.

    `first` and `second` name the groups. Values must be above 0.
    """
    logs = np.log([observation.value for observation in observations])
    scale = float(np.abs(logs - logs.mean()).max())
    matrix, contrast = _fixed_effects(observations, first, second)
    blocks = _indicators(
        [
            (observation.session, observation.block) if observation.block is not None else None
            for observation in observations
        ]
    )
    spectrum = _spectrum(matrix, blocks, logs - logs.mean())
    rank = len(spectrum.eigenvalues) + spectrum.freedom
    if rank == 0:
        difference, _ = _solve(matrix, blocks, logs, contrast, 0.0)
        return ContrastFit(difference, math.inf, 0.0, 0.0, 1.0)
    least = len(logs) * (_RESOLUTION * max(scale, _RESOLUTION)) ** 2
    # Blocks that leave no free direction cannot be separated from the noise and are ignored.
    in_blocks = bool(spectrum.freedom and len(spectrum.eigenvalues) and blocks.sum(axis=0).max() > 1)
    ratio = _variance_ratio(spectrum, least) if in_blocks else 0.0
    difference, weights = _solve(matrix, blocks, logs, contrast, ratio)
    noise = (spectrum.rest + float((spectrum.squares / (1 + ratio * spectrum.eigenvalues)).sum())) / rank
    if noise * rank <= least:
        noise = 0.0
    # The contrast is weights' y, of variance noise (weights' weights + ratio |blocks' weights|^2).
    by_noise, by_block = float(weights @ weights), float(((blocks.T @ weights) ** 2).sum())
    variance = noise * (by_noise + ratio * by_block)
    freedom = float(rank) if ratio == 0 else _satterthwaite(spectrum, ratio, by_noise, by_block)
    size = float(spectrum.eigenvalues.mean()) if in_blocks else 0.0
    caution = 1 + _CAUTION / math.sqrt(spectrum.freedom) / (1 + ratio * size) if in_blocks else 1.0
    return ContrastFit(difference, math.sqrt(variance), freedom, math.sqrt(noise * ratio), caution)


def _fixed_effects(observations: Sequence[Observation], first: Hashable, second: Hashable) -> tuple[Array, Array]:
    """Return the design matrix, and the contrast: second group minus first.

    The matrix has a row for each observation, and a column for each session, then one for each group except `first`.
    The contrast has a weight for each column.
    """
    sessions = list(dict.fromkeys(observation.session for observation in observations))
    groups = [label for label in dict.fromkeys(observation.group for observation in observations) if label != first]
    matrix = np.zeros((len(observations), len(sessions) + len(groups)))
    for row, observation in enumerate(observations):
        matrix[row, sessions.index(observation.session)] = 1.0
        if observation.group != first:
            matrix[row, len(sessions) + groups.index(observation.group)] = 1.0
    contrast = np.zeros(matrix.shape[1])
    contrast[len(sessions) + groups.index(second)] = 1.0
    return matrix, contrast


def _indicators(labels: Sequence[Hashable]) -> Array:
    """Return a matrix with a row for each label and a column for each distinct label: 1 where they agree, else 0.

    Columns are in order of first appearance. Rows labelled None are 0, and None has no column.
    """
    names = [label for label in dict.fromkeys(labels) if label is not None]
    place = {label: index for index, label in enumerate(names)}
    matrix = np.zeros((len(labels), len(names)))
    for row, label in enumerate(labels):
        if label is not None:
            matrix[row, place[label]] = 1.0
    return matrix


def _spectrum(matrix: Array, blocks: Array, logs: Array) -> _Spectrum:
    """Return the sums of squares of `logs` by direction of the blocks, without the effects that `matrix` describes.

    `matrix` and `blocks` (from `_indicators`) have a row for each value of `logs`.
    """
    basis, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    basis = basis[:, singular > _NOTHING * singular[0]]
    left = logs - basis @ (basis.T @ logs)
    total = float(left @ left)
    remaining = len(logs) - basis.shape[1]
    within = blocks - basis @ (basis.T @ blocks)
    values, vectors = np.linalg.eigh(within.T @ within)
    kept = values > _NOTHING * max(float(blocks.sum(axis=0).max(initial=0.0)), 1.0)
    values, vectors = values[kept], vectors[:, kept]
    squares = (vectors.T @ (blocks.T @ left)) ** 2 / values
    return _Spectrum(values, squares, max(total - float(squares.sum()), 0.0), remaining - len(values))


def _variance_ratio(spectrum: _Spectrum, least: float) -> float:
    """Return the ratio of the blocks' variance to the noise variance by REML; 0 if blocks do not differ.

    `least` is a sum of squares for rounding errors, which keeps logarithms finite.
    """
    rank = len(spectrum.eigenvalues) + spectrum.freedom

    def criterion(ratios: Array) -> Array:
        """Return -2 times the restricted log-likelihood of each ratio of variances, up to a constant."""
        spread = 1 + ratios[:, None] * spectrum.eigenvalues
        squares = spectrum.rest + (spectrum.squares / spread).sum(axis=1) + least
        deviance: Array = rank * np.log(squares) + np.log(spread).sum(axis=1)
        return deviance

    at_nothing = float(criterion(np.zeros(1))[0])
    grid = criterion(np.exp(_GRID))
    best = int(np.argmin(grid))
    if best in (0, len(_GRID) - 1):
        log_ratio, value = float(_GRID[best]), float(grid[best])
    else:
        from scipy import optimize  # slow to import, and few commands need it

        bounds = (float(_GRID[best - 1]), float(_GRID[best + 1]))
        minimum = optimize.minimize_scalar(
            lambda log: float(criterion(np.array([math.exp(log)]))[0]), bounds=bounds, method="bounded"
        )
        log_ratio, value = float(minimum.x), float(minimum.fun)
    return math.exp(log_ratio) if value < at_nothing else 0.0


def _solve(matrix: Array, blocks: Array, logs: Array, contrast: Array, ratio: float) -> tuple[float, Array]:
    """Return the contrast by generalised least squares, and the weight of each value in it.

    `matrix` and `contrast` come from `_fixed_effects`, `blocks` is the indicator matrix of the blocks, `logs` are the
    values, and `ratio` is the blocks' variance over the noise variance.
    """
    sizes = blocks.sum(axis=0)
    shrink = ratio / (1 + ratio * sizes)
    # The inverse of I + ratio Z Z' subtracts a share of its block's sum from each row.
    whitened = matrix - blocks @ (shrink[:, None] * (blocks.T @ matrix))
    weights = whitened @ (np.linalg.pinv(matrix.T @ whitened, rcond=1e-12) @ contrast)
    return float(weights @ logs), weights


def _satterthwaite(spectrum: _Spectrum, ratio: float, by_noise: float, by_block: float) -> float:
    """Return the degrees of freedom of the contrast's variance V: 2 V^2 / Var(V), in units of the noise variance.

    V is `by_noise` + `ratio` * `by_block`, where `ratio` is the blocks' variance over the noise variance; the other two
    are the variances that noise and blocks of variance 1 cause. Var(V) follows from the expected information on both
    variances.
    """
    spread = 1 + ratio * spectrum.eigenvalues
    noise = (spectrum.freedom + float((1 / spread**2).sum())) / 2
    block = float((spectrum.eigenvalues**2 / spread**2).sum()) / 2
    both = float((spectrum.eigenvalues / spread**2).sum()) / 2
    determinant = noise * block - both**2
    variance = by_noise + ratio * by_block
    uncertainty = (block * by_noise**2 - 2 * both * by_noise * by_block + noise * by_block**2) / determinant
    return 2 * variance**2 / uncertainty


_TRIMMED = 0.2


def paired_contrast(observations: Sequence[Observation], first: Hashable, second: Hashable) -> ContrastFit | None:
    """Return the trimmed mean of the blocks' log differences, second group minus first.

    None with fewer than two blocks that have both groups. A block is one of one session; runs of a session without a
    block form one block. Several runs of a group in a block count as their median. Values must be above 0.
    """
    blocks: dict[Hashable, dict[Hashable, list[float]]] = {}
    for observation in observations:
        # Runs of a session without blocks are one block.
        sides = blocks.setdefault((observation.session, observation.block), {})
        sides.setdefault(observation.group, []).append(math.log(observation.value))
    whole = [sides for sides in blocks.values() if first in sides and second in sides]
    if len(whole) < 2:
        return None
    differences = np.array([np.median(sides[second]) - np.median(sides[first]) for sides in whole])
    mean, variance, freedom = _trimmed(differences)
    return ContrastFit(mean, math.sqrt(variance), freedom, block_spread=0.0, caution=1.0)


def unpaired_contrast(
    observations: Sequence[Observation], first: Hashable, second: Hashable, *, by_session: bool
) -> ContrastFit | None:
    """Return the difference of trimmed means of logarithms, second group minus first.

    The values are runs, or the medians of sessions if `by_session` is set. None with fewer than two values on a side.
    """
    sides = []
    for label in (first, second):
        units: dict[Hashable, list[float]] = {}
        for number, observation in enumerate(observations):
            if observation.group == label:
                unit = observation.session if by_session else number
                units.setdefault(unit, []).append(math.log(observation.value))
        if len(units) < 2:
            return None
        sides.append(_trimmed(np.array([float(np.median(logs)) for logs in units.values()])))
    (mean, variance, freedom), (other, others_variance, others_freedom) = sides
    total = variance + others_variance
    parts = variance**2 / freedom + others_variance**2 / others_freedom
    return ContrastFit(
        other - mean, math.sqrt(total), total**2 / parts if parts else freedom + others_freedom, 0.0, 1.0
    )


def trimmed_mean(values: Sequence[float]) -> Estimate:
    """Return the exponential of the trimmed mean of logarithms, with its interval; unbounded for a single value.

    The values must be above 0.
    """
    if len(values) < 2:
        return Estimate(values[0], -math.inf, math.inf)
    mean, variance, freedom = _trimmed(np.log(values))
    return on_log_scale(math.exp(mean), half_width(math.sqrt(variance), freedom))


def _trimmed(values: Array) -> tuple[float, float, float]:
    """Return the trimmed mean of two or more values, the square of its standard error, and its degrees of freedom.

    A fifth of the values, rounded down, is trimmed at each end.
    """
    ordered, count = np.sort(values), len(values)
    cut = int(_TRIMMED * count)
    kept = count - 2 * cut
    winsorised = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    variance = float(winsorised.var(ddof=1)) * (count - 1) / (kept * (kept - 1))
    return float(ordered[cut : count - cut].mean()), variance, float(kept - 1)
