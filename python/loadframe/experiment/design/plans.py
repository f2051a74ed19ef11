"""Designs: randomised blocks, factorials, fractions, Plackett-Burman designs and TPE, determined by the seed.

Each block has every treatment once. Hard-to-change factors (new cluster or new data) change as rarely as possible: runs
of one state are consecutive, with states and runs within a state in random order. This is a split-plot design with the
state as the whole plot.

A fraction of 2^b runs assigns each of k factors a column: the exclusive or of some of the b basic columns. Its
resolution R is the size of the smallest set of columns whose exclusive or is zero. Effects of s factors are then not
aliased with effects of fewer than R - s factors. (Box and Hunter, "The 2^(k-p) fractional factorial designs",
Technometrics 3, 1961.) Columns are chosen greedily in lexicographic order, as in a lexicographic code. Every fraction
contains the run with all factors at their defaults.

Plackett and Burman, "The design of optimum multifactorial experiments" (Biometrika 33, 1946). The Hadamard matrices
come from Paley's construction (quadratic residues modulo a prime q = 3 (mod 4), for q + 1 runs) and Sylvester's
doubling.

TPE is deterministic: equal results and seed give the same next trial, so a search can resume. It minimises losses,
which are logarithms. The loss is infinite if the store failed, and None if the trial has no valid figure.

Libraries of designs and optimisers are not used: each design takes a few lines of integer arithmetic here.

With `until`, a stopping rule adds blocks. Its measure is the throughput of the report for closed loads. Open loads have
a given throughput, so the measure is the median response time of the phase's main operation. All treatments share the
relative variance of the repeated runs. The decision depends only on recorded runs, so an experiment can resume.
Stopping at the first narrow interval favours moments when the noise looks small. With one or two treatments, the
interval would then cover 89 to 92 % instead of 95 %. These experiments need at least 4 degrees of freedom, and get 2
more blocks after the first narrow interval.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.base.units import format_count
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Factor, Level
from loadframe.yamlfile import scalar

if TYPE_CHECKING:
    import numpy as np

#: Maximum number of runs of an experiment; guards against typing errors.
MAX_RUNS = 20_000


def describe(experiment: Experiment, design: Design) -> dict[str, Any]:
    """Return the content of `experiment.json`: description, hash of the workload, text of the file, runs in order."""
    return {
        **experiment.describe(),
        "workload_sha256": experiment.workload.document.sha256,
        "file": experiment.document.text,
        "design": design.describe(),
    }


def design(experiment: Experiment) -> Design:
    """Return the design of an experiment; BadInput for more than the maximum number of runs."""
    planned = experiment.kind.design(experiment)
    assert len({run.id for run in planned.runs}) == len(planned.runs), "run identifiers must be unique"
    return planned


def factorial(experiment: Experiment, factors: Sequence[Factor]) -> Design:
    """Return the design with a run for every combination of levels in each block, with one block per repetition.

    Combinations that the expressions of a factor do not yield are left out. The order within a block is random, from
    the experiment's seed, with runs of one cluster state consecutive. BadInput if all combinations, also those
    left out, times repetitions are more than the maximum number of runs.
    """
    refuse_too_many(experiment, math.prod(len(factor.levels) for factor in factors))
    return in_blocks(experiment, _combinations(factors), factors)


def in_blocks(
    experiment: Experiment,
    treatments: Sequence[dict[str, Level]],
    factors: Sequence[Factor],
    *,
    mirrored: bool = False,
) -> Design:
    """Return the design with all treatments in each block, in random order, with runs of one state consecutive.

    `factors` give the cluster states: runs with equal levels of hard factors. The experiment has the number of blocks
    (`repetitions`) and the seed of the order. With `mirrored`, every second block reverses the order of the block
    before (ABBA). BadInput for more than the maximum number of runs.
    """
    refuse_too_many(experiment, len(treatments))
    states: dict[str, tuple[dict[str, Level], list[dict[str, Level]]]] = {}
    for treatment in treatments:
        key, state = cluster_state(treatment, factors)
        states.setdefault(key, (state, []))[1].append(treatment)
    runs: list[PlannedRun] = []
    for block in range(1, experiment.repetitions + 1):
        backwards = mirrored and block % 2 == 0
        salt = f"{experiment.seed}/{block - backwards}"
        ordered = []
        for key in sorted(states, key=lambda key: _digest(salt, states[key][0])):
            state, members = states[key]
            for treatment in sorted(members, key=lambda levels: _digest(f"{salt}/{key}", _without(levels, state))):
                ordered.append(PlannedRun(run_id(block, treatment), block, treatment, key))
        runs += reversed(ordered) if backwards else ordered
    return Design(experiment.seed, tuple(runs))


def cluster_state(treatment: Mapping[str, Level], factors: Sequence[Factor]) -> tuple[str, dict[str, Level]]:
    """Return a name for the levels of a treatment's hard-to-change factors, and these levels by factor.

    The name is `NAME=LEVEL,...`, and `one` without such factors.
    """
    state = {factor.name: treatment[factor.name] for factor in factors if factor.hard and factor.name in treatment}
    return ",".join(f"{name}={_label(name, level)}" for name, level in state.items()) or "one", state


def refuse_too_many(experiment: Experiment, treatments: int) -> None:
    """Raise BadInput if `treatments` times repetitions exceeds the maximum number of runs."""
    count = treatments * experiment.repetitions
    if count > MAX_RUNS:
        what = f"the design has {format_count(count)} runs; the maximum is {format_count(MAX_RUNS)}"
        remedy = "use fewer levels or repetitions"
        raise experiment.document.error(("factors",), what, remedy, key=True)


def _combinations(factors: Sequence[Factor]) -> list[dict[str, Level]]:
    """Return every combination of levels that the factors' expressions yield; the last factor varies fastest."""
    names = [factor.name for factor in factors]
    every = (dict(zip(names, levels, strict=True)) for levels in itertools.product(*(f.levels for f in factors)))
    return [treatment for treatment in every if all(factor.takes(treatment) for factor in factors)]


def _digest(salt: str, levels: Mapping[str, Level]) -> bytes:
    """Return a sort key of `levels` for the random order that `salt` selects, equal on all machines and Pythons."""
    return hashlib.sha256(f"{salt}/{sorted(levels.items())!r}".encode()).digest()


def _without(treatment: Mapping[str, Level], state: Mapping[str, Level]) -> dict[str, Level]:
    """Return the levels of a treatment that are not part of its cluster state."""
    return {name: level for name, level in treatment.items() if name not in state}


#: Factors with levels in bytes, or bytes/s.
_SIZES = ("store.limits.memory", "store.limits.disk.read", "store.limits.disk.write")


def run_id(block: int, treatment: Mapping[str, Level]) -> str:
    """Return an identifier such as `b1-nodes2-clients4`: the last part of each factor's name and its level.

    With a hash if it would be ambiguous, too long, or not valid as a file name.
    """
    lasts = [name.rsplit(".", 1)[-1] for name in treatment]
    exact = "-".join(
        [f"b{block}", *(last + _label(*item) for last, item in zip(lasts, treatment.items(), strict=True))]
    )
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", exact)[:100]
    texts = [level for level in treatment.values() if isinstance(level, str)]
    plain = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", text) and isinstance(scalar(text), str) for text in texts)
    if safe == exact and plain and len(set(lasts)) == len(lasts):
        return safe
    return hashed(safe, treatment)


def hashed(name: str, treatment: Mapping[str, Level]) -> str:
    """Return the name, cut to 100 characters, and 8 hexadecimal digits of a hash of the treatment, joined by `-`."""
    return f"{name[:100]}-{hashlib.sha256(repr(sorted(treatment.items())).encode()).hexdigest()[:8]}"


def _label(name: str, level: Level) -> str:
    """Format a level of the factor `name` briefly: whole numbers without a decimal point, texts as they are.

    Levels in bytes have a binary unit (k, m, g) if that is exact; other levels are JSON.
    """
    if name in _SIZES and isinstance(level, int):
        for unit, size in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
            if level % size == 0:
                return f"{level // size}{unit}"
    if isinstance(level, float) and level.is_integer() and level < 1e15:
        return str(int(level))
    return level if isinstance(level, str) else json.dumps(level)


def full(levels: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every combination of levels, as indices from 0, given the number of levels of each factor, in order."""
    return list(itertools.product(*(range(number) for number in levels)))


def changes(levels: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Return the default and every combination that differs from it in at most `most` factors, fewest changes first.

    Combinations are level indices; the default is 0 for every factor. `levels` has the number of levels of each. With
    `most` 1, 2 and 3 these are all single settings, pairs and triples.
    """
    rows = []
    for number in range(min(most, len(levels)) + 1):
        for chosen in itertools.combinations(range(len(levels)), number):
            for others in itertools.product(*(range(1, levels[index]) for index in chosen)):
                row = [0] * len(levels)
                for index, level in zip(chosen, others, strict=True):
                    row[index] = level
                rows.append(tuple(row))
    return rows


def fraction(factors: int, resolution: int) -> list[tuple[int, ...]]:
    """Return the smallest two-level fraction found for `factors` factors with at least this resolution (3 to 5).

    Each run has a level, 0 or 1, for each factor. If no fraction has the resolution, it is the full factorial.
    """
    basic = 1
    while True:
        columns = _columns(factors, basic, resolution)
        if columns is not None:
            return [tuple((column & run).bit_count() % 2 for column in columns) for run in range(2**basic)]
        basic += 1


def resolution_of(rows: Sequence[Sequence[int]]) -> int:
    """Return the resolution of a two-level design: the smallest number of columns whose exclusive or is constant.

    For a design without aliases (the full factorial), the number of factors plus 1.
    """
    columns = list(zip(*rows, strict=True))
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(columns, size):
            if len({sum(values) % 2 for values in zip(*chosen, strict=True)}) == 1:
                return size
    return len(columns) + 1


def _columns(factors: int, basic: int, resolution: int) -> list[int] | None:
    """Return a column for each factor as a bit mask of `basic` independent columns, in ascending order.

    Several bits stand for the exclusive or of these columns. None if a greedy search finds too few for the resolution.
    """
    basis: list[int] = [1 << bit for bit in range(min(basic, factors))]
    reached = {0} | _sums(basis, resolution - 2)
    for column in range(1, 2**basic):
        if len(basis) == factors:
            break
        if column not in reached and column not in basis:
            basis.append(column)
            reached = {0} | _sums(basis, resolution - 2)
    return basis if len(basis) == factors else None


def _sums(columns: Sequence[int], most: int) -> set[int]:
    """Return the exclusive or of every set of 1 to `most` columns (bit masks); empty if `most` is below 1."""
    sums = set()
    for size in range(1, most + 1):
        for chosen in itertools.combinations(columns, size):
            total = 0
            for column in chosen:
                total ^= column
            sums.add(total)
    return sums


def plackett_burman(factors: int) -> list[tuple[int, ...]]:
    """Return the smallest Plackett-Burman design for `factors` factors, as levels 0 and 1; its last run has only 0."""
    runs = 4
    while (matrix := _hadamard(runs)) is None or runs <= factors:
        runs += 4
    # The first row is all +1. Mapping +1 to level 0 makes it the run of defaults.
    rows = [tuple((1 - sign) // 2 for sign in row[1 : factors + 1]) for row in matrix]
    return [*rows[1:], rows[0]]


def _hadamard(size: int) -> list[list[int]] | None:
    """Return a Hadamard matrix with first row and column all +1; None if neither construction gives this size."""
    if size == 1:
        return [[1]]
    prime = size - 1
    if prime % 4 == 3 and all(prime % divisor for divisor in range(2, int(prime**0.5) + 1)):
        squares = {number * number % prime for number in range(1, prime)}
        jacobsthal = [
            [0 if i == j else (1 if (i - j) % prime in squares else -1) for j in range(prime)] for i in range(prime)
        ]
        body = [[1, *(value - (i == j) for j, value in enumerate(row))] for i, row in enumerate(jacobsthal)]
        return [[1] * size, *body]
    half = _hadamard(size // 2) if size % 2 == 0 else None
    if half is None:
        return None
    return [row + row for row in half] + [row + [-value for value in row] for row in half]


Trial = tuple[tuple[int, ...], float | None]

#: TPE: number of initial random trials, share of trials that count as good, and candidates drawn per trial.
_STARTUP = 8
_GOOD = 0.25
_CANDIDATES = 32


def tpe(levels: Sequence[int], trials: Sequence[Trial], seed: int) -> tuple[int, ...]:
    """Return the next trial, as level indices, by tree-structured Parzen estimators (TPE).

    `levels` has the number of levels of each factor, `trials` the earlier trials with their losses (lower is better),
    None for unknown ones. Before eight have a loss, the trial is random. Bergstra, Bardenet, Bengio and Kegl,
    "Algorithms for hyper-parameter optimization" (NIPS 2011), for independent factors with unordered levels. The score
    of a candidate is the product over factors of its level's share among good trials divided by its share among the
    others, with one pseudo-count per level. Untried candidates come first. Equal arguments give the same trial.
    """
    import numpy as np

    random = np.random.default_rng([seed, len(trials)])
    tried = {row for row, _ in trials}
    known = sorted(((loss, row) for row, loss in trials if loss is not None), key=lambda pair: pair[0])
    if len(known) < _STARTUP:
        drawn = [tuple(int(random.integers(number)) for number in levels) for _ in range(_CANDIDATES)]
        return next((row for row in drawn if row not in tried), drawn[0])
    split = math.ceil(_GOOD * len(known))
    good, bad = (_shares(levels, [row for _, row in part]) for part in (known[:split], known[split:]))
    drawn = [tuple(int(random.choice(len(row), p=row)) for row in good) for _ in range(_CANDIDATES)]

    def score(row: tuple[int, ...]) -> tuple[bool, float]:
        """Return the sort key of a candidate: whether it is untried, and the logarithm of its score."""
        gain = sum(math.log(good[i][level] / bad[i][level]) for i, level in enumerate(row))
        return row not in tried, gain

    return max(drawn, key=score)


def _shares(levels: Sequence[int], rows: Sequence[tuple[int, ...]]) -> "list[np.ndarray]":
    """Return, for each factor, the share of each level in `rows`, with one pseudo-count per level."""
    import numpy as np

    shares = []
    for index, number in enumerate(levels):
        counts = np.bincount([row[index] for row in rows], minlength=number) + 1.0
        shares.append(counts / counts.sum())
    return shares


__all__ = ["changes", "fraction", "full", "plackett_burman", "resolution_of", "tpe"]


#: Largest number of treatments with extra blocks, the number of these blocks, and the minimum degrees of freedom.
_FEW, _AFTERWARDS, _LEAST_FREEDOM = 2, 2, 4


class StoppingRule:
    """Sequential stopping rule; call `ends` after each block in order."""

    def __init__(self, target: float, treatments: int) -> None:
        """Take the relative half-width to reach (`target`, 0.05 for 5 %), and the number of treatments in a block."""
        self._target = target
        self._treatments = treatments
        self._narrow_since: int | None = None

    def ends(self, blocks: int, width: float) -> bool:
        """Return whether to stop after `blocks` blocks, whose widest relative half-width is `width`.

        Without the exception below, stops from the first block with a width of at most the target on, which it
        remembers. With one or two treatments, a block counts only with at least 4 degrees of freedom, (blocks - 1) *
        treatments, and the stop is 2 blocks after it.
        """
        few = self._treatments <= _FEW
        known = not few or (blocks - 1) * self._treatments >= _LEAST_FREEDOM
        if self._narrow_since is None and known and width <= self._target:
            self._narrow_since = blocks
        return self._narrow_since is not None and blocks >= self._narrow_since + (_AFTERWARDS if few else 0)


def next_block(experiment: Experiment, design: Callable[[Experiment], Design], runs_path: Path) -> Sequence[PlannedRun]:
    """Return all runs of the next unfinished block, also recorded ones; empty if no block is needed.

    None is needed without `until`, if the intervals are narrow enough, and at `until.most` blocks. `design` returns the
    design of an experiment; `runs_path` is the folder with the recorded runs. BadInput if a recorded run is damaged.
    """
    until = experiment.file.until
    if until is None:
        return ()
    # Imported here because the statistics take a second to import.
    from loadframe.analyze.experiment import RecordedRun, read_attempts
    from loadframe.analyze.rates import RATES, THROUGHPUT
    from loadframe.analyze.scale.treatments import widest_interval
    from loadframe.record import Run

    rate = RATES.get(getattr(experiment.file, "objective", ""), THROUGHPUT)
    recorded: dict[str, RecordedRun] = {}
    attempts = read_attempts(runs_path.parent)
    planned = design(with_repetitions(experiment, until.most)).runs
    stopping = StoppingRule(until.relative_interval, sum(run.block == 1 for run in planned))
    for blocks in range(experiment.repetitions, until.most):
        so_far = [run for run in planned if run.block <= blocks]
        for run in so_far:
            if run.id not in recorded:
                folder = runs_path / run.id
                there = Run(folder) if folder.exists() else None
                recorded[run.id] = RecordedRun(run.id, run.block, run.treatment, there)
        runs = [recorded[run.id] for run in so_far]
        earlier = [attempt for attempt in attempts if (attempt.block or 0) <= blocks]
        if stopping.ends(blocks, widest_interval(runs, experiment.measured, rate, earlier)):
            return ()
        following = [run for run in planned if run.block == blocks + 1]
        if any(not (runs_path / run.id).exists() for run in following):
            return following
    return ()


def with_repetitions(experiment: Experiment, repetitions: int) -> Experiment:
    """Return a copy of the experiment with another number of repetitions; existing blocks do not change."""
    return replace(experiment, file=experiment.file.model_copy(update={"repetitions": repetitions}))
