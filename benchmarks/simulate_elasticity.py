"""Effect of noise and pauses on the measures of elasticity: bias, standard deviation and coverage with known truth.

Each experiment has three runs with the event and three control runs, 60 s before the change and 240 s after it, with a
window of 60 s. The noise is first-order autoregressive: normal for throughput, lognormal for p99. A pause takes 60 % of
the throughput of one second, and its p99 is a multiple of L0.

    python -m benchmarks.simulate_elasticity
"""

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.elastic.course import Course
from loadframe.analyze.elastic.measures import ChangeInRun, disturbed, measure
from loadframe.analyze.estimate import mean_interval
from loadframe.simulate import autoregressive

BEFORE, AFTER, WINDOW, REPETITIONS = 60, 240, 60.0, 3
SEED = 18
#: Throughput as pairs (s since the change, factor), and the true loss in seconds of x0.
LOSSES = {
    "12 s at half, then grown": (((12, 0.5), (240, 1.7)), 6.0),
    "60 s at 90 %, then grown": (((60, 0.9), (240, 1.7)), 6.0),
    "two dips, growth between": (((10, 0.7), (50, 1.2), (60, 0.7), (240, 1.5)), 6.0),
    "12 s at half, no growth": (((12, 0.5), (240, 1.0)), 6.0),
    "a fifth is lost for good": (((240, 0.8),), 48.0),
    "nothing happens": (((240, 1.0),), 0.0),
}
#: p99 in the same form, and the true excess latency in units of L0.
DEBTS = {"20 s at 3 L0": (((20, 3.0), (240, 1.0)), 40.0), "nothing happens": (((240, 1.0),), 0.0)}
#: Mean time between pauses in s, p99 of a pause in units of L0, and whether they are random instead of periodic.
PAUSES = (
    *(
        (period, factor, False)
        for period, factor in ((10, 5.0), (20, 5.0), (20, 20.0), (30, 10.0), (45, 10.0), (90, 10.0))
    ),
    *((period, 10.0, True) for period in (30, 90)),
)
_PAUSED = ("12 s at half, then grown", "12 s at half, no growth", "20 s at 3 L0", "nothing happens")
CHANGE = ChangeInRun(BEFORE, BEFORE + AFTER, 1, 2, open=False, p99=1.3)
NOISES, RHOS = (0.03, 0.05, 0.10), (0.0, 0.5, 0.8)
MAXIMA = ("disturbance", "slowdown", "violation", "break_even")


def main(trials: int = 150) -> None:
    """Print the tables, with so many experiments per cell."""
    promise = Promises()
    source = np.random.default_rng(SEED)
    print(f"{trials} experiments a cell, seed {SEED}: mean of what is reported [standard deviation of a single run's]")
    print("and how many of the 95 % intervals of 3 repetitions hold the truth\n")
    for kind, name, shapes in (("x", "lost_work", LOSSES), ("l", "latency_debt", DEBTS)):
        print(
            f"{name.replace('_', ' '):26s} truth  rho    " + "".join(f"{f'{noise:.0%} noise':20s}" for noise in NOISES)
        )
        for words, (parts, truth) in shapes.items():
            for rho in RHOS:
                cells = [_cell(source, kind, name, parts, truth, noise, rho, trials, promise) for noise in NOISES]
                print(f"{words:26s} {truth:5.1f}  {rho:.1f}  " + "  ".join(cells))
        print()
    _print_paused(source, trials, promise)
    print("runs with the event alone, without a control (rho 0.5)")
    for kind, name, words in (("x", "lost_work", "12 s at half, no growth"), ("l", "latency_debt", "20 s at 3 L0")):
        parts, truth = (LOSSES | DEBTS)[words]
        cells = []
        for noise in NOISES:
            runs = [_course(source, {kind: parts}, noise, 0.5) for _ in range(trials)]
            alone = np.mean([measure(run, CHANGE, WINDOW)[name].value for run in runs])
            cells.append(f"{alone:6.2f}")
        print(f"{words:26s} {truth:5.1f}       " + "               ".join(cells))
    print(
        "\nwhat is reported where nothing happens (rho 0.5): with the event, and as the difference to the control run"
    )
    for name in MAXIMA:
        cells = []
        for noise in NOISES:
            result = np.mean([_pair(source, {}, name, noise, 0.5) for _ in range(trials)], axis=0)
            cells.append(f"{result[0]:6.3f} {result[1]:+7.3f}")
        print(f"{name.replace('_', ' '):26s} " + "   ".join(cells))
    promise.settle()


def _cell(source, kind, name, parts, truth, noise, rho, trials, promise):
    differences, held = [], 0
    for _ in range(trials):
        runs = [_pair(source, {kind: parts}, name, noise, rho)[1] for _ in range(REPETITIONS)]
        differences += runs
        result = mean_interval(runs)
        held += result.low <= truth <= result.high
    # Strong autocorrelation at 10 % noise is beyond the method.
    if rho < 0.8 or noise < 0.1:
        promise.at_least(f"coverage, {name} {truth:g}, {noise:.0%}, rho {rho}", held / trials, trials, 0.92)
    return f"{np.mean(differences):6.2f} [{np.std(differences):4.1f}] {held / trials:4.0%}"


def _print_paused(source, trials, promise):
    print("with pauses (5 % noise, rho 0.5); the truth excludes what the pauses cost without the change")
    heads = [f"{'random' if random else 'every'} {period} s, {factor:g} L0" for period, factor, random in PAUSES]
    print(f"{'':39s}" + "".join(f"{head:24s}" for head in heads))
    for kind, name, shapes in (("x", "lost_work", LOSSES), ("l", "latency_debt", DEBTS)):
        for words in [words for words in _PAUSED if words in shapes]:
            parts, truth = shapes[words]
            cells = []
            for pauses in PAUSES:
                # A pause during the loss costs that much less.
                share = (0.6 if kind == "x" else 1.0) / pauses[0]
                differences, held = [], 0
                for _ in range(trials):
                    runs = [_pair(source, {kind: parts}, name, 0.05, 0.5, pauses)[1] for _ in range(REPETITIONS)]
                    result = mean_interval(runs)
                    held += result.low <= truth * (1 - share) <= result.high
                    differences += runs
                promise.at_least(f"coverage, {name}, {words}, pauses {pauses}", held / trials, trials, 0.92)
                cells.append(f"{np.mean(differences):6.2f} [{np.std(differences):4.1f}] {held / trials:4.0%}")
            print(f"{name.replace('_', ' '):13s}{words:26s}" + "".join(f"{cell:24s}" for cell in cells), flush=True)
    print()


def _pair(source, factors, name, noise, rho, pauses=None):
    run, control = (_course(source, factor, noise, rho, pauses) for factor in (factors, {}))
    during = disturbed(run, CHANGE, WINDOW, [control])
    values = [measure(course, CHANGE, WINDOW, during)[name].value for course in (run, control)]
    return values[0], values[0] - values[1]


def _course(source, factors, noise, rho, pauses=None):
    times = np.arange(-BEFORE, AFTER) + 0.5
    result = []
    for kind in "xl":
        factor = np.ones(len(times))
        for until, value in reversed(factors.get(kind, ())):
            factor[(times > 0) & (times < until)] = value
        result.append(factor)
    x = result[0] * (1 + noise * autoregressive(source, times.shape, rho))
    p99 = result[1] * np.exp(noise * autoregressive(source, times.shape, rho))
    if pauses:
        period, factor, random = pauses
        at = np.arange(source.uniform(0, period), len(x), period).astype(int)
        if random:
            at = np.flatnonzero(source.random(len(x)) < 1 / period)
        x[at] *= 0.4
        p99[at] = np.maximum(p99[at], factor)
    return Course(0.0, x, np.zeros(len(x)), p99 / 3, p99, ())


if __name__ == "__main__":
    start(main)
