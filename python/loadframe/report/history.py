"""Report on the history of a folder: page and terminal output."""

from collections.abc import Callable, Hashable, Sequence

from rich.console import Console
from rich.text import Text

from loadframe.analyze.history import series_of_run
from loadframe.analyze.recorded_history import (
    REFERENCES,
    Change,
    History,
    Line,
    Point,
    newest_gates,
    reference_series,
)
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import counted, format_change, format_count, format_duration
from loadframe.record.gate_log import GateRecord
from loadframe.report.compare_words import number, quantity
from loadframe.report.fit import print_findings
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import p_text
from loadframe.report.page import Page, render
from loadframe.report.plot import COLORS, INK, MUTED, Axis, Figure, Label, LineStyle, Mark, Panel, Rule, Trace, numbers
from loadframe.report.tables import Cell, Number, Sections, Table, change_cell, p_cell
from loadframe.report.terminal_table import TerminalTable

#: Most measures and most points that are drawn, so that the page stays small; measures with changes come first.
_DRAWN, _DRAWN_POINTS = 40, 3000
#: How points differ from the sessions that `gate` counts.
_UNITS = (
    "A point has the runs of one commit in one session. The gate counts sessions, which may have several commits: runs"
    " without a pause above an hour."
)
#: Cross on the points of commits that the gate stopped.
_STOPPED = Mark(INK, "x", 11)
#: Most runs that a row or a tooltip names, and most stopped commits that a sentence names.
_NAMED = 8


def _speed(rate: float) -> str:
    """Write a rate in bytes/s as MB/s (millions of bytes)."""
    return f"{format_count(rate / 1e6)} MB/s"


#: Axis title, factor to its unit, and text of each reference of the machine.
_REFERENCES: dict[str, tuple[str, float, Callable[[float], str]]] = {
    "cpu": ("CPU time, ms", 1e3, format_duration),
    "disk": ("disk, MB/s", 1e-6, _speed),
    "network": ("network, MB/s", 1e-6, _speed),
}


def history_page(history: History) -> Page:
    """Return the HTML page of a history. It draws at most 40 measures, those with changes first.

    With many points it draws fewer measures, about 3,000 points in total, but at least two measures.
    """
    lines = sorted(history.lines, key=lambda line: not line.changes)
    drawn = lines[: max(2, min(_DRAWN, _DRAWN_POINTS // max(len(history.points), 1)))]
    figures = [_figure(history, line, f"h{index}") for index, line in enumerate(drawn)]
    changed = sum(bool(line.changes) for line in drawn)
    return render(
        "history.html.j2",
        title=f"{_subject(history)}: loadframe history",
        subject=_subject(history),
        folder=str(history.folder),
        lead=sentences(history),
        skipped=[f"{name}: {cause}" for name, cause in history.skipped],
        changes=changes_table(history.changes) if history.changes else None,
        changed=figures[:changed],
        unchanged=figures[changed:],
        unchanged_title=_unchanged_title([len(line.points) < history.needed for line in drawn[changed:]]),
        not_drawn=len(lines) - len(figures),
        machine=_machine(history),
        points=_points_table(history),
        warnings=history.warnings,
    )


def _subject(history: History) -> str:
    """Return up to three measured workloads, each with the kind of its store; the name of the folder without any."""
    runs = [run.manifest for point in history.points for run in point.runs]
    names = dict.fromkeys(" on ".join(filter(None, (run.workload.name, run.store.kind))) for run in runs)
    known = [name for name in names if name]
    more = [f"{len(known) - 3} more"] if len(known) > 3 else []
    return " and ".join(filter(None, (", ".join(known[:3]), *more))) or history.folder.name


def _unchanged_title(short: Sequence[bool]) -> str:
    """Return the heading of measures without changes.

    `short` says of each whether it has too few points for a change.
    """
    if short and all(short):
        return "Measures with too few points"
    return "Measures without a change, or with too few points" if any(short) else "Measures without a change"


def sentences(history: History) -> list[str]:
    """Return the answer: the changes, and the commits that a gate stopped, the newest with its failed checks.

    A gate stops a commit by a regression that was not accepted. Stopped commits come first if the points are too few
    for a change.
    """
    newest = history.points[-1] if history.points else None
    stopping = _stopping(history, newest) if newest else []
    last = {point.commit or point.label: point for point in history.points if point.is_stopped}
    earlier = [
        point.label
        for commit, point in last.items()
        if newest and commit != (newest.commit or newest.label) and _stopping(history, point)
    ]
    words = []
    if earlier:
        more = f" and {len(earlier) - _NAMED} earlier ones" if len(earlier) > _NAMED else ""
        words.append(f"Stopped by the gate earlier, and not accepted: {', '.join(earlier[-_NAMED:])}{more}.")
    if newest and stopping:
        checks = ", ".join(dict.fromkeys(name for gate in stopping for name in gate.failed))
        words.append(f"The gate stopped {newest.label}{checks and f': {checks}'}.")
    few = bool(history.lines) and max(len(line.points) for line in history.lines) < history.needed
    if few and not history.changes:
        return words[::-1] + _of_changes(history)
    return _of_changes(history) + words


def _stopping(history: History, last: Point) -> list[GateRecord]:
    """Return the gates that stop the commit of a point: with a regression, neither accepted nor replaced later.

    The gates of a store, workload and treatment replace each other, also in later sessions. Without a commit, only the
    point counts.
    """
    by_series: dict[frozenset[Hashable], list[Point]] = {}
    for point in history.points:
        if point is last or (point.commit and point.commit == last.commit):
            by_series.setdefault(frozenset(map(series_of_run, point.runs)), []).append(point)
    regressions = [gate for points in by_series.values() for point in points for gate in point.regressions]
    newest = [newest_gates([gate for point in points for gate in point.gates]) for points in by_series.values()]
    return [gate for gates in newest for gate in gates if gate in regressions]


def _of_changes(history: History) -> list[str]:
    """Return sentences: the number of changes, and up to six measures whose newest change is not accepted.

    Without changes, the sentences say so, or that points or measurements are missing.
    """
    points = counted(len(history.points), "point")
    if not history.lines:
        return [f"No conclusion: {points}, and no valid measurement."]
    changes = history.changes
    lengths = [len(line.points) for line in history.lines]
    if not changes and max(lengths) < history.needed:
        return [
            f"Too few points to find a change: {max(lengths)} of at least {history.needed}"
            f" for {counted(len(history.lines), 'measure')}.",
            _UNITS,
        ]
    if not changes:
        short = sum(length < history.needed for length in lengths)
        few = f"; {short} of these {'has' if short == 1 else 'have'} too few points to find one" if short else ""
        return [f"No change of a level in {points} and {counted(len(history.lines), 'measure')}{few}."]
    accepted = sum(change.accepted is not None for change in changes)
    words = [f"{counted(len(changes), 'change')} of a level in {points}, {accepted} accepted."]
    newest: dict[object, Change] = {}
    for change in changes:
        newest.setdefault((change.title, change.measure, str(change.treatment)), change)
    unaccepted = [change for change in newest.values() if not change.accepted]
    return words + [f"{_name(change)} {'worsened' if change.is_worse else 'improved'} by"
                    f" {format_change(abs(change.step.change)).lstrip('+')} at {change.point.label}"
                    f" ({_when(change.point)})." for change in unaccepted[:6]]  # fmt: skip


def _no_change(history: History, line: Line) -> str:
    """Return a sentence on a measure without changes: none found, or too few points to find one."""
    if len(line.points) < history.needed:
        return f"Too few points to find a change: {len(line.points)} of at least {history.needed}."
    return "No change."


def _when(point: Point) -> str:
    """Return the date and time of a point to the minute, in the time zone as recorded: `2026-11-29 20:05`."""
    return point.time[:16].replace("T", " ")


def changes_table(changes: Sequence[Change]) -> Table:
    """Return a table with a row for each change, in the given order."""
    rows = [
        [
            Cell(_name(change)),
            Cell(change.point.label, _when(change.point)),
            Cell(change.accepted.reason if change.accepted else "no", tone="muted" if change.accepted else ""),
            *(
                Cell(quantity(value, change.measure), number=number(value, change.measure))
                for value in (change.step.before, change.step.after)
            ),
            change_cell(change.step.change, tone="invalid" if change.is_worse else "valid"),
            p_cell(change.step.p),
        ]
        for change in changes
    ]
    return Table(
        ("measure", "from", "accepted", "before", "after", "change", "p"),
        rows,
        names=3,
        note="Before and after are geometric means of points, up to the next change. p is the chance of such a change"
        " in a history without one. The chance of any false change on this page is 5 %.",
    )


def _points_table(history: History) -> Table:
    """Return a row for each point, the newest first: number, commit and time, outcome of the gate, and runs."""
    rows = [
        [
            Cell(str(point.number)),
            Cell(point.label, _when(point)),
            Cell(
                _gate_text(point),
                f"accepted: {point.accepted.reason}" if point.accepted else "",
                tone="invalid" if point.is_stopped else "",
            ),
            Cell(_runs_text(point)),
        ]
        for point in reversed(history.points)
    ]
    return Table(("point", "commit", "gate", "runs"), rows, names=4)


def _gate_text(point: Point) -> str:
    """Write the outcomes of the gates at a point, each with its failed checks; a dash without a gate.

    The commit of a gate, or without one its folder, is added if it differs from the point's commit.
    """
    outcomes = []
    for gate in point.gates:
        outcome = (
            gate.outcome if gate.commit == point.commit else f"{gate.outcome} as {(gate.commit or gate.folder)[:12]}"
        )
        outcomes.append(": ".join(filter(None, (outcome, ", ".join(gate.failed)))))
    return ", then ".join(outcomes) or "–"


def _runs_text(point: Point) -> str:
    """Write the names of the first eight runs of a point, and the number of the others."""
    names = [run.id for run in point.runs]
    more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def _name(change: Change) -> str:
    """Write the measure of a change, and after a comma the title of its line.

    A line without a title has its treatment instead, if any.
    """
    return ", ".join(filter(None, [change.measure.name, change.title or treatment_text(change.treatment)]))


def _axis(history: History) -> Axis:
    """Return the x axis: one place for each point, its number, labelled by the first seven digits of its commit.

    A point without a commit has its own label.
    """
    labels = [(float(point.number), point.commit[:7] if point.commit else point.label) for point in history.points]
    return Axis("commit, in order of time", range=(0.5, len(labels) + 0.5), ticks=labels, grid=False)


def _figure(history: History, line: Line, name: str) -> Figure:
    """Draw a measure: its points, the levels between changes, and a rule before each change.

    A cross marks commits that the gate stopped. The title names phase and operation; `name` identifies the plot. Rates
    are drawn in 1/s, times in ms.
    """
    scale, unit = (1.0, "1/s") if line.measure.unit == "1/s" else (1e3, "ms")
    x = [float(point.number) for point in line.points]
    texts = [
        f"{point.label}, {_when(point)}\n{quantity(value, line.measure)}\nruns: {_runs_text(point)}"
        f"\ngate: {_gate_text(point)}"
        for point, value in zip(line.points, line.values, strict=True)
    ]
    stopped = [index for index, point in enumerate(line.points) if point.is_stopped]
    traces = [
        Trace(x, numbers([scale * value for value in line.values]), "median of runs",
              LineStyle(COLORS[0], width=1), Mark(COLORS[0]), texts=texts)
    ]  # fmt: skip
    if line.changes:
        traces.append(_levels(line, scale))
    if stopped:
        values = numbers([scale * line.values[index] for index in stopped])
        traces.append(Trace([x[index] for index in stopped], values, "stopped by the gate", mark=_STOPPED, hover=False))
    words = f"{line.title}: " if line.title else ""
    listed = "; ".join(
        f"{format_change(change.step.change)} at {change.point.label}"
        f"{f' (accepted: {change.accepted.reason})' if change.accepted else ''}"
        for change in line.changes
    )
    return Figure(
        name,
        _axis(history),
        [Panel(Axis(f"{line.measure.kind}, {unit}", from_zero=True))],
        traces,
        f"{words}{line.measure.phrase}. {f'Changes: {listed}.' if listed else _no_change(history, line)}",
        rules=[
            Rule(change.point.number - 0.5, color=MUTED if change.accepted else INK, dash="dot")
            for change in line.changes
        ],
        labels=[
            Label(change.point.number - 0.5, format_change(change.step.change))
            for change in line.changes
        ],
        height=270,
    ).titled(", ".join(filter(None, [line.measure.name, line.title])))  # fmt: skip


def _levels(line: Line, scale: float) -> Trace:
    """Return a trace of the geometric means between changes, times `scale`, with a gap at each change.

    The line must have a change. `scale` converts values (1/s or s) to the unit of the plot.
    """
    x: list[float | None] = []
    y: list[float] = []
    levels = [line.changes[0].step.before, *(change.step.after for change in line.changes)]
    starts = [line.points[0].number, *(change.point.number for change in line.changes), line.points[-1].number + 1]
    for level, start, end in zip(levels, starts, starts[1:], strict=False):
        x += [start - 0.4, end - 0.6, None]
        y += [level, level, float("nan")]
    return Trace(
        x, numbers([scale * value for value in y]), "level", LineStyle(COLORS[1], width=2.4, dash="dash"), hover=False
    )


def _machine(history: History) -> Sections:
    """Return the section `Machine` with a table and a plot of its references; empty if none was recorded.

    The plot has CPU time in ms, disk and network in MB/s.
    """
    panels: list[Panel] = []
    traces: list[Trace] = []
    for name in REFERENCES:
        known, values = reference_series(history.points, name)
        if not values:
            continue
        title, factor, write = _REFERENCES[name]
        color = COLORS[len(panels)]
        traces.append(
            Trace(
                [float(point.number) for point in known],
                numbers([factor * value for value in values]),
                title.partition(",")[0],
                LineStyle(color, width=1),
                Mark(color),
                panel=len(panels),
                texts=[f"{point.label}\n{write(value)}" for point, value in zip(known, values, strict=True)],
            )
        )
        panels.append(Panel(Axis(title, from_zero=True)))
    if not panels:
        return []
    figure = Figure(
        "machine",
        _axis(history),
        panels,
        traces,
        "References of the machine: CPU time of a fixed computation, synchronised writes to the folder's disk, and one"
        " TCP connection over loopback. A change here can explain a change of a measure.",
        height=120 + 130 * len(panels),
    )
    rows = [
        [Cell(point.label),
         *(Cell("–" if (value := point.references.get(name)) is None else write(value),
                number=Number(value, "s" if name == "cpu" else "B/s"))
           for name, (_, _, write) in _REFERENCES.items())]
        for point in reversed(history.points)
    ]  # fmt: skip
    return [("Machine", Table(("commit", "CPU", "disk", "network"), rows, figures=[figure]))]


def print_history(history: History, console: Console | None = None) -> None:
    """Print a history, on standard output unless another console is given.

    It has the answer, the table of changes, the range of each reference of the machine, skipped folders and warnings.
    """
    console = console or PrintableConsole()
    first, *others = sentences(history)
    console.print(Text(first, style="bold"))
    for words in others:
        console.print(Text(words))
    if history.changes:
        console.print()
        table = TerminalTable(("measure", "from", "date", "before", "after", "change", "p", "accepted"), names=3)
        for change in history.changes:
            table.add(
                _name(change),
                change.point.label,
                _when(change.point),
                quantity(change.step.before, change.measure),
                quantity(change.step.after, change.measure),
                Text(format_change(change.step.change), style="red" if change.is_worse else "green"),
                p_text(change.step.p),
                change.accepted.reason if change.accepted else "no",
            )
        table.print(console)
    for name in REFERENCES:
        _, values = reference_series(history.points, name)
        if values:
            title, _, write = _REFERENCES[name]
            ends = " to ".join(dict.fromkeys((write(min(values)), write(max(values)))))
            console.print(Text(f"{title.partition(',')[0]} reference: {ends}", style="dim"))
    for name, cause in history.skipped:
        console.print(Text(f"skipped {name}: {cause}", style="yellow"))
    print_findings(console, history.warnings)
