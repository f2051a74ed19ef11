"""Tables of the HTML report as plain cells; the templates define their look."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.percentiles import Percentile
from loadframe.analyze.scalability import ModelFit, ScalabilityFit
from loadframe.analyze.scale.sweep import PhaseCurves, SpeedUp
from loadframe.analyze.scale.treatments import Treatment
from loadframe.analyze.telemetry import ALL, ProcessesOf, Unsampled
from loadframe.analyze.verdict import rules
from loadframe.base.units import counted, format_change, format_count, format_duration, share_beside, short_names
from loadframe.record.schema.summary import GeneratorFigures, PhaseSummary
from loadframe.report.fit import NAMES
from loadframe.report.labels import (
    UNKNOWN,
    interval_text,
    seconds_text,
    treatment_text,
)
from loadframe.report.numbers import estimate_text, known_end_text, measured_text, p_text, percent_text
from loadframe.report.plot import Figure
from loadframe.report.run_status import Exclusion, exclusions, figures_text, run_status, trust, why

_PARAMETERS = {
    "lambda": "λ, throughput of one",
    "serial": "s, serial share",
    "sigma": "σ, contention",
    "kappa": "κ, coherency",
    "ceiling": "C, ceiling",
}
#: Parameters that are throughputs.
_RATES = ("lambda", "ceiling")
#: The maximum number of ranks shown for a phase: those with the fewest requests.
_RANKS = 32
#: Treatments that a sentence names.
_TREATMENTS = 4


@dataclass(frozen=True)
class Number:
    """The number behind a cell's text, without rounding, and the known ends of its interval.

    Units are those of CSV files: durations in s, rates in 1/s, shares in %.
    """

    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Cell:
    """A table cell: text, a second line in small type, a tone (best, valid, invalid, muted or a CSS class), a number.

    Pages show the text, CSV files the number. `sentences` are the parts of a text that LaTeX tables note one by one.
    """

    text: str
    small: str = ""
    tone: str = ""
    number: Number | None = None
    sentences: Sequence[str] = ()

    @property
    def lines(self) -> str:
        """Both lines, `text` and `small`, for a terminal; without an empty one."""
        return "\n".join(filter(None, (self.text, self.small)))


@dataclass(frozen=True)
class Table:
    """A table with words in the first `names` columns and numbers in the rest.

    In a section of a page, `figures` stand above the table. CSV files have the rows of `data` instead, if given.
    `caption` describes an exported table; without it, the title of the table does.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    names: int = 1
    note: str = ""
    figures: Sequence[Figure] = ()
    data: "Table | None" = None
    caption: str = ""


def count_cell(count: float | None, small: str = "", tone: str = "") -> Cell:
    """Return a cell for a count or a number without a unit; a dash for None.

    `small` is the second line, and `tone` the cell's look.
    """
    return Cell("–" if count is None else format_count(count), small, tone, Number(count))


def seconds_cell(
    seconds: float | None, small: str = "", tone: str = "", ends: Sequence[float | None] = (None, None)
) -> Cell:
    """Return a cell for a duration; a dash for None.

    `small` is the second line, usually an interval, and `ends` are the ends of that interval, s; None is unknown.
    """
    return Cell(seconds_text(seconds), small, tone, Number(seconds, "s", *ends))


def bounded_seconds_cell(value: float | None, low: float | None) -> Cell:
    """Return a cell for the response time `value`, s, and how short it may truly be (`low`, s).

    The load generator's delays are the reason for the difference. Without a smaller `low`, the cell has only the time;
    a dash for None.
    """
    if value is None or low is None or low >= value:
        return seconds_cell(value)
    # Not in brackets, which mean 95 % intervals.
    text = f"or less, down to {seconds_text(low)}" if low else "or less"
    return seconds_cell(value, text, ends=(low or None, value))


def time_cells(treatment: Treatment) -> tuple[Cell, Cell]:
    """Return the cells of a treatment's p50 and p99, which name the number of runs if not all runs have them."""
    some = timed_text(treatment)
    p50, p99 = (
        bounded_seconds_cell(treatment.response_p50, treatment.response_p50_low),
        bounded_seconds_cell(treatment.response_p99, treatment.response_p99_low),
    )
    return with_small(p50, some), with_small(p99, some)


def timed_text(treatment: Treatment) -> str:
    """Write how many of a treatment's runs have response times: `1 of 3 runs`; empty if all or none have."""
    runs = len(treatment.points)
    return f"{treatment.timed} of {counted(runs, 'run')}" if 0 < treatment.timed < runs else ""


def with_small(cell: Cell, more: str) -> Cell:
    """Return the cell with `more`, which may be empty, added to its small text."""
    return replace(cell, small="; ".join(filter(None, (cell.small, more))))


def share_cell(share: float | None, digits: int = 0, small: str = "", limit: float | None = None) -> Cell:
    """Return a cell for a share of one as a percentage with `digits` decimals; a dash for None.

    More decimals are written if the text would otherwise equal the text of `limit`, also a share.
    """
    if share is None:
        return Cell("–", small, number=Number(None, "%"))
    text = share_beside(share, share if limit is None else limit, digits)
    return Cell(text, small, number=Number(100 * share, "%"))


def change_cell(change: float | None, tone: str = "") -> Cell:
    """Return a cell for a relative change, as a percentage with its sign (0.1 is `+10 %`); a dash for None."""
    if change is None:
        return Cell("–", tone=tone, number=Number(None, "%"))
    return Cell(format_change(change), tone=tone, number=Number(100 * change, "%"))


def percentile_cell(seconds: float | None, percentile: Percentile | None) -> Cell:
    """Return a cell for a percentile of response times, s, with its 95 % interval; a dash for None.

    `percentile` has the interval; None if it is unknown.
    """
    return seconds_cell(seconds, interval_text(percentile), ends=percentile.ends if percentile else (None, None))


def estimate_cell(text: str, estimate: Estimate | None, unit: str = "", tone: str = "") -> Cell:
    """Return a cell for `text`, the text of an estimate as `value [interval]`, with the interval in small type.

    With the unit %, the estimate is a share of one. The cell's number, in `unit`, has only the ends that the text has;
    it is None without an estimate.
    """
    value, bracket, interval = text.partition(" [")
    number = None
    if estimate is not None:
        factor = 100 if unit == "%" else 1
        texts = interval.removesuffix("]").split(", ") if ", " in interval else [UNKNOWN, UNKNOWN]
        ends = (None if text == UNKNOWN else factor * end
                for text, end in zip(texts, (estimate.low, estimate.high), strict=True))  # fmt: skip
        number = Number(factor * estimate.value, unit, *ends)
    return Cell(value, f"[{interval}" if bracket else "", tone, number)


def ratio_cell(text: str, ratio: Estimate, unit: str = "", tone: str = "") -> Cell:
    """Return a cell for the text of a ratio; if that is only a known end (`known_end_text`), the number has only it."""
    if not text.startswith(("above", "below", UNKNOWN)):
        return estimate_cell(text, ratio, unit, tone)
    factor = 100 if unit == "%" else 1
    low, high = (
        factor * end if text.startswith(word) else None for word, end in (("above", ratio.low), ("below", ratio.high))
    )
    return Cell(text, tone=tone, number=Number(None, unit, low, high))


def speedup_texts(row: SpeedUp) -> tuple[str, str]:
    """Return speed-up and efficiency with their intervals; only the known end if failures leave one open."""
    if row.failed:
        return known_end_text(row.speedup), known_end_text(row.efficiency, "%")
    return measured_text(row.speedup, row.bounds), percent_text(row.efficiency, row.bounds)


#: Tables of a page, by the titles of their sections.
Sections = Sequence[tuple[str, Table]]


def speedup_table(curves: PhaseCurves, times: str = "") -> Table:
    """Return the throughput, speed-up and response times of each number of nodes at its best number of clients.

    `times`, which may be empty, is the sentence on the operation of the response times.
    """
    selected = len(curves.treatments) > len(curves.best)
    selection = ", corrected for the selection of the best number of clients" if selected else ""
    rows = []
    for row in curves.speedups:
        treatment = row.treatment
        speedup, efficiency = speedup_texts(row)
        rows.append(
            [
                count_cell(treatment.nodes or 0),
                count_cell(treatment.clients or None),
                count_cell(len(treatment.points)),
                estimate_cell(measured_text(treatment.throughput, treatment.stretch), treatment.throughput),
                ratio_cell(speedup, row.speedup),
                ratio_cell(efficiency, row.efficiency, "%"),
                *time_cells(treatment),
                Cell(
                    "–" if treatment.parallelism is None else f"{treatment.parallelism:.1f}",
                    number=Number(treatment.parallelism),
                ),
            ]
        )
    return Table(
        ("nodes", "clients", "runs", curves.rate.unit, "speed-up", "efficiency", "p50", "p99", "in flight"),
        rows,
        names=0,
        note=f"Throughput: means over repetitions{selection}. 95 % intervals with one relative variance, pooled over"
        " all treatments of these curves; of speed-ups within blocks, if the treatments in this table have enough runs."
        " Efficiency: speed-up divided by the growth in nodes. p50 and p99: medians"
        f" over repetitions. In flight: mean number of requests in the cluster, by Little's law. {times}".rstrip(),
        caption="Throughput, speed-up and response times by number of nodes",
    )


def models_table(fit: ScalabilityFit, unit: str) -> Table:
    """Return a table with a column for each model: parameters with intervals, and goodness of fit.

    `unit` is the unit of throughputs, such as `requests/s`.
    """
    models = list(fit.models.values())
    tones = {model.name: "best" if model.name == fit.best else "" for model in models}
    rows = [
        [
            Cell(f"{words}, {unit}" if name in _RATES else words),
            *(_parameter(model, name, tones[model.name], is_known=not fit.unknown) for model in models),
        ]
        for name, words in _PARAMETERS.items()
        if any(name in model.parameters for model in models)
    ]
    rows += [
        [Cell(words), *(replace(cell, tone=tones[name]) for name, cell in zip(tones, cells, strict=True))]
        for words, cells in _quality(fit, models).items()
    ]
    columns = ("parameter", *(f"{NAMES[model.name]}{' ✓' if model.name == fit.best else ''}" for model in models))
    return Table(columns, rows)


def runs_table(runs: Sequence[RecordedRun], factors: Sequence[str]) -> Table:
    """Return a row for each run, also failed and missing ones, with its verdict and its levels of `factors`."""
    rows = []
    for run in runs:
        word, causes = run_status(run), [reason.cause for reason in run.reasons]
        tone = {"valid": "valid", "bounded": "valid", "not made": "muted"}.get(word, "invalid")
        generator = run.run.summary.generator if run.run else None
        rows.append(
            [
                Cell(run.id),
                Cell(word, tone=tone),
                # A valid run can have warnings.
                Cell(_why(run) if causes or word != "valid" else "", sentences=causes),
                Cell(figures_text(run)),
                *(Cell(str(run.treatment.get(factor, ""))) for factor in factors),
                *_generator(generator),
            ]
        )
    shown = list(short_names(factors).values())
    columns = ("run", "verdict", "why", "figures", *shown, "generator CPU", "lateness p99", "lag p99")
    return Table(columns, rows, names=4, caption="Verdict, treatment and load generator of each run")


@dataclass(frozen=True)
class RunsView:
    """Runs and verdicts of an experiment, for the macro `verdicts` in `parts.html.j2`."""

    trust: str
    exclusions: list[Exclusion]
    not_judged: Mapping[str, int]
    left_out: Table | None
    runs: Table


def runs_view(folder: RecordedExperiment) -> RunsView:
    """Return the runs of an experiment as a page shows them: sentences, exclusions, unchecked rules, and two tables.

    The tables have the runs that are left out (None without any) and all runs.
    """
    factors = list(dict.fromkeys(name for run in folder.runs for name in run.treatment))
    return RunsView(
        trust=trust(folder),
        exclusions=exclusions(folder),
        not_judged=Counter(words for run in folder.runs for words in (run.verdict.not_judged if run.verdict else ())),
        left_out=replace(runs_table(folder.left_out, factors), caption="Runs that the figures do not include")
        if folder.left_out
        else None,
        runs=runs_table(folder.runs, factors),
    )


def failures_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the messages of failed requests with their counts by phase and operation. Return None without failures.

    The recorded order is kept: the most frequent first.
    """
    rows = [
        [
            Cell(phase.name),
            Cell(name),
            Cell(message.error),
            Cell("" if message.status is None else str(message.status)),
            count_cell(message.count),
            Cell(message.message),
        ]
        for phase in phases
        for name, operation in phase.operations.items()
        for message in operation.messages
    ]
    if not rows:
        return None
    note = "Failures of the measured window, the most frequent first. Messages that differ only in numbers are merged."
    columns = ("phase", "operation", "class", "status", "failures", "message")
    return Table(columns, rows, names=3, note=note, caption="Failed requests by message")


CORES = "cores"
CPU_PER_REQUEST = "CPU per request"
_CPU_NOTE = "Mean use of each process in the measured window. CPU per request: CPU time per successful request."


def unsampled_text(gaps: Sequence[Unsampled]) -> str:
    """Return sentences on the phases or treatments with too few samples of processes; empty without any.

    It names the first four and the number of the others.
    """
    if not gaps:
        return ""
    names = [
        f"{gap.phase}, {treatment_text(gap.treatment)} ({gap.runs} of {counted(gap.of_runs, 'run')})"
        if gap.treatment
        else gap.phase
        for gap in gaps[:_TREATMENTS]
    ]
    more = f"; and {len(gaps) - _TREATMENTS} more" if len(gaps) > _TREATMENTS else ""
    covered = f"{format_duration(gaps[0].sampled)} of {format_duration(gaps[0].duration)}"
    why = f"samples are a second apart and cover only {covered}"
    return f"No CPU figures of {'; '.join(names)}{more}: {why}. Measure longer."


def partial_text(phases: Iterable[str], effect: str = "shares and total are unknown") -> str:
    """Return a sentence on `phases` (named once, sorted) in which some processes lack samples; empty without phases.

    `effect` is its end.
    """
    names = ", ".join(sorted(set(phases)))
    return f"Some processes lack samples in {names}, so {effect}." if names else ""


def cpu_note(words: str, gaps: Sequence[Unsampled]) -> str:
    """Return the note below a table of CPU use: definitions, then `words`, then the treatments without figures."""
    return " ".join(filter(None, [_CPU_NOTE, words, unsampled_text(gaps)]))


def run_cpu(cpu: ProcessesOf) -> Table | None:
    """Return the CPU use of each process in each measured phase of a run; None without figures.

    Beside others, a phase with too few samples has a row with dashes.
    """
    if not cpu.used:
        return None
    rows, partly = [], False
    for phase, processes in cpu.used.items():
        whole = sum(used.cores for name, used in processes.items() if name != ALL)
        for name, used in processes.items():
            partly |= not used.whole
            share = whole and name != ALL and used.whole and phase not in cpu.partial
            rows.append(
                [
                    Cell(phase),
                    Cell(name, tone="muted" if name == ALL else ""),
                    count_cell(used.cores, "" if used.whole else f"over {format_duration(used.watched)}"),
                    share_cell(used.cores / whole) if share else Cell(""),
                    seconds_cell(used.per_request),
                ]
            )
    rows += [[Cell(gap.phase), *[Cell("–")] * 4] for gap in cpu.unsampled]
    over = "“over” gives the observed time if it is shorter than the window." if partly else ""
    missing = partial_text(cpu.partial)
    columns = ("phase", "process", CORES, "share", CPU_PER_REQUEST)
    note = cpu_note(f"{over} {missing}".strip(), cpu.unsampled)
    return Table(columns, rows, names=2, note=note, caption="CPU time of each process")


def growth_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the growth of mean response times, s per 1,000 documents, by phase and operation; None if unknown."""
    known = [
        (phase.name, name, growth)
        for phase in phases
        for name, operation in phase.operations.items()
        if (growth := operation.growth)
    ]
    if not known:
        return None
    rows = [
        [
            Cell(phase),
            Cell(name),
            seconds_cell(
                growth.slope,
                f"[{format_duration(growth.low)}, {format_duration(growth.high)}]",
                ends=(growth.low, growth.high),
            ),
            Cell(f"{format_count(round(growth.begin))} to {format_count(round(growth.end))}"),
            Cell("held" if growth.held and growth.all else "added in this run" if growth.held else "written"),
            Cell("documents" if growth.apart else "documents or time"),
        ]
        for phase, name, growth in known
    ]
    note = (
        "Increase of the mean response time per 1,000 documents, with the 95 % interval within this run. If documents"
        " were added at a constant rate, this effect cannot be separated from other changes over time (“documents or"
        " time”). Written documents may replace existing ones."
    )
    columns = ("phase", "operation", "per 1,000 documents", "documents", "counted", "grew with")
    return Table(columns, rows, names=2, note=note, caption="Growth of mean response times with the documents")


def generator_table(generator: GeneratorFigures) -> Table:
    """Return the recorded self-monitoring figures of the load generator in one run; unknown shares are left out."""
    achieved = generator.achieved
    shares = {
        "CPU of the busiest thread, mean": (generator.cpu_share, rules.CPU_LIMIT),
        "CPU of the busiest thread, busiest second": (generator.cpu_share_peak, rules.CPU_LIMIT),
        "time that a thread waited for a core": (generator.waited_share, rules.WAITED_LIMIT),
        "time throttled by a CPU quota": (generator.throttled_share, rules.THROTTLED_LIMIT),
        "time that an event loop was stalled for 50 ms or more": (generator.away_share, rules.AWAY_LIMIT),
        "CPU time stolen by the hypervisor": (generator.stolen_share, rules.STOLEN_SHARE),
        "network bandwidth used": (generator.network_share, rules.NETWORK_LIMIT),
        "share of the generator's calibrated limit": (generator.ceiling_share, rules.CEILING_LIMIT),
    }
    rows = [("worker threads", count_cell(generator.threads))]
    rows += [(words, share_cell(share, limit=limit)) for words, (share, limit) in shares.items() if share is not None]
    rows += [
        ("lateness, 99th percentile", seconds_cell(generator.lateness_p99)),
        ("event-loop lag, 99th percentile", seconds_cell(generator.lag_p99)),
        ("longest stall of an event loop", seconds_cell(generator.longest_stall)),
    ]
    if achieved is not None:
        rows.append(("achieved share of the offered rate", share_cell(achieved, 1, limit=rules.ACHIEVED_LIMIT)))
    cells = [[Cell(words), value] for words, value in rows]
    return Table(("generator", "value"), cells, caption="Self-monitoring of the load generator")


def ranks_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the requests and self-monitoring figures of ranks by phase; None if no phase recorded ranks.

    Of more than 32 ranks in a phase, the table has those with the fewest requests, in the order of their numbers.
    """
    rows = []
    left_out = 0
    for phase in phases:
        shown = sorted(sorted(phase.ranks, key=lambda rank: rank.requests)[:_RANKS], key=lambda rank: rank.rank)
        left_out += len(phase.ranks) - len(shown)
        for rank in shown:
            rows.append(
                [
                    Cell(phase.name),
                    Cell(str(rank.rank)),
                    Cell(rank.machine or "–"),
                    count_cell(rank.requests),
                    share_cell(rank.cpu_share, limit=rules.CPU_LIMIT),
                    share_cell(rank.waited_share, limit=rules.WAITED_LIMIT),
                    seconds_cell(rank.lateness_p99),
                    seconds_cell(rank.lag_p99),
                    seconds_cell(rank.began_late),
                ]
            )
    if not rows:
        return None
    note = f"summary.json has {counted(left_out, 'more rank')}, with more requests. " if left_out else ""
    columns = (
        "phase",
        "rank",
        "machine",
        "requests",
        "CPU",
        "waited for a core",
        "lateness p99",
        "lag p99",
        "began late",
    )
    note += "Measured window; shares of the busiest thread of a rank."
    return Table(columns, rows, names=3, note=note, caption="Requests and self-monitoring of the ranks")


def _quality(fit: ScalabilityFit, models: Sequence[ModelFit]) -> dict[str, list[Cell]]:
    """Return the goodness of fit of each model, by the title of its row; cells are in the order of `models`."""
    return {
        "AICc, less is better": [_formatted(model.aicc, "{:.1f}") for model in models],
        "R²": [_formatted(model.r_squared, "{:.4f}") for model in models],
        f"prediction error at {format_count(fit.largest)} {fit.over} from fewer": [
            change_cell(model.extrapolation_error) for model in models
        ],
        "lack of fit, p": [p_cell(model.lack_of_fit.p if model.lack_of_fit else None) for model in models],
    }


def _formatted(value: float | None, form: str) -> Cell:
    """Return a cell for a number in the format `form`, such as `{:.1f}`; a dash for None."""
    return Cell("–" if value is None else form.format(value), number=Number(value))


def _generator(generator: GeneratorFigures | None) -> list[Cell]:
    """Return three cells for CPU share, p99 of lateness and p99 of lag of the load generator; empty ones for None."""
    if generator is None:
        return [Cell("")] * 3
    return [
        share_cell(generator.cpu_share, limit=rules.CPU_LIMIT),
        seconds_cell(generator.lateness_p99),
        seconds_cell(generator.lag_p99),
    ]


def _why(run: RecordedRun) -> str:
    """Return the failure, causes or warnings of a run; empty for a run that was not made."""
    return "" if run.status == "missing" else why(run)


def p_cell(p: float | None, tone: str = "") -> Cell:
    """Return a cell for a p value, `< 0.001` if smaller; a dash for None."""
    return Cell("–" if p is None else p_text(p), tone=tone, number=Number(p))


def _parameter(model: ModelFit, name: str, tone: str, *, is_known: bool) -> Cell:
    """Return the cell for the parameter `name` of a model, with its interval if that `is_known`.

    Empty if the model lacks it.
    """
    estimate = model.parameters.get(name)
    unit = "1/s" if name in _RATES else ""
    text = estimate_text if is_known else measured_text
    return estimate_cell(text(estimate) if estimate else "", estimate, unit, tone)
