"""Sections that all kinds of reports may have: latency buckets, CPU, cost, stored events, published figures."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from loadframe.analyze.cost import ERRORS, Cheapest, CheapestWithin, Cost, LimitAt, Prices, by_load, cheapest_within
from loadframe.analyze.executions import EventsOfRun, ExecutionsAt, executions_at, stored_at
from loadframe.analyze.experiment import RecordedExperiment, by_treatment
from loadframe.analyze.percentiles import BandsAt, band_names, bands_at, bands_of
from loadframe.analyze.published import beside
from loadframe.analyze.scale.curves import curves_over
from loadframe.analyze.telemetry import ALL, ProcessesOf, Unsampled, UsedAt, processes_at
from loadframe.base.units import counted, format_count, format_duration, format_nodes, format_share
from loadframe.record import Run
from loadframe.record.schema.figures import StoredEvents
from loadframe.report.capacity_words import slo_text
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.numbers import measured_text, percent_text, seconds_estimate
from loadframe.report.plot import SMALL, Figure
from loadframe.report.plots.run import resources_over_time
from loadframe.report.plots.scale import over_factor_section
from loadframe.report.published import published_on_terminal, published_section
from loadframe.report.tables import (
    CORES,
    CPU_PER_REQUEST,
    Cell,
    Number,
    Sections,
    Table,
    count_cell,
    cpu_note,
    estimate_cell,
    partial_text,
    share_cell,
    unsampled_text,
)
from loadframe.report.terminal_table import TerminalTable

EXECUTIONS = "First and repeated executions"
_EXECUTIONS_NOTE = (
    "First and repeated executions of a request in its phase; requests with equal values count as the same request."
    " Geometric means over runs of each run's mean response time, and of their ratio. Age: median age of the newest"
    " event that an answer is certain to contain. 95 % intervals by Student's t if runs were repeated."
)


def experiment_executions(rows: Sequence[ExecutionsAt]) -> Table | None:
    """Return the mean response times of first and repeated executions by phase, operation and treatment; None if empty.

    The ratio is first divided by repeated.
    """
    if not rows:
        return None
    cells = [
        [
            Cell(row.phase),
            Cell(row.operation),
            Cell(treatment_text(row.treatment)),
            count_cell(row.runs),
            count_cell(row.first),
            estimate_cell(seconds_estimate(row.first_mean), row.first_mean, "s"),
            count_cell(row.again),
            estimate_cell(seconds_estimate(row.again_mean), row.again_mean, "s"),
            estimate_cell("–" if row.ratio is None else measured_text(row.ratio), row.ratio),
            estimate_cell(seconds_estimate(row.age), row.age, "s"),
        ]
        for row in rows
    ]
    columns = ("phase", "operation", "treatment", "runs", "first", "mean", "repeated", "mean", "ratio", "age")
    caption = "Mean response times of first and repeated executions"
    return Table(columns, cells, names=3, note=_EXECUTIONS_NOTE, caption=caption)


def experiment_executions_on_terminal(rows: Sequence[ExecutionsAt]) -> TerminalTable:
    """Return the means, ratio and age of `experiment_executions` for the terminal."""
    columns = ("operation", "treatment", "first", "repeated", "ratio", "age")
    table = TerminalTable(columns, names=2, title=f"{EXECUTIONS}, mean response times:")
    several = len({row.phase for row in rows}) > 1
    for row in rows:
        estimates = [seconds_estimate(estimate) for estimate in (row.first_mean, row.again_mean)]
        ratio = "–" if row.ratio is None else measured_text(row.ratio)
        cells = (text.replace(" [", "\n[", 1) for text in (*estimates, ratio, seconds_estimate(row.age)))
        table.add(f"{row.phase}: {row.operation}" if several else row.operation, treatment_text(row.treatment), *cells)
    return table


STORED_EVENTS = "Events in the store"
_EVENTS_NOTE = (
    "Events counted in the store after the last phase, minus those before the first. Missing: acknowledged events that"
    " are not in the store; duplicates may hide some. At risk: missing events divided by the mean rate until the kill,"
    " s. A kill ends a process, but keeps the data in the operating system's cache: a power failure may lose more."
)


def stored_text(stored: StoredEvents) -> str:
    """Write the events (in total and by kind) and documents that a collection gained in a run.

    Then write how many acknowledged events are missing, or that none is.
    """
    kinds = ", ".join(f"{format_count(count)} {kind}" for kind, count in stored.events.items())
    added = counted(sum(stored.events.values()), "event")
    where = f"added to {counted(stored.before, 'event')}" if stored.before else "in the store"
    words = f"{stored.collection}: {added} {where} ({kinds}), {counted(stored.documents, 'document')}"
    if not stored.missing:
        return f"{words}; no acknowledged event is missing"
    return f"{words}; {counted(stored.missing, 'acknowledged event')} {stored.missing_label}"


def experiment_stored(rows: Sequence[EventsOfRun]) -> Table | None:
    """Return the events in the store after each run, and those missing or at risk. Return None without rows.

    Missing events that may be duplicates, or in the store before the run, have their label in small type.
    """
    if not rows:
        return None
    cells = [
        [
            Cell(row.run, _stored_remark(row, rows)),
            Cell(treatment_text(row.treatment)),
            count_cell(row.stored.indexed),
            count_cell(sum(row.stored.events.values())),
            count_cell(row.stored.documents),
            _missing_cell(row.stored),
            count_cell(row.stored.acknowledged_at_kill),
            Cell(_seconds_at_risk(row), number=Number(row.at_risk, "s")),
        ]
        for row in rows
    ]
    columns = ("run", "treatment", "acknowledged", "in the store", "documents", "missing", "before the kill", "at risk")
    return Table(columns, cells, names=2, note=_EVENTS_NOTE, caption="Acknowledged and stored events of each run")


def experiment_stored_on_terminal(rows: Sequence[EventsOfRun]) -> TerminalTable:
    """Return the counts of `experiment_stored` for the terminal."""
    table = TerminalTable(("run", "acknowledged", "in the store", "missing", "at risk"), title=f"{STORED_EVENTS}:")
    for row in rows:
        counts = (row.stored.indexed, sum(row.stored.events.values()))
        run = Cell(row.run, _stored_remark(row, rows)).lines
        table.add(run, *map(format_count, counts), _missing_cell(row.stored).lines, _seconds_at_risk(row))
    return table


def _stored_remark(row: EventsOfRun, rows: Sequence[EventsOfRun]) -> str:
    """Write the collection of a row if `rows` have several, and `not valid` if its run is not usable."""
    several = len({other.stored.collection for other in rows}) > 1
    return ", ".join([*[row.stored.collection] * several, *["not valid"] * (not row.usable)])


def _missing_cell(stored: StoredEvents) -> Cell:
    """Return the cell of the missing events, with their label if other causes than a loss are possible."""
    label = stored.missing_label if stored.missing and not stored.unique else ""
    return count_cell(stored.missing, label, tone="invalid" if stored.missing else "")


def _seconds_at_risk(row: EventsOfRun) -> str:
    """Write the time of load that a kill lost, such as `1.2 s`; a dash if it is unknown."""
    return "–" if row.at_risk is None else seconds_text(row.at_risk) if row.at_risk else "0 s"


#: The column of requests without a response time.
_FAILED = "failed"
_BUCKETS_CAPTION = "Shares of requests by response time"
_BUCKETS_NOTE = (
    "Shares of all requests of the measured window. Dropped requests, and those unanswered at its end, count as failed."
)


def run_bands(run: Run, bounds: Sequence[float]) -> Table:
    """Return shares and counts of requests in buckets of response time, by phase and operation, in measured windows.

    `bounds` are in s, at least one, ascending. Each is the upper bound of a bucket and belongs to it; one more bucket
    is above the last. The last column has the failed, dropped and unanswered requests. Shares are of all requests,
    with these.
    """
    rows = [
        [
            Cell(phase),
            Cell(name),
            *(
                share_cell(share, 1, format_count(count))
                for share, count in zip(bands.shares, (*bands.counts, bands.failed), strict=True)
            ),
        ]
        for phase, operations in bands_of(run, bounds).items()
        for name, bands in operations.items()
    ]
    note = f"{_BUCKETS_NOTE} The number of requests stands below each share."
    columns = ("phase", "operation", *band_names(bounds), _FAILED)
    return Table(columns, rows, names=2, note=note, caption=_BUCKETS_CAPTION)


def run_bands_on_terminal(run: Run, bounds: Sequence[float]) -> TerminalTable:
    """Return the shares of `run_bands` for the terminal, without counts. `bounds` are in s, ascending."""
    table = TerminalTable(("share of requests", *band_names(bounds), _FAILED))
    several = len(run.summary.phases) > 1
    for phase, operations in bands_of(run, bounds).items():
        for name, bands in operations.items():
            table.add(f"{phase}: {name}" if several else name, *(format_share(share, 1) for share in bands.shares))
    return table


def experiment_bands(rows: Sequence[BandsAt], bounds: Sequence[float]) -> Table:
    """Return the shares of requests in latency buckets by phase, operation and treatment, as means over runs.

    `bounds`, in s, are those with which `rows` were computed.
    """
    cells = [
        [
            Cell(row.phase),
            Cell(row.operation),
            Cell(treatment_text(row.treatment)),
            count_cell(row.runs),
            count_cell(row.requests),
            *(estimate_cell(percent_text(share), share, "%") for share in row.shares),
        ]
        for row in _ordered_bands(rows)
    ]
    note = (
        f"{_BUCKETS_NOTE} Means over runs, all with the same weight. 95 % intervals by Student's t, at least as wide as"
        " the number of requests requires. A share without an interval comes from one run."
    )
    columns = ("phase", "operation", "treatment", "runs", "requests", *band_names(bounds), _FAILED)
    return Table(columns, cells, names=3, note=note, caption=_BUCKETS_CAPTION)


def experiment_bands_on_terminal(rows: Sequence[BandsAt], bounds: Sequence[float]) -> TerminalTable:
    """Return the shares of `experiment_bands` for the terminal. `rows` were computed with `bounds`, in s."""
    several = len({row.phase for row in rows}) > 1
    table = TerminalTable(
        ("operation", "treatment", "runs", *band_names(bounds), _FAILED), names=2, title="Share of requests by band:"
    )
    for row in _ordered_bands(rows):
        shares = (percent_text(share).replace(" [", "\n[", 1) for share in row.shares)
        name = f"{row.phase}: {row.operation}" if several else row.operation
        table.add(name, treatment_text(row.treatment), format_count(row.runs), *shares)
    return table


def _ordered_bands(rows: Sequence[BandsAt]) -> list[BandsAt]:
    """Return rows grouped by phase and operation, in the order in which these first occur."""
    places = {key: place for place, key in enumerate(dict.fromkeys((row.phase, row.operation) for row in rows))}
    return sorted(rows, key=lambda row: places[row.phase, row.operation])


def run_cpu_on_terminal(cpu: ProcessesOf) -> TerminalTable:
    """Return the table of `run_cpu` for the terminal: CPU of each process in cores, and CPU time per request.

    At least one phase must have figures.
    """
    several = len(cpu.used) > 1
    title = f"CPU of each process{'' if several else f' in {next(iter(cpu.used))}'}:"
    table = TerminalTable(("process", CORES, CPU_PER_REQUEST), title=title)
    for phase, processes in cpu.used.items():
        for name, used in processes.items():
            over = "" if used.whole else f" over {format_duration(used.watched)}"
            table.add(
                f"{phase}: {name}" if several else name,
                f"{format_count(used.cores)}{over}",
                seconds_text(used.per_request),
            )
    return table


def experiment_cpu(rows: Sequence[UsedAt], gaps: Sequence[Unsampled]) -> Table | None:
    """Return the CPU use of each process at each treatment, in cores and per request.

    Return None without `rows` and `gaps`. `gaps` are the treatments with runs that have too few samples. If all runs
    of a treatment lack figures, it has a row with dashes; otherwise only the note names it.
    """
    if not rows and not gaps:
        return None
    cells = [
        [
            Cell(row.phase),
            Cell(treatment_text(row.treatment)),
            Cell(row.process, tone="muted" if row.process == ALL else ""),
            count_cell(row.runs, f"of {row.of_runs}" if row.runs < row.of_runs else ""),
            estimate_cell(measured_text(row.cores), row.cores),
            estimate_cell(seconds_estimate(row.per_request), row.per_request, "s"),
        ]
        for row in rows
    ]
    cells += [
        [Cell(gap.phase), Cell(treatment_text(gap.treatment)), Cell("–"), Cell("0", f"of {gap.of_runs}"),
         *[Cell("–")] * 2]
        for gap in gaps
        if gap.runs == gap.of_runs
    ]  # fmt: skip
    words = "Means over runs, with 95 % intervals by Student's t if runs were repeated."
    note = cpu_note(f"{words} {_partial_runs(rows)}".strip(), gaps)
    columns = ("phase", "treatment", "process", "runs", CORES, CPU_PER_REQUEST)
    return Table(columns, cells, names=3, note=note, caption="CPU time of each process")


def _partial_runs(rows: Sequence[UsedAt]) -> str:
    """Return a sentence on the phases in which processes of some runs lack samples; empty without any."""
    return partial_text((row.phase for row in rows if row.partial), "the total excludes these runs")


def experiment_cpu_on_terminal(rows: Sequence[UsedAt]) -> TerminalTable:
    """Return the figures of `experiment_cpu` for the terminal: cores, and CPU time per request, with intervals."""
    several = len({row.phase for row in rows}) > 1
    table = TerminalTable(("process", "treatment", CORES, CPU_PER_REQUEST), names=2, title="CPU of each process:")
    for row in rows:
        figures = (measured_text(row.cores), seconds_estimate(row.per_request))
        name = f"{row.phase}: {row.process}" if several else row.process
        table.add(name, treatment_text(row.treatment), *(figure.replace(" [", "\n[", 1) for figure in figures))
    return table


COST = "Cost"
#: Treatments that a sentence names.
_LISTED = 4
_COST_NOTE = (
    "Prices from the experiment file. A month has 730.5 hours. The cost of a million assumes the measured"
    " throughput all the time. In brackets: 95 % intervals. One search gives the costs at two tried rates instead."
)

_SLO_NOTE = (
    "A configuration is within the SLO if the whole interval of each figure is within its limit; `unknown` if an"
    " interval contains the limit. Intervals of error shares have one-sided 95 % limits."
)


def _cost_columns(prices: Prices, costs: Sequence[Cost]) -> tuple[str, ...]:
    """Return the titles of the cost table; with an SLO, also of its limits. `costs` must then not be empty."""
    within = (*(limit.name for limit in costs[0].limits), "within the SLO") if prices.slo else ()
    million = f"{prices.currency} per million {costs[0].counted}"
    return ("treatment", "nodes", f"{prices.currency} per month", million, *within)


def _cost_rows(prices: Prices, costs: Sequence[Cost]) -> list[list[Cell]]:
    """Return the cells of the cost table in the order of `_cost_columns`, a row for each treatment."""
    return [
        [
            Cell(treatment_text(entry.treatment) or "the cluster", "with failures" if entry.failed else ""),
            count_cell(entry.nodes),
            Cell(f"{entry.month:,.2f}", number=Number(entry.month)),
            _million_cell(entry),
            *((*map(_limit_cell, entry.limits), Cell(entry.standing)) if prices.slo else ()),
        ]
        for entry in costs
    ]


def _million_cell(entry: Cost) -> Cell:
    """Return the table cell for the cost of a million requests or documents.

    For one search, or an infinite cost, the cell's number has only ends: the costs at the rates that failed and passed.
    """
    cell = estimate_cell(_million_text(entry), entry.million)
    if not entry.by_one_search and math.isfinite(entry.million.value):
        return cell
    return replace(cell, number=Number(None, low=entry.million.low or None, high=entry.million.high))


def _limit_cell(limit: LimitAt) -> Cell:
    """Return the table cell for the estimate of a figure that the SLO limits; its CSV unit is % or s."""
    text = _limit_text(limit)
    if limit.estimate is not None and not math.isfinite(limit.estimate.value):
        return Cell(text)
    return estimate_cell(text, limit.estimate, "%" if limit.figure == ERRORS else "s")


def _limit_text(limit: LimitAt) -> str:
    """Write the estimate of a figure that the SLO limits: a share in %, a duration, or `unanswered` if it is infinite.

    A dash if it is unknown.
    """
    if limit.estimate is None:
        return "–"
    if limit.figure == ERRORS:
        return percent_text(limit.estimate)
    return "unanswered" if math.isinf(limit.estimate.value) else seconds_estimate(limit.estimate)


def _million_text(entry: Cost) -> str:
    """Write the cost of a million requests or documents with its interval, without the currency: `0.70 [0.59, 0.83]`.

    One search gives the costs at the rates that failed and passed, `0.59 to 0.70`, or `at most 0.70`. An infinite cost
    is `at least` its low end.
    """
    if math.isinf(entry.million.value):
        return f"at least {entry.million.low:.3g}"
    if not entry.by_one_search:
        return measured_text(entry.million)
    passed = f"{entry.million.high:.3g}"
    return f"{entry.million.low:.3g} to {passed}" if entry.million.low else f"at most {passed}"


def cost_table(prices: Prices, costs: Sequence[Cost]) -> Table:
    """Return the costs per month and per million requests or documents, a row for each treatment.

    They are in the currency of `prices`. With an SLO, the table has the figures that it limits, too.
    """
    note = f"{_COST_NOTE} {_SLO_NOTE}" if prices.slo else _COST_NOTE
    rows = _cost_rows(prices, costs)
    return Table(_cost_columns(prices, costs), rows, names=1, note=note, caption="Costs of each treatment")


def cost_on_terminal(prices: Prices, costs: Sequence[Cost]) -> TerminalTable:
    """Return `cost_table` for the terminal."""
    table = TerminalTable(_cost_columns(prices, costs), names=1, title=f"{COST}:")
    for row in _cost_rows(prices, costs):
        table.add(*(cell.lines for cell in row))
    return table


def cheapest_text(prices: Prices, answer: Cheapest) -> str:
    """Return sentences on the cheapest treatment for a demand, others at its price, and undecided cheaper ones.

    The demand is in requests/s. `prices` gives the currency.
    """
    demand = f"{format_count(answer.demand)} requests/s"
    if answer.cost:
        name, month = _treatment_name(answer.cost), f"{answer.cost.month:,.2f} {prices.currency} per month"
        words = f"Cheapest for {demand}: {name} at {month}."
    elif answer.open:
        words = f"Whether a measured cluster sustains {demand} is inconclusive."
    else:
        words = f"No measured cluster sustains {demand}."
    if answer.alike:
        words += f" At the same price: {_treatment_names(answer.alike)}."
    if answer.open:
        names = "; ".join(f"{_treatment_name(entry)} at {entry.month:,.2f}" for entry in answer.open)
        words += f" Undecided: {names}. Repeat the experiment to decide."
    if any(entry.by_one_search for entry in (answer.cost, *answer.open) if entry):
        words += " One search gives only an indication."
    return words


def at_load(load: Mapping[str, Any], words: str) -> str:
    """Return `words` after the levels of `load`, such as `clients 8: words`; unchanged if `load` is empty."""
    return f"{treatment_text(load)}: {words}" if load else words


def within_text(prices: Prices, costs: Sequence[Cost]) -> tuple[str, CheapestWithin]:
    """Return sentences on the treatment with the lowest cost per million within the SLO, and the same as data.

    Only treatments without failures count. Without an SLO, all these treatments count.
    """
    answer = cheapest_within(costs, prices.slo)
    slo = f" within the SLO ({slo_text(prices.slo)})" if prices.slo else ""
    if answer.cost:
        price = f"{_million_text(answer.cost)} {prices.currency} per million {answer.cost.counted}"
        words = f"Cheapest configuration{slo}: {_treatment_name(answer.cost)} at {price}."
    elif answer.open:
        words = f"Whether a configuration is{slo} is inconclusive."
    else:
        words = f"No configuration{slo or ' without failures'} was measured."
    if answer.alike:
        listed = "; ".join(f"{_treatment_name(entry)} at {_million_text(entry)}" for entry in answer.alike[:_LISTED])
        more = f"; and {len(answer.alike) - _LISTED} more" if len(answer.alike) > _LISTED else ""
        words += f" The runs do not show that these cost more: {listed}{more}."
    if answer.open:
        words += f" Undecided: {_treatment_names(answer.open)}."
    if failed := [entry for entry in costs if entry.failed]:
        words += f" Excluded, because the store or too many requests failed in a run: {_treatment_names(failed)}."
    if answer.alike or answer.open:
        words += " Repeat the experiment to decide."
    return words, answer


def cheapest_answers(
    folder: RecordedExperiment, prices: Prices, costs: Sequence[Cost]
) -> tuple[list[str], dict[str, Any]]:
    """Return sentences on the cheapest configuration for each load, and keys of the JSON document.

    The keys are `within` for one load, and else `within_at`, a list. If there are more than 12 loads, the first 12 have
    sentences, and a sentence gives the number of the others.
    """
    answers = [(load, *within_text(prices, entries)) for load, entries in by_load(folder.description, costs)]
    if len(answers) == 1:
        return [answers[0][1]], {"within": answers[0][2].as_dict()}
    sentences = [at_load(load, words) for load, words, _ in answers[:_ROWS]]
    if len(answers) > _ROWS:
        sentences.append(f"{len(answers) - _ROWS} more with --json.")
    return sentences, {"within_at": [{"at": load, **answer.as_dict()} for load, _, answer in answers]}


def _treatment_names(costs: Sequence[Cost]) -> str:
    """Write the first four treatments, joined by semicolons, and the number of the others."""
    more = f"; and {len(costs) - _LISTED} more" if len(costs) > _LISTED else ""
    return "; ".join(map(_treatment_name, costs[:_LISTED])) + more


def _treatment_name(entry: Cost) -> str:
    """Write the treatment of a cost, or its number of nodes without factors."""
    return treatment_text(entry.treatment) or format_nodes(entry.nodes)


#: Points in the plots of CPU and network of all treatments; the first and last may have a tenth each.
_POINTS = 20_000
#: Tables of CPU or executions with more rows than this are not printed on the terminal; the page has them.
_ROWS = 12


@dataclass(frozen=True)
class Further:
    """Sections of the page with their titles, tables of the terminal, and keys of the JSON document.

    `curves` is the section of curves over numeric factors; pages show it before the other sections.
    """

    curves: Sections
    sections: Sections
    tables: Sequence[TerminalTable | str]
    document: dict[str, Any]

    def print(self, console: Console) -> None:
        """Print the tables and sentences for the terminal, with an empty line after each.

        Sections of the page are not printed.
        """
        for table in self.tables:
            if isinstance(table, str):
                console.print(Text(table))
            else:
                table.print(console)
            console.print()


def further(
    folder: RecordedExperiment,
    bounds: Sequence[float] = (),
    prices: Prices | None = None,
    costs: Sequence[Cost] = (),
) -> Further:
    """Return the sections, tables and JSON keys of an experiment; latency buckets only if `bounds` (s) are given.

    `prices` and the `costs` of treatments add the section of costs.
    """
    sections: list[tuple[str, Table]] = []
    tables: list[TerminalTable | str] = []
    document: dict[str, Any] = {}
    curves = curves_over(folder) if _crosses_factors(folder) else ()
    if curves:
        document["over_factors"] = [curve.as_dict() for curve in curves]
    if figures := beside(folder):
        sections.append(("Published and measured", published_section(figures)))
        tables.append(published_on_terminal(figures))
        document["published"] = [figure.as_dict() for figure in figures]
    if prices and costs:
        sections.append((COST, cost_table(prices, costs)))
        tables.append(cost_on_terminal(prices, costs))
        document["cost"] = {"currency": prices.currency, "treatments": [entry.as_dict() for entry in costs]}
        if folder.description["kind"] != "capacity":
            # A capacity experiment has its own SLO, and names the cheapest cluster for each demand.
            sentences, within = cheapest_answers(folder, prices, costs)
            sections[-1] = (COST, replace(sections[-1][1], note=" ".join([*sentences, sections[-1][1].note])))
            tables += sentences
            document["cost"] |= within
    if bounds:
        bands = bands_at(folder, bounds)
        sections.append(("Latency buckets", experiment_bands(bands, bounds)))
        tables.append(experiment_bands_on_terminal(bands, bounds))
        document["bands"] = [row.as_dict() for row in bands]
    used, unsampled = processes_at(folder)
    if shown := experiment_cpu(used, unsampled):
        sections.append(("CPU of each process", replace(shown, figures=_resources(folder))))
        document["cpu"] = [row.as_dict() for row in used]
        if unsampled:
            document["cpu_missing"] = [gap.as_dict() for gap in unsampled]
        if used and len(used) <= _ROWS:
            tables.append(experiment_cpu_on_terminal(used))
        tables += filter(None, [_partial_runs(used), unsampled_text(unsampled)])
    executions = executions_at(folder)
    if executions_table := experiment_executions(executions):
        sections.append((EXECUTIONS, executions_table))
        document["executions"] = [row.as_dict() for row in executions]
        if len(executions) <= _ROWS:
            tables.append(experiment_executions_on_terminal(executions))
    events = stored_at(folder)
    if stored := experiment_stored(events):
        sections.append((STORED_EVENTS, stored))
        tables.append(experiment_stored_on_terminal(events))
        document["stored"] = [row.as_dict() for row in events]
    over: Sections = [("Curves over numeric factors", over_factor_section(curves))] if curves else []
    return Further(over, sections, tables, document)


def _resources(folder: RecordedExperiment) -> list[Figure]:
    """Draw CPU and network of nodes over time in the first run of each treatment.

    Treatments between the first and the last have small figures with the same axes. Runs without samples of resources
    are omitted.
    """
    at = [(treatment, runs[0]) for treatment, runs in by_treatment(folder) if runs]
    figures = []
    for number, (treatment, (recorded, run)) in enumerate(at, 1):
        small = 1 < number < len(at)
        name = re.sub(r"[^\w-]+", "-", f"resources-{recorded.id}")
        if figure := resources_over_time(run, name, _POINTS // (len(at) if small else 10), small=small):
            which = {1: f"the first of {len(at)} treatments", len(at): f"the last of {len(at)} treatments"}
            place = which.get(number, "") if len(at) > 1 else ""
            words = ", ".join(filter(None, (f"Run {recorded.id}", treatment_text(treatment), place)))
            figures.append(replace(figure, caption=f"{words}. {figure.caption}".strip()))
    tops: dict[str, float] = defaultdict(float)
    for figure in figures:
        for trace in figure.traces:
            title = figure.panels[trace.panel].y.title
            tops[title] = max(tops[title], *filter(None, trace.y), 0.0)
    return [_with_tops(figure, tops) if figure.width <= SMALL else figure for figure in figures]


def _with_tops(figure: Figure, tops: Mapping[str, float]) -> Figure:
    """Return the figure with y axes from 0 to 1.04 times the values in `tops`, by the title of the axis; 1 for 0.

    KeyError for a title that `tops` lacks.
    """
    ranged = [replace(it, y=replace(it.y, range=(0.0, 1.04 * tops[it.y.title] or 1.0))) for it in figure.panels]
    return replace(figure, panels=ranged)


def _crosses_factors(folder: RecordedExperiment) -> bool:
    """Return whether the design combines all levels of its factors, so that curves over one factor exist.

    True for scale experiments, and for settings experiments with the scheme `full`.
    """
    description = folder.description
    return bool(description["kind"] == "scale" or description.get("scheme") == "full")
