"""What experiments of kinds that fit no curve can know: the width of capacities, effects of settings, differences.

Computed from the description of an experiment, which is the same before a run and after some.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy import special

from loadframe.simulate.outlook import least_effect
from loadframe.units import format_share

#: How much single searches for a capacity scatter: shares of the noise of a run, and of the precision of the search.
#: These two reproduce the half-widths of the table in docs/experiments.md (benchmarks/simulate_capacity.py) for three
#: and five searches to within a third.
_OF_NOISE, _OF_PRECISION = 0.4, 0.2
#: A confirmation that sees no smaller difference than this decides nothing that anybody hopes for.
_LARGE = 0.5
#: The most runs of a side that are proposed.
_MOST = 100


@dataclass(frozen=True)
class Effect:
    """The least relative difference between two levels of a factor that the design sees, with 80 % power at 5 %."""

    factor: str
    runs: int  #: of each level
    least: float


@dataclass(frozen=True)
class KindOutlook:
    """What a kind's own design can know, in sentences; `warnings` are on what it never can."""

    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def effects(description: Mapping[str, Any], noise: float, budget: int | None) -> tuple[Effect, ...]:
    """Return what the designed runs see of each factor, at the level that has the fewest of them.

    `budget` is a number of runs that the design may not exceed. Where runs are searched for, none says anything alone.
    """
    if description["kind"] == "capacity" or description.get("scheme") in ("tpe", "spsa"):
        return ()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in description["design"]:
        for factor, level in run["treatment"].items():
            counts[factor][repr(level)] += 1
    # In a comparison, what a variant sets is not varied for itself.
    known = description["factors"] if description["kind"] != "compare" else ("variant",)
    share = min(budget / len(description["design"]), 1.0) if budget is not None else 1.0
    rows = {name: int(min(levels.values()) * share) for name, levels in counts.items() if len(levels) > 1}
    return tuple(Effect(name, runs, least_effect(noise, runs, runs)) for name, runs in rows.items() if name in known)


def kind_outlook(description: Mapping[str, Any], noise: float) -> KindOutlook:
    """Return what is to be said of the kind; `noise` is the relative standard deviation of repeated runs."""
    kinds = {"capacity": _capacity, "settings": _settings, "compare": _compare, "elastic": _elastic}
    saying = kinds.get(description["kind"])
    return saying(description, noise) if saying else KindOutlook()


def capacity_half_width(searches: int, noise: float, precision: float) -> float:
    """Return about half of the width of a capacity's 95 % interval, relative to it; infinite for a single search."""
    if searches < 2:
        return math.inf
    scatter = math.hypot(_OF_NOISE * noise, _OF_PRECISION * precision)
    return float(special.stdtrit(searches - 1, 0.975)) * scatter / math.sqrt(searches)


def _capacity(description: Mapping[str, Any], noise: float) -> KindOutlook:
    searches, precision = description["repetitions"], description["search"]["precision"]
    shown = sorted({number for number in (searches, 3, 5, 10) if number > 1})
    widths = [f"{number} searches ± {_share(capacity_half_width(number, noise, precision))}" for number in shown]
    sentences = [
        f"Each search of a treatment ends in a bracket of {format_share(precision)}. The 95 % interval of the capacity"
        f" needs several searches: {', '.join(widths)}."
    ]
    warnings = []
    if searches == 1:
        warnings.append("one search at each treatment gives a bracket and no interval: say repetitions: 3 or more")
    elif searches == 2:
        warnings.append("two searches tell little of how searches differ: say repetitions: 3 or more")
    return KindOutlook(tuple(sentences), tuple(warnings))


def _settings(description: Mapping[str, Any], noise: float) -> KindOutlook:
    confirm, scheme = description["confirm"], description["scheme"]
    sentences, warnings = [], []
    if scheme in ("tpe", "spsa"):
        sentences.append(
            f"{description['trials']} trials are planned one after the other from the results so far, so nothing can be"
            " said beforehand of single effects."
        )
    least = least_effect(noise, confirm, confirm)
    if confirm == 0:
        warnings.append(
            "the winner is not measured again (confirm: 0), and the best of many is the luckiest: say confirm: 5"
        )
    elif not math.isfinite(least):
        warnings.append(
            "the confirmation can never decide: one run of the winner and one of the default say nothing of their"
            " scatter; say confirm: 5"
        )
    else:
        sentences.append(
            f"The confirmation, {confirm} runs of the winner beside {confirm} of the default, sees a difference of"
            f" {_share(least)} or more."
        )
        if least > _LARGE:
            warnings.append(
                f"the confirmation can hardly decide: it takes a difference of {_share(least)}; say confirm: 5 or more"
            )
    return KindOutlook(tuple(sentences), tuple(warnings))


def _compare(description: Mapping[str, Any], noise: float) -> KindOutlook:
    runs, wanted = description["repetitions"], description["least"]
    least = least_effect(noise, runs, runs)
    if not math.isfinite(least):
        return KindOutlook(warnings=("one run of each variant can never decide: say repetitions: 3 or more",))
    if least <= wanted:
        return KindOutlook()
    enough = next((number for number in range(2, _MOST) if least_effect(noise, number, number) <= wanted), None)
    remedy = f"it takes {enough} repetitions" if enough else f"not even {_MOST} repetitions suffice"
    return KindOutlook(
        warnings=(f"the least difference of interest, {_share(wanted)}, is smaller than what is seen: {remedy}",)
    )


def _elastic(description: Mapping[str, Any], noise: float) -> KindOutlook:
    runs = description["repetitions"]
    if not description["control"]:
        return KindOutlook(
            warnings=("without control runs the effect of the event cannot be separated from that of the load",)
        )
    least = least_effect(noise, runs, runs)
    if not math.isfinite(least):
        return KindOutlook(warnings=("one run with the event and one without have no interval: say repetitions: 3",))
    return KindOutlook(
        (f"{runs} runs with each event and {runs} without see a difference in throughput of {_share(least)} or more.",)
    )


def _share(value: float) -> str:
    return f"{100 * value:.2g} %"
