"""Linear model of a designed experiment: coding of factors, effects, shares of variation, split plots.

Shares are sums of squares divided by the total, as in Jain, "The Art of Computer Systems Performance Analysis" (1991),
chapters 17 to 20. A split plot separates two errors. Terms that differ only between clusters, such as those of factors
that are hard to change, are tested against the differences between clusters in the same state. The others are tested
against those between runs on one cluster, or against both if they differ partly between clusters. Without repetitions,
two-level designs use Lenth's pseudo standard error ("Quick and easy analysis of unreplicated factorials", Technometrics
31, 1989), which treats most effects as noise.
Effects of a level alone share the same default runs, so their errors are correlated and Lenth's method does not apply.

Slow runs fail more often than fast ones, so the runs that survive are a selection. A run in which the store failed is
therefore assumed to be at most as good as the model of the others predicts. The fit of the others equals the fit of all
runs with these predictions, so the assumption bounds an effect on which a failed run bears on one side only. Failures
on both sides of an effect make it unknown.

Survivors also vary too little. Variances therefore come from combinations without failures alone. Their residuals are
independent of the effects by the fit of all runs, so Student's t holds. If blocks or clusters leave these combinations
no degrees of freedom, their variance is part of the residual, which widens the intervals. Without any, the variance is
unknown.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loadframe.analyze.estimate import Estimate, half_width, on_log_scale
from loadframe.analyze.figures import Stretch
from loadframe.base import special

Array = npt.NDArray[np.float64]
Term = tuple[int, ...]
#: A term and the levels of one of its effects.
Named = tuple[Term, tuple[int, ...]]

#: Interactions of more factors are part of the error, if the design has one.
MOST_FACTORS = 3

#: Smaller parts of an interaction in an estimated term are ignored.
_NO_PART = 0.05


def columns_of(rows: npt.NDArray[np.int64], levels: Sequence[int], term: Term, *, balanced: bool) -> Array:
    """Return the columns of a term: for one factor one per level except the default, for several their products.

    `rows` has the number of each factor's level for each run (0 is the default), `levels` the number of levels of each
    factor, `term` the numbers of its factors. If `balanced`, columns sum to zero over the levels and a main effect is
    the mean over the other factors; the default is -1, so two levels are -1 and +1. Otherwise columns are 0 and 1, and
    it is the effect of the level alone.
    """
    product = np.ones((len(rows), 1))
    for index in term:
        main = [
            np.where(rows[:, index] == level, 1.0, np.where(rows[:, index] == 0, -1.0, 0.0) if balanced else 0.0)
            for level in range(1, levels[index])
        ]
        product = np.column_stack([left * right for left in product.T for right in main])
    return product


def estimable_terms(rows: npt.NDArray[np.int64], levels: Sequence[int], *, balanced: bool) -> list[Term]:
    """Return main effects, and interactions of two and three factors if all of that size can be estimated.

    A term has the numbers of its factors. `rows` has the level numbers of each run, `levels` the number of levels of
    each factor. A fraction whose interactions are aliased with each other has main effects only. Factors with one level
    have no terms. `balanced` selects columns that sum to zero over the levels, else columns of 0 and 1.
    """
    factors = [index for index in range(len(levels)) if levels[index] > 1]
    terms: list[Term] = [(index,) for index in factors]
    distinct = np.unique(rows, axis=0)
    for size in range(2, min(MOST_FACTORS, len(factors)) + 1):
        further = [*terms, *itertools.combinations(factors, size)]
        parts = [columns_of(distinct, levels, term, balanced=balanced) for term in further]
        matrix = np.column_stack([np.ones(len(distinct)), *parts])
        if matrix.shape[1] > len(distinct) or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
            break
        terms = further
    return terms


@dataclass(frozen=True)
class Alias:
    """An interaction that a design aliases with an estimated term, and its part there, from 0 to 1."""

    term: Term
    part: float


def aliases(
    rows: npt.NDArray[np.int64], levels: Sequence[int], terms: Sequence[Term]
) -> Mapping[Term, tuple[Alias, ...]]:
    """Return the interactions of two and three factors that are aliased with each estimated term.

    The alias matrix (X'X)^-1 X'Z of Box and Wilson, "On the experimental attainment of optimum conditions" (Journal of
    the Royal Statistical Society B 13, 1951): X holds the columns of the estimated terms, Z the columns of the others.
    Parts up to 0.05 are left out. Empty for factors of more than two levels.
    """
    distinct = np.unique(rows, axis=0)
    factors = [index for index in range(len(levels)) if levels[index] > 1]
    others = [
        term
        for size in range(2, min(MOST_FACTORS, len(factors)) + 1)
        for term in itertools.combinations(factors, size)
        if term not in terms
    ]
    if not others or not terms or any(number > 2 for number in levels):
        return {}
    known, rest = (
        np.column_stack([columns_of(distinct, levels, term, balanced=True) for term in group])
        for group in (terms, others)
    )
    matrix = np.linalg.lstsq(np.column_stack([np.ones(len(distinct)), known]), rest, rcond=None)[0][1:]
    return {
        term: tuple(
            Alias(other, float(part)) for other, part in zip(others, np.abs(row), strict=True) if part > _NO_PART
        )
        for term, row in zip(terms, matrix, strict=True)
    }


def numbered(labels: Sequence[object]) -> npt.NDArray[np.int64]:
    """Return a number for each label, counted from 0 in the order of first appearance."""
    numbers = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels], dtype=np.int64)


Labels = npt.NDArray[np.int64]

#: Smallest number of effects for Lenth's method.
_LEAST_FOR_LENTH = 4
#: Rounding error of zero.
_TINY = 1e-8
#: Relative resolution of values, the least standard deviation: equal values differ by rounding errors.
RESOLUTION = 1e-9


@dataclass(frozen=True)
class TermFit:
    """One term: its share of the total variation, and the p of no effect (None if it cannot be computed)."""

    term: Term
    share: float
    p: float | None


@dataclass(frozen=True)
class Contrast:
    """The difference of one level from the default, or the interaction of levels of several factors.

    In the unit of the response, with its 95 % interval, which is unbounded if the variance of runs is unknown. Failed
    runs open an end of the interval. `p` is that of no effect without failed runs, or None if it cannot be computed.
    """

    term: Term
    levels: tuple[int, ...]
    value: float
    half_width: float
    p: float | None = None
    low_open: bool = False
    high_open: bool = False
    #: Degrees of freedom of `half_width` and `p`.
    freedom: float = 0.0
    #: Half of the sum of the absolute weights of runs: the error of the effect if the errors of values span 1.
    reach: float = 1.0

    @property
    def ratio(self) -> Estimate:
        """The effect, a difference of logarithms, as a ratio to the default, with its interval.

        An open end is 0 or infinity. The ratio is not a number if both ends are open.
        """
        ratio = on_log_scale(math.exp(self.value), self.half_width)
        value = math.nan if self.low_open and self.high_open else ratio.value
        return Estimate(value, 0.0 if self.low_open else ratio.low, math.inf if self.high_open else ratio.high)

    @property
    def may_differ(self) -> bool:
        """Whether the end of the interval next to no effect is bounded."""
        return not (self.low_open if self.value > 0 else self.high_open)

    @property
    def excludes_none(self) -> bool:
        """Whether an end of the interval shows that there is an effect; not if the variance of runs is unknown."""
        return self.may_differ and abs(self.value) > self.half_width


@dataclass(frozen=True, eq=False)
class EffectsModel:
    """Model of a designed experiment: terms, differences from the default, and the shares of blocks and errors."""

    terms: tuple[TermFit, ...]
    contrasts: tuple[Contrast, ...]
    block_share: float
    error_share: float
    #: Degrees of freedom of the error for factors that are easy to change; 0 without repetitions.
    freedom: int
    balanced: bool
    #: Interactions that the design aliases with each term, so that they may explain its effect.
    aliases: Mapping[Term, tuple[Alias, ...]]
    #: Interactions that the design can estimate, but not without its failed runs. They may explain effects within them.
    lost: tuple[Term, ...] = ()

    @property
    def unseparated_share(self) -> float:
        """The share of the variation by effects that the runs do not separate, so that no term has it.

        0 for effects of a level alone, which share the default runs, so that their shares do not add up.
        """
        parts = sum(fit.share for fit in self.terms) + self.block_share + self.error_share
        return 1 - parts if self.balanced and 0 < parts < 1 - _TINY else 0.0


@dataclass(frozen=True, eq=False)
class Data:
    """Runs of a design: level numbers (0 is the default), response, block and cluster of each."""

    rows: npt.NDArray[np.int64]
    response: Array
    blocks: Sequence[object]
    plots: Sequence[object]
    #: Number of levels of each factor, and whether it is hard to change.
    levels: Sequence[int]
    hard: Sequence[bool]
    #: Whether effects are of a level with the others at their defaults, or means over the other factors.
    alone: bool = False

    def of(self, runs: Sequence[int]) -> "Data":
        """Return the data of the runs with these indices."""
        chosen = np.array(runs, dtype=np.int64)
        return replace(
            self,
            rows=self.rows[chosen],
            response=self.response[chosen],
            blocks=[self.blocks[run] for run in runs],
            plots=[self.plots[run] for run in runs],
        )

    def columns(self, terms: Sequence[Term]) -> dict[Term, Array]:
        """Return the columns of each term."""
        return {term: columns_of(self.rows, self.levels, term, balanced=not self.alone) for term in terms}


def fit_model(data: Data, terms: Sequence[Term] | None = None, *, sound: Sequence[int] | None = None) -> EffectsModel:
    """Return the fit of main effects and of the interactions that the design can estimate, or of these terms.

    Effects that the existing runs do not determine are omitted, for example the effects of a factor with one level in
    all runs, or with levels that differ only between blocks. Variances come from the runs with the indices `sound`, by
    default from all.
    """
    balanced = not data.alone
    if terms is None:
        terms = estimable_terms(data.rows, data.levels, balanced=balanced)
    columns = data.columns(terms)
    total = float(((data.response - data.response.mean()) ** 2).sum())
    blocks = numbered(data.blocks)
    plots = numbered(data.plots)
    whole = [term for term in terms if all(data.hard[index] for index in term)]
    if whole:
        # A fraction may have one level of an easy factor on each cluster: only the clusters determine its effect.
        constant = [term for term in terms if np.allclose(columns[term], _project(columns[term], plots), atol=_TINY)]
        whole = [term for term in terms if term in whole or term in constant]
    easy = [term for term in terms if term not in whole]
    is_split = whole and easy and int(plots.max() + 1) < len(data.rows)
    parts: Sequence[Sequence[Term]] = (whole, easy) if is_split else (terms,)
    if sound is None or len(sound) == len(data.rows):
        known, lenth = data, balanced and len(np.unique(data.rows, axis=0)) == len(data.rows)
        strata = known_strata = _strata(data, parts, lenth)
    else:
        # Lenth's method judges effects by each other, so it would use the others.
        known = data.of(sound)
        known_strata = _variances(known, parts)
        strata = _strata(data, parts, lenth=False, variances=known_strata)
    rest = sum(stratum.rest for stratum in strata)
    fits = {term: fit for stratum in strata for term, fit in _fits(stratum, total).items() if term}
    if len(fits) < len(terms) and len(strata) > 1:
        across = _across(data, terms, strata[-1], known, known_strata[-1].rest)
        rest, both = across.rest, _fits(across, total)
        # The other strata have only a part of each sum of squares. A term that they determine in part may be confounded
        # with another one across clusters, and keeps its part.
        shares = {term: replace(fit, share=both.get(term, fit).share) for term, fit in fits.items()}
        strata.insert(0, replace(across, slices={term: it for term, it in across.slices.items() if term not in fits}))
        fits = both | shares
    block_squares = float(((_project(data.response, blocks) - data.response.mean()) ** 2).sum())
    block_share = block_squares / total if total else 0.0
    return EffectsModel(
        terms=tuple(fits[term] for term in terms if term in fits),
        contrasts=tuple(contrast for stratum in strata for contrast in _contrasts(stratum, data.levels, balanced)),
        block_share=block_share,
        error_share=rest / total if total else 0.0,
        freedom=strata[-1].freedom,
        balanced=balanced,
        aliases=aliases(data.rows, data.levels, terms) if balanced else {},
    )


def widened(model: EffectsModel, bounds: Stretch) -> EffectsModel:
    """Return a model of logarithms with effects widened by the bounds of the values.

    Each run may be off by the bounds, in the direction that its weight in an effect makes worst. p values are those of
    the possible effects nearest to 0.
    """
    if bounds.is_exact:
        return model
    log_range = math.log(bounds.high / bounds.low) if bounds.low > 0 else math.inf
    contrasts = [_widened(one, log_range * one.reach) for one in model.contrasts]
    terms = []
    for fit in model.terms:
        judged = _judged(fit, [one for one in contrasts if one.term == fit.term])
        terms.append(fit if fit.p is None else replace(fit, p=max(fit.p, judged.p or 0.0)))
    return replace(model, contrasts=tuple(contrasts), terms=tuple(terms))


def _widened(contrast: Contrast, by: float) -> Contrast:
    """Return an effect that may be off by `by`, with the p of the possible effect nearest to 0."""
    p = contrast.p
    if p is not None:
        error = contrast.half_width / half_width(1.0, contrast.freedom)
        p = 2 * float(special.stdtr(contrast.freedom, -max(abs(contrast.value) - by, 0.0) / error))
    return replace(contrast, half_width=contrast.half_width + by, p=p)


def fit_with_failures(data: Data, failed: int, *, higher: bool) -> EffectsModel:
    """Return the fit of data without the last `failed` runs, which open the intervals of effects on which they bear.

    In these runs the store failed, and their response is ignored. `higher` says whether more is better. Variances come
    from combinations without failed runs. A term is significant only if the bounded end of an effect excludes 0.
    Effects are unknown that only failed runs determine, or on which failed runs bear inside an interaction that the
    others cannot estimate.
    """
    if not failed:
        return fit_model(data)
    number = len(data.response) - failed
    survivors = data.of(range(number))
    failing = set(map(tuple, data.rows[number:].tolist()))
    model = fit_model(
        survivors, sound=[run for run, row in enumerate(survivors.rows.tolist()) if tuple(row) not in failing]
    )
    terms = estimable_terms(survivors.rows, data.levels, balanced=model.balanced)
    low_open, high_open = _opened(data, number, terms, higher=higher)
    # The interaction may explain the values of such a term, whatever the failed runs would have been.
    lost = {term for term in estimable_terms(data.rows, data.levels, balanced=model.balanced) if term not in terms}
    hidden = {key for key in low_open | high_open if any(set(key[0]) < set(term) for term in lost)}
    low_open, high_open = low_open | hidden, high_open | hidden
    known = {(one.term, one.levels): one for one in model.contrasts}
    contrasts = [replace(one, low_open=key in low_open, high_open=key in high_open) for key, one in known.items()]
    whole = fit_model(data)
    contrasts += [
        replace(one, value=0.0, half_width=math.inf, p=None, low_open=True, high_open=True)
        for one in whole.contrasts
        if (one.term, one.levels) not in known
    ]
    fits = {}
    for fit in model.terms:
        of_term = [one for one in contrasts if one.term == fit.term]
        # The F test of all contrasts includes the open ones.
        is_open = not of_term or any(one.low_open or one.high_open for one in of_term)
        fits[fit.term] = _judged(fit, of_term) if is_open else fit
    unknown = [replace(fit, share=0.0, p=None if fit.p is None else 1.0) for fit in whole.terms if fit.term not in fits]
    return replace(model, terms=(*fits.values(), *unknown), contrasts=tuple(contrasts), lost=tuple(sorted(lost)))


def _judged(fit: TermFit, contrasts: Sequence[Contrast]) -> TermFit:
    """Return a term with the smallest p of its contrasts with a bounded end, times their number (Bonferroni).

    p stays None, and is 1 for terms without contrasts.
    """
    if fit.p is None:
        return fit
    bounded = [one for one in contrasts if not (one.low_open and one.high_open)]
    judged = [one.p for one in bounded if one.p is not None and one.may_differ]
    return replace(fit, p=min([1.0, *(len(bounded) * p for p in judged)]))


def _opened(data: Data, number: int, terms: Sequence[Term], *, higher: bool) -> tuple[set[Named], set[Named]]:
    """Return the effects that worse responses of the runs from `number` on would lower, and those they would raise.

    `terms` are those of the fit. `higher` says whether more is better. A run in a block without runs of the fit, such
    as a session that only failed, counts without blocks: a block of its own would hide that the others are a selection.
    """

    def effects(runs: Data, response: Array) -> dict[Named, float]:
        """Return the effects for these responses of all runs."""
        model = fit_model(replace(runs, response=response), terms)
        return {(one.term, one.levels): one.value for one in model.contrasts}

    low_open, high_open = set(), set()
    fitted, count = set(data.blocks[:number]), len(data.response)
    merged = replace(data, blocks=[0] * count, plots=range(count))
    for index in range(number, count):
        worse = np.zeros(count)
        worse[index] = -1.0 if higher else 1.0
        moved = effects(data if data.blocks[index] in fitted else merged, worse)
        low_open |= {key for key, value in moved.items() if value < -_TINY}
        high_open |= {key for key, value in moved.items() if value > _TINY}
    return low_open, high_open


@dataclass(frozen=True, eq=False)
class _Stratum:
    """Least-squares fit of some terms within a stratum (blocks or clusters)."""

    #: The coefficients of each term that the runs determine.
    slices: Mapping[Term, slice]
    beta: Array
    #: Projection onto the row space of the columns: keeps the determined sums of coefficients.
    determined: Array
    #: Inverse of the columns' cross products; times the variance it is the covariance of beta.
    inverse: Array
    variance: float
    freedom: int
    squares: Mapping[Term, float]
    #: The residual sum of squares.
    rest: float
    #: The weight of each run in beta (coefficients, runs).
    weights: Array
    #: The part of the covariance of beta that comes from a lower stratum, and its degrees of freedom.
    carried: Array
    carried_freedom: int = 0
    #: Whether Lenth's method may judge the terms without degrees of freedom.
    lenth: bool = False

    def errors(self, place: slice) -> tuple[Array, float]:
        """Return the covariance of the coefficients in the slice `place`, and its degrees of freedom.

        Those of a sum of two variances follow Satterthwaite, "An approximate distribution of estimates of variance
        components" (Biometrics Bulletin 2, 1946).
        """
        direct, carried = self.variance * self.inverse[place, place], self.carried[place, place]
        sizes = float(np.trace(direct)), float(np.trace(carried))
        if not self.freedom or not sizes[1]:
            return direct, self.freedom
        parts = sizes[0] ** 2 / self.freedom + sizes[1] ** 2 / self.carried_freedom
        return direct + carried, sum(sizes) ** 2 / parts


def _strata(
    data: Data, parts: Sequence[Sequence[Term]], lenth: bool, variances: Sequence[_Stratum] = ()
) -> list[_Stratum]:
    """Return the fit of the terms: within blocks for one part; for two, [between clusters, within clusters].

    `lenth` allows Lenth's method without degrees of freedom. `variances`, from `_variances` of other runs, replace the
    residual variances.
    """
    blocks, plots = numbered(data.blocks), numbered(data.plots)
    within = data.columns(parts[-1])
    lower = _stratum(data.response, within, blocks if len(parts) == 1 else plots, len(data.rows), lenth)
    if variances:
        lower = replace(lower, variance=variances[-1].variance, freedom=variances[-1].freedom)
    if len(parts) == 1:
        return [lower]
    upper = _between(data, lower, within, data.columns(parts[0]), lenth)
    if variances:
        # Variances of means of clusters are in the unit of a sum of squares over runs.
        size = len(data.rows) / int(plots.max() + 1)
        freedom = variances[0].freedom if upper.freedom else 0
        upper = replace(upper, variance=size * variances[0].variance, freedom=freedom)
    return [upper, lower]


def _variances(data: Data, parts: Sequence[Sequence[Term]]) -> list[_Stratum]:
    """Return the strata whose variances hold for these runs: for each part of the terms, as in `_strata`.

    Without degrees of freedom, the strata include the differences between blocks, or between clusters. The variance
    between clusters is that of their means.
    """
    if not len(data.rows):
        return [_no_terms(np.zeros(1), np.zeros(1, dtype=np.int64))] * len(parts)
    merged = replace(data, blocks=[0] * len(data.rows))
    every = [[term for part in parts for term in part]]
    choices = [_strata(data, parts, lenth=False), _strata(merged, parts, lenth=False)]
    lowers = [choices[0][-1], *(_strata(runs, every, lenth=False)[0] for runs in (data, merged))]
    lower = next((stratum for stratum in lowers if stratum.freedom), lowers[0])
    if len(parts) == 1:
        return [lower]
    upper = next((strata[0] for strata in choices if strata[0].freedom), choices[0][0])
    size = len(data.rows) / len(set(data.plots))
    return [replace(upper, variance=upper.variance / size), lower]


def _stratum(
    response: Array,
    columns: Mapping[Term, Array],
    nuisance: Labels,
    units: int,
    lenth: bool,
    carried: Array | None = None,
) -> _Stratum:
    """Return the fit of terms to `response` after projecting out `nuisance`, the block or cluster number of each run.

    `columns` are those of each term, `units` is the number of independent values. `lenth`: with four or more terms of
    one column each, Lenth's method replaces the degrees of freedom, which are then 0. `carried` is the part of the
    covariance of the responses that comes from a lower stratum. Terms that the runs do not determine at all, or
    confound with another term, are left out.
    """
    slices: dict[Term, slice] = {}
    start = 0
    for term, column in columns.items():
        slices[term] = slice(start, start + column.shape[1])
        start += column.shape[1]
    if not columns:
        return _no_terms(response, nuisance)
    matrix = np.column_stack(list(columns.values()))
    matrix = matrix - _project(matrix, nuisance)
    left: Array = response - _project(response, nuisance)
    beta = np.asarray(np.linalg.lstsq(matrix, left, rcond=None)[0], dtype=np.float64)
    residual = left - matrix @ beta
    rest = float((residual**2).sum())
    rank = int(np.linalg.matrix_rank(matrix))
    freedom = max(units - int(nuisance.max() + 1) - rank, 0)
    if lenth and len(beta) == len(slices) >= _LEAST_FOR_LENTH:
        # The few degrees of freedom of higher interactions are a worse error estimate than Lenth's from all effects.
        freedom = 0
    inverse = np.asarray(np.linalg.pinv(matrix.T @ matrix), dtype=np.float64)
    determined = np.asarray(np.linalg.pinv(matrix) @ matrix, dtype=np.float64)
    slices = {term: place for term, place in slices.items() if _is_apart(determined, place)}
    squares = {}
    for term, place in slices.items():
        # The term's sum of squares given all others: b' (V^-1) b over its coefficients.
        part = np.linalg.pinv(inverse[place, place])
        squares[term] = float(beta[place] @ part @ beta[place])
    variance = max(rest / freedom, RESOLUTION**2) if freedom else 0.0
    estimator = inverse @ matrix.T
    more = np.zeros_like(inverse) if carried is None else estimator @ carried @ estimator.T
    return _Stratum(slices, beta, determined, inverse, variance, freedom, squares, rest, estimator, more, lenth=lenth)


def _is_apart(determined: Array, place: slice) -> bool:
    """Return whether the runs determine a term at least in part, and do not confound it with another term.

    `determined` is the projection (coefficients, coefficients) of `_Stratum`, `place` the slice of the term's
    coefficients.
    """
    others = np.delete(determined[place], np.r_[place], axis=1)
    return bool(np.trace(determined[place, place]) > 0.5 and np.allclose(others, 0.0, atol=_TINY))


def _no_terms(response: Array, nuisance: Labels) -> _Stratum:
    """Return the stratum of a design without estimable terms: all variation within `nuisance` is residual."""
    rest = float(((response - _project(response, nuisance)) ** 2).sum())
    none = np.zeros((0, 0))
    return _Stratum({}, np.zeros(0), none, none, 0.0, 0, {}, rest, none, none)


def _between(
    data: Data, lower: _Stratum, within: Mapping[Term, Array], columns: Mapping[Term, Array], lenth: bool
) -> _Stratum:
    """Return the fit of the terms that are constant within plots, with these columns, to the means of plots.

    `lower` is the fit of the other terms within plots, and `within` are their columns. Plots with other runs, for
    example because some are missing or the design is a fraction, have other means without any effect of a hard factor.
    Unless the columns have the same mean in all plots of a block, the means are therefore reduced by the prediction of
    `lower`, and its error is added. Sums of coefficients that `lower` does not determine are estimated from the means.
    """
    plots, blocks = numbered(data.plots), numbered(data.blocks)
    means, parts = _project(data.response, plots), _project(np.column_stack(list(within.values())), plots)
    first = np.unique(plots, return_index=True)[1]
    if np.allclose(parts, _project(parts, blocks), atol=_TINY):
        return _stratum(means, columns, blocks, len(first), lenth)
    hidden = parts - parts @ lower.determined
    if not np.allclose(hidden, 0.0, atol=_TINY):
        columns = {**columns, (): hidden}
    # One value per plot, in the unit of a sum of squares over runs.
    scale = math.sqrt(len(plots) / len(first))
    parts = scale * parts[first]
    upper = _stratum(
        scale * means[first] - parts @ lower.beta,
        {term: scale * column[first] for term, column in columns.items()},
        blocks[first],
        len(first),
        lenth,
        parts @ (lower.variance * lower.inverse) @ parts.T,
    )
    of_runs = (
        scale * np.array([plots == plots[run] for run in first]) / np.bincount(plots)[plots] - parts @ lower.weights
    )
    return replace(
        upper,
        weights=upper.weights @ of_runs,
        carried_freedom=lower.freedom,
        freedom=upper.freedom if lower.freedom else 0,
    )


def _across(data: Data, terms: Sequence[Term], lower: _Stratum, known: Data, rest: float) -> _Stratum:
    """Return the fit of all terms to the runs, without a separation of clusters.

    It determines terms that are partly within and partly between clusters. `lower` is the fit of other terms within
    clusters. Its variance is that of runs. The residual beyond it also has the variance of clusters, which follows from
    its expectation (Henderson, "Estimation of variance and covariance components", Biometrics 9, 1953, method 3). This
    residual is that of the runs `known`, and `rest` is their residual sum of squares within clusters.
    """
    fit = _fit_across(data, terms)
    basis = fit if known is data or not len(known.rows) else _fit_across(known, terms)
    freedom = basis.freedom - lower.freedom
    if not lower.freedom or freedom <= 0:
        return replace(fit, variance=0.0, freedom=0, carried=np.zeros_like(fit.inverse))
    blocks = numbered(known.blocks)
    together = _together(known)
    matrix = np.column_stack(list(known.columns(terms).values()))
    matrix = matrix - _project(matrix, blocks)
    explained = np.trace(_project(together, blocks)) + ((matrix.T @ together @ matrix) * basis.inverse).sum()
    # The mean square of the residual has the variance of runs, and this multiple of the variance of clusters.
    multiple = (len(known.rows) - explained) / freedom
    between = fit.carried / multiple
    # A negative part would subtract the variance of runs, so it counts as 0.
    sizes, axes = np.linalg.eigh(fit.inverse - between)
    within = (axes * np.maximum(sizes, 0.0)) @ axes.T
    return replace(
        fit,
        inverse=between,
        variance=max((basis.rest - rest) / freedom, RESOLUTION**2),
        freedom=freedom,
        carried=lower.variance * within,
        carried_freedom=lower.freedom,
    )


def _fit_across(data: Data, terms: Sequence[Term]) -> _Stratum:
    """Return the fit of all terms within blocks; `carried` is the covariance from a variance of clusters of 1."""
    blocks = numbered(data.blocks)
    return _stratum(data.response, data.columns(terms), blocks, len(data.rows), lenth=False, carried=_together(data))


def _together(data: Data) -> Array:
    """Return a matrix with 1 for each pair of runs on one cluster, else 0."""
    plots = numbered(data.plots)
    together: Array = (plots[:, np.newaxis] == plots).astype(np.float64)
    return together


def _fits(stratum: _Stratum, total: float) -> dict[Term, TermFit]:
    """Return the share of the variation and the p of each term of a stratum; `total` is the total sum of squares.

    Without degrees of freedom, p follows Lenth's method, or is None if that does not apply.
    """
    fits = {}
    lenth = None if stratum.freedom else _lenth(stratum)
    for term, squares in stratum.squares.items():
        place = stratum.slices[term]
        width = round(float(np.trace(stratum.determined[place, place])))
        p = None
        if stratum.freedom:
            covariance, freedom = stratum.errors(place)
            beta = stratum.beta[place]
            ratio = float(beta @ np.linalg.pinv(covariance) @ beta) / width
            p = float(special.fdtrc(width, freedom, ratio))
        elif lenth:
            spread, freedom = lenth
            p = 2 * float(special.stdtr(freedom, -abs(float(stratum.beta[place.start])) / spread))
        fits[term] = TermFit(term, squares / total if total else 0.0, p)
    return fits


def _lenth(stratum: _Stratum) -> tuple[float, float] | None:
    """Return Lenth's pseudo standard error of the coefficients and its degrees of freedom; None if not applicable."""
    if not stratum.lenth or len(stratum.beta) > len(stratum.slices) or len(stratum.beta) < _LEAST_FOR_LENTH:
        return None
    sizes = np.abs(stratum.beta)
    first = 1.5 * float(np.median(sizes))
    kept = sizes[sizes < 2.5 * first]
    return max(1.5 * float(np.median(kept)) if len(kept) else 0.0, RESOLUTION), len(sizes) / 3


def _contrasts(stratum: _Stratum, levels: Sequence[int], balanced: bool) -> list[Contrast]:
    """Return each level against the default, and the interactions of levels of several factors.

    `levels` is the number of levels of each factor. An interaction is the change of one factor's effect, from its
    default to a level, by another factor's; with a third factor, the change of this change. Contrasts that the runs do
    not determine are left out. Without degrees of freedom, half-widths follow Lenth's method. `balanced`: columns sum
    to zero over the levels, else they are 0 and 1.
    """
    lenth = None if stratum.freedom else _lenth(stratum)
    contrasts = []
    for term, place in ((term, place) for term, place in stratum.slices.items() if term):
        beta, (covariance, freedom) = stratum.beta[place], stratum.errors(place)
        within = stratum.determined[place, place]
        for chosen in itertools.product(*(range(1, levels[index]) for index in term)):
            weight = np.ones(1)
            for index, level in zip(term, chosen, strict=True):
                weight = np.kron(weight, np.eye(levels[index] - 1)[level - 1] + balanced)
            if not np.allclose(weight @ within, weight, atol=_TINY):
                continue
            value, half, p = float(weight @ beta), np.inf, None
            if stratum.freedom or lenth:
                error = float(np.sqrt(weight @ covariance @ weight))
                if not stratum.freedom and lenth:
                    error, freedom = lenth[0] * float(np.abs(weight).sum()), lenth[1]
                half = half_width(error, freedom)
                p = 2 * float(special.stdtr(freedom, -abs(value) / error))
            reach = float(np.abs(weight @ stratum.weights[place]).sum()) / 2
            contrasts.append(Contrast(term, chosen, value, half, p, freedom=freedom, reach=reach))
    return contrasts


def _project(values: Array, labels: Labels) -> Array:
    """Return the part of values (columns) that labels explain: the mean within each label."""
    counts = np.bincount(labels)
    if values.ndim == 1:
        return (np.bincount(labels, weights=values) / counts)[labels]
    return np.column_stack([_project(column, labels) for column in values.T])
