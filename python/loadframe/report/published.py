"""Comparison of published and measured figures: plots of relative changes, and a table with sources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.published import CAPACITIES, INSTANTS, PER_SECOND, SAMPLES, Beside, MeasuredBeside, Place
from loadframe.analyze.rates import RATES
from loadframe.base.units import (
    counted,
    format_change,
    format_changes,
    format_count,
    format_duration,
    format_share,
    short_names,
)
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text, percent_text, seconds_estimate
from loadframe.report.plot import COLORS, MUTED, SYMBOLS, Axis, Figure, Mark, Panel, Rule, Trace, bar_ends
from loadframe.report.tables import Cell, Number, Table, change_cell, estimate_cell
from loadframe.report.terminal_table import TerminalTable

_WORDS = {
    **{name: name.replace("_", " ") for name in INSTANTS},
    **{name: sample.words for name, sample in SAMPLES.items()},
    **{name: name for name in RATES},
    "errors": "errors",
    "capacity": "capacity",
    "users": "number of users",
    "wall_time": "request time, maximum over ranks",
    "summed_time": "request time, sum over ranks",
}
_NONE = "–"
#: Places of measurements beside published quartiles.
_PLACES: Mapping[Place, str] = {
    "within": "within q1 to q3",
    "below": "below q1",
    "above": "above q3",
    "open": "outside q1 to q3, but not significantly",
}


def published_section(figures: Sequence[Beside]) -> Table:
    """Return the table of published figures and their measurements.

    It has a row for each measurement, and for each figure without one. Its plots show known changes, one for each
    measure and phase, and the instants.
    """
    rows = [
        [
            Cell(_measure(at)),
            Cell(at.figure.series),
            Cell(_levels(at), _reference(at)),
            Cell(_value(at), _spread(at), number=_published_number(at)),
            change_cell(at.figure.change),
            Cell((measured and _others(measured)) or _NONE, (measured and _runs(at, measured)) or ""),
            _mean_cell(at, measured),
            _measured_change_cell(measured),
            Cell(at.figure.source, tone="muted"),
        ]
        for at, measured in _rows(figures)
    ]
    note = (
        "Changes are relative to the levels in small type, because absolute figures of different machines are not"
        " comparable. Measured changes are ratios of means over runs, with 95 % intervals if runs were repeated. If the"
        " publication does not give the clients, each size uses the clients with the highest throughput. The sum of"
        " request time excludes runs with failed requests unless they recorded samples. q1 and q3 are the published"
        " quartiles. A dash: not measured, or not published."
    )
    columns = (
        "measure", "of", "at", "published", "change", "measured at", "measured", "change measured", "source"
    )  # fmt: skip
    plots = [*_figures(figures), *_instants(figures)]
    return Table(columns, rows, names=3, note=note, figures=plots, caption="Published figures and their measurements")


def published_on_terminal(figures: Sequence[Beside]) -> TerminalTable:
    """Return the rows of `published_section` as a table for the terminal, without sources, quartiles and plots.

    If all changes are relative to the same levels, the title names these, and rows only the levels that differ.
    """
    references = {_reference(at) for at in figures if at.figure.against}
    common = references.pop() if len(references) == 1 else ""
    table = TerminalTable(
        ("measure", "of", "at", "published", "change", "measured", "change measured"),
        names=3,
        title=f"Published and measured{f', changes {common}' if common else ''}:",
    )
    for at, measured in _rows(figures):
        levels = _further_levels(at) if common else f"{_levels(at)} {_reference(at)}".strip()
        table.add(
            _measure(at),
            at.figure.series,
            levels + (f" ({_others(measured)})" if measured and measured.others else ""),
            _value(at),
            _NONE if at.figure.change is None else format_change(at.figure.change),
            _mean_cell(at, measured).lines,
            _measured_change_cell(measured).lines,
        )
    return table


def _mean_cell(at: Beside, measured: MeasuredBeside | None) -> Cell:
    """Return the table cell of a measured mean beside a published figure; a dash without a measurement.

    The small text has the interval, and the place beside the published quartiles.
    """
    cell = estimate_cell(_mean(at, measured), measured.mean if measured else None, _unit(at))
    return _beside(cell, measured.place if measured else None)


def _measured_change_cell(measured: MeasuredBeside | None) -> Cell:
    """Return the table cell of a measured change relative to the reference, in %; a dash if it is unknown."""
    cell = estimate_cell(_change(measured), measured.change if measured else None, "%")
    return _beside(cell, measured.change_place if measured else None)


def _beside(cell: Cell, place: Place | None) -> Cell:
    """Return the cell of a measurement with words on its place beside the published quartiles; unchanged for None."""
    return replace(cell, small=" ".join(filter(None, (cell.small, _PLACES[place])))) if place else cell


def _rows(figures: Sequence[Beside]) -> Iterator[tuple[Beside, MeasuredBeside | None]]:
    """Yield each figure with each of its measurements, or with None if it has none."""
    for at in figures:
        for measured in at.measured or (None,):
            yield at, measured


def _figures(figures: Sequence[Beside]) -> Iterator[Figure]:
    """Yield a plot of published and measured changes, in %, for each measure and phase with a published change."""
    known = [at for at in figures if at.figure.change is not None]
    for number, key in enumerate(dict.fromkeys((at.figure.measure, at.figure.phase) for at in known)):
        members = [at for at in known if (at.figure.measure, at.figure.phase) == key]
        names = list(dict.fromkeys(name for at in members for name in at.figure.levels))
        yield Figure(
            f"published-{number}",
            Axis(", ".join(short_names(names).values()) or "figure", "category"),
            [Panel(Axis(f"{_measure(members[0])}, change in %"))],
            [*_published_traces(members, names), *_measured_traces(members, names)],
            "Hollow: published, with quartiles if they were published. Filled: measured here, with 95 % intervals if"
            " runs were repeated. Each mark is the change relative to the levels in the table.",
            rules=[Rule(0.0, "y", MUTED, "dot")],
        )


def _instants(figures: Sequence[Beside]) -> Iterator[Figure]:
    """Yield one plot of published and measured instants, s since the measured window began.

    Yield nothing if the publication has no instants.
    """
    known = [at for at in figures if at.figure.measure in INSTANTS]
    if not known:
        return
    traces = []
    for index, measure in enumerate(name for name in INSTANTS if any(at.figure.measure == name for at in known)):
        members = [at for at in known if at.figure.measure == measure]
        published = [(at, at.figure.value) for at in members if at.figure.value is not None]
        mark = Mark(_color(index), _symbol(index), 10, hollow=True)
        texts = [f"{_series(at)}, published\n{_measure(at)}: {format_duration(value)}" for at, value in published]
        places: list[float | str | None] = [f"{_series(at)}, published" for at, _ in published]
        traces.append(
            Trace(places, [value for _, value in published], f"{_WORDS[measure]}, published", None, mark, texts=texts)
        )
        # Several published series share the same runs, which are drawn once.
        seen = {f"measured, {_others(one)}".rstrip(", "): one.mean for at in members for one in at.measured}
        traces.append(
            Trace(
                list(seen),
                [mean.value for mean in seen.values()],
                f"{_WORDS[measure]}, measured",
                mark=Mark(_color(index), _symbol(index)),
                **bar_ends(list(seen.values())),
                texts=[f"{place}\n{_WORDS[measure]}: {seconds_estimate(mean)}" for place, mean in seen.items()],
            )
        )
    yield Figure(
        "published-instants",
        Axis("", "category"),
        [Panel(Axis("s since the measured window began", from_zero=True))],
        traces,
        "Times at which triggers fired and nodes were requested. Hollow: published. Filled: measured here, with 95 %"
        " intervals if runs were repeated. The times depend on how fast the load grew, which may differ.",
    )


def _series(at: Beside) -> str:
    """Write the name of the published series and the levels of a figure, joined by a comma."""
    return ", ".join(filter(None, (at.figure.series, _levels(at))))


def _published_traces(members: Sequence[Beside], names: Sequence[str]) -> Iterator[Trace]:
    """Yield a trace per series: its published changes in %, with quartiles, at the levels of the factors `names`.

    All `members` must have a change.
    """
    for index, series in enumerate(dict.fromkeys(at.figure.series for at in members)):
        points = [at for at in members if at.figure.series == series]
        yield Trace(
            [_place(at.figure.levels, names) for at in points],
            [100 * (at.figure.change or 0.0) for at in points],
            f"{series or 'published'}{', published' if series else ''}",
            mark=Mark(_color(index), _symbol(index), 10, hollow=True),
            low=[at.figure.quartiles and 100 * at.figure.quartiles[0] for at in points],
            high=[at.figure.quartiles and 100 * at.figure.quartiles[1] for at in points],
            texts=[
                f"{series} published\n{_levels(at)} {_reference(at)}: {format_change(at.figure.change or 0.0)}".strip()
                for at in points
            ],
        )


def _measured_traces(members: Sequence[Beside], names: Sequence[str]) -> Iterator[Trace]:
    """Yield a trace per combination of other factors' levels: the measured changes in %, with 95 % intervals.

    `names` are the factors of the x axis. Measurements without a change are left out.
    """
    drawn: dict[str, dict[str, tuple[str, Estimate]]] = {}
    for at in members:
        for one in at.measured:
            if one.change is not None:
                # Several published series share the same runs, which are drawn once.
                place = _place(at.figure.levels, names)
                text = f"measured, {_others(one)}\n{_levels(at)} {_reference(at)}: {_change(one)}"
                key = _key(at, place)
                drawn.setdefault(_others(one), {}).setdefault(key, (text, one.change))
    for index, (others, points) in enumerate(drawn.items()):
        changes = [change for _, change in points.values()]
        ends = [_ends(change) for change in changes]
        yield Trace(
            [key.partition("\t")[0] for key in points],
            [100 * change.value for change in changes],
            f"measured, {others}" if others else "measured",
            mark=Mark(_color(len(COLORS) - 1 - index), _symbol(index)),
            low=[low for low, _ in ends],
            high=[high for _, high in ends],
            texts=[text for text, _ in points.values()],
        )


def _key(at: Beside, place: str) -> str:
    """Return the identity of a measured point in a plot: its place and its reference levels."""
    return f"{place}\t{_reference(at)}"


def _ends(change: Estimate) -> tuple[float | None, float | None]:
    """Return the ends of the interval of a change in %, or None and None if it is not finite."""
    return (100 * change.low, 100 * change.high) if change.is_finite else (None, None)


def _place(levels: Mapping[str, Any], names: Sequence[str]) -> str:
    """Write the levels of the factors `names`, which is the place on the x axis; `all` without levels."""
    return ", ".join(str(levels.get(name, "")) for name in names).strip(", ") or "all"


def _measure(at: Beside) -> str:
    """Write the measure of a figure, and its phase if it has one."""
    figure = at.figure
    words = _WORDS.get(figure.measure) or f"{figure.measure} response"
    return f"{words} of {figure.phase}" if figure.phase else words


def _levels(at: Beside) -> str:
    """Write the levels of the factors at which a figure was published: `nodes 2, clients 8`; empty without any."""
    return treatment_text(at.figure.levels)


def _reference(at: Beside) -> str:
    """Write the levels to which the change of a figure is relative: `against nodes 1`; empty if there are none."""
    return f"against {treatment_text(at.figure.against)}" if at.figure.against else ""


def _further_levels(at: Beside) -> str:
    """Write the levels at which a figure was published and which its reference does not have; all if there are none."""
    against = at.figure.against or {}
    differing = {name: level for name, level in at.figure.levels.items() if against.get(name) != level}
    return treatment_text(differing or at.figure.levels)


def _others(measured: MeasuredBeside) -> str:
    """Write the levels of a measurement that the published figure does not name; empty without any."""
    return treatment_text(measured.others)


def _runs(at: Beside, measured: MeasuredBeside) -> str:
    """Write the number of runs behind a measurement, and the number of failed runs if any.

    A capacity counts its searches.
    """
    if at.figure.measure in CAPACITIES.values():
        return counted(measured.runs, "search", "searches")
    failed = f", {format_count(measured.failed)} failed" if measured.failed else ""
    return f"{counted(measured.runs, 'run')}{failed}"


def _value(at: Beside) -> str:
    """Write the published value with its unit; a dash if none is published."""
    return _NONE if at.figure.value is None else _in_unit(at.figure.value, at.figure.measure)


def _spread(at: Beside) -> str:
    """Write the published distribution, such as `q1 20/s, q3 30/s`; empty without one."""
    return ", ".join(f"{name} {_in_unit(value, at.figure.measure)}" for name, value in at.figure.spread.items())


def _in_unit(value: float, measure: str) -> str:
    """Write a value of a measure with its unit. `value` is in 1/s, in users, a share of one for errors, else in s."""
    if measure in CAPACITIES.values():
        return f"{format_count(value)} {'requests/s' if measure in PER_SECOND else measure}"
    if measure in PER_SECOND:
        rate = SAMPLES[measure].rate if measure in SAMPLES else RATES[measure]
        return f"{format_count(value)} {rate.unit}"
    return format_share(value, 1) if measure == "errors" else format_duration(value)


def _unit(at: Beside) -> str:
    """Return the unit of a figure's values in CSV files: `s`, `%`, or empty for rates and counts of users."""
    if at.figure.measure in (*PER_SECOND, *CAPACITIES.values()):
        return ""
    return "%" if at.figure.measure == "errors" else "s"


def _published_number(at: Beside) -> Number:
    """Return the published value in the unit of CSV files: `errors` in %, durations in s.

    The number is None if no value is published.
    """
    value, unit = at.figure.value, _unit(at)
    return Number(value if value is None or unit != "%" else 100 * value, unit)


def _mean(at: Beside, measured: MeasuredBeside | None) -> str:
    """Write the measured mean with its interval; a dash without a measurement."""
    if measured is None:
        return _NONE
    if at.figure.measure in (*PER_SECOND, *CAPACITIES.values()):
        return measured_text(measured.mean)
    if at.figure.measure == "errors":
        return percent_text(measured.mean)
    return seconds_estimate(measured.mean)


def _change(measured: MeasuredBeside | None) -> str:
    """Write the measured change in % with its 95 % interval if it is finite; a dash if unknown."""
    if measured is None or measured.change is None:
        return _NONE
    text = format_change(measured.change.value)
    if not measured.change.is_finite or measured.change.low == measured.change.high:
        return text
    return f"{text} {format_changes(measured.change.low, measured.change.high)}"


def _color(index: int) -> str:
    """Return the color of series number `index`; colors repeat."""
    return COLORS[index % len(COLORS)]


def _symbol(index: int) -> str:
    """Return the symbol of series number `index`; symbols repeat."""
    return SYMBOLS[index % len(SYMBOLS)]
