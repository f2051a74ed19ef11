"""Comparisons and gates of recorded runs, for the command line and for programs."""

import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence

from loadframe.analyze import compare as comparing
from loadframe.analyze.compare import Group, read_groups, read_runs, read_treatments, read_variants
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.gate import Bound, Gate, Thresholds, judge_gate
from loadframe.analyze.history import identity_of_run
from loadframe.analyze.rates import RATES
from loadframe.base.errors import BadInput
from loadframe.base.units import (
    exceeds_responses,
    format_limit,
    parse_duration,
    parse_rate,
    reachable_rate,
    reachable_response,
)
from loadframe.library.options import require_measures, share
from loadframe.yamlfile import did_you_mean


def compare_groups(
    arguments: Sequence[str],
    kinds: Sequence[str],
    *,
    baseline: str | None,
    least: float,
    level: float,
    session_spread: float,
) -> comparing.Comparison:
    """Compare groups of runs with the baseline. A single experiment is split by its variants or treatments.

    `arguments` are folders or patterns. `baseline` is the label of a group, by default of the first: the first argument
    or variant, or the treatment with the first level of each factor. `kinds` are measures, `least` is the smallest
    difference that matters, `session_spread` the assumed spread between sessions (shares), and `level` the significance
    level. BadInput for a single argument with only one treatment, and for an unknown baseline.
    """
    groups = _groups(arguments)
    if baseline is not None:
        chosen = next((group for group in groups if group.label == baseline), None)
        if chosen is None:
            labels = [group.label for group in groups]
            raise BadInput(f"no group is named {baseline!r}", where="--baseline", remedy=did_you_mean(baseline, labels))
        groups = (chosen, *(group for group in groups if group is not chosen))
    return comparing.compare(
        groups,
        kinds,
        least=least,
        level=level,
        session_spread=session_spread,
        # A single experiment compares its own treatments, so their differences are intended.
        intended=len(arguments) == 1,
    )


def _groups(arguments: Sequence[str]) -> tuple[Group, ...]:
    """Return a group for each argument, or the groups of a single experiment. BadInput if it has only one treatment."""
    if len(arguments) > 1:
        for number, argument in enumerate(arguments):
            if _is_among(argument, arguments[:number]):
                raise BadInput("this folder is given twice", where=argument, remedy="name each group once")
        return _without_shared_runs(read_groups(arguments), _NO_COPIES)
    split = read_variants(arguments[0]) or read_treatments(arguments[0])
    if len(split) == 1:
        raise BadInput(
            "all its runs have the same treatment",
            where=arguments[0],
            remedy="name two or more folders",
        )
    return _without_shared_runs(split, _NO_COPIES)


def gate_groups(
    new: str,
    earlier: str | None,
    thresholds: Thresholds,
    kinds: Sequence[str],
    *,
    history: bool,
    session_spread: float,
    across: bool,
    watch: Sequence[str],
    written: Callable[[str], str] = str,
) -> tuple[Gate, tuple[Group, ...]]:
    """Judge new runs against earlier runs and bounds; return the gate and the groups, the new one first.

    `kinds` are measures and `watch` operations. `history` says that `earlier` has runs of many commits, `across`
    permits different treatments, and `session_spread` is the assumed spread between sessions (share). Without
    `earlier`, the second variant of an experiment is judged against the first. `written` returns the name of an
    argument for messages, such as that of its option. BadInput without a baseline or bounds, and for
    more than two variants. BadInput also if `new` has no run, if the baseline has a new run, or if a given effect to
    catch does not exceed the least effect.
    """
    if earlier and _is_among(new, [earlier]):
        name = written("history" if history else "baseline")
        raise BadInput(
            f"the new runs and {name} are the same folder",
            where=new,
            remedy=f"name a folder of earlier runs with {name}",
        )
    variants = () if earlier else read_variants(new)
    if len(variants) > 2:
        listed = ", ".join(variant.label for variant in variants)
        raise BadInput(
            f"the experiment has the variants {listed}, and a gate compares two",
            where=new,
            remedy="gate two of them, or read the experiment's report",
        )
    if not variants and not earlier and not thresholds.bounds:
        # A path without runs is the first problem.
        read_runs(new)
        names = ", ".join(map(written, ("baseline", "history")))
        raise BadInput(
            "the runs have neither a baseline nor bounds",
            remedy=f"give {names} or {written('bound')}, or the folder of an experiment that compares two variants",
        )
    for kind in kinds if variants or earlier else ():
        for name, worse in (("least", thresholds.least_of(kind)), ("catch", thresholds.catch_of(kind))):
            if worse >= 1 and (kind in RATES or kind == "errors"):
                raise BadInput(
                    f"{written(name)} {worse:.0%} never stops {kind}: it cannot become worse by more",
                    remedy=f"give less than 100% for {kind}, or leave it out of the measures",
                )
        given, smallest = thresholds.catch.get(kind), format_limit(thresholds.least_of(kind))
        if given is not None and given <= thresholds.least_of(kind):
            raise BadInput(
                f"{written('catch')} for {kind} is {format_limit(given)}, which must exceed {written('least')},"
                f" {smallest}",
                remedy=f"raise {written('catch')} or lower {written('least')} for {kind}: a change of exactly"
                f" {smallest} is found in half of the cases at most",
            )
    groups = variants[::-1] or read_groups([new, earlier] if earlier else [new])
    # The gate removes copies of the new runs from a history.
    if not history:
        baseline, mixed = written("baseline"), written("history")
        _without_shared_runs(
            groups, f"name earlier runs with {baseline}; if their folder has new ones too, use {mixed}"
        )
    gate = judge_gate(
        groups[0],
        groups[1] if len(groups) > 1 else None,
        thresholds,
        kinds=kinds,
        history=history,
        session_spread=session_spread,
        across=across or bool(variants),
        watch=watch,
    )
    return gate, groups


def _is_among(folder: str, others: Sequence[str]) -> bool:
    """Return whether a folder is one of the others, also by a link or another path to it."""
    return any(folder == other or os.path.realpath(folder) == os.path.realpath(other) for other in others)


#: Remedy for runs that occur twice.
_NO_COPIES = "name each run once, without copies"


def _without_shared_runs(groups: tuple[Group, ...], remedy: str) -> tuple[Group, ...]:
    """Return the groups; BadInput if two of their runs are the same run, also by a link or as a copy.

    `remedy` is the error's remedy if the two are in different groups.
    """
    seen: dict[Hashable, tuple[Group, RecordedRun]] = {}
    for group in groups:
        for run in group.runs:
            if run.run is None:
                continue
            keys = (run.run.path.resolve(), identity_of_run(run))
            first = next((seen[key] for key in keys if key in seen), None)
            if first:
                raise BadInput(
                    f"{run.id} of {group.label} and {first[1].id} of {first[0].label} are the same run",
                    where=str(run.run.path),
                    remedy=_NO_COPIES if first[0] is group else remedy,
                )
            seen |= {key: (group, run) for key in keys if key is not None}
    return groups


def shares_by_measure(shares: Mapping[str, str | float], kinds: Sequence[str], option: str) -> dict[str, float]:
    """Parse shares by measure, numbers or texts such as `5%`; BadInput for a measure that is not among `kinds`.

    `option` is the argument's name for messages.
    """
    parsed = {}
    for name, text in shares.items():
        (kind,) = require_measures([name], option)
        if kind not in kinds:
            raise BadInput(
                f"{option} names {kind}, which is not in --measure", remedy="add it to --measure, or leave it out"
            )
        parsed[kind] = share(text, option)
    return parsed


def parse_bound(text: str, option: str = "--bound") -> Bound:
    """Parse a bound such as `p99<=50ms`; the limit becomes s, 1/s or a share of requests.

    BadInput for another form, for `>=` except with rates, which need it, for a time without a unit, and for a bound
    that always holds or never can. `option` is the argument's name for messages.
    """
    match = re.fullmatch(r"\s*([a-z0-9.-]+)\s*(<=|>=)\s*(\S+)\s*", text)
    if not match:
        raise BadInput(
            f"{option} {text!r} is not a bound", remedy="write it as 'p99<=50ms' or 'throughput>=1000/s', quoted"
        )
    (kind,) = require_measures([match[1]], option)
    wanted = ">=" if kind in RATES else "<="
    if match[2] != wanted:
        raise BadInput(
            f"{kind} needs {'a lower' if wanted == '>=' else 'an upper'} bound; got {option} {text!r}",
            remedy=f"write {kind}{wanted}{match[3]}",
        )
    if kind in RATES:
        limit = reachable_rate(parse_rate(match[3]), f"{option} {text!r}")
        always, remedy = limit <= 0, f"write a rate above 0, such as {kind}>=1000/s"
    elif kind == "errors":
        limit = 0.0 if re.fullmatch(r"0+(\.0*)?%?", match[3]) else share(match[3], f"{option} errors<=")
        always, remedy = limit >= 1, "write a percentage below 100%, such as errors<=1%"
    else:
        limit = parse_duration(match[3])
        always, remedy = exceeds_responses(limit), f"write a time below 1h, such as {kind}<=1s"
        if match[3][-1].isdigit():
            raise BadInput(
                f"{option} {text!r} has no unit", remedy=f"write {kind}<={match[3]}ms or {kind}<={match[3]}s"
            )
        reachable_response(limit, f"{option} {text!r}")
    if always:
        raise BadInput(f"{option} {text!r} always holds", remedy=remedy)
    return Bound(kind, limit)
