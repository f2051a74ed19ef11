"""Report on an elastic experiment: sentences, measures as texts, page and terminal output."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.text import Text

from loadframe.analyze.elastic import (
    MEASURES,
    Elasticity,
    Group,
    Repeated,
    StepMeasures,
    by_chance,
    drifted,
    read_elasticity,
)
from loadframe.analyze.estimate import Estimate, proportion
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding
from loadframe.analyze.rates import EVENTS, RATES, THROUGHPUT, Rate
from loadframe.base.errors import BadInput
from loadframe.base.event_kinds import FIRED, NEVER
from loadframe.base.units import (
    counted,
    format_count,
    format_duration,
    format_nodes,
    format_share,
    format_size,
    parse_size,
)
from loadframe.report.fit import print_findings
from loadframe.report.kinds import Report
from loadframe.report.numbers import estimate_text, percent_text
from loadframe.report.page import Page, render
from loadframe.report.plot import Figure
from loadframe.report.plots.elastic import run_plot
from loadframe.report.run_status import print_trust
from loadframe.report.sections import Further, further
from loadframe.report.setup import clusters_text, experiment_facts, stores_of
from loadframe.report.tables import Cell, Number, Sections, Table, estimate_cell, runs_view
from loadframe.report.terminal_table import TerminalTable

_PER_SECOND = {rate.unit for rate in (*RATES.values(), EVENTS)}


@dataclass(frozen=True)
class Row:
    """Texts of one measure: value with the event, value in the control runs, difference, and definition.

    `numbers` are those behind value, control and difference.
    """

    title: str
    value: str
    control: str
    difference: str
    says: str
    numbers: Sequence[Number]


def heading(group: Group) -> str:
    """Return the heading of a group: its transition and load."""
    return f"{group.transition}, {group.load}"


def step_heading(step: StepMeasures) -> str:
    """Return the heading of a step: its number, change, node counts and observation time."""
    nodes = format_nodes(step.before)
    more = "" if step.after == step.before else f", then {format_count(step.after)}"
    watched = f"{format_duration(step.horizon)} observed"
    return f"Step {step.number}: {step.change or 'no change'} ({nodes}{more}; {watched})"


def lead(group: Group) -> list[str]:
    """Return sentences on each step; without a valid run, why the question is unanswered."""
    if not group.runs:
        return list(_unanswered(group))
    return [words for step in group.steps for words in _sentences(group, step)]


def _unanswered(group: Group) -> Iterator[str]:
    """Yield sentences: no run is valid; then, if an invalid run is shown instead, its causes and the validity rules."""
    yield "No answer: no run with the event is valid."
    if group.example:
        yield f"{shown_as_invalid(group.example)} No figure uses it."
        yield _RULES


def shown_as_invalid(run: RecordedRun) -> str:
    """Return a sentence: the plot shows this invalid run, for these causes. That the run is invalid is not checked."""
    causes = "; ".join(reason.cause for reason in run.reasons)
    return f"The plot shows {run.id}, which is invalid: {causes}."


#: `verdict.judge` has the rules for runs that change the cluster.
_RULES = (
    "Runs that change the cluster are invalid if the load generator was the limit, no request succeeded, or a step was"
    " not started. Failed or dropped requests, a step that failed, an offered rate that was not achieved, and drifting"
    " throughput do not make a run invalid, because the change may cause them."
)


def _sentences(group: Group, step: StepMeasures) -> list[str]:
    """Return sentences on a step: how long it took, its cost, failed requests, the gain in throughput, and p99."""
    measures = step.measures
    parts = []
    if step.joins:
        parts.append(_joining(measures["join_delay"], *step.joins))
    if "departure" in measures:
        parts.append(f"the node had left after {_measure_text(measures['departure'])}")
    if "redistribution" in measures:
        # The time starts when the node is a member, or with the request to leave.
        took, left = _measure_text(measures["redistribution"]), "departure" in measures
        parts.append(f"all data were in place after {took}" if left else f"its data were in place {took} later")
    if "stabilisation" in measures:
        parts.append(f"throughput and response times had settled after {_measure_text(measures['stabilisation'])}")
    words = [f"{step.change or 'Without a change'}: {', '.join(parts) or 'see the table'}."]
    words[0] = words[0][:1].upper() + words[0][1:]
    if "lost_work" in measures:
        lost = measures["lost_work"]
        cost = _cost(lost)
        even = measures.get("break_even")
        costly = lost.difference is None or lost.difference.value > 0
        if costly and even and even.mean.value and step.after > step.before:
            cost += (
                f"; recovered after {_measure_text(even)}" if even.censored < len(even.values) else "; not recovered"
            )
        words.append(f"{cost}.")
    if "errors" in measures and measures["errors"].mean.value:
        words.append(_failures(measures["errors"]))
    if "realised_gain" in measures and step.after > step.before:
        growth, gain = step.after / step.before, measures["realised_gain"].mean
        gave = f"{format_count(growth)} times the nodes gave {format_count(round(gain.value * growth, 2))} times the"
        counted = "" if group.rate is THROUGHPUT else f" ({group.rate.unit})"
        gave += f" throughput{counted}{_of(measures['realised_gain'])}"
        if drift := drifted(measures):
            words.append(
                f"{gave}, but without them, in the control run, throughput changed to {_text(drift, '')} times as much:"
                " the effect of the nodes cannot be separated from drift."
            )
        elif more := by_chance(measures):
            words.append(
                f"{gave}, and the control runs without them {_control_growth(measures['growth'])} times. The"
                f" difference, {estimate_text(more)}, may be chance: the result is inconclusive."
            )
        else:
            words.append(f"{gave}{_gain_text(gain, growth)}.")
    if group.open and "slowdown" in measures:
        words.append(_slowdown(measures))
    return words


def _slowdown(measures: Mapping[str, Repeated]) -> str:
    """Write p99 in the worst second of a step, relative to that before, and p99 before and after, if known."""
    slow = measures["slowdown"]
    factor = estimate_text(slow.mean) if slow.mean.is_finite else format_count(slow.mean.value)
    least = "at least " if slow.censored else ""
    words = f"In the worst second, p99 was {least}{factor} times its value before the step{_of(slow)}"
    if "l0" in measures and "l1" in measures:
        words += f"; it was {_measure_text(measures['l0'])} before and {_measure_text(measures['l1'])} after the step"
    return f"{words}."


def _failures(errors: Repeated) -> str:
    """Write the mean number of failed and dropped requests after a step, and that in the control runs, if any."""
    words = f"{_measure_text(errors)} requests failed or were dropped"
    if errors.control:
        words += f", {_text(_alone(fmean(value.value for value in errors.control.values())), '')} in the control run"
    return f"{words}."


def _joining(delay: Repeated, joined: int, runs: int) -> str:
    """Write in how many of all `runs` the node joined (`joined`), and the mean `delay` in those runs."""
    if joined == runs:
        return f"the node was a member after {_measure_text(delay)}"
    share = proportion(joined, runs)
    interval = f"[{100 * share.low:.0f}, {100 * share.high:.0f}]"
    words = f"the node joined in {joined} of {counted(runs, 'run')} ({format_share(share.value)} {interval})"
    return words if delay.conditional is None else f"{words}, after {_duration(delay.conditional)}"


def _gain_text(gain: Estimate, growth: float) -> str:
    """Write the gain of added nodes as the end of a sentence; a loss only if the whole interval shows one.

    Without a finite interval, write the gain or loss as that of a single run, of unknown variance. `growth` is the
    number of nodes after the step over that before it. `gain` times `growth` is the factor by which throughput changed.
    """
    if not gain.is_finite:
        less = gain.value * growth < 1
        seen = "less than before" if less else f"a realised gain of {_text(gain, 'share')}"
        return f": {seen}, in a single run, so the run-to-run variance is unknown"
    if gain.high * growth < 1:
        return ": more nodes, less throughput"
    if gain.low * growth <= 1:
        return ": neither gain nor loss exceeds the run-to-run variance"
    return f": a realised gain of {_text(gain, 'share')}"


def _control_growth(measure: Repeated) -> str:
    """Write the mean factor of throughput in the control runs over the step. AssertionError without control runs."""
    assert measure.drift
    return format_count(round(measure.drift.value, 2))


def _cost(lost: Repeated) -> str:
    """Write the work that a step cost, as the time that the throughput before would need for it.

    With a control run, write only the cost beyond the work that the control run lost.
    """
    if lost.difference is None:
        return f"The step cost the work of {_duration(lost.mean)}{_of(lost)}"
    if lost.difference.value <= 0:
        return f"The step cost no more work than the control run lost{_part(lost.compared, lost.runs)}"
    more = f"The step cost the work of {_duration(lost.difference)} more than the control run lost"
    return more + _part(lost.compared, lost.runs)


def rows(step: StepMeasures, rate: Rate) -> list[Row]:
    """Return the texts of each measure of a step, in the step's order. `rate` gives the unit of throughputs."""
    return [_row(measure, rate) for measure in step.measures.values()]


def score_rows(group: Group) -> list[tuple[str, Sequence[str]]]:
    """Return (run, texts of its scores in the order of `SCORES[1:]`) for each run; empty without a scaling policy."""
    return [
        (
            run,
            (
                format_share(score.under_accuracy, 1),
                format_share(score.over_accuracy, 1),
                format_share(score.under_share, 1),
                format_share(score.over_share, 1),
                f"{60 * score.jitter:+.2f}/min",
            ),
        )
        for run, score in group.provisioning.items()
    ]


SCORES = ("run", "too few: accuracy", "too many: accuracy", "too few: time", "too many: time", "jitter")


def _row(measure: Repeated, rate: Rate) -> Row:
    """Return the row of a measure: its mean with the interval, the mean of the control runs, and their difference.

    The latter two are a dash without control runs. `rate` gives the unit of throughputs.
    """
    named = MEASURES[measure.name]
    unit = rate.unit if named.unit == "rate" else named.unit
    control = [value.value for value in measure.control.values()]
    censored = any(value.censored for value in measure.control.values())
    alone = _alone(sum(control) / len(control)) if control else None
    return Row(
        title=named.title,
        value=_measure_text(measure, unit),
        control="–" if alone is None else f"{'> ' * censored}{_text(alone, unit)}",
        difference="–"
        if measure.difference is None
        else _text(measure.difference, unit) + _part(measure.compared, measure.runs),
        says=named.says.format(counted=rate.counted),
        numbers=(
            _number(_alone(measure.mean.value) if measure.censored else measure.mean, unit, bool(measure.censored)),
            _number(alone, unit, censored),
            _number(measure.difference, unit),
        ),
    )


def _number(estimate: Estimate | None, unit: str, censored: bool = False) -> Number:
    """Return the number behind a text, in the unit of CSV files; unknown for None.

    Shares become percent, and ends that are not finite become None. A `censored` value is a lower bound: the number has
    only that end.
    """
    base = {"share": "%", "s": "s", "seconds": "s", "bytes": "B", "bytes/s": "B/s"}.get(unit, "")
    if estimate is None:
        return Number(None, base)
    value, low, high = (
        (100 if unit == "share" else 1) * end if math.isfinite(end) else None
        for end in (estimate.value, estimate.low, estimate.high)
    )
    return Number(None, base, value) if censored else Number(value, base, low, high)


def _measure_text(measure: Repeated, unit: str | None = None) -> str:
    """Write a measure: `12.3 s [10.1, 14.5]`, `> 480 s (in 1 of 3 runs)`, `12.3 s (from 1 of 3 runs)`.

    `>` marks runs in which the event did not happen before the end; the number is their smallest bound. The mean of the
    other runs follows after `;`. `unit` replaces the unit of the measure's definition.
    """
    unit = unit or MEASURES[measure.name].unit
    bounds = [value.value for value in measure.values.values() if value.censored]
    if not bounds:
        return _text(measure.mean, unit) + _of(measure)
    runs = f" (in {len(bounds)} of {len(measure.values)} runs)" if len(measure.values) > 1 else ""
    # Not the mean of all runs, which no run may have.
    text = f"> {_text(_alone(min(bounds)), unit)}{runs}"
    if measure.conditional:
        text += f"; {_text(measure.conditional, unit)} in the others"
    return text + _of(measure)


def _of(measure: Repeated) -> str:
    """Write how many runs have the measure, such as ` (from 1 of 3 runs)`; empty if all have."""
    return _part(len(measure.values), measure.runs)


def _part(known: int, runs: int) -> str:
    """Write that a figure comes from `known` of all runs; empty if it comes from all."""
    return f" (from {known} of {counted(runs, 'run')})" if known < runs else ""


def _alone(value: float) -> Estimate:
    """Return a value as an estimate with an unlimited interval, which texts omit."""
    return Estimate(value, -math.inf, math.inf)


def _text(estimate: Estimate, unit: str) -> str:
    """Write an estimate in the unit of a measure, such as `share` (of one, written in %), `s` or `bytes`.

    An infinite interval is omitted. If only one end is known and above 0, the text names it: `12.3 s (at least 8 s)`.
    """
    ends = [(word, end) for word, end in (("least", estimate.low), ("most", estimate.high)) if math.isfinite(end)]
    if len(ends) == 1 and ends[0][1] > 0:
        ((word, end),) = ends
        return f"{_text(_alone(estimate.value), unit)} (at {word} {_text(_alone(end), unit)})"
    if unit == "share":
        return percent_text(estimate) if estimate.is_finite else f"{100 * estimate.value:.3g} %"
    if unit in ("s", "seconds"):
        return _duration(estimate)
    if unit in _PER_SECOND:
        has_interval = estimate.is_finite and estimate.low < estimate.high
        return _in(estimate, 1.0, unit) if has_interval else f"{format_count(round(estimate.value, 2))} {unit}"
    if unit in ("bytes", "bytes/s"):
        return _size(estimate, unit.removeprefix("bytes"))
    return estimate_text(estimate) if estimate.is_finite else format_count(estimate.value)


def _duration(estimate: Estimate) -> str:
    """Write a duration in s, or in ms if value and interval are below 1 s, with the interval if it is finite."""
    if not estimate.is_finite:
        return format_duration(estimate.value) if estimate.value else "0 s"
    if estimate.low == estimate.high:
        return format_duration(estimate.value) if estimate.value else "0 s"
    small = abs(estimate.value) < 1.0 and abs(estimate.high) < 1.0
    return _in(estimate, *((1e-3, "ms") if small else (1.0, "s")))


def _size(estimate: Estimate, per: str) -> str:
    """Write a size in bytes with its interval if it is finite; `per` is the end of the unit, `/s` or empty."""
    if not estimate.is_finite or estimate.low == estimate.high:
        return format_size(estimate.value) + per
    unit = format_size(estimate.value).rpartition(" ")[2]
    return _in(estimate, parse_size(f"1{unit}"), unit + per)


def _in(estimate: Estimate, unit: float, name: str) -> str:
    """Write an estimate with its interval, divided by `unit` and followed by the unit's name `name`: `12 ms [10, 14]`.

    The interval must be finite, and not a point.
    """
    scaled = Estimate(estimate.value / unit, estimate.low / unit, estimate.high / unit)
    value, _, interval = estimate_text(scaled).partition(" [")
    return f"{value} {name} [{interval}"


_NOTE = (
    "Means over repetitions with 95 % intervals by Student's t. “>”: did not happen before the end of the run, or was"
    " not observed throughout. Difference: against the control run of the same block, over the same time span."
)


@dataclass(frozen=True)
class GroupView:
    """A transition under a load as the page shows it."""

    heading: str
    lead: Sequence[str]
    plot: Figure | None
    tables: Sequence[tuple[str, Table]]
    warnings: Sequence[Finding]


def elastic_page(elasticity: Elasticity, further: Sections = ()) -> Page:
    """Return the page of an experiment; `further` are the sections that all kinds of experiments have."""
    description = elasticity.folder.description
    example = next((group.example.run for group in elasticity.groups if group.example and group.example.run), None)
    return render(
        "elastic.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How elastic is {description['experiment']}?",
        subtitle=clusters_text(stores_of(elasticity.folder.runs)) if example else "",
        experiment=description["experiment"],
        groups=[_view(group, index) for index, group in enumerate(elasticity.groups)],
        runs=runs_view(elasticity.folder),
        further=further,
        facts=experiment_facts(elasticity.folder, example),
        file=description.get("file", ""),
    )


def _view(group: Group, index: int) -> GroupView:
    """Return a group as the page shows it; `index` makes its plot's identifier unique."""
    tables = [(step_heading(step), _measures(rows(step, group.rate))) for step in group.steps]
    if group.provisioning:
        scores = [[Cell(run), *map(Cell, texts)] for run, texts in score_rows(group)]
        tables.append(("Scores of the scaling policy", Table(SCORES, scores)))
    return GroupView(
        heading=heading(group),
        lead=lead(group),
        plot=(plot := run_plot(group, f"g{index}")) and plot.titled(heading(group)),
        tables=tables,
        warnings=group.warnings,
    )


def _measures(rows: Sequence[Row]) -> Table:
    """Return the rows of a step as a table for the page: with the event, in the control runs, and their difference."""
    cells = [
        [
            Cell(row.title),
            Cell(row.says, tone="muted"),
            *(
                replace(estimate_cell(text, None), number=number)
                for text, number in zip((row.value, row.control, row.difference), row.numbers, strict=True)
            ),
        ]
        for row in rows
    ]
    return Table(("measure", "meaning", "with the event", "control", "difference"), cells, names=2, note=_NOTE)


def print_elasticity(elasticity: Elasticity, console: Console, further: Further | None = None) -> None:
    """Print the experiment: sentences and measures of each step, scores, warnings, `further` tables, and used runs."""
    description = elasticity.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for group in elasticity.groups:
        console.print()
        console.print(Text(heading(group), style="bold"))
        for line in lead(group):
            console.print(Text(line))
        for step in group.steps:
            console.print()
            _terminal_measures(step, group.rate).print(console)
        for run, texts in score_rows(group):
            scores = zip(SCORES[1:], texts, strict=True)
            console.print(Text(f"{run}: {', '.join(f'{title} {text}' for title, text in scores)}"))
        print_findings(console, group.warnings)
    console.print()
    if further:
        further.print(console)
    print_trust(elasticity.folder, console)


def _terminal_measures(step: StepMeasures, rate: Rate) -> TerminalTable:
    """Return the measures of a step as a table for the terminal."""
    headers = ("measure", "with the event", "control", "difference")
    table = TerminalTable(headers, title=step_heading(step))
    for row in rows(step, rate):
        table.add(row.title, row.value, row.control, row.difference)
    return table


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on the experiment in a folder: the measures of each transition.

    `bands` are the bounds of latency buckets, s. BadInput if it is not an experiment, or is broken. Its kind is not
    checked.
    """
    elasticity = read_elasticity(path)
    more = further(elasticity.folder, bands)
    return Report(
        elastic_page(elasticity, more.sections),
        elasticity.as_dict() | more.document,
        lambda console: print_elasticity(elasticity, console, more),
        _unanswerable(elasticity),
    )


def _unanswerable(elasticity: Elasticity) -> BadInput | None:
    """Return an error if each done run with the event recorded that a trigger never fired, and none that one fired.

    Return None without such runs.
    """
    runs = [run.run for run in elasticity.folder.runs if run.treatment.get("event") and run.status == "done"]
    kinds = [{event["kind"] for event in run.events} for run in runs if run]
    if not kinds or any(FIRED in seen or NEVER not in seen for seen in kinds):
        return None
    return BadInput(
        "no trigger fired in any run, so no cluster was changed",
        where=str(elasticity.folder.path),
        remedy="lower the thresholds, increase the load, or allow more time (within, duration)",
    )
