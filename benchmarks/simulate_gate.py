"""Error rates of the gate on simulated runs with known truth.

Each scenario defines noise, blocks and change of runs that exist only in memory, and the real gate judges them. The
tables show the shares of gates that stop without a regression and with one, and the results of bounds at and near the
truth. `python -m benchmarks.simulate_gate` prints the tables of lab/simulations/gate.md.
"""

import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.compare import Group
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.gate import Bound, Gate, Thresholds, judge_gate
from loadframe.record import Manifest, Run, Summary
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Latency, OperationFigures
from loadframe.record.schema.manifest import Hardware
from loadframe.record.schema.summary import PhaseSummary, RecordedVerdict, StreamSummary

#: Requests per operation and run.
_REQUESTS = 20_000
_BEGINNING = datetime(2026, 1, 2, tzinfo=UTC)


class MadeUp(Run):
    """A run that exists only in memory."""

    def __init__(self, path: Path, manifest: Manifest, summary: Summary) -> None:
        self.path = path
        self.__dict__.update(manifest=manifest, summary=summary)


@dataclass(frozen=True)
class Scenario:
    """Operations, noise and change of a simulated experiment. Noises are standard deviations of logarithms."""

    operations: int
    runs: int  #: of each side
    noise: float = 0.03  #: noise of throughput and medians; p99 has twice as much
    blocks: float = 0.0
    #: Share of the variance that is common to the operations of a run.
    common: float = 0.5
    worse: float = 0.0  #: of the new runs, as a share
    worsened: int | None = None  #: how many operations; all where None


def made_up(
    side: str,
    block: int,
    operations: Mapping[str, Mapping[str, float | None]],
    minute: int,
    *,
    failed: float = 0.0,
    **summary: Any,
) -> RecordedRun:
    """Return a valid run with these figures per operation: throughput (1/s), p50 and p99 (s)."""
    requests = _REQUESTS - round(failed * _REQUESTS)
    measured = {
        name: OperationFigures(
            requests=_REQUESTS, successes=requests, documents=0, errors={}, dropped=0, in_flight_at_end=0,
            throughput=figures["throughput"] or 0.0, documents_per_second=0.0,
            response=(times := Latency(requests, p50=figures["p50"], p99=figures["p99"])), service=times,
        )
        for name, figures in operations.items()
    }  # fmt: skip
    stream = StreamSummary("main", {"closed": {"clients": 8, "think_time": 0.0}})
    phase = PhaseSummary(name="mixed", start=0.5, warmup=5.0, duration=20.0, streams=(stream,), operations=measured)
    manifest = Manifest(
        FORMAT,
        started=(_BEGINNING + timedelta(minutes=minute)).isoformat(timespec="milliseconds"),
        session="one",
        block=block,
        hardware=Hardware(hostname="bench-1"),
    )
    whole = Summary("done", phases=(phase,), verdict=RecordedVerdict(valid=True))
    run = MadeUp(Path(f"/made-up/runs/b{block}-{side}"), manifest, replace(whole, **summary))
    return RecordedRun(run.path.name, block, {}, run)


def sides(scenario: Scenario, random: np.random.Generator) -> tuple[Group, Group]:
    """Return the baseline and the new runs of one experiment, one of each per block, in the order ABBA."""
    worsened = scenario.operations if scenario.worsened is None else scenario.worsened
    groups: dict[str, list[RecordedRun]] = {"old": [], "new": []}
    minute = itertools.count()
    for block in range(scenario.runs):
        of_block = scenario.blocks * random.standard_normal()
        for side in ("old", "new") if block % 2 else ("new", "old"):
            # Throughput, medians and tails have independent noise.
            shared = random.standard_normal(3) * np.sqrt(scenario.common)
            values = random.standard_normal((scenario.operations, 3)) * np.sqrt(1 - scenario.common)
            spread = (shared + values) * scenario.noise * np.array([1, 1, 2])
            operations = {}
            for number in range(scenario.operations):
                factor = 1 + scenario.worse if side == "new" and number < worsened else 1.0
                log = spread[number] + of_block
                operations[f"o{number}"] = {
                    "throughput": float(1000 * np.exp(-log[0]) / factor),
                    "p50": float(0.010 * np.exp(log[1]) * factor),
                    "p99": float(0.050 * np.exp(log[2]) * factor),
                }
            groups[side].append(made_up(side, block, operations, next(minute)))
    return Group("old", tuple(groups["old"])), Group("new", tuple(groups["new"]))


def outcomes(scenario: Scenario, trials: int, seed: int, watch: Sequence[str] = ()) -> Counter[str]:
    """Return the numbers of gates that stopped, passed or were inconclusive; `watch` names operations."""
    random = np.random.default_rng(seed)
    result: Counter[str] = Counter()
    for _ in range(trials):
        old, new = sides(scenario, random)
        result[judge_gate(new, old, Thresholds(), watch=watch).standing] += 1
    return result


def bound_outcomes(truth: float, runs: int, noise: float, trials: int, seed: int) -> Counter[str]:
    """Return the same numbers for a bound on p99 with a true value of `truth` times the bound."""
    random = np.random.default_rng(seed)
    result: Counter[str] = Counter()
    for _ in range(trials):
        values = 0.050 * truth * np.exp(noise * random.standard_normal(runs))
        made = [
            made_up("new", block, {"o": {"throughput": 1000.0, "p50": 0.01, "p99": float(value)}}, block)
            for block, value in enumerate(values)
        ]
        gate: Gate = judge_gate(Group("new", tuple(made)), None, Thresholds(bounds=[Bound("p99", 0.050)]))
        result[gate.standing] += 1
    return result


def _row(cells: Sequence[object]) -> None:
    print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


def _share(count: int, trials: int) -> str:
    return f"{100 * count / trials:.0f} %"


def main(trials: int = 300) -> None:
    """Print the tables of lab/simulations/gate.md; power is computed from a fifth of the trials."""
    promise = Promises()
    began, fewer = time.monotonic(), max(trials // 5, 1)
    print(f"Nothing got worse: {trials} gates in each row; something did: {fewer}\n")
    changes: list[tuple[str, dict[str, Any]]] = [
        ("5 % in all", {"worse": 0.05}),
        ("10 % in all", {"worse": 0.1}),
        ("20 % in all", {"worse": 0.2}),
        ("20 % in one", {"worse": 0.2, "worsened": 1}),
    ]
    headers = ["operations", "runs a side", "noise", "blocks differ by", "stopped falsely", "passed rightly"]
    _row([*headers, *(f"stopped: {name}" for name, _ in changes)])
    _row(["--:"] * (len(headers) + len(changes)))
    seed = itertools.count(1)
    cases = [(5, 0.03, 0.0), (5, 0.03, 0.1), (5, 0.1, 0.0), (10, 0.1, 0.0)]
    for (runs, noise, blocks), operations in itertools.product(cases, (1, 3, 6)):
        null = outcomes(Scenario(operations, runs, noise, blocks), trials, next(seed))
        result = [
            outcomes(Scenario(operations, runs, noise, blocks, **change), fewer, next(seed)) for _, change in changes
        ]
        what = f"false stops, {operations} operations, {runs} runs, noise {noise:.0%}, blocks {blocks:.0%}"
        promise.at_most(what, null["regression"] / trials, trials, 0.05)
        cells = [_share(null["regression"], trials), _share(null["passed"], trials)]
        cells += [_share(counts["regression"], fewer) for counts in result]
        _row([operations, runs, f"{100 * noise:.0f} %", f"{100 * blocks:.0f} %", *cells])
    many = 4 * trials
    print(f"\nA bound on p99; {many} gates in each row\n")
    _row(["true p99", "runs", "noise", "passed", "cannot tell", "stopped"])
    _row(["--:"] * 6)
    for runs, noise, truth in itertools.product((3, 6), (0.05, 0.1), (0.8, 0.95, 1.0, 1.05, 1.2)):
        cell = bound_outcomes(truth, runs, noise, many, next(seed))
        if truth >= 1.05:
            what = f"a p99 {100 * truth:.0f} % of its bound passes, {runs} runs, noise {noise:.0%}"
            promise.at_most(what, cell["passed"] / many, many, 0.025)
        counts = [_share(cell[standing], many) for standing in ("passed", "undecided", "regression")]
        _row([f"{100 * truth:.0f} % of the bound", runs, f"{100 * noise:.0f} %", *counts])
    print(f"\n{time.monotonic() - began:.0f} s")
    promise.settle()


if __name__ == "__main__":
    start(main)
