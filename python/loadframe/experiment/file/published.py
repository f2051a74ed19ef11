"""Reader of the CSV file named by `published:`, which holds published figures to compare with.

Required columns: `measure`, `value`, `unit`, `source`. Optional: `phase`, `series` (the system in the publication),
`against` (levels of the reference figure, such as `nodes=1 clients=40`, or `phase=NAME`), `min`, `q1`, `median`, `q3`
and `max` of the figure in its unit, and one column per factor. Empty factor cells set no level. A value in `%` is the
change relative to the reference figure.
docs/reference/experiment-file.md describes the format.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loadframe.analyze.published import CAPACITIES, INSTANTS, MEASURES, PER_SECOND, PHASE, SPREAD, PublishedFigure
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, parse_duration
from loadframe.base.untrusted import read_input
from loadframe.experiment.file.factors import WITH
from loadframe.yamlfile import did_you_mean, scalar

if TYPE_CHECKING:
    from loadframe.experiment.experiment import Experiment

_MAX_BYTES = 2**20
_NEEDED = ("measure", "value", "unit", "source")
_OPTIONAL = ("phase", "series", "against", *SPREAD)
#: Names that are known for every run, even if they are not factors.
_ALWAYS = ("nodes", "clients", "store.kind")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_SHAPE = "write a header with the columns measure, value, unit and source, then one line per figure"


@dataclass(frozen=True)
class _PublishedLine:
    """A figure with its position in the file."""

    figure: PublishedFigure
    relative: bool
    where: str


def read_published(experiment: "Experiment", name: str) -> tuple[PublishedFigure, ...]:
    """Return the published figures in the file `name`, in file order; BadInput, with file and line, for errors.

    `name` is relative to the experiment's folder. At most 1 MiB.
    """
    document = experiment.document
    path = document.path.parent / name
    try:
        content = read_input(path, _MAX_BYTES)
    except BadInput as error:
        raise document.error(("published",), f"{name}: {error.what}", error.remedy) from None
    lines = list(_lines(content, str(path), experiment))
    return tuple(_with_change(line, lines) for line in lines)


def _lines(content: bytes, name: str, experiment: "Experiment") -> Iterable[_PublishedLine]:
    """Yield the figures in a CSV file's content; BadInput, with line, for an error or no figure.

    `name` is the file's path. Empty lines and lines that begin with `#` are skipped.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput("the file is not UTF-8 text", where=f"{name}:{line}", remedy=_SHAPE) from error
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    header: list[str] | None = None
    count = 0
    try:
        for cells in rows:
            row, where = [cell.strip() for cell in cells], f"{name}:{rows.line_num}"
            if not any(row) or row[0].startswith("#"):
                continue
            if header is None:
                header = _header(row, where, experiment)
                continue
            if len(row) != len(header):
                what = f"the line has {counted(len(row), 'column')}, but the header has {len(header)}"
                raise BadInput(what, where=where, remedy="quote cells that contain a comma")
            count += 1
            yield _line(dict(zip(header, row, strict=True)), where, experiment)
    except csv.Error as error:
        raise BadInput(f"the file is not CSV: {error}", where=f"{name}:{rows.line_num}", remedy=_SHAPE) from error
    if not count:
        raise BadInput("the file contains only a header or comments", where=name, remedy=_SHAPE)


def _header(row: list[str], where: str, experiment: "Experiment") -> list[str]:
    """Return the header row unchanged; BadInput, at `where`, for unknown, duplicate and missing columns."""
    known = [*_NEEDED, *_OPTIONAL, *_factors(experiment)]
    for column in row:
        if column not in known:
            raise BadInput(f"unknown column {column!r}", where=where, remedy=did_you_mean(column, known))
        if row.count(column) > 1:
            raise BadInput(f"duplicate column {column}", where=where, remedy="remove one of them")
    for column in _NEEDED:
        if column not in row:
            raise BadInput(f"the column {column} is missing", where=where, remedy=_SHAPE)
    return row


def _factors(experiment: "Experiment") -> list[str]:
    """Return the names allowed as columns of levels and in `against`, without duplicates.

    These are `nodes`, `clients`, `store.kind`, the factors, the parameters that the file sets (`with.NAME`),
    `transition` and `load` of elastic experiments, and `variant` of comparisons.
    """
    elastic = ["transition", "load"] if experiment.file.kind == "elastic" else []
    variants = ["variant"] if experiment.file.kind == "compare" else []
    parameters = [WITH + name for name in experiment.file.with_]
    return list(
        dict.fromkeys([*_ALWAYS, *elastic, *variants, *(factor.name for factor in experiment.factors), *parameters])
    )


def _line(cells: Mapping[str, str], where: str, experiment: "Experiment") -> _PublishedLine:
    """Return the figure in a row, without a computed change; BadInput, at `where`, for invalid cells.

    `cells` maps columns to texts. A unit of `%`, except for errors, makes the value a change, which requires `against`.
    """
    measure, phase, unit = cells["measure"], cells.get("phase", ""), cells["unit"]
    if measure not in MEASURES:
        raise BadInput(f"unknown measure {measure!r}", where=where, remedy=did_you_mean(measure, MEASURES))
    if measure in INSTANTS and experiment.file.kind != "elastic":
        what = f"{measure} is only valid in elastic experiments; this one is of kind {experiment.file.kind}"
        raise BadInput(what, where=where, remedy="remove the line")
    _check_capacity(measure, phase, where, experiment)
    if phase:
        _check_phase(phase, where, experiment)
    value = _number(cells["value"], where)
    relative = unit == "%" and measure != "errors"
    if relative and value <= -100:
        raise BadInput(
            f"a change must be above -100 %; got {value:g}", where=where, remedy="give the change, such as -58"
        )
    reference = [_level(part, where, experiment) for part in cells.get("against", "").split()]
    against = dict(reference)
    if len(against) < len(reference):
        raise BadInput("against names a factor twice", where=where, remedy="give one level of each factor")
    if relative and not against:
        what = "a change needs a reference figure"
        raise BadInput(
            what, where=where, remedy="set the levels of the reference in the column against, such as nodes=1"
        )
    scale = 0.0 if relative else _scale(unit, measure, where)
    spread = _spread(cells, where, relative=relative)
    if not relative:
        _check_range(value, spread, scale, measure, where)
    figure = PublishedFigure(
        measure=measure,
        levels={name: _scalar(cells[name], where) for name in _factors(experiment) if cells.get(name)},
        phase=phase,
        series=cells.get("series", ""),
        value=None if relative else value * scale,
        change=value / 100 if relative else None,
        against=against,
        source=cells["source"],
        spread={name: part * scale for name, part in spread.items()},
    )
    return _PublishedLine(figure, relative, where)


def _spread(cells: Mapping[str, str], where: str, *, relative: bool) -> dict[str, float]:
    """Return the published distribution in a row by column (`SPREAD`), in the unit of the row; empty without one.

    `relative`: the row gives a change. BadInput, at `where`, for a distribution of a change, values that do not ascend,
    and one quartile without the other.
    """
    spread = {name: _number(cells[name], where) for name in SPREAD if cells.get(name)}
    if spread and relative:
        raise BadInput(
            f"{next(iter(spread))} is given for a change in %", where=where, remedy="give the figure in its unit"
        )
    if list(spread.values()) != sorted(spread.values()):
        text = ", ".join(f"{name} {value:g}" for name, value in spread.items())
        raise BadInput(f"the distribution does not ascend: {text}", where=where, remedy="check the columns")
    if ("q1" in spread) != ("q3" in spread):
        raise BadInput("q1 and q3 are needed together", where=where, remedy="give both, or neither")
    return spread


def _check_range(value: float, spread: Mapping[str, float], scale: float, measure: str, where: str) -> None:
    """Raise BadInput if a value or distribution is negative, infinite in base units or over 100 % of errors.

    Also for a value below the `min` or above the `max` of `spread`; quartiles and median do not bound it. Values are
    in the unit of the row; `scale` converts them to base units. BadInput at `where`.
    """
    for name, part in {"value": value, **spread}.items():
        if part < 0 or not math.isfinite(part * scale) or (measure == "errors" and part * scale > 1):
            bounds = "a share from 0 to 100 %" if measure == "errors" else "finite and at least 0"
            raise BadInput(f"{name} must be {bounds}; got {part:g}", where=where, remedy="check the value and its unit")
    if not spread.get("min", 0.0) <= value <= spread.get("max", math.inf):
        text = ", ".join(f"{name} {spread[name]:g}" for name in ("min", "max") if name in spread)
        what = f"the value {value:g} is outside its distribution: {text}"
        raise BadInput(what, where=where, remedy="give all columns in the same unit")


def _check_capacity(measure: str, phase: str, where: str, experiment: "Experiment") -> None:
    """Raise BadInput for a figure other than the found capacity in a capacity experiment, and for a capacity in others.

    Also for the capacity of a single phase. `where` is the line, for messages.
    """
    file: Any = experiment.file
    result = CAPACITIES[file.search.over] if file.kind == "capacity" else None
    if result is None and measure in CAPACITIES.values():
        what = f"{measure} is only valid in capacity experiments; this one is of kind {file.kind}"
        raise BadInput(what, where=where, remedy="remove the line")
    if result is not None and measure != result:
        what = f"a capacity experiment that searches over the {file.search.over} has no single {measure}"
        remedy = f"use the measure {result}, or kind: scale for figures at a given load"
        raise BadInput(what, where=where, remedy=remedy)
    if result is not None and phase:
        raise BadInput(f"{measure} is of all measured phases", where=where, remedy="leave the column phase empty")


def _check_phase(phase: str, where: str, experiment: "Experiment") -> None:
    """Raise BadInput if the workload does not have the phase; `where` is the line, for messages."""
    phases = [entry.name for entry in experiment.workload.file.phases]
    if phase not in phases:
        raise BadInput(f"unknown phase {phase!r} of the workload", where=where, remedy=did_you_mean(phase, phases))


def _number(text: str, where: str) -> float:
    """Return the number in a cell; BadInput, at `where`, if it is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"{text!r} is not a number", where=where, remedy="use digits and a decimal point")
    return value


def _level(text: str, where: str, experiment: "Experiment") -> tuple[str, Any]:
    """Return name and level of a text `NAME=LEVEL`, for a factor (see `_factors`) or `phase`.

    The level is read as a YAML scalar, a phase as text. BadInput, at `where`, for other texts and unknown names.
    """
    name, equals, level = text.partition("=")
    if not equals or not level:
        raise BadInput(f"{text!r} is not NAME=LEVEL", where=where, remedy="write names and levels, such as nodes=1")
    if name == PHASE:
        _check_phase(level, where, experiment)
        return name, level
    known = _factors(experiment)
    if name not in known:
        raise BadInput(f"unknown factor {name!r}", where=where, remedy=did_you_mean(name, known))
    return name, _scalar(level, where)


def _scalar(text: str, where: str) -> Any:
    """Return the value of a cell, as unquoted YAML text; BadInput, at `where`, for a number out of range."""
    try:
        return scalar(text)
    except ValueError as error:
        raise BadInput(f"{text}: {error}", where=where, remedy="write a smaller number") from error


def _scale(unit: str, measure: str, where: str) -> float:
    """Return the factor that converts `unit` to the base unit of a measure (1/s, s, a share, users).

    Throughput is in `NAME/TIME` with any name, such as `inserts/5s`; errors are in `%` or without a unit; times are in
    us, ms, s or min. BadInput, at `where`, for another unit.
    """
    if measure in PER_SECOND:
        _, slash, time = unit.partition("/")
        try:
            seconds = parse_duration(f"1{time}" if time.isalpha() else time)
        except BadInput:
            seconds = 0.0
        if not slash or seconds <= 0:
            remedy = "write a count per time, such as requests/s, documents/s or inserts/5s; or % for a change"
            raise BadInput(f"{unit!r} is not a unit of throughput", where=where, remedy=remedy)
        return 1 / seconds
    if measure == "errors":
        if unit not in ("%", ""):
            raise BadInput(f"{unit!r} is not a unit of errors", where=where, remedy="write %, or leave the unit empty")
        return 0.01 if unit else 1.0
    if measure == CAPACITIES["users"]:
        if unit != "users":
            raise BadInput(f"{unit!r} is not a number of users", where=where, remedy="write users; or % for a change")
        return 1.0
    if unit not in _SECONDS:
        remedy = f"write one of {', '.join(_SECONDS)}; or % for a change"
        raise BadInput(f"{unit!r} is not a unit of time", where=where, remedy=remedy)
    return _SECONDS[unit]


def _with_change(line: _PublishedLine, lines: list[_PublishedLine]) -> PublishedFigure:
    """Return the figure of a line with its change: its value / that of its reference - 1.

    The reference is the figure at the levels in `against`, by default the first of the same measure, series and phase
    in `lines`; `against` of the result then has its levels. Unchanged if the figure is a change already, is an instant,
    or is alone, and if the reference is 0. BadInput if the reference is not among `lines`, or has several values.
    """
    figure = line.figure
    if line.relative or figure.measure in INSTANTS:
        return figure
    absolute = [other.figure for other in lines if not other.relative]
    alike = [other for other in absolute if _same_series(other, figure) and other.phase == figure.phase]
    if figure.against:
        wanted = {**figure.levels, **figure.against}
        phase = wanted.pop(PHASE, figure.phase)
        of_phase = (other for other in absolute if _same_series(other, figure) and other.phase == phase)
        base = next((other for other in of_phase if other.levels == wanted), None)
        if base is None:
            text = " ".join(f"{name}={level}" for name, level in {**figure.levels, **figure.against}.items())
            remedy = "add that figure, or leave the column against empty"
            what = f"the reference {text} has no figure of the same measure, phase and series"
            raise BadInput(what, where=line.where, remedy=remedy)
    elif alike[0] is figure and len(alike) == 1:
        return figure
    else:
        base = alike[0]
    if not base.value or figure.value is None:
        return figure
    others = [
        it.value for it in absolute if _same_series(it, base) and (it.phase, it.levels) == (base.phase, base.levels)
    ]
    if set(others) != {base.value}:
        what = f"the reference has {len(others)} figures of the same measure, phase, series and levels"
        raise BadInput(what, where=line.where, remedy="keep one of them, or name different series")
    change = figure.value / base.value - 1
    if not math.isfinite(change):
        raise BadInput(
            "the change relative to the reference is too large", where=line.where, remedy="check both values"
        )
    return replace(figure, change=change, against=figure.against or base.levels)


def _same_series(figure: PublishedFigure, other: PublishedFigure) -> bool:
    """Return whether two figures have the same measure and series; the phase is not compared."""
    return (figure.measure, figure.series) == (other.measure, other.series)
