"""Analysis of a settings experiment: effects on each response, ranking against the default, winner, confirmation.

Each cluster size is analysed separately, since the best setting depends on it. Ratios use valid runs. Runs in which the
store failed open ends of intervals (see `model`), and a combination at which the store failed does not win.

`description` is the content of experiment.json.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from loadframe.analyze.compare import LEVEL, Comparison, Group, Measure, compare
from loadframe.analyze.compare.warnings import faulty_runs, runs_by_reason
from loadframe.analyze.estimate import Estimate, holm
from loadframe.analyze.executions import AGAIN, FIRST
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, read_experiment
from loadframe.analyze.finding import Finding
from loadframe.analyze.rates import RATES
from loadframe.analyze.scale.saturation import cores_used
from loadframe.analyze.scale.treatments import main_operation
from loadframe.analyze.sessions import blocks_of
from loadframe.analyze.settings import ADAPTIVE, CONFIRM
from loadframe.analyze.settings import warnings as rules
from loadframe.analyze.settings.model import Array, Data, EffectsModel, Term, columns_of, fit_with_failures, widened
from loadframe.analyze.settings.ranking import Numbers, RankedCombination, rank
from loadframe.analyze.telemetry import FRESH_NODE, fresh_nodes
from loadframe.base.units import counted, short_names

#: Schemes that may lack the best combination, so the winner combines the best level of each setting.
_FRACTIONS = ("fraction", "screening")

#: An interaction with more than this part in a term cannot be distinguished from the term.
_WHOLE = 0.99
_LISTED = 4

#: Schemes that change a few settings of the default, so effects belong to the changed settings alone.
_ALONE = ("singles", "pairs", "triples")

Levels = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Response:
    """Model of one measure on logarithms, with p per term, adjusted by Holm's method for all terms of the report."""

    measure: Measure
    model: EffectsModel
    adjusted: Mapping[Term, float]

    def claimed(self, term: Term) -> bool:
        """Return whether a term is significant: its adjusted p is below 0.05."""
        return self.adjusted.get(term, 1.0) < LEVEL


@dataclass(frozen=True, eq=False)
class SettingsAt:
    """Result of a settings experiment for one phase at one size.

    `combinations` are levels in the order of `factors`; number 0 is the default. `costs` are CPU seconds of all nodes
    per success, relative to the default, if nodes were monitored. `winner` is None if nothing beats the default.
    `failed` gives the failed and all runs of each combination at which the store failed. `unknown` are the settings
    that have a level whose effect on the first response the valid runs do not determine.
    """

    at: Mapping[str, Any]
    phase: str
    factors: tuple[str, ...]
    objective: Measure
    combinations: tuple[Levels, ...]
    responses: tuple[Response, ...]
    standings: tuple[RankedCombination, ...]
    costs: Mapping[int, float]
    winner: Levels | None
    confirmation: Comparison | None
    #: The combination and objective of each run in order: the course of an optimiser.
    course: tuple[tuple[int, float], ...]
    warnings: tuple[Finding, ...]
    failed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Settings:
    """Analysis of a settings experiment."""

    folder: RecordedExperiment
    results: tuple[SettingsAt, ...]


def read_settings(path: Any) -> Settings:
    """Return the analysis of a settings experiment's folder; BadInput if it is not an experiment or is broken.

    KeyError for an experiment of another kind.
    """
    folder = read_experiment(path)
    return Settings(folder, tuple(analyse(folder.description, folder.counted)))


def analyse(description: Mapping[str, Any], runs: Sequence[RecordedRun], *, costs: bool = True) -> list[SettingsAt]:
    """Return the result of each phase at each size, by size first; `description` is the content of experiment.json.

    `costs`: whether to compute CPU costs and look for fresh nodes, which reads the telemetry of each run.
    """
    sizes: Mapping[str, Sequence[Any]] = description.get("at") or {}
    designs = []
    for levels in itertools.product(*(description["factors"][name] for name in sizes)):
        at = dict(zip(sizes, levels, strict=True))
        design = [run for run in runs if at.items() <= run.treatment.items()]
        designs += [_designed(description, design, at, phase) for phase in description["measure"]]
    responses = adjust_together([_responses(description, designed) for designed in designs])
    return [
        _analyse(description, designed, modelled, costs, len(designs))
        for designed, modelled in zip(designs, responses, strict=True)
    ]


def adjust_together(results: Sequence[Sequence[Response]]) -> list[tuple[Response, ...]]:
    """Return the responses of each result, with p values adjusted by Holm's method for all terms of all responses."""
    places = [
        (number, index, fit.term, fit.p)
        for number, responses in enumerate(results)
        for index, response in enumerate(responses)
        for fit in response.model.terms
        if fit.p is not None
    ]
    adjusted: dict[tuple[int, int], dict[Term, float]] = {}
    for (number, index, term, _), p in zip(places, holm([p for *_, p in places]), strict=True):
        adjusted.setdefault((number, index), {})[term] = p
    return [
        tuple(replace(response, adjusted=adjusted.get((number, index), {})) for index, response in enumerate(responses))
        for number, responses in enumerate(results)
    ]


@dataclass(frozen=True, eq=False)
class _Designed:
    """Runs of one phase at one size: all, the design's (`designed`), and the ones with a figure (`used`)."""

    at: Mapping[str, Any]
    phase: str
    main: str | None
    objective: Measure
    factors: Mapping[str, Sequence[Any]]
    runs: Sequence[RecordedRun]
    designed: Sequence[RecordedRun]
    used: Sequence[RecordedRun]
    #: The indices of the levels of each run in `used`, in the order of the factors.
    rows: Sequence[tuple[int, ...]]
    blocks: Sequence[Hashable]
    #: The runs in which the store failed, with their levels and blocks.
    failed: Sequence[RecordedRun]
    failed_rows: Sequence[tuple[int, ...]]
    failed_blocks: Sequence[Hashable]


def _designed(
    description: Mapping[str, Any], runs: Sequence[RecordedRun], at: Mapping[str, Any], phase: str
) -> _Designed:
    """Return the valid and failed runs of the design at the levels `at`, as rows of level numbers with their blocks.

    Confirmation runs are left out. Valid runs survived, and their objective has a value above 0 and an upper bound.
    `runs` must be those at `at` (factor -> level); the rows have the other factors. Adaptive schemes have one block.
    """
    factors = {name: list(levels) for name, levels in description["factors"].items() if name not in at}
    main = main_operation([run for run in runs if run.usable] or runs, phase)
    objective = Measure(phase, description["objective"], None if description["objective"] in RATES else main)
    designed = [run for run in runs if not run.id.startswith(CONFIRM)]
    used = [run for run in designed if run.survived and objective.of(run) and math.isfinite(objective.figure(run).high)]
    failed = [run for run in designed if run.requests_failed]
    both = [*used, *failed]
    rows = [tuple(_index(levels, run.treatment.get(name)) for name, levels in factors.items()) for run in both]
    adaptive = description["scheme"] in ADAPTIVE
    blocks: Sequence[Hashable] = [0] * len(both) if adaptive else blocks_of(both)
    number = len(used)
    return _Designed(
        at, phase, main, objective, factors, runs, designed, used, rows[:number], blocks[:number], failed,
        rows[number:], blocks[number:],
    )  # fmt: skip


def _responses(description: Mapping[str, Any], design: _Designed) -> tuple[Response, ...]:
    """Return the model of each measure of a phase, without adjusted p values; the objective is first.

    The others are throughput (of closed loads), p50 and p99 of the main operation, and means of first and later
    executions. A measure without known values or terms is left out. Empty without usable runs, and for adaptive
    schemes.
    """
    if not design.used or description["scheme"] in ADAPTIVE:
        return ()
    phase = design.phase
    others = [Measure(phase, "throughput"), Measure(phase, "p50", design.main), Measure(phase, "p99", design.main)]
    others = [other for other in others if other.kind not in RATES or _closed(design.used, phase)]
    measures = dict.fromkeys([design.objective, *others, *_execution_means(design.used, phase)])
    modelled = (_response(measure, design, description) for measure in measures if _known(measure, design))
    return tuple(response for response in modelled if response.model.terms)


def _analyse(
    description: Mapping[str, Any], design: _Designed, responses: tuple[Response, ...], costs: bool, results: int
) -> SettingsAt:
    """Return the result of one phase at one size; `results` is the number of such results in the report.

    `costs`: read the telemetry: add the cost of each combination, and look for fresh nodes.
    """
    factors, objective, designed, used, rows = (
        design.factors,
        design.objective,
        design.designed,
        design.used,
        design.rows,
    )
    default = (0,) * len(factors)
    with_figures = list(dict.fromkeys([default, *rows]))
    failed_runs, failed_at = design.failed, design.failed_rows
    numbers = {row: number for number, row in enumerate(dict.fromkeys([*with_figures, *failed_at]))}
    combinations = tuple(
        tuple(levels[index] for levels, index in zip(factors.values(), row, strict=True)) for row in numbers
    )
    chosen = [numbers[row] for row in rows]
    logs = np.array([math.log(objective.of(run) or math.nan) for run in used])
    higher = objective.better == "higher"
    effects = _claimed_columns(responses[0], np.array(with_figures)) if responses else None
    failures = _Failures(rows, failed_at)
    failed = {numbers[row]: failures.at(dict(enumerate(row))) for row in dict.fromkeys(failed_at)}
    standings: tuple[RankedCombination, ...] = ()
    if used:
        ranked = rank(chosen, design.blocks, logs, higher=higher, effects=effects, results=results, failed=failed)
        standings = _failed_last(ranked, list(numbers), failures, higher=higher)
    unknown = _unknown(responses[0], list(factors), designed) if responses else ()
    best = _winner(description["scheme"], responses, standings, factors, combinations, higher, failures)
    confirmation = _confirmation(design.runs, factors, best, design.at, objective)
    return SettingsAt(
        at=design.at,
        phase=design.phase,
        factors=tuple(factors),
        objective=objective,
        combinations=combinations,
        responses=responses,
        standings=standings,
        costs=_costs(used, chosen, design.phase) if costs else {},
        winner=best,
        confirmation=confirmation,
        course=tuple(zip(chosen, np.exp(logs).tolist(), strict=True)),
        warnings=(
            *_failing(failed_runs, failed_at, failures, factors, responses),
            *faulty_runs([Group("the design", tuple(designed), strict=True)]),
            *(fresh_nodes(_of_figures(used, design.runs), [design.phase]) if costs else ()),
            *_doubts(description["scheme"], design, responses, best, confirmation),
            *([rules.UNKNOWN_EFFECTS(settings=[short(name) for name in unknown])] if unknown else []),
        ),
        failed=failed,
        unknown=unknown,
    )


def _execution_means(runs: Sequence[RecordedRun], phase: str) -> list[Measure]:
    """Return measures for the mean response times of first and later executions of each operation.

    Only for operations that distinguish them. First executions are too few for percentiles.
    """
    names = dict.fromkeys(
        f"{name}.{part}"
        for run in runs
        for name, operation in run.operations(phase).items()
        for part in (FIRST, AGAIN)
        if part in operation.parts
    )
    return [Measure(phase, "mean", name) for name in names]


def _known(measure: Measure, design: _Designed) -> list[int]:
    """Return the indices of the used runs with a value of the measure above 0 and an upper bound.

    A value without an upper bound cannot show an effect.
    """
    return [
        index for index, run in enumerate(design.used) if measure.of(run) and math.isfinite(measure.figure(run).high)
    ]


def _response(measure: Measure, design: _Designed, description: Mapping[str, Any]) -> Response:
    """Return the model of a measure, with the ends of intervals open that failed runs hide.

    Runs without a known value are left out; at least one must have one.
    """
    known = _known(measure, design)
    values = [math.log(measure.of(design.used[index]) or math.nan) for index in known]
    failed = len(design.failed_rows)
    rows = [*(design.rows[index] for index in known), *design.failed_rows]
    blocks = [*(design.blocks[index] for index in known), *design.failed_blocks]
    hard = [name in description["hard"] for name in design.factors]
    model = fit_with_failures(
        Data(
            rows=np.array(rows),
            response=np.array([*values, *[0.0] * failed]),
            blocks=blocks,
            plots=[
                (block, *(level for level, is_hard in zip(row, hard, strict=True) if is_hard))
                for row, block in zip(rows, blocks, strict=True)
            ],
            levels=[max(row[index] for row in rows) + 1 for index in range(len(design.factors))],
            hard=hard,
            alone=description["scheme"] in _ALONE,
        ),
        failed,
        higher=measure.better == "higher",
    )
    model = widened(model, measure.stretch(design.used[index] for index in known))
    return Response(measure, model, {})


def _claimed_columns(response: Response, rows: Numbers) -> Array | None:
    """Return the columns of the significant terms, with a row for each combination, or None without any.

    `rows` has the level numbers of each combination.
    """
    levels = rows.max(axis=0) + 1
    claimed = [fit.term for fit in response.model.terms if response.claimed(fit.term)]
    columns = [columns_of(rows, levels.tolist(), term, balanced=response.model.balanced) for term in claimed]
    return np.column_stack(columns) if columns else None


class _Failures:
    """Counts of failed runs and of runs with figures, by levels."""

    def __init__(self, rows: Sequence[tuple[int, ...]], failed: Sequence[tuple[int, ...]]) -> None:
        """Store the levels of runs with figures and of failed runs, as indices in the order of the factors."""
        self._rows = rows
        self._failed = failed

    def at(self, levels: Mapping[int, int]) -> tuple[int, int]:
        """Return the number of failed runs and of all runs at these levels of some factors.

        `levels` maps numbers of factors to numbers of their levels.
        """
        failed, good = (
            sum(all(row[index] == level for index, level in levels.items()) for row in rows)
            for rows in (self._failed, self._rows)
        )
        return failed, failed + good

    def more_than_default(self, levels: Mapping[int, int]) -> bool:
        """Return whether the share of failed runs is larger at these levels than at the factors' default levels.

        `levels` maps numbers of factors to numbers of their levels. The share is 0 without runs.
        """
        (failed, total), (before, total_before) = self.at(levels), self.at(dict.fromkeys(levels, 0))
        return failed * max(total_before, 1) > before * max(total, 1)


def _failed_last(
    ranked: Sequence[RankedCombination], rows: Sequence[tuple[int, ...]], failures: _Failures, *, higher: bool
) -> tuple[RankedCombination, ...]:
    """Return the ranking with the combinations last at which the store failed, without a probability.

    `rows` has the level numbers of each combination. The default keeps its place. The runs that survive are a
    selection, so the ratio of such a combination is bounded on its good side only. If the store failed at the default,
    the ratios of all others are bounded on their bad side only.
    """

    def failed(number: int) -> bool:
        """Return whether the store failed at the combination with this number."""
        return failures.at(dict(enumerate(rows[number])))[0] > 0

    def opened(standing: RankedCombination) -> RankedCombination:
        """Return a standing with its ratio unbounded on the sides that failures of either combination hide."""
        ratio, here, there = standing.ratio, failed(standing.combination), failed(0)
        lower, upper = (here, there) if higher else (there, here)
        ratio = Estimate(ratio.value, 0.0 if lower else ratio.low, math.inf if upper else ratio.high)
        return replace(standing, ratio=ratio, better=None if here else standing.better)

    standings = [opened(standing) if standing.combination else standing for standing in ranked]
    return tuple(sorted(standings, key=lambda standing: standing.combination != 0 and failed(standing.combination)))


def _failing(
    failed_runs: Sequence[RecordedRun],
    failed_at: Sequence[tuple[int, ...]],
    failures: _Failures,
    factors: Mapping[str, Sequence[Any]],
    responses: Sequence[Response],
) -> Iterator[Finding]:
    """Yield a finding for each combination at which the store failed.

    `failed_runs` and `failed_at` are the failed runs and their level numbers, `factors` the levels of each factor.
    """
    hidden = hidden_settings(responses[0], list(factors)) if responses else ()
    for row in dict.fromkeys(failed_at):
        levels = [levels[index] for levels, index in zip(factors.values(), row, strict=True)]
        runs = [run for run, at in zip(failed_runs, failed_at, strict=True) if at == row]
        failed, total = failures.at(dict(enumerate(row)))
        yield rules.FAILED_COMBINATION(
            combination=_changed(factors, levels) or "the default",
            failed=failed,
            total=total,
            listed=runs_by_reason(runs),
            hidden=hidden,
        )


def _changed(factors: Mapping[str, Sequence[Any]], levels: Sequence[Any]) -> str:
    """Return in words the levels that differ from the default, such as `refresh 30s`; empty without any."""
    names = short_names(factors)
    return ", ".join(
        f"{names[name]} {level}"
        for (name, factor), level in zip(factors.items(), levels, strict=True)
        if level != factor[0]
    )


def _row(factors: Mapping[str, Sequence[Any]], levels: Levels) -> dict[int, int]:
    """Return factor number -> number of its level (0 for the default), for the levels of a combination."""
    pairs = zip(factors.values(), levels, strict=True)
    return {index: _index(factor, level) for index, (factor, level) in enumerate(pairs)}


def _winner(
    scheme: str,
    responses: Sequence[Response],
    standings: Sequence[RankedCombination],
    factors: Mapping[str, Sequence[Any]],
    combinations: Sequence[Levels],
    higher: bool,
    failures: _Failures,
) -> Levels | None:
    """Return the best combination; None if it is the default or the store failed at it.

    The schemes `fraction` and `screening` combine the best level of each factor with a significant effect. Such a level
    has an interval above the default, failed runs included, and no larger share of them. The other schemes take the
    first of `standings`. `higher`: more is better.
    """
    if scheme in _FRACTIONS and responses:
        levels = []
        for index, factor in enumerate(factors.values()):
            better = [
                contrast
                for contrast in responses[0].model.contrasts
                if contrast.term == (index,) and contrast.excludes_none and (contrast.value > 0) == higher
                and responses[0].claimed((index,)) and not failures.more_than_default({index: contrast.levels[0]})
            ]  # fmt: skip
            best = max(better, key=lambda contrast: abs(contrast.value), default=None)
            levels.append(factor[best.levels[0] if best else 0])
        chosen = tuple(levels)
        return None if chosen == combinations[0] or failures.at(_row(factors, chosen))[0] else chosen
    if not standings or standings[0].combination == 0:
        return None
    first = combinations[standings[0].combination]
    return None if failures.at(_row(factors, first))[0] else first


def _confirmation(
    runs: Sequence[RecordedRun],
    factors: Mapping[str, Sequence[Any]],
    winner: Levels | None,
    at: Mapping[str, Any],
    objective: Measure,
) -> Comparison | None:
    """Return the comparison of the winner's confirmation runs with those of the default, at the size `at`.

    It has the kind of measure of `objective`, and p99. None without a winner, without a usable run of the default, or
    with no run of the winner.
    """
    if winner is None:
        return None
    groups = []
    for label, levels in (("default", tuple(factor[0] for factor in factors.values())), ("winner", winner)):
        treatment = {**dict(zip(factors, levels, strict=True)), **at}
        again = [run for run in runs if run.id.startswith(CONFIRM) and _same(run.treatment, treatment)]
        # `strict`: failed requests count against the winner, although a comparison would accept such runs.
        groups.append(Group(label, tuple(again), strict=True))
    if not all(group.usable or group.failed for group in groups) or not groups[0].usable:
        return None
    kinds = list(dict.fromkeys([objective.kind, "p99"]))
    return compare(groups, kinds, intended=True)


def _doubts(
    scheme: str,
    design: _Designed,
    responses: Sequence[Response],
    winner: Levels | None,
    confirmation: Comparison | None,
) -> list[Finding]:
    """Return findings about missing combinations, effects that cannot be separated, and the winner's confirmation.

    Also about an unknown variance of runs. Findings about effects concern the first of `responses`. Combinations at
    which the store failed are not missing: `_failing` has a finding for each.
    """
    findings: list[Finding] = []
    factors = design.factors
    treatments, failed = ({_key(run.treatment) for run in runs} for runs in (design.designed, design.failed))
    shown = Counter(_key(run.treatment) for run in design.used)
    missing = treatments - failed - set(shown)
    if missing:
        findings.append(rules.INCOMPLETE(missing=len(missing), total=len(treatments), measure=design.objective.phrase))
    if not responses and scheme not in ADAPTIVE:
        findings.append(rules.NOTHING_VARIED())
    if responses:
        model = responses[0].model
        if not model.freedom:
            judged = any(fit.p is not None for fit in model.terms)
            repeated = {key for key, runs in shown.items() if runs > 1}
            findings.append(
                rules.UNREPEATED(
                    judged=judged, repeated=bool(repeated), of_survivors=bool(repeated) and repeated <= failed
                )
            )
        varied = sum(len(levels) > 1 for levels in factors.values())
        if varied > 1 and scheme in (*_FRACTIONS, "singles") and all(len(fit.term) == 1 for fit in model.terms):
            findings.append(_interactions(scheme, responses[0], tuple(factors)))
    if winner is not None and confirmation is None:
        findings.append(rules.NOT_CONFIRMED(winner=_changed(factors, winner)))
    if confirmation:
        # Fresh nodes are reported once, for the runs of design and confirmation together.
        findings += [finding for finding in confirmation.warnings if finding.rule != FRESH_NODE]
    return findings


def _of_figures(used: Sequence[RecordedRun], runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Return the runs behind the figures of a result: `used`, those of the design, and usable confirmation runs."""
    return [*used, *(run for run in runs if run.id.startswith(CONFIRM) and run.usable)]


def _interactions(scheme: str, response: Response, factors: Sequence[str]) -> Finding:
    """Return a finding about interactions that may explain the effects, for a design with main effects only."""
    aliased = {fit.term: aliases_text(response.model, fit.term, factors) for fit in response.model.terms}
    if not any(aliased.values()):
        return rules.INTERACTIONS_UNKNOWN(scheme=scheme, alone=not response.model.balanced)
    claimed = [term for term, others in aliased.items() if others and response.claimed(term)]
    effects = tuple((term_name(term, factors), aliased[term]) for term in claimed or list(aliased)[:1])
    return rules.ALIASED(scheme=scheme, effects=effects)


def _unknown(response: Response, factors: Sequence[str], designed: Sequence[RecordedRun]) -> tuple[str, ...]:
    """Return the settings that have a level whose effect on a response the valid runs do not determine.

    `factors` are the settings of the model, `designed` the runs of the design.
    """
    known = Counter(contrast.term for contrast in response.model.contrasts)
    varied = [len({_key({name: run.treatment.get(name)}) for run in designed}) - 1 for name in factors]
    return tuple(name for index, name in enumerate(factors) if known[(index,)] < varied[index])


def hidden_settings(response: Response, factors: Sequence[str]) -> tuple[str, ...]:
    """Return short names of the settings with unknown effects, because they may interact where all runs failed.

    Other levels of these settings may have known effects. `factors` are the settings of the model.
    """
    unknown = {one.term for one in response.model.contrasts if math.isnan(one.ratio.value)}
    lost = {index for term in response.model.lost for index in term}
    return tuple(short(name) for index, name in enumerate(factors) if index in lost and (index,) in unknown)


def aliases_text(model: EffectsModel, term: Term, factors: Sequence[str]) -> str:
    """Return in words the interactions of two factors that are aliased with a term: in whole, then in part.

    At most four are named. Empty without any. Interactions of three are aliased with almost every term, and rare.
    """
    pairs = [alias for alias in model.aliases.get(term, ()) if len(alias.term) == 2]
    whole = [term_name(alias.term, factors) for alias in pairs if alias.part > _WHOLE]
    parts = [alias for alias in pairs if alias.part <= _WHOLE]
    words = whole[:_LISTED]
    if len(whole) > _LISTED:
        words.append(counted(len(whole) - _LISTED, "more interaction"))
    if len(parts) == 1:
        words.append(f"a part ({parts[0].part:.2g}) of {term_name(parts[0].term, factors)}")
    elif parts:
        words.append(f"parts (up to {max(alias.part for alias in parts):.2g}) of {len(parts)} interactions of two")
    return " or ".join(words)


def term_name(term: Term, factors: Sequence[str]) -> str:
    """Return a term's name: the short names of its factors joined by ` × `; `term` has their numbers."""
    return " × ".join(short(factors[index]) for index in term)


def short(name: str) -> str:
    """Return a factor's name without a prefix such as `store.settings.` or `with.`: the name of the setting."""
    for before in ("store.settings.", "store.limits.", "with."):
        name = name.removeprefix(before)
    return name.partition(".settings.")[2] or name if name.startswith("collections.") else name


def _costs(runs: Sequence[RecordedRun], chosen: Sequence[int], phase: str) -> dict[int, float]:
    """Return combination number -> CPU seconds per success, relative to the default's (number 0).

    `chosen` has the combination number of each run. Combinations without samples of CPU are left out; empty if the
    default is one of them.
    """
    spent: dict[int, list[float]] = {}
    rate = Measure(phase, "throughput")
    for run, number in zip(runs, chosen, strict=True):
        cores, throughput = _cores(run, phase), rate.of(run)
        if cores and throughput:
            spent.setdefault(number, []).append(cores / throughput)
    if 0 not in spent:
        return {}
    return {number: fmean(values) / fmean(spent[0]) for number, values in spent.items()}


def _cores(run: RecordedRun, phase: str) -> float:
    """Return the mean number of cores that all nodes used in the measured window; 0 if unknown."""
    return cores_used(run.uncached(), phase)


def _closed(runs: Sequence[RecordedRun], phase: str) -> bool:
    """Return whether the phase has only closed loads in these runs."""
    return not any(stream.is_open for run in runs for stream in run.streams(phase))


def _index(levels: Sequence[Any], level: Any) -> int:
    """Return the index of a level among the levels of a factor; `true` differs from 1.

    StopIteration if it is not there.
    """
    return next(
        index
        for index, candidate in enumerate(levels)
        if candidate == level and isinstance(candidate, bool) == isinstance(level, bool)
    )


def _same(treatment: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two treatments have the same levels."""
    return _key(treatment) == _key(other)


def _key(treatment: Mapping[str, Any]) -> str:
    """Return a treatment as text, equal for equal treatments."""
    return json.dumps(dict(treatment), sort_keys=True)
