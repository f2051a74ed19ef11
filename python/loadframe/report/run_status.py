"""Sentences on the validity of runs: the verdict of a run and its bounds, and which runs an experiment uses."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from loadframe.analyze.delayed import delayed_of
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.exclusion import selected_runs, warned_runs
from loadframe.analyze.executions import SUFFICIENT_SECONDS, IngestPace, ingest_pace
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.figures import VALUE
from loadframe.analyze.percentiles import Percentile
from loadframe.analyze.verdict.rules import CONTENDED, CPU_LIMIT, UNREAD_LIMIT, fault_of
from loadframe.base.units import counted, format_count, format_duration, format_share
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary, RecordedFigure, RecordedReason
from loadframe.report.numbers import estimate_text

Tone = Literal["valid", "bounded", "invalid"]
#: Percentiles with their intervals by phase, operation and name.
Percentiles = Mapping[str, Mapping[str, Mapping[str, Percentile]]]

#: Phases that a sentence names.
_LISTED = 4
#: Bounded runs that the terminal names for one reason.
_SHOWN = 3
_UNITS: dict[str, str] = {"throughput": "requests/s", "documents": "documents/s"}
_NAMES = {"response": "response times", "service": "service times", "all": "response times with failures"}
#: Why a run without a reason in its verdict is bounded.
_BELOW_LIMITS = "short waits of the load generator, below the limits of the verdict, bound some figures"


def trust(folder: RecordedExperiment) -> str:
    """Return sentences on the runs: how many the figures use, and how many are left out, bounded, at fault or repeated.

    Adds changes of the machine or of Loadframe between sessions.
    """
    total, left_out, faulty = len(folder.runs), folder.left_out, folder.faulty
    bounded = sum(run.bounded for run in folder.used)
    words = "The run is used." if total == 1 else f"All {total} runs are used."
    # Without a successful request, a run has errors, but neither throughput nor response times.
    nothing = [run for run in folder.used if any(failure.kind == "success" for failure in run.failures)]
    if left_out or nothing:
        kinds = Counter(run_status(run) for run in left_out) + Counter({"without a success": len(nothing)})
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        used = total - len(left_out) - len(nothing)
        words = f"{used} of {counted(total, 'run')} {'is' if used == 1 else 'are'} used; left out: {counts}."
    elif not faulty and not bounded:
        words = "The run is valid." if total == 1 else f"All {total} runs are valid."
    # Comparisons have a warning of their own for this.
    if folder.description["kind"] != "compare" and (selection := selected_runs(folder)):
        words += f" {selection.warning}"
    if bounded:
        words += f" The load generator limited {counted(bounded, 'run')}, which widens the intervals."
    if warned := warned_runs(folder.runs):
        words += f" {warned.warning}"
    if faulty:
        words += f" The store was at fault in {counted(len(faulty), 'run')}, which count{'s' * (len(faulty) == 1)}."
    if earlier := len(folder.attempts):
        failed = sum(attempt.store_failed for attempt in folder.attempts)
        words += f" {counted(earlier, 'earlier attempt')} failed, {failed} because of the store."
    if folder.changed:
        words += f" Loadframe or the machine changed between sessions: {'; '.join(folder.changed)}."
    return words


def run_status(run: RecordedRun) -> str:
    """Return the status of a run: valid, bounded, store at fault, invalid, failed, interrupted, or not made.

    Only a run that is done has one of the first four. A run with both bounds and a fault of the store is `store at
    fault`.
    """
    if run.status == "done":
        if not run.sound:
            return "invalid"
        return "store at fault" if not run.usable else "bounded" if run.bounded else "valid"
    return "not made" if run.status == "missing" else run.status


def figures_text(run: RecordedRun) -> str:
    """Write the quality of a run's figures: `all good`, `response bounded; others good`; empty without a verdict.

    If phases differ, each has its text: `load: all good; read: response bounded; others good`.
    """
    phases = run.states()
    words = {phase: _states_text(states) for phase, states in phases.items()}
    if len(set(words.values())) <= 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{phase}: {states}" for phase, states in words.items())


def _states_text(states: Mapping[str, str]) -> str:
    """Write the names of figures with each state: `all good`, `response bounded; others good`.

    `states` are figure -> state: good, bounded or unknown.
    """
    by_state: dict[str, list[str]] = {}
    for name, state in states.items():
        by_state.setdefault(state, []).append("response with failures" if name == "all" else name)
    if len(by_state) == 1:
        return f"all {next(iter(by_state))}"
    limited = [f"{', '.join(names)} {state}" for state, names in by_state.items() if state != "good"]
    return "; ".join([*limited, *(["others good"] if "good" in by_state else [])])


@dataclass(frozen=True)
class Exclusion:
    """A reason why runs are left out, bounded or contended: their names, its cause in the worst of them, its remedy."""

    runs: tuple[str, ...]
    cause: str
    remedy: str


def exclusions(folder: RecordedExperiment) -> list[Exclusion]:
    """Return the reasons why runs are left out, failed, at fault, bounded or contended, the most frequent first.

    A run with two reasons is in both. A reason with a severity has the cause and remedy of the worst run, others of the
    first.
    """
    by_cause: dict[str, list[tuple[str, str, str]]] = {}
    worst: dict[str, RecordedReason] = {}
    listed = {id(run) for run in (*folder.left_out, *folder.faulty)}
    limited = [run for run in folder.runs if (run.bounded or _contended(run)) and id(run) not in listed]
    for run in (*folder.left_out, *folder.faulty, *folder.attempts, *limited):
        for reason in run.reasons:
            by_cause.setdefault(reason.code, []).append((run.id, reason.cause, reason.remedy))
            worst[reason.code] = max(worst.get(reason.code, reason), reason, key=_severity)
        if not run.reasons and run.status == "missing":
            by_cause.setdefault("missing", []).append(
                (run.id, "not made yet", "run the same command again to make missing runs")
            )
        elif not run.reasons and run.bounded:
            by_cause.setdefault("bounded", []).append((run.id, _BELOW_LIMITS, "use the figures with their bounds"))
        elif not run.reasons or run.failure:
            # A failed run may have a verdict on the phases before its failure.
            remedy = "fix the cause, then repeat failed runs with `loadframe run --retry-failed`"
            by_cause.setdefault(why(run), []).append((run.id, why(run), remedy))
    # A run may have one reason in several of its phases.
    groups = []
    for code, rows in by_cause.items():
        runs = tuple(dict.fromkeys(row[0] for row in rows))
        _, cause, remedy = rows[0]
        if code in worst and worst[code].severity is not None:
            differ = len({row[1] for row in rows}) > 1
            cause, remedy = f"{'at worst, ' * differ}{worst[code].cause}", worst[code].remedy
        groups.append(Exclusion(runs, cause, remedy))
    return sorted(groups, key=lambda group: -len(group.runs))


def _contended(run: RecordedRun) -> bool:
    """Return whether other programs used the CPU of the nodes' machines during a run."""
    return any(reason.code == CONTENDED.code for reason in run.reasons)


def _severity(reason: RecordedReason) -> float:
    """Return the severity of a reason for sorting; -inf if it has none."""
    return -math.inf if reason.severity is None else reason.severity


def why(run: RecordedRun) -> str:
    """Return why a run is left out or bounded: its failure, else the causes of its verdict.

    Without either, it is a fixed text for a bounded run, and the status of another.
    """
    if run.failure:
        return run.failure
    if run.reasons:
        return "; ".join(reason.cause for reason in run.reasons)
    return _BELOW_LIMITS if run.bounded else run_status(run)


def print_trust(folder: RecordedExperiment, console: Console) -> None:
    """Print how many runs the figures use, and the reasons why other runs are left out or bounded, with remedies.

    Runs that are left out are all named; of bounded runs, three for each reason.
    """
    doubtful = folder.left_out or warned_runs(folder.runs)
    console.print(Text(trust(folder), style="yellow" if doubtful else "green"))
    grid = Grid.grid(padding=(0, 1, 0, 0))
    named = {run.id for run in (*folder.left_out, *folder.faulty, *folder.attempts)}
    for group in exclusions(folder):
        count = counted(len(group.runs), "run")
        # Runs that are left out must have their names in every report. Bounded runs may be many.
        shown = group.runs if named.intersection(group.runs) else group.runs[:_SHOWN]
        more = len(group.runs) - len(shown)
        names = ", ".join(shown) + (f" and {more} more" if more else "")
        grid.add_row("!", f"{count}: {names}", style="yellow")
        grid.add_row("", Text(group.cause))
        grid.add_row("", Text(group.remedy, style="dim"))
    if grid.row_count:
        console.print(grid)


def standing_of(run: Run, percentiles: Percentiles) -> tuple[Tone, str]:
    """Return the tone (`valid`, `bounded` or `invalid`) and a sentence on whether the figures of a run are valid.

    `percentiles` are those of the run. The tone of a valid run is `bounded`, too, if its machines were disturbed, if
    percentiles lack intervals, or if the store did not keep up with a source. The last is only checked if the verdict
    has no reason.
    """
    recorded = RecordedRun(run.path.name, None, {}, run)
    if not recorded.sound:
        return "invalid", "Invalid: do not rely on these figures."
    if recorded.bounded:
        return (
            "bounded",
            "Valid, bounded: delays or limits of the load generator affect some figures; see the bounds.",
        )
    faults = {fault_of(reason.code) for reason in recorded.reasons}
    if "cluster" in faults:
        return (
            "bounded",
            "Valid, but other programs or faults disturbed the cluster's machines: see the problems below.",
        )
    without_intervals = _without_intervals(run, percentiles)
    more = f"; {without_intervals}" if without_intervals else ""
    if faults:
        only = faults == {"store"}
        words = "Valid: the problems below are results of the store" if only else "Valid, with problems: see below"
        return "bounded" if without_intervals else "valid", f"{words}{more}."
    paces = (ingest_pace(run, phase, name) for phase in run.summary.measured for name in phase.sources)
    if behind := [pace.source for pace in paces if pace and pace.pace == "fell behind"]:
        return (
            "bounded",
            f"Valid: the measurement has no problem, but the store did not keep up with {join_words(behind)}{more}.",
        )
    return (
        ("bounded", f"Valid, but {without_intervals}.")
        if without_intervals
        else ("valid", "Valid: no problem was found.")
    )


def _without_intervals(run: Run, percentiles: Percentiles) -> str:
    """Return why measured operations lack intervals of their percentiles; empty if each median has an interval.

    Phases with a source are omitted, whose events matter more than response times, and phases of a single request. The
    operations are named unless all lack intervals.
    """
    single = {
        phase.get("name")
        for phase in run.manifest.workload.phases
        if all(stream.get("stop") == {"requests": 1} for stream in phase.get("streams") or [{}])
    }
    known = {
        (phase.name, name): of_operation
        for phase in run.summary.measured
        if not phase.sources and phase.name not in single
        for name, of_operation in percentiles[phase.name].items()
        if of_operation
    }
    lacking = [key for key, it in known.items() if it["p50"].few or not any(it["p50"].ends)]
    if not lacking:
        return ""
    short = {known[key]["p50"].too_short for key in lacking}
    why = (
        "too short"
        if short == {True}
        else "too few requests"
        if short == {False}
        else "too short, or too few requests,"
    )
    names = [f"{name} in {phase}" for phase, name in lacking]
    return f"{why} for 95 % intervals{f' of {join_words(names)}' if len(lacking) < len(known) else ''}"


def bounds_of(run: Run) -> list[str]:
    """Return a line for each figure of a run that is bounded or unknown.

    Response times with failures have a line only if response times of successes are good, documents only in phases with
    documents.
    """
    recorded = RecordedRun(run.path.name, None, {}, run)
    without = {phase.name for phase in run.summary.phases if not phase.documents_per_second}
    limited = [
        entry
        for entry in recorded.qualities
        if entry.state != "good" and not (entry.figure == "documents" and entry.phase in without)
    ]
    responses = {(entry.phase, entry.operation) for entry in limited if entry.figure == "response"}
    return [_line(it) for it in limited if it.figure != "all" or (it.phase, it.operation) not in responses]


def merged_reasons(reasons: Iterable[RecordedReason]) -> list[tuple[str, str]]:
    """Return (cause, remedy) for each rule among the reasons of a verdict, in order of first appearance.

    Both come from the rule's most severe reason. The cause also names the other phases.
    """
    by_code: dict[str, list[RecordedReason]] = {}
    for reason in reasons:
        by_code.setdefault(reason.code, []).append(reason)
    merged = []
    for first, *others in (sorted(several, key=_severity, reverse=True) for several in by_code.values()):
        phases = list(dict.fromkeys(other.phase for other in others if other.phase and other.phase != first.phase))
        more = f"; also in {join_words(phases)}" if phases else ""
        merged.append((f"{first.cause}{more}", first.remedy))
    return merged


def merged_unchecked(rules: Iterable[str]) -> list[str]:
    """Return the texts on rules that were not checked, a verdict's `not_judged`, in order of first appearance.

    Texts `RULE of phase NAME: CAUSE` that differ only in the phase become one, `RULE of phases A and B: CAUSE`. Other
    texts stay as they are, without repetitions.
    """
    merged: dict[tuple[str, str], list[str]] = {}
    for words in rules:
        parts = re.fullmatch(r"(.+ of )phase ([^:]+)(: .+)", words)
        rule, phase, cause = parts.groups() if parts else (words, "", "")
        merged.setdefault((rule, cause), []).append(phase)
    return [
        f"{rule}phase{'s' * (len(phases) > 1)} {join_words(phases)}{cause}" if cause else rule
        for (rule, cause), phases in merged.items()
    ]


def join_words(words: Sequence[str]) -> str:
    """Write `a, b and c`; empty without words. Above four words, write the first three and the number of the others."""
    shown = list(words) if len(words) <= _LISTED else [*words[: _LISTED - 1], f"{len(words) - _LISTED + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""


def _line(entry: RecordedFigure) -> str:
    """Write a bounded or unknown figure, with its bounds and the codes of the reasons.

    Rates are in 1/s; a time has bounds of p50 and p99, if they are recorded.
    """
    name = _NAMES.get(entry.figure, entry.figure)
    of = f"{name} of {entry.operation} in {entry.phase}" if entry.operation else f"{name} of {entry.phase}"
    why = f" ({', '.join(entry.reasons)})" if entry.reasons else ""
    if entry.state == "unknown":
        return f"{of}: unknown{why}"
    if entry.figure in _UNITS:
        return f"{of}: bounded, {_span(entry, VALUE, format_count)} {_UNITS[entry.figure]}{why}"
    spans = [f"{name} {_span(entry, name, format_duration)}" for name in ("p50", "p99") if name in entry.low]
    return f"{of}: bounded, {', '.join(spans)}{why}"


def _span(entry: RecordedFigure, statistic: str, text: Callable[[float], str]) -> str:
    """Write the bounds of a statistic: `512 to 540`, `512 or more`, `at most 540`, or `unknown` without any.

    `statistic` is its key in the bounds of `entry`, and `text` formats a number. A low bound of 0 counts as none.
    """
    low, high = entry.low.get(statistic) or 0.0, entry.high.get(statistic)
    if high is None:
        return f"{text(low)} or more" if low else "unknown"
    return f"{text(low)} to {text(high)}" if low else f"at most {text(high)}"


def ingest_pace_texts(run: Run, phase: PhaseSummary) -> list[str]:
    """Return a sentence for each source of a phase on whether the store kept up with it.

    Sources with events in too few samples are omitted.
    """
    return [
        f"{name}: {ingest_pace_text(pace)}"
        for name in phase.sources
        if (pace := ingest_pace(run, phase, name)) is not None
    ]


def ingest_pace_text(pace: IngestPace) -> str:
    """Write whether the store kept up with a source, or why that is inconclusive, and a remedy.

    It has the events/s that arrived and were stored, the change of the backlog, and a burst at the start if there was
    one.
    """
    unread = pace.unread_share or 0.0
    rates = f"{format_count(pace.offered)} events/s arrived and {format_count(pace.stored)}/s were stored"
    grew = ""
    if pace.growth:
        shrank = Estimate(-pace.growth.value, -pace.growth.high, -pace.growth.low)
        change = (
            f"grew by {estimate_text(pace.growth)}" if pace.growth.value >= 0 else f"shrank by {estimate_text(shrank)}"
        )
        grew = f"; the backlog {change} events/s"
    left = f" to {counted(round(max(pace.backlog, 0)), 'event')}" if grew else ""
    burst = (
        f". At the start, {counted(round(pace.burst), 'event')} beyond the later rate arrived: they had waited for"
        " Loadframe, or the sender was faster at first. Throughput, response times and `stored after` include them."
        " Start Loadframe first, with `--wait`"
        if pace.burst
        else ""
    )
    verdict = {
        "kept up": f"the store kept up: {rates}{grew}{left}",
        "fell behind": f"the store did not keep up: {rates}{grew}{left}",
        "too short": f"inconclusive whether the store kept up: events arrived for too short a time; send them for"
        f" {SUFFICIENT_SECONDS} s or longer",
        "held back": f"inconclusive whether the store kept up: {rates}, but senders were held back: sent data waited"
        f" unread in {format_share(unread)} of the seconds; give Loadframe more of the CPU, or use more threads"
        " (`--threads`, or `threads` in the experiment file) and connections"
        if unread > UNREAD_LIMIT and not pace.buffer_full
        else f"inconclusive whether the store kept up: {rates}, but the buffer was full at times, so senders"
        " may have waited; lower the rate, or raise `buffer` or `--spill`",
        "not recorded": f"inconclusive whether the store kept up: {rates}, but it is not recorded whether senders"
        " had to wait",
        "reader busy": f"inconclusive whether the store kept up: {rates}, but the thread that reads the source was"
        f" busy for more than {format_share(CPU_LIMIT)} of the time, so senders may have waited",
        "undecided": f"inconclusive whether the store kept up: {rates}{grew}{left}; measure longer, or"
        " lower `batch` or `flush` of the source",
    }[pace.pace]
    return verdict + burst


def delayed_texts(run: Run, phase: PhaseSummary) -> list[str]:
    """Return a sentence if answers of a phase seem to wait for delayed acknowledgements; else an empty list."""
    return [
        f"in {at.phase} nearly all answers of {', '.join(at.operations)} take about {format_duration(at.median)}"
        f" ({_idle(at.cpu)}), which is typical of delayed acknowledgements. Set TCP_NODELAY in the service, or write"
        " each answer in one call."
        for at in filter(None, [delayed_of(run, phase)])
    ]


def _idle(cpu: float | None) -> str:
    """Write that an answer took `cpu` s of CPU time, or a hint to check it if that is None."""
    if cpu is None:
        return "the CPU of the service was not observed; check that it is idle"
    return f"of which {format_duration(cpu)} are CPU time"
