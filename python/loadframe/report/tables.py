"""Tables of the HTML report as plain cells; the templates define their look."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.percentiles import percentiles_of
from loadframe.analyze.processes import ALL, ProcessesOf, Unsampled
from loadframe.analyze.scalability import ModelFit, ScalabilityFit
from loadframe.analyze.scale.sweep import PhaseCurves
from loadframe.base.units import counted, format_change, format_count, format_duration, format_share
from loadframe.record import Run
from loadframe.record.schema.summary import GeneratorFigures, PhaseSummary
from loadframe.report.fit import NAMES
from loadframe.report.labels import (
    errors_text,
    few_text,
    interval_text,
    load_text,
    recall_text,
    resolution_text,
    seconds_text,
    treatment_text,
    with_failures,
    with_parts,
)
from loadframe.report.numbers import estimate_text, measured_text, percent_text
from loadframe.report.plot import Figure
from loadframe.report.run_status import Exclusion, exclusions, figures_text, run_status, trust, why

_PARAMETERS = {
    "lambda": "λ, throughput of one",
    "serial": "s, serial share",
    "sigma": "σ, contention",
    "kappa": "κ, coherency",
    "ceiling": "C, ceiling",
}
#: The maximum number of ranks shown for a phase: those with the fewest requests.
_RANKS = 32
#: Treatments that a sentence names.
_TREATMENTS = 4
_PERCENTILES = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9", "max": "max"}


@dataclass(frozen=True)
class Cell:
    """A table cell: text, a second line in small type, and a tone (best, valid, invalid, muted or a CSS class)."""

    text: str
    small: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first `names` columns hold words, the rest numbers.

    In a section of a page, `figures` stand above the table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    names: int = 1
    note: str = ""
    figures: Sequence[Figure] = ()


#: Tables of a page, by the titles of their sections.
Sections = Sequence[tuple[str, Table]]


def speedup_table(curves: PhaseCurves, times: str = "") -> Table:
    """Return the throughput, speed-up and response times of each number of nodes at its best number of clients.

    `times` is the sentence on the operation of the response times.
    """
    rows = []
    for row in curves.speedups:
        treatment, bounds = row.treatment, row.bounds
        rows.append(
            [
                Cell(format_count(treatment.nodes or 0)),
                Cell(format_count(treatment.clients) if treatment.clients else "–"),
                Cell(format_count(len(treatment.points))),
                interval_cell(measured_text(treatment.throughput, treatment.stretch)),
                interval_cell(measured_text(row.speedup, bounds)),
                interval_cell(percent_text(row.efficiency, bounds)),
                Cell(seconds_text(treatment.response_p50)),
                Cell(seconds_text(treatment.response_p99)),
                Cell("–" if treatment.parallelism is None else f"{treatment.parallelism:.1f}"),
            ]
        )
    return Table(
        ("nodes", "clients", "runs", curves.rate.unit, "speed-up", "efficiency", "p50", "p99", "in flight"),
        rows,
        names=0,
        note="Means over repetitions, corrected for the selection of the best number of clients. 95 % intervals with"
        " one relative variance, pooled over all treatments. Efficiency: speed-up divided by the growth in nodes. In"
        f" flight: mean number of requests in the cluster, by Little's law. {times}".rstrip(),
    )


def models_table(fit: ScalabilityFit) -> Table:
    """Return a table with a column for each model: parameters with intervals, and goodness of fit."""
    models = list(fit.models.values())
    tones = {model.name: "best" if model.name == fit.best else "" for model in models}
    rows = [
        [Cell(words), *(_parameter(model, name, tones[model.name]) for model in models)]
        for name, words in _PARAMETERS.items()
        if any(name in model.parameters for model in models)
    ]
    rows += [
        [Cell(words), *(Cell(text, tone=tones[name]) for name, text in zip(tones, texts, strict=True))]
        for words, texts in _quality(fit, models).items()
    ]
    columns = ("parameter", *(f"{NAMES[model.name]}{' ✓' if model.name == fit.best else ''}" for model in models))
    return Table(columns, rows)


def runs_table(runs: Sequence[RecordedRun], factors: Sequence[str]) -> Table:
    """Return a row for each run, including failed and missing runs, with its verdict."""
    rows = []
    for run in runs:
        word = run_status(run)
        tone = {"valid": "valid", "bounded": "valid", "not made": "muted"}.get(word, "invalid")
        generator = run.run.summary.generator if run.run else None
        rows.append(
            [
                Cell(run.id),
                Cell(word, tone=tone),
                Cell("" if word == "valid" else _why(run)),
                Cell(figures_text(run)),
                *(Cell(str(run.treatment.get(factor, ""))) for factor in factors),
                *_generator(generator),
            ]
        )
    shown = [factor.rsplit(".", 1)[-1] for factor in factors]
    columns = ("run", "verdict", "why", "figures", *shown, "generator CPU", "lateness p99", "lag p99")
    return Table(columns, rows, names=4)


@dataclass(frozen=True)
class RunsView:
    """Runs and verdicts of an experiment, for the macro `verdicts` in `parts.html.j2`."""

    trust: str
    exclusions: list[Exclusion]
    not_judged: Mapping[str, int]
    left_out: Table | None
    runs: Table


def runs_view(folder: RecordedExperiment) -> RunsView:
    """Return the runs and verdicts of an experiment for its page."""
    factors = list(dict.fromkeys(name for run in folder.runs for name in run.treatment))
    return RunsView(
        trust=trust(folder),
        exclusions=exclusions(folder),
        not_judged=Counter(words for run in folder.runs for words in (run.verdict.not_judged if run.verdict else ())),
        left_out=runs_table(folder.left_out, factors) if folder.left_out else None,
        runs=runs_table(folder.runs, factors),
    )


def operations_table(run: Run) -> Table:
    """Return the figures of each operation of each phase."""
    rows = []
    by_phase = percentiles_of(run)
    for phase in run.summary.phases:
        for index, (name, operation) in enumerate(with_parts(phase.operations)):
            failures = errors_text(operation)
            known = by_phase[phase.name].get(name, {})
            rows.append(
                [
                    Cell(phase.name if index == 0 else "", "prepares" if phase.prepares and index == 0 else ""),
                    Cell(load_text(phase) if index == 0 else ""),
                    Cell(name),
                    Cell(format_count(operation.throughput)),
                    Cell(format_count(operation.documents_per_second)),
                    *(
                        Cell(seconds_text(operation.response.at(key)), interval_text(known.get(key)))
                        for key in _PERCENTILES
                    ),
                    Cell(failures or "0", tone="invalid" if failures else "muted"),
                ]
            )
            if recall := recall_text(operation):
                empty = [Cell("")] * (3 + len(_PERCENTILES))
                rows.append([Cell(""), Cell(""), Cell(recall, tone="muted"), *empty])
            if polled := resolution_text(operation):
                empty = [Cell("")] * (3 + len(_PERCENTILES))
                rows.append([Cell(""), Cell(""), Cell(polled, tone="muted"), *empty])
            if every := with_failures(operation):
                percentiles = [Cell(seconds_text(every.at(key)), tone="muted") for key in _PERCENTILES]
                rows.append([Cell(""), Cell(""), Cell("with failures"), Cell(""), Cell(""), *percentiles, Cell("")])
    columns = ("phase", "load", "operation", "requests/s", "documents/s", *_PERCENTILES.values(), "failures")
    note = (
        "Successful requests of the measured window, and their response times (done − scheduled). If requests failed, a"
        " second row has the times of all requests. Rows with a dot: parts of an operation, with service times (done −"
        " sent). In brackets: 95 % intervals of the percentiles within this run. "
    )
    few = few_text(
        percentile for phase in by_phase.values() for intervals in phase.values() for percentile in intervals.values()
    )
    return Table(columns, rows, names=3, note=(note + few).strip())


def failures_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the messages of failed requests with their counts, or None without any."""
    rows = [
        [
            Cell(phase.name),
            Cell(name),
            Cell(message.error),
            Cell("" if message.status is None else str(message.status)),
            Cell(format_count(message.count)),
            Cell(message.message),
        ]
        for phase in phases
        for name, operation in phase.operations.items()
        for message in operation.messages
    ]
    if not rows:
        return None
    note = "Failures of the measured window, the most frequent first. Messages that differ only in numbers are merged."
    return Table(("phase", "operation", "class", "status", "failures", "message"), rows, names=3, note=note)


CORES = "cores"
CPU_PER_REQUEST = "CPU per request"
_CPU_NOTE = "Mean use of each process in the measured window. CPU per request: CPU time per successful request."


def unsampled_text(gaps: Sequence[Unsampled]) -> str:
    """Return a sentence on the phases or treatments with too few samples of processes; empty without any."""
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


def cpu_note(words: str, gaps: Sequence[Unsampled]) -> str:
    """Return the note below a table of CPU use: definitions, `words`, and the treatments without figures."""
    return " ".join(filter(None, [_CPU_NOTE, words, unsampled_text(gaps)]))


def run_cpu(cpu: ProcessesOf) -> Table | None:
    """Return the CPU use of each process in each measured phase of a run; None if no process was observed.

    A phase with too few samples has a row with dashes.
    """
    if not cpu.used and not cpu.unsampled:
        return None
    rows, partly = [], False
    for phase, processes in cpu.used.items():
        whole = sum(used.cores for name, used in processes.items() if name != ALL)
        for name, used in processes.items():
            partly |= not used.whole
            rows.append(
                [
                    Cell(phase),
                    Cell(name, tone="muted" if name == ALL else ""),
                    Cell(format_count(used.cores), "" if used.whole else f"over {format_duration(used.watched)}"),
                    Cell(format_share(used.cores / whole) if whole and name != ALL and used.whole else ""),
                    Cell(seconds_text(used.per_request)),
                ]
            )
    rows += [[Cell(gap.phase), *[Cell("–")] * 4] for gap in cpu.unsampled]
    over = "“over” gives the observed time if it is shorter than the window." if partly else ""
    columns = ("phase", "process", CORES, "share", CPU_PER_REQUEST)
    return Table(columns, rows, names=2, note=cpu_note(over, cpu.unsampled))


def growth_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the growth of mean response times with the documents; None if it is unknown."""
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
            Cell(format_duration(growth.slope), f"[{format_duration(growth.low)}, {format_duration(growth.high)}]"),
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
    return Table(columns, rows, names=2, note=note)


def generator_table(generator: GeneratorFigures) -> Table:
    """Return the recorded self-monitoring figures of the load generator in one run."""
    achieved = generator.achieved
    shares = {
        "CPU of the busiest thread, mean": generator.cpu_share,
        "CPU of the busiest thread, busiest second": generator.cpu_share_peak,
        "time that a thread waited for a core": generator.waited_share,
        "time throttled by a CPU quota": generator.throttled_share,
        "time that an event loop was stalled for 50 ms or more": generator.away_share,
        "CPU time stolen by the hypervisor": generator.stolen_share,
        "network bandwidth used": generator.network_share,
        "share of the generator's calibrated limit": generator.ceiling_share,
    }
    rows = [("worker threads", format_count(generator.threads))]
    rows += [(words, format_share(share)) for words, share in shares.items() if share is not None]
    rows += [
        ("lateness, 99th percentile", seconds_text(generator.lateness_p99)),
        ("event-loop lag, 99th percentile", seconds_text(generator.lag_p99)),
        ("longest stall of an event loop", seconds_text(generator.longest_stall)),
    ]
    if achieved is not None:
        rows.append(("achieved share of the offered rate", format_share(achieved, 1)))
    return Table(("generator", "value"), [[Cell(words), Cell(value)] for words, value in rows])


def ranks_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the requests and self-monitoring figures of ranks by phase; None if one process generated the load.

    Of more than 32 ranks, the table has those with the fewest requests.
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
                    Cell(format_count(rank.requests)),
                    Cell(format_share(rank.cpu_share)),
                    Cell(format_share(rank.waited_share)),
                    Cell(seconds_text(rank.lateness_p99)),
                    Cell(seconds_text(rank.lag_p99)),
                    Cell(seconds_text(rank.began_late)),
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
    return Table(columns, rows, names=3, note=f"{note}Measured window; shares of the busiest thread of a rank.")


def _quality(fit: ScalabilityFit, models: Sequence[ModelFit]) -> dict[str, list[str]]:
    """Return the goodness of fit of each model, by the title of its row."""
    return {
        "AICc, less is better": [_or_dash(model.aicc, "{:.1f}") for model in models],
        "R²": [_or_dash(model.r_squared, "{:.4f}") for model in models],
        f"prediction error at {format_count(fit.largest)} {fit.over} from fewer": [
            "–" if model.extrapolation_error is None else format_change(model.extrapolation_error) for model in models
        ],
        "lack of fit, p": ["–" if model.lack_of_fit is None else _p_value(model.lack_of_fit.p) for model in models],
    }


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _generator(generator: GeneratorFigures | None) -> list[Cell]:
    if generator is None:
        return [Cell("")] * 3
    return [
        Cell(format_share(generator.cpu_share)),
        Cell(seconds_text(generator.lateness_p99)),
        Cell(seconds_text(generator.lag_p99)),
    ]


def _why(run: RecordedRun) -> str:
    return "" if run.status == "missing" else why(run)


def _parameter(model: ModelFit, name: str, tone: str) -> Cell:
    estimate = model.parameters.get(name)
    cell = _estimate(estimate) if estimate else Cell("")
    return Cell(cell.text, cell.small, tone)


def _estimate(estimate: Estimate) -> Cell:
    return interval_cell(estimate_text(estimate))


def interval_cell(text: str) -> Cell:
    """Return a cell for `value [interval]`, with the interval in small type."""
    value, bracket, interval = text.partition(" [")
    return Cell(value, f"[{interval}" if bracket else "")


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"
