"""Randomised block designs, determined by the seed.

Each block has every treatment once. Hard-to-change factors (new cluster or new data) change as rarely as possible: runs
of one state are consecutive, with states and runs within a state in random order. This is a split-plot design with the
state as the whole plot.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.units import format_count
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Factor, Level
from loadframe.yamlfile import scalar

#: Maximum number of runs of an experiment; guards against typing errors.
MAX_RUNS = 20_000


def describe(experiment: Experiment, design: Design) -> dict[str, Any]:
    """Return the content of `experiment.json`: the description and the runs in order."""
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
    """Return a run for every combination of levels in each block, with one block per repetition.

    BadInput for more than the maximum number of runs.
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
    """Return all treatments in each block, in random order, with runs of one state consecutive.

    With `mirrored`, every second block reverses the order of the block before (ABBA).
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
    """Return the cluster state of a treatment: its name, and the levels of hard-to-change factors."""
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
    names = [factor.name for factor in factors]
    every = (dict(zip(names, levels, strict=True)) for levels in itertools.product(*(f.levels for f in factors)))
    return [treatment for treatment in every if all(factor.takes(treatment) for factor in factors)]


def _digest(salt: str, levels: Mapping[str, Level]) -> bytes:
    """Return a sort key for random order, equal on all machines and Python versions."""
    return hashlib.sha256(f"{salt}/{sorted(levels.items())!r}".encode()).digest()


def _without(treatment: Mapping[str, Level], state: Mapping[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in treatment.items() if name not in state}


#: Factors whose levels are bytes, or bytes/s.
_SIZES = ("store.limits.memory", "store.limits.disk.read", "store.limits.disk.write")


def run_id(block: int, treatment: Mapping[str, Level]) -> str:
    """Return an identifier such as `b1-nodes2-clients4`, with a hash if it would be ambiguous or too long."""
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
    """Return the name, cut to 100 characters, with a hash of the treatment."""
    return f"{name[:100]}-{hashlib.sha256(repr(sorted(treatment.items())).encode()).hexdigest()[:8]}"


def _label(name: str, level: Level) -> str:
    """Format a level briefly: sizes with a unit, whole numbers without a decimal point."""
    if name in _SIZES and isinstance(level, int):
        for unit, size in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
            if level % size == 0:
                return f"{level // size}{unit}"
    if isinstance(level, float) and level.is_integer() and level < 1e15:
        return str(int(level))
    return level if isinstance(level, str) else json.dumps(level)
