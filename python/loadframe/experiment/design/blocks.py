"""Designs: which treatment is run when, in randomised blocks; pure, and the same for the same seed.

A block has every treatment once. Within it, factors that are hard to change (they need another cluster, or other data)
are changed as seldom as can be: the runs of one state are neighbours, the states come in random order, and so do the
runs of each state. That is a split plot, with the state as the whole plot.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.units import format_count
from loadframe.experiment.design.runs import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Factor, Level
from loadframe.yamlfile import scalar

#: The most runs of an experiment; more are taken for a typing error.
MAX_RUNS = 20_000


def describe(experiment: Experiment, design: Design) -> dict[str, Any]:
    """Return the content of `experiment.json`: what is to be done, in which order."""
    return {
        **experiment.describe(),
        "workload_sha256": experiment.workload.document.sha256,
        "file": experiment.document.text,
        "design": design.describe(),
    }


def design(experiment: Experiment) -> Design:
    """Return the runs of an experiment, as its kind designs them; BadInput if they are more than the maximum."""
    made = experiment.kind.design(experiment)
    assert len({run.id for run in made.runs}) == len(made.runs), "two runs of one name would share a folder"
    return made


def factorial(experiment: Experiment, factors: Sequence[Factor]) -> Design:
    """Return a run for every combination of the factors' levels in each of as many blocks as there are repetitions.

    BadInput if they are more than the maximum.
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
    """Return the treatments in each of as many blocks as there are repetitions; neighbours share a cluster if they can.

    The order is random, and with `mirrored` every second block's is that of the one before, backwards: ABBA.
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
    """Return the state of the cluster that a treatment needs: its name, and the levels that make it."""
    state = {factor.name: treatment[factor.name] for factor in factors if factor.hard and factor.name in treatment}
    return ",".join(f"{name}={_label(name, level)}" for name, level in state.items()) or "one", state


def refuse_too_many(experiment: Experiment, treatments: int) -> None:
    """BadInput if these treatments and their repetitions make more runs than the maximum."""
    count = treatments * experiment.repetitions
    if count > MAX_RUNS:
        what = f"these levels and repetitions make {format_count(count)} runs"
        remedy = f"take fewer levels: at most {format_count(MAX_RUNS)} runs are made"
        raise experiment.document.error(("factors",), what, remedy, key=True)


def _combinations(factors: Sequence[Factor]) -> list[dict[str, Level]]:
    names = [factor.name for factor in factors]
    every = (dict(zip(names, levels, strict=True)) for levels in itertools.product(*(f.levels for f in factors)))
    return [treatment for treatment in every if all(factor.takes(treatment) for factor in factors)]


def _digest(salt: str, levels: Mapping[str, Level]) -> bytes:
    """Return what orders are made by: random, the same on every machine and version of Python."""
    return hashlib.sha256(f"{salt}/{sorted(levels.items())!r}".encode()).digest()


def _without(treatment: Mapping[str, Level], state: Mapping[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in treatment.items() if name not in state}


#: Factors whose levels are bytes, or bytes/s.
_SIZES = ("store.limits.memory", "store.limits.disk.read", "store.limits.disk.write")


def run_id(block: int, treatment: Mapping[str, Level]) -> str:
    """Return a name such as `b1-nodes2-clients4`; where that could be ambiguous or too long, a hash ends it."""
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
    """Return a name, cut to 100 letters, with a hash of the treatment: unique where the name itself is not."""
    return f"{name[:100]}-{hashlib.sha256(repr(sorted(treatment.items())).encode()).hexdigest()[:8]}"


def _label(name: str, level: Level) -> str:
    """Write a level shortly: sizes with its unit, whole quantities without a decimal point."""
    if name in _SIZES and isinstance(level, int):
        for unit, size in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
            if level % size == 0:
                return f"{level // size}{unit}"
    if isinstance(level, float) and level.is_integer() and level < 1e15:
        return str(int(level))
    return level if isinstance(level, str) else json.dumps(level)
