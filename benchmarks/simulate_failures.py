"""Settings at which the store fails: claims and winners when slow runs die, with known truth.

In each experiment, a full factorial of two settings is run several times. The first setting has the stated true effect
on throughput. With it, the store fails in the slowest share of the runs. The second setting does nothing.

In further experiments, the first setting needs another cluster and does nothing, and the second doubles throughput.
With both, the store fails in a share of the runs at random.

In the last experiments, a setting of eight levels does nothing, and the store fails in the slower half of the runs at
some levels.

    python -m benchmarks.simulate_failures
"""

import itertools

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.settings.model import Data, EffectsModel, fit_model, fit_with_failures

_NOISE, _REPETITIONS = 0.1, 6
#: True ratio of the first setting, and the share of its runs that fail.
_CASES = tuple(itertools.product((1.0, 0.8, 1.25), (0.0, 0.1, 0.4)))
_LEVEL = 0.05
#: Shares of the runs at one combination that fail, and the noise of clusters.
_CELLS = tuple(itertools.product((0.0, 0.4, 0.9), (0.0, 0.1)))
#: Numbers of failing levels.
_FAILING = (0, 4, 6)


def main(trials: int = 1000) -> None:
    """Print a row for each true ratio and share of failed runs."""
    promise = Promises()
    print("| true ratio | runs that fail | ratio of survivors | survivors: claimed better / worse |"
          " claimed better / worse | interval holds the ratio | other setting claimed |")  # fmt: skip
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for ratio, share in _CASES:
        random = np.random.default_rng(4)
        rows = np.array([_experiment(random, ratio, share) for _ in range(trials)])
        gain, *shares, other = rows.mean(axis=0)
        survivors, claims = (" / ".join(f"{value:.1%}" for value in pair) for pair in (shares[:2], shares[2:4]))
        what = f"ratio {ratio:g}, {share:.0%} fail"
        if ratio <= 1:
            promise.at_most(f"claimed better, {what}", shares[2], trials, _LEVEL / 2)
        promise.at_least(f"coverage, {what}", shares[4], trials, 0.95)
        promise.at_most(f"other setting claimed, {what}", other, trials, _LEVEL)
        print(
            f"| {ratio:g} | {share:.0%} | {np.exp(gain):.2f} | {survivors} | {claims} | {shares[4]:.1%} | {other:.1%} |"
        )
    print()
    print("| runs with both that fail | noise of clusters | claimed | fit of survivors holds the ratio |"
          " interval with failures holds it |")  # fmt: skip
    print("|--:|--:|--:|--:|--:|")
    for share, noise in _CELLS:
        random = np.random.default_rng(4)
        claimed, survivors, held = np.mean([_split_plot(random, share, noise) for _ in range(trials)], axis=0)
        what = f"another cluster, {share:.0%} fail, noise {noise:g}"
        promise.at_most(f"claimed, {what}", claimed, trials, _LEVEL)
        promise.at_least(f"coverage of survivors, {what}", survivors, trials, 0.95)
        promise.at_least(f"coverage, {what}", held, trials, 0.95)
        print(f"| {share:.0%} | {noise:g} | {claimed:.1%} | {survivors:.1%} | {held:.1%} |")
    print()
    print("| levels that fail, of 8 | fit of survivors holds the ratio of a level without failures |"
          " interval with failures holds it |")  # fmt: skip
    print("|--:|--:|--:|")
    for failing in _FAILING:
        random = np.random.default_rng(4)
        survivors, held = np.mean([_levels(random, failing) for _ in range(trials)], axis=0)
        promise.at_least(f"coverage, {failing} levels fail", held, trials, 0.95)
        print(f"| {failing} | {survivors:.1%} | {held:.1%} |")
    promise.settle()


def _experiment(random: np.random.Generator, ratio: float, share: float) -> list[float]:
    """Return the survivors' gain, claims by survivors and with failures, coverage, claims of the other setting."""
    rows = np.tile(list(itertools.product((0, 1), repeat=2)), (_REPETITIONS, 1))
    noise = _NOISE * random.standard_normal(len(rows))
    logs = np.log(ratio) * rows[:, 0] + noise
    treated = rows[:, 0] == 1
    fails = treated & (noise <= np.quantile(noise[treated], share, method="lower")) & (share > 0)
    alive = ~fails
    gain = logs[alive & treated].mean() - logs[~treated].mean()
    survivors = fit_model(_data(rows[alive], logs[alive]))
    order = np.concatenate([np.flatnonzero(alive), np.flatnonzero(fails)])
    whole = fit_with_failures(_data(rows[order], logs[order]), int(fails.sum()), higher=True)
    (effect,) = [contrast.ratio for contrast in whole.contrasts if contrast.term == (0,)]
    held = effect.low <= ratio <= effect.high
    return [gain, *_claims(survivors), *_claims(whole), float(held), float(_p(whole, (1,)) < _LEVEL)]


def _split_plot(random: np.random.Generator, share: float, noise: float) -> list[float]:
    """Return claims of the first setting with failures, and coverage by survivors and with failures.

    `noise` is that of clusters.
    """
    rows = np.tile(list(itertools.product((0, 1), repeat=2)), (_REPETITIONS, 1))
    plots = np.arange(len(rows)) // 2
    logs = np.log(2) * rows[:, 1] + _NOISE * random.standard_normal(len(rows))
    logs += noise * random.standard_normal(len(rows) // 2)[plots]
    fails = rows.all(axis=1) & (random.random(len(rows)) < share)
    order = np.argsort(fails, kind="stable")
    data = Data(
        rows=rows[order],
        response=logs[order],
        blocks=(plots // 2)[order].tolist(),
        plots=plots[order].tolist(),
        levels=[2, 2],
        hard=[True, False],
    )
    survivors = fit_model(data.of(range(len(rows) - int(fails.sum()))))
    whole = fit_with_failures(data, int(fails.sum()), higher=True)
    ratios = [next(one.ratio for one in model.contrasts if one.term == (0,)) for model in (survivors, whole)]
    return [float(_p(whole, (0,)) < _LEVEL), *(float(ratio.low <= 1 <= ratio.high) for ratio in ratios)]


def _levels(random: np.random.Generator, failing: int) -> list[float]:
    """Return coverage of the effect of a level without failures, by survivors and with failures at `failing` levels."""
    rows = np.repeat(np.arange(8), 4)[:, np.newaxis]
    logs = _NOISE * random.standard_normal(len(rows))
    fails = (rows[:, 0] >= 8 - failing) & (logs < 0)
    order = np.argsort(fails, kind="stable")
    alike = [0] * len(rows)
    data = Data(rows=rows[order], response=logs[order], blocks=alike, plots=alike, levels=[8], hard=[False])
    models = (
        fit_model(data.of(range(len(rows) - int(fails.sum())))),
        fit_with_failures(data, int(fails.sum()), higher=True),
    )
    ratios = [next(one.ratio for one in model.contrasts if one.levels == (1,)) for model in models]
    return [float(ratio.low <= 1 <= ratio.high) for ratio in ratios]


def _data(rows: np.ndarray, logs: np.ndarray) -> Data:
    alike = [0] * len(rows)
    return Data(rows=rows, response=logs, blocks=alike, plots=alike, levels=[2, 2], hard=[False, False])


def _p(model: EffectsModel, term: tuple[int, ...]) -> float:
    return next(fit.p for fit in model.terms if fit.term == term) or 0.0


def _claims(model: EffectsModel) -> list[float]:
    """Return whether the first setting is claimed to be better, and to be worse."""
    claimed = _p(model, (0,)) < _LEVEL
    value = next(contrast.value for contrast in model.contrasts if contrast.term == (0,))
    return [float(claimed and value > 0), float(claimed and value < 0)]


if __name__ == "__main__":
    start(main)
