"""Quality of curve fits in simulated experiments with known truth: peaks, outliers, intervals with blocks.

    python -m benchmarks.simulate_curves [TRIALS] [power false_peaks saturating outliers coverage]

Seeds are fixed. 100 trials of each row take about a quarter of an hour of one core.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from benchmarks.promises import Promises, start

from loadframe.analyze.scalability import ScalabilityFit, fit, warnings
from loadframe.analyze.scalability.fitting import fit_model
from loadframe.analyze.scalability.intervals import parameters, spread
from loadframe.analyze.scalability.models import USL
from loadframe.analyze.scalability.observations import gather

Array = npt.NDArray[np.float64]
Curve = Callable[[Array], Array]

_SIZES = (1, 2, 4, 8, 16, 32)


def usl(lam: float, sigma: float, kappa: float) -> Curve:
    """Return the USL's curve."""
    return lambda n: lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


#: A peak at 25 of 48, after which throughput drops by 13 %; and curves without a peak.
PEAKED = usl(1000, 0.03, 1.5e-3)
FLAT: dict[str, Curve] = {
    "linear": usl(1000, 0, 0),
    "Amdahl, σ = 0.05": usl(1000, 0.05, 0),
    "knee at 8": lambda n: np.minimum(1000 * n, 8000),
    "knee at 5.3": lambda n: np.minimum(1000 * n, 5300),
}


def queue(n: Array) -> Array:
    """Return the throughput of n clients that think for 0.875 ms, at a server of 0.125 ms (exact MVA)."""
    result = []
    for clients in np.round(n).astype(int):
        waiting = rate = 0.0
        for number in range(1, clients + 1):
            response = 0.125e-3 * (1 + waiting)
            rate = number / (0.875e-3 + response)
            waiting = rate * response
        result.append(rate)
    return np.array(result)


#: Curves that approach a limit smoothly and never fall.
SATURATING: dict[str, Curve] = {
    "exponential": lambda n: 8000 * -np.expm1(-n / 8),
    "hyperbolic tangent": lambda n: 5000 * np.tanh(n / 5),
    "closed queue": queue,
}


def experiment(
    curve: Curve, sizes: Sequence[float], repetitions: int, *, noise: float, spread: float, seed: int
) -> tuple[list[tuple[float, float]], list[int]]:
    """Return the runs of an experiment in blocks that vary by `spread`, and the block of each run."""
    random = np.random.default_rng(seed)
    n = np.tile(np.array(sizes, dtype=float), repetitions)
    block = np.repeat(np.arange(repetitions), len(sizes))
    logs = spread * random.standard_normal(repetitions)[block] + noise * random.standard_normal(n.size)
    return list(zip(n.tolist(), (curve(n) * np.exp(logs)).tolist(), strict=True)), block.tolist()


def claims(curve: Curve, sizes: Sequence[float], noise: float, trials: int) -> tuple[float, float]:
    """Return the shares of single-run experiments that show a peak, and that deny one."""
    fits = [fit(experiment(curve, sizes, 1, noise=noise, spread=0, seed=seed)[0]) for seed in range(trials)]
    return _share([result.peak is not None for result in fits]), _share([result.standing == "none" for result in fits])


def power(trials: int, promise: Promises) -> None:
    """Print how often a peak is shown, by the number of runs."""
    print("\nA peak at 25 of 48 measured (σ = 0.03, κ = 0.0015), each size run once; share of experiments, %\n")
    print("| runs | shown at 2 % noise | denied | shown at 5 % noise | denied |\n|---|---|---|---|---|")
    for runs in range(4, 13):
        sizes = np.geomspace(1, 48, runs).tolist()
        shares = [claims(PEAKED, sizes, noise, trials) for noise in (0.02, 0.05)]
        if runs >= 6:
            promise.at_least(f"a peak shown, {runs} runs", shares[0][0], trials, 0.8)
        cells = [_percent(share) for pair in shares for share in pair]
        print(f"| {runs} | {' | '.join(cells)} |", flush=True)


def false_peaks(trials: int, promise: Promises) -> None:
    """Print how often a false peak is shown, and how often a hard knee is called superlinear."""
    print("\nNo peak in truth, sizes up to 32; share of experiments that show one, %\n")
    print("| truth | noise | 4 single runs | 6 | 8 | 12 | 6 sizes, 3 blocks | called superlinear |")
    print("|---|---|---|---|---|---|---|---|")
    for name, curve in FLAT.items():
        for noise in (0.02, 0.05):
            shown = [claims(curve, np.geomspace(1, 32, runs).tolist(), noise, trials)[0] for runs in (4, 6, 8, 12)]
            for runs, share in zip((4, 6, 8, 12), shown, strict=True):
                promise.at_most(f"false peaks, {name}, noise {noise:.0%}, {runs} runs", share, trials, 0.05)
            blocked = [_blocked(curve, 3, noise, 0.1, seed) for seed in range(trials)]
            shown.append(_share([result.peak is not None for result in blocked]))
            shown.append(_share([any(w.rule == warnings.SUPERLINEAR for w in f.warnings) for f in blocked]))
            print(f"| {name} | {noise:.0%} | {' | '.join(map(_percent, shown))} |", flush=True)


def saturating(trials: int, promise: Promises) -> None:
    """Print how often a peak is shown when throughput approaches a limit."""
    print("\nThroughput approaches a limit, sizes up to 32; share of experiments that show a peak, %\n")
    print("| truth | noise | 6 single runs | 8 | 12 |\n|---|---|---|---|---|")
    for name, curve in SATURATING.items():
        for noise in (0.02, 0.05):
            shown = [claims(curve, whole(32, runs), noise, trials)[0] for runs in (6, 8, 12)]
            for runs, share in zip((6, 8, 12), shown, strict=True):
                promise.at_most(f"false peaks, {name}, noise {noise:.0%}, {runs} runs", share, trials, 0.05)
            print(f"| {name} | {noise:.0%} | {' | '.join(map(_percent, shown))} |", flush=True)


def whole(largest: float, runs: int) -> list[float]:
    """Return about as many whole sizes as runs, spaced by ratio."""
    return sorted({float(round(size)) for size in np.geomspace(1, largest, runs)})


def outliers(trials: int, _: Promises) -> None:
    """Print how often an outlier (one run of ten, 30 % too low) changes the answer, and how often it is named."""
    print("\nOne run of ten is 30 % too low (noise 3 %); share of experiments, %\n")
    headers = ("truth", "design", "USL by AICc", "USL chosen", "truth chosen", "truth chosen without the run",
               "peak shown", "run named", "a run named in sound data")  # fmt: skip
    print(f"| {' | '.join(headers)} |\n{'|---' * len(headers)}|")
    for name, model in (("linear", "linear"), ("Amdahl, σ = 0.05", "amdahl"), ("knee at 5.3", "knee")):
        for design, sizes, repetitions in (
            ("10 sizes to 32", np.geomspace(1, 32, 10).tolist(), 1),
            ("5 sizes to 16, twice", [1.0, 2.0, 4.0, 8.0, 16.0], 2),
        ):
            rows = []
            for seed in range(trials):
                runs, _ = experiment(FLAT[name], sizes, repetitions, noise=0.03, spread=0, seed=seed)
                clean = fit(runs)
                spoilt = seed % len(runs)
                runs[spoilt] = (runs[spoilt][0], 0.7 * runs[spoilt][1])
                result = fit(runs)
                rows.append(
                    (
                        min(result.models.values(), key=lambda model: model.aicc or np.inf).name == "usl",
                        result.best == "usl",
                        result.best == model,
                        (result.robust or result).best == model,
                        result.peak is not None,
                        result.robust is not None and spoilt in [outlier.place for outlier in result.robust.outliers],
                        clean.robust is not None,
                    )
                )
            cells = [_percent(_share(column)) for column in zip(*rows, strict=True)]
            print(f"| {name} | {design} | {' | '.join(cells)} |", flush=True)


def coverage(trials: int, promise: Promises) -> None:
    """Print the coverage of the intervals of the USL's parameters, with and without knowledge of the blocks."""
    print("\nIntervals that hold the truth (λ = 1000, σ = 0.03, κ = 0.0015; sizes 1 to 32), %")
    print("In brackets: blocks unknown to the fit\n")
    print(
        "| noise | blocks scatter | repetitions | λ | σ | κ | median half-width of σ |\n|---|---|---|---|---|---|---|"
    )
    truth = {"lambda": 1000.0, "sigma": 0.03, "kappa": 1.5e-3}
    for noise, spread_ in ((0.02, 0.0), (0.05, 0.0), (0.03, 0.05), (0.03, 0.1), (0.03, 0.2)):
        for repetitions in (2, 3, 5, 10):
            cells: dict[str, list[str]] = {name: [] for name in truth}
            widths = []
            for known in (True, False):
                result = []
                for seed in range(trials):
                    runs, blocks = experiment(
                        PEAKED, _SIZES, repetitions, noise=noise, spread=spread_, seed=100_000 + seed
                    )
                    data = gather(runs, "relative", blocks=blocks if known else None)
                    point = fit_model(USL, data)
                    result.append(parameters(point, spread(point, data, seed), data))
                for name, value in truth.items():
                    held = _share([p[name].low <= value <= p[name].high for p in result])
                    cells[name].append(_percent(held))
                    if known:
                        what = f"coverage of {name}, noise {noise:.0%}, blocks {spread_:.0%}, {repetitions} runs"
                        promise.at_least(what, held, trials, 0.9)
                widths.append(float(np.median([(p["sigma"].high - p["sigma"].low) / 2 for p in result])))
            shown = " | ".join(f"{cell} ({unknown})" for cell, unknown in cells.values())
            print(
                f"| {noise:.0%} | {spread_:.0%} | {repetitions} | {shown} | {widths[0]:.3f} ({widths[1]:.3f}) |",
                flush=True,
            )


def _blocked(curve: Curve, repetitions: int, noise: float, spread: float, seed: int) -> ScalabilityFit:
    runs, blocks = experiment(curve, _SIZES, repetitions, noise=noise, spread=spread, seed=seed)
    return fit(runs, blocks=blocks)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def main(trials: int = 100, *names: str) -> None:
    """Print the tables with these names, or all tables if no name is given."""
    began = time.process_time()
    tables = {table.__name__: table for table in (power, false_peaks, saturating, outliers, coverage)}
    promise = Promises()
    for name in names or tables:
        tables[name](trials, promise)
    print(f"\n{trials} trials of each row; {time.process_time() - began:.0f} s of CPU time")
    promise.settle()


if __name__ == "__main__":
    start(main)
