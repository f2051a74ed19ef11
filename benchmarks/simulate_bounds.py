"""Coverage of ratios when the load generator disturbs runs, and bias from excluding disturbed runs.

In each experiment, two groups of six runs differ by a known ratio. A disturbed generator lacks a core for a share of
the time, more often in fast runs. The second table has open loads on a store that answers in 100 us: the generator
sends the requests of one group late, by less than a millisecond.

    python -m benchmarks.simulate_bounds
"""

from dataclasses import replace

import numpy as np
from benchmarks.promises import Promises, start
from benchmarks.simulate_gate import made_up

from loadframe.analyze.compare import Group, Measure
from loadframe.analyze.compare.contrasts import contrast_values
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedRun
from loadframe.record.schema.figures import Latency
from loadframe.record.schema.summary import GeneratorFigures, StreamSummary

_RATE, _RATIO, _SPREAD, _RUNS = 1000.0, 1.1, 0.05, 6
#: Disturbed groups, by label.
_CASES = {"neither group": (False, False), "both groups": (True, True), "the faster group": (False, True)}
#: Mean time of the store, and mean lateness of the second group, s.
_TIME = 100e-6
_LATENESS = (0.0, 1e-6, 4e-6, 20e-6, 300e-6)
_STATISTICS = ("p50", "p99")
_MEASURE = Measure("mixed", "throughput")


def main(trials: int = 1000) -> None:
    """Print a table with a row for each case."""
    promise = Promises()
    print("| disturbed | coverage with bounds | coverage without bounds | ratio of undisturbed runs |")
    print("|---|--:|--:|--:|")
    for words, disturbed in _CASES.items():
        random = np.random.default_rng(1)
        held, ratios = np.zeros(2), []
        for _ in range(trials):
            estimates, undisturbed = _experiment(random, disturbed)
            held += [it.low <= _RATIO <= it.high for it in estimates]
            ratios.append(undisturbed)
        coverage = held / trials
        promise.at_least(f"coverage, {words}", coverage[0], trials, 0.95)
        bias = np.nanmean(ratios) / _RATIO - 1
        print(f"| {words} | {coverage[0]:.1%} | {coverage[1]:.1%} | {bias:+.1%} |")
    print("\n| lateness of the slower group, mean | statistic | coverage with bounds | coverage without bounds |")
    print("|---|---|--:|--:|")
    for late in _LATENESS:
        random = np.random.default_rng(2)
        held = np.zeros((len(_STATISTICS), 2))
        for _ in range(trials // 2):
            held += [[it.low <= _RATIO <= it.high for it in pair] for pair in _late_experiment(random, late)]
        for statistic, (bounded, plain) in zip(_STATISTICS, held / (trials // 2), strict=True):
            promise.at_least(f"coverage, {statistic}, {late:g} s late", bounded, trials // 2, 0.94)
            print(f"| {1e6 * late:.0f} us | {statistic} | {bounded:.1%} | {plain:.1%} |")
    promise.settle()


def _late_experiment(random: np.random.Generator, late: float) -> list[list[Estimate]]:
    """Return the estimates of the ratio of response times, with and without bounds, for each statistic."""
    groups: list[list[Group]] = [[], []]
    for side, lateness in enumerate((0.0, late)):
        runs: list[list[RecordedRun]] = [[], []]
        for block in range(_RUNS):
            times = _TIME * _RATIO**side * np.exp(random.normal(0, _SPREAD) + random.normal(0, 0.5, 2000))
            delayed = times + random.exponential(lateness, len(times)) if lateness else times
            for is_open, gathered in zip((True, False), runs, strict=True):
                gathered.append(_timed_run(side, block, _latency(delayed), _latency(times), is_open=is_open))
        for gathered, of_side in zip(groups, runs, strict=True):
            gathered.append(Group(str(side), tuple(of_side)))
    results = []
    for statistic in _STATISTICS:
        measure = Measure("mixed", statistic, "read")
        estimates = [contrast_values(measure, first, second, 0.0).estimate for first, second in groups]
        results.append([it.ratio for it in estimates if it])
    return results


def _timed_run(side: int, block: int, response: Latency, service: Latency, *, is_open: bool) -> RecordedRun:
    """Return a run with these times; a closed load has no lateness, so its times count as exact."""
    run = made_up(str(side), block, {"read": {"throughput": _RATE, "p50": 0.01, "p99": 0.02}}, 2 * block + side)
    assert run.run
    (phase,) = run.run.summary.phases
    operations = {name: replace(it, response=response, service=service) for name, it in phase.operations.items()}
    streams = (StreamSummary("main", {"open": {"rate": _RATE}}),) if is_open else phase.streams
    phases = (replace(phase, operations=operations, streams=streams),)
    run.run.__dict__["summary"] = replace(run.run.summary, phases=phases)
    return run


def _latency(times: np.ndarray) -> Latency:
    p50, p90, p99, p999 = np.quantile(times, (0.5, 0.9, 0.99, 0.999)).tolist()
    return Latency(len(times), float(times.mean()), p50, p90, p99, p999, float(times.max()))


def _experiment(random: np.random.Generator, disturbed: tuple[bool, bool]) -> tuple[list[Estimate], float]:
    """Return the estimates of the ratio with and without bounds, and the ratio of runs with a valid verdict."""
    groups: list[list[Group]] = [[], []]
    means = []
    for side, is_disturbed in enumerate(disturbed):
        deviations = random.normal(0, _SPREAD, _RUNS)
        true = _RATE * _RATIO**side * np.exp(deviations)
        waited = np.clip(0.15 + 3 * deviations + random.uniform(-0.05, 0.05, _RUNS), 0, 0.5) * is_disturbed
        measured = true * (1 - waited * random.uniform(0, 1, _RUNS))
        for bounded, gathered in zip((True, False), groups, strict=True):
            runs = [_run(side, block, rate, share if bounded else 0.0)
                    for block, (rate, share) in enumerate(zip(measured, waited, strict=True))]  # fmt: skip
            gathered.append(Group(str(side), tuple(runs)))
        means.append(np.mean(measured[waited <= 0.2]) if (waited <= 0.2).any() else np.nan)
    estimates = [contrast_values(_MEASURE, first, second, 0.0).estimate for first, second in groups]
    return [it.ratio for it in estimates if it], float(means[1] / means[0])


def _run(side: int, block: int, rate: float, waited: float) -> RecordedRun:
    """Return a run with a generator that waited for a core for a share of the time."""
    generator = GeneratorFigures(threads=1, cpu_share=0.5, cpu_share_peak=0.6, waited_share=waited)
    figures = {"read": {"throughput": rate, "p50": 0.01, "p99": 0.02}}
    return made_up(str(side), block, figures, 2 * block + side, generator=generator)


if __name__ == "__main__":
    start(main)
