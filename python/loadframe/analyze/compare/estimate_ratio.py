"""Ratio of two groups of runs, by the design of the runs: in blocks, in sessions, or neither; pure functions.

The analysis uses logarithms, so a difference is a ratio and its interval stays above 0.

- **Blocks.** Runs of one block follow each other and share the state of the machine. The model is log(value) = group +
  session + block + noise, with the block as a random effect. Its variance is estimated by restricted maximum likelihood
  (REML; Patterson and Thompson, "Recovery of inter-block information when block sizes are unequal", Biometrika 58,
  1971), and the degrees of freedom by Satterthwaite's method (Biometrics Bulletin 2, 1946; for contrasts in mixed
  models Giesbrecht and Burns, Biometrics 41, 1985). If blocks differ, the result approaches the paired t test;
  otherwise it is Student's t test with all degrees of freedom.
- **Sessions.** Variance between sessions exceeds variance within a session. Sessions with runs of both groups are
  compared within the session. If every session has runs of one group only, a t test compares session means. Sessions
  with fewer runs than usual add variance.
- **One session per group** does not show the variance between sessions. The analysis adds an assumed variance; without
  it, the interval holds for these two sessions only.

Both groups are assumed to have the same noise (relative to their level), except for very unequal numbers of runs
without blocks. The assumption is not checked; with equal numbers the t test hardly depends on it.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadframe.analyze.compare.block_model import (
    ContrastFit,
    Observation,
    fit_contrast,
    paired_contrast,
    unpaired_contrast,
)
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.base import special

__all__ = ["Design", "Observation", "RatioEstimate", "estimate_ratio"]

#: Layout of the runs: each block has one run of both groups; blocks of any other shape; no common blocks; sessions with
#: runs of one group only; one such session per group.
Design = Literal["paired", "blocks", "unpaired", "sessions", "one session each"]

#: From this ratio of run counts on, Welch's test is considered, which allows unequal noise.
_UNEQUAL = 2
#: Smaller differences are rounding errors.
RESOLUTION = 1e-9
#: Largest argument of exp() without overflow.
_MOST = 700.0


@dataclass(frozen=True)
class RatioEstimate:
    """Ratio of two groups' geometric means with its 95 % interval, and the figures it rests on.

    `log_ratio` and `standard_error` are on the natural log scale. `p` is two-sided for a ratio of 1, by Student's t
    with `freedom` degrees of freedom, times `caution`. The interval matches it: log_ratio +- standard_error times the t
    quantile of 1 - 0.025 / caution. Without degrees of freedom the interval is unbounded and p is 1. `block_spread` is
    the standard deviation of block effects (of logarithms; 0 if undetected). `sessions` counts the sessions of the
    baseline and of the other group; those with runs of both count on both sides.
    """

    ratio: Estimate
    log_ratio: float
    standard_error: float
    freedom: float
    caution: float
    p: float
    design: Design
    block_spread: float
    sessions: tuple[int, int]
    #: Bounds of the values; `ratio` and `p` include them, the other figures do not.
    bounds: Stretch = EXACT

    @property
    def knows_sessions(self) -> bool:
        """Whether the interval covers the variance between sessions; else it holds for these two sessions only."""
        return self.design != "one session each"

    def widened(self, bounds: Stretch) -> "RatioEstimate":
        """Return the estimate widened by the factors from its measured to its true ratio.

        p is then for the possible ratio nearest to 1; it is 1 if 1 is possible.
        """
        if bounds.is_exact:
            return self
        least, most = self.ratio.value * bounds.low, self.ratio.value * bounds.high
        nearest = min(max(1.0, least), most)
        p = self.p
        if nearest == 1:
            p = 1.0
        elif self.standard_error and self.freedom > 0:
            off = abs(math.log(nearest)) / self.standard_error
            p = min(1.0, 2 * float(special.stdtr(self.freedom, -off)) * self.caution)
        return replace(self, ratio=bounds.widened(self.ratio), p=p, bounds=bounds)


def estimate_ratio(
    observations: Sequence[Observation],
    baseline: Hashable,
    group: Hashable,
    *,
    session_spread: float = 0.0,
    least_variance: float = 0.0,
    robust: bool = False,
) -> RatioEstimate:
    """Return the group's geometric mean divided by the baseline's; both are named as in the observations.

    If sessions have runs of both groups, only these sessions count. Observations of further groups add information on
    blocks and noise. `session_spread` is the assumed standard deviation of sessions (relative); it is used only if each
    side has one session, and these differ. `least_variance` is a lower limit for the variance of the log ratio.
    `robust` uses trimmed means if there are enough values; see `block_model`. Raises ValueError if a side has no
    observation, or a value is not positive and finite.
    """
    for label in (baseline, group):
        if not any(observation.group == label for observation in observations):
            raise ValueError(f"the group {label!r} has no observation")
    if any(not 0 < observation.value < math.inf for observation in observations):
        raise ValueError("values must be positive and finite to have a logarithm")
    sessions = {
        label: list(dict.fromkeys(observation.session for observation in observations if observation.group == label))
        for label in (baseline, group)
    }
    common = [session for session in sessions[baseline] if session in sessions[group]]
    if common:
        used = [observation for observation in observations if observation.session in common]
        design = _design(used, baseline, group)
        alone = design == "unpaired" and len(common) == 1
        trimmed = None
        if robust:
            trimmed = (
                unpaired_contrast(used, baseline, group, by_session=False)
                if alone
                else paired_contrast(used, baseline, group)
            )
        fitted = trimmed or (_unblocked(used, baseline, group) if alone else fit_contrast(used, baseline, group))
        return _result(fitted, design, (len(common), len(common)), least_variance)
    counts = len(sessions[baseline]), len(sessions[group])
    if sum(counts) > 2:
        trimmed = unpaired_contrast(observations, baseline, group, by_session=True) if robust else None
        between = trimmed or _between_sessions(observations, baseline, group)
        return _result(between, "sessions", counts, least_variance)
    # Session and group are confounded, so the model must omit the session.
    trimmed = unpaired_contrast(observations, baseline, group, by_session=False) if robust else None
    contrast = _with_variance(trimmed or _unblocked(observations, baseline, group), 2 * session_spread**2)
    return _result(contrast, "one session each", counts, least_variance)


def _unblocked(observations: Sequence[Observation], baseline: Hashable, group: Hashable) -> ContrastFit:
    """Return the contrast (group minus baseline) of runs that share no blocks, regardless of their sessions.

    For similar numbers of runs this is Student's test, which assumes equal noise and is robust against unequal noise
    there. If one side has twice as many runs or more, Student's test is not robust against unequal noise, and Welch's
    ("The generalization of 'Student's' problem when several different population variances are involved", Biometrika
    34, 1947) is not robust against skewed noise; the wider interval of the two is used.
    """
    pair = [
        Observation(observation.value, observation.group)
        for observation in observations
        if observation.group in (baseline, group)
    ]
    pooled = fit_contrast(pair, baseline, group)
    sides = [
        np.log([observation.value for observation in observations if observation.group == label])
        for label in (baseline, group)
    ]
    counts = [len(side) for side in sides]
    if min(counts) < 2 or max(counts) < _UNEQUAL * min(counts):
        return pooled
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    if sum(parts) <= RESOLUTION**2:
        return pooled
    freedom = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    welch = replace(pooled, error=math.sqrt(sum(parts)), freedom=freedom)
    return max(pooled, welch, key=lambda fitted: fitted.error * float(special.stdtrit(fitted.freedom, 0.975)))


def _design(observations: Sequence[Observation], baseline: Hashable, group: Hashable) -> Design:
    """Return `paired` if each block has one run of both groups, `unpaired` if no block has both, else `blocks`.

    Runs without a block prevent `paired`. Only runs of the two groups count.
    """
    pair = [observation for observation in observations if observation.group in (baseline, group)]
    blocks: dict[Hashable, list[Hashable]] = {}
    for observation in pair:
        if observation.block is not None:
            blocks.setdefault((observation.session, observation.block), []).append(observation.group)
    if all(len(set(labels)) == 1 for labels in blocks.values()):
        return "unpaired"
    whole = sum(map(len, blocks.values())) == len(pair)
    pairs = all(len(labels) == len(set(labels)) == 2 for labels in blocks.values())
    return "paired" if whole and pairs else "blocks"


def _between_sessions(observations: Sequence[Observation], baseline: Hashable, group: Hashable) -> ContrastFit:
    """Return the contrast (group minus baseline) of session means; each session has runs of one group only.

    The variance of a session mean is the variance between sessions plus the variance within divided by the runs. S^2,
    the pooled variance of session means about their group's mean, contains both for a session with the usual number of
    runs. A group whose sessions have fewer runs gets the difference from the variance within. A group with more runs
    gets no reduction, which is conservative. There must be at least three sessions.
    """
    means: list[list[float]] = []
    inverse_runs: list[float] = []
    squares_within, freedom_within = 0.0, 0
    for label in (baseline, group):
        by_session: dict[Hashable, list[float]] = {}
        for observation in observations:
            if observation.group == label:
                by_session.setdefault(observation.session, []).append(math.log(observation.value))
        logs = [np.array(values) for values in by_session.values()]
        means.append([float(values.mean()) for values in logs])
        inverse_runs.append(float(np.mean([1 / len(values) for values in logs])))
        squares_within += sum(float(((values - values.mean()) ** 2).sum()) for values in logs)
        freedom_within += sum(len(values) - 1 for values in logs)
    counts = [len(values) for values in means]
    freedom = sum(counts) - 2
    squares = sum(float(((np.array(values) - np.mean(values)) ** 2).sum()) for values in means)
    usual = sum((count - 1) * inverse for count, inverse in zip(counts, inverse_runs, strict=True)) / freedom
    fewer = sum(max(inverse - usual, 0.0) / count for count, inverse in zip(counts, inverse_runs, strict=True))
    between = squares / freedom * sum(1 / count for count in counts)
    within = squares_within / freedom_within * fewer if freedom_within else 0.0
    variance = between + within
    if within:
        freedom_of_sum = variance**2 / (between**2 / freedom + within**2 / freedom_within)
    else:
        freedom_of_sum = float(freedom)
    difference = float(np.mean(means[1]) - np.mean(means[0]))
    return ContrastFit(difference, math.sqrt(variance), freedom_of_sum, block_spread=0.0, caution=1.0)


def _with_variance(contrast_fit: ContrastFit, known: float) -> ContrastFit:
    """Return a contrast with a known or assumed variance added; its freedom follows by Satterthwaite's method.

    Unchanged if `known` is 0 or the contrast has no degrees of freedom.
    """
    if not known or not contrast_fit.freedom:
        return contrast_fit
    variance = contrast_fit.error**2
    freedom = contrast_fit.freedom * ((variance + known) / variance) ** 2 if variance else math.inf
    return replace(contrast_fit, error=math.sqrt(variance + known), freedom=freedom)


def _result(
    contrast_fit: ContrastFit, design: Design, sessions: tuple[int, int], least_variance: float
) -> RatioEstimate:
    """Return the ratio with its interval and p; without degrees of freedom the interval is 0 to infinity, and p is 1.

    `contrast_fit` is the fitted log ratio; `design` and `sessions` (numbers, baseline first) are stored in the result.
    If the squared standard error is below `least_variance`, the root of that replaces the error, with infinite degrees
    of freedom. With an error of 0, p is 0 if the ratio differs from 1.
    """
    if contrast_fit.freedom and contrast_fit.error**2 < least_variance:
        contrast_fit = replace(contrast_fit, error=math.sqrt(least_variance), freedom=math.inf)
    difference, error = contrast_fit.difference, contrast_fit.error
    value = _exp(difference)
    ratio, p = Estimate(value, 0.0, math.inf), 1.0
    if contrast_fit.freedom > 0:
        half = float(special.stdtrit(contrast_fit.freedom, 1 - 0.025 / contrast_fit.caution)) * error
        ratio = Estimate(value, _exp(difference - half), _exp(difference + half))
        p = float(abs(difference) <= RESOLUTION)
        if error:
            p = min(
                1.0, 2 * float(special.stdtr(contrast_fit.freedom, -abs(difference) / error)) * contrast_fit.caution
            )
    return RatioEstimate(
        ratio=ratio,
        log_ratio=difference,
        standard_error=error,
        freedom=contrast_fit.freedom,
        caution=contrast_fit.caution,
        p=p,
        design=design,
        block_spread=contrast_fit.block_spread,
        sessions=sessions,
    )


def _exp(value: float) -> float:
    """Return exp(value), or infinity if that overflows."""
    return math.exp(value) if value < _MOST else math.inf
