"""The rows of a run folder as collections that answer questions, for the page of `loadframe explore`."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.base.errors import BadInput
from loadframe.live.publisher import chart_data
from loadframe.record import Run
from loadframe.record.schema import METRICS, SAMPLES, SERIES
from loadframe.store.exploring import (
    DOCUMENTS,
    PERIODS,
    VALUES,
    Findings,
    Kind,
    Period,
    Question,
    Series,
    notes_on_counts,
    period_width,
    require_known,
)

SECONDS, TELEMETRY, EVENTS, REQUESTS = "seconds", "telemetry", "events", "requests"
#: Interval between the rows of a collection, s. Shorter periods would be empty.
_INTERVALS = {SECONDS: 1.0, TELEMETRY: 1.0}
#: Columns that name the subject of a row: its operation, stream and phase, or its source and metric.
_SUBJECTS = {SECONDS: ("operation", "stream", "phase"), REQUESTS: ("operation", "stream", "phase"),
             TELEMETRY: ("source", "metric")}  # fmt: skip
#: Number of subjects that a chart has colors for.
_SERIES = 8
#: Columns that are times since the run began.
_TIMES = ("time", "scheduled", "sent", "done")
#: Units of the columns of seconds and requests. Counts of a second are rates.
_UNITS: dict[tuple[str, str], str] = {
    **{(SECONDS, field.name): f"{field.unit}/s" if field.type == "int64" else field.unit
       for field in SERIES if field.name not in ("second", "unanswered")},
    (SECONDS, "unanswered"): "requests",
    (SECONDS, "second"): "s",
    **{(REQUESTS, field.name): field.unit for field in SAMPLES},
    (REQUESTS, "response"): "s",
    (REQUESTS, "service"): "s",
}  # fmt: skip
#: Units of the metrics of telemetry, except for the store's statistics.
_METRICS: dict[str, str] = {
    field.name: f"{field.unit}/s" if field.type == "rate" and field.unit in ("requests", "documents") else field.unit
    for fields in METRICS.values()
    for field in fields
    if not field.unit.startswith("see ")
}
#: Prefix and suffix of dead-letter files.
_LETTERS = ("dead-letters-", ".ndjson")


class RecordedRun:
    """The collections of a run folder; their times are in s since the run began."""

    #: Whether times are since the epoch.
    clock = False

    def __init__(self, run: Run) -> None:
        self._run = run
        self.title = run.path.resolve().name

    def collections(self) -> list[str]:
        """Return the names of the collections: `seconds`, `telemetry`, `events`, `requests` and `dead letters SOURCE`.

        The last two only if they were recorded. A collection can be empty.
        """
        requests = [REQUESTS] if self._run.raw_manifest.get("generator", {}).get("samples") else []
        return [SECONDS, TELEMETRY, EVENTS, *requests, *self._letters]

    def fields(self, collection: str) -> dict[str, Kind]:
        """Return column name -> kind (keyword, number or time) of a collection; BadInput if it is unknown or empty."""
        return {field.name: _kind(field) for field in self._first(collection).schema}

    def explore(self, question: Question) -> Findings:
        """Return the answer to a question: periods, values, statistics, and the 20 first rows in descending order.

        The order is by time, or with `largest` by a field of numbers. Such a field has lines over time, too, by subject
        of the collection. BadInput for unknown names, and for values that a column cannot have.
        """
        kinds = self.fields(question.collection)
        require_known(question, kinds)
        is_number = question.field is not None and kinds[question.field] == "number"
        order = question.field if question.largest and is_number else question.time
        selected = _Selected(question, order, _INTERVALS.get(question.collection, 0.0))
        subjects = _Subjects(question) if is_number and question.collection in _SUBJECTS else None
        for table in self._tables(question.collection):
            matching = _matching(table, question)
            selected.add(matching)
            if subjects:
                subjects.add(matching)
        findings = selected.findings(is_number=is_number)
        if subjects is None:
            return findings
        unit, (series, notes) = subjects.unit(), subjects.series(findings.width)
        if not series:
            # Metrics with different units have no common mean.
            periods = [replace(period, mean=None, most=None) for period in findings.periods]
            findings = replace(findings, periods=periods, statistics={})
        return replace(findings, measure=unit, series=series, notes=[*findings.notes, *notes])

    def answers(self) -> list[Mapping[str, Any]]:
        """Return the chart data of the last recorded answer of each operation with a chart.

        BadInput for a damaged file.
        """
        charts = []
        for phase in self._run.raw_manifest.get("workload", {}).get("phases", []):
            path = self._run.path / f"answers-{phase['name']}.json"
            if path.is_file():
                answers = _object(path.read_text(encoding="utf-8", errors="replace"), str(path))
                for operation, form in phase.get("operations", {}).items():
                    if "chart" in form and operation in answers:
                        charts.append(chart_data(operation, form["chart"], json.dumps(answers[operation]).encode()))
        return [chart for chart in charts if chart is not None]

    def events(self) -> list[Mapping[str, Any]]:
        """Return all events of the run, as recorded, which mark the charts."""
        return list(self._run.events)

    @cached_property
    def _letters(self) -> dict[str, Path]:
        """Files of dead letters by the name of their collection, such as `dead letters SOURCE`."""
        prefix, suffix = _LETTERS
        paths = sorted(self._run.path.glob(f"{prefix}*{suffix}"))
        return {f"dead letters {path.name.removeprefix(prefix).removesuffix(suffix)}": path for path in paths}

    @cached_property
    def _kept(self) -> dict[str, pa.Table]:
        """Cache of the tables that were read, by collection; initially empty."""
        return {}

    def _first(self, collection: str) -> pa.Table:
        """Return the first piece of a collection, for its columns. BadInput if the collection is unknown or empty."""
        table = next(iter(self._tables(collection)), None)
        if table is None:
            raise BadInput(f"{collection} is empty", where=str(self._run.path), remedy="select another collection")
        return table

    def _tables(self, collection: str) -> Iterator[pa.Table]:
        """Yield a collection in pieces. BadInput if it is unknown.

        Requests are read in batches and get the columns response and service, s; none if they were not recorded. Other
        collections are one piece, which is kept in memory.
        """
        if collection == REQUESTS:
            for batch in self._run.samples():
                table = pa.Table.from_batches([batch])
                response = pc.subtract(table["done"], table["scheduled"])
                service = pc.subtract(table["done"], table["sent"])
                yield table.append_column("response", response).append_column("service", service)
            return
        if collection not in self.collections():
            raise BadInput(
                f"the run lacks {collection}", where=str(self._run.path), remedy="select one of its collections"
            )
        if collection not in self._kept:
            self._kept[collection] = self._table(collection)
        yield self._kept[collection]

    def _table(self, collection: str) -> pa.Table:
        """Read a collection other than requests; BadInput for a dead letter that is not a JSON object.

        `collection` must be a known name: KeyError for others.
        """
        if collection == SECONDS:
            return self._run.series
        if collection == TELEMETRY:
            return self._run.telemetry
        if collection == EVENTS:
            return _flat_table(self._run.events)
        path = self._letters[collection]
        # JSON strings may contain other line separators, such as U+2028.
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            return _flat_table(_object(line, f"{path}:{number}") for number, line in enumerate(lines, 1))


def _object(text: str, where: str) -> dict[str, Any]:
    """Parse a JSON object. BadInput, with the place `where`, for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadInput("expected a JSON object", where=where, remedy="the file is damaged: restore or remove it")
    return value


def _flat_table(records: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return a table of JSON objects with a column for each key; a missing value is null.

    Columns that hold only numbers are floats, all other columns text: values that are not text as JSON.
    """
    rows = list(records)
    columns: dict[str, list[Any]] = {name: [] for row in rows for name in row}
    for name, values in columns.items():
        values += [row.get(name) for row in rows]
        if any(value is not None and not _is_number(value) for value in values):
            values[:] = [_text(value) for value in values]
        else:
            values[:] = [None if value is None else float(value) for value in values]
    return pa.table(columns)


def _is_number(value: object) -> bool:
    """Return whether a value is a float, or an integer in the range of float64. False for booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= sys.float_info.max


def _text(value: object) -> str | None:
    """Return a value as text that Arrow accepts: a str itself, None as None, anything else as JSON.

    Halves of surrogate pairs are replaced by escape sequences.
    """
    if value is None:
        return None
    # Arrow does not accept halves of surrogate pairs.
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="backslashreplace").decode()


def _kind(field: pa.Field) -> Kind:
    """Return the kind of a column: `time` for numbers named time, scheduled, sent or done; `number`; else `keyword`."""
    if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
        return "keyword"
    return "time" if field.name in _TIMES else "number"


def _matching(table: pa.Table, question: Question) -> pa.Table:
    """Return the rows that match all filters of the question, from its start to before its end, s.

    Filters select equal values; an empty one selects rows without a value or with an empty text. Rows without a time do
    not match a start or an end. Without `question.time`, start and end are ignored. BadInput for a filter of a number
    by other text.
    """
    for name, value in question.filters:
        column = table[name]
        if not value:
            empty = pc.is_null(column, nan_is_null=True)
            if pa.types.is_string(column.type):
                empty = pc.or_(empty, pc.fill_null(pc.equal(column, ""), False))
            table = table.filter(empty)
            continue
        if pa.types.is_null(column.type):
            table = table.slice(0, 0)
            continue
        if pa.types.is_string(column.type):
            table = table.filter(pc.equal(column, value))
            continue
        try:
            number = float(value)
        except ValueError:
            raise BadInput(f"{name} is a number; got {value!r}", remedy="give a number as value") from None
        table = table.filter(pc.equal(column, number))
    if question.time is not None:
        if question.start is not None:
            table = table.filter(pc.greater_equal(table[question.time], question.start))
        if question.end is not None:
            table = table.filter(pc.less(table[question.time], question.end))
    return table


class _Selected:
    """Times, values and first documents of the selected rows."""

    def __init__(self, question: Question, order: str | None, interval: float) -> None:
        """Begin without rows.

        `order` is the field by which documents are sorted, descending, or None for the recorded order. `interval` is
        the time between two rows of the collection, s; 0 if unknown.
        """
        self._question, self._order, self._interval = question, order, interval
        self._time, self._field = question.time, question.field
        self._total = 0
        self._times: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._counts: Counter[Any] = Counter()
        self._rows: list[dict[str, Any]] = []

    def add(self, table: pa.Table) -> None:
        """Add the times and values of a piece of the collection, and keep the first 20 documents by order.

        All its rows must match the question.
        """
        self._total += table.num_rows
        if self._time:
            self._times.append(_floats(table[self._time]))
        if self._field:
            column = table[self._field]
            if _kind(table.schema.field(self._field)) == "keyword":
                for entry in column.drop_null().value_counts():
                    self._counts[entry["values"].as_py()] += entry["counts"].as_py()
            else:
                self._numbers.append(_floats(column))
        if self._order:
            best = pc.select_k_unstable(table, DOCUMENTS, [(self._order, "descending")])
            table = table.take(best)
        self._rows += table.slice(0, DOCUMENTS).to_pylist()
        if self._order:
            self._rows.sort(key=self._rank, reverse=True)
        del self._rows[DOCUMENTS:]

    def _rank(self, row: Mapping[str, Any]) -> float:
        """Return a row's value of the order field as sort key; -inf if it is missing or NaN, or rows are unordered."""
        value = row[self._order] if self._order else None
        return float("-inf") if value is None or math.isnan(value) else float(value)

    def findings(self, *, is_number: bool) -> Findings:
        """Return the findings on all added pieces.

        With `is_number`, the field has statistics, and periods its mean and maximum.
        """
        times = np.concatenate(self._times) if self._times else np.empty(0)
        numbers = np.concatenate(self._numbers) if self._numbers else np.empty(0)
        width, periods = _periods(times, numbers if is_number else None, self._interval)
        values = self._counts.most_common(VALUES)
        having = self._counts.total()
        if self._numbers:
            values, having = _frequent(numbers)
        findings = Findings(
            total=self._total,
            width=width,
            periods=periods,
            values=values,
            statistics=_statistics(numbers) if is_number else {},
            documents=self._rows,
            unit="rows",
        )
        timed = int(np.count_nonzero(~np.isnan(times)))
        others = having - sum(count for _, count in values)
        return replace(
            findings, notes=notes_on_counts(self._question, findings, timed=timed, having=having, others=others)
        )


def _frequent(numbers: np.ndarray) -> tuple[list[tuple[float, int]], int]:
    """Return the most frequent numbers with their counts, and the count of all numbers; NaN is ignored.

    The most frequent comes first; numbers with equal counts are ascending.
    """
    known = numbers[~np.isnan(numbers)]
    values, counts = np.unique(known, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:VALUES]
    return [(float(values[place]), int(counts[place])) for place in most], known.size


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as float64, with NaN for null."""
    floats: np.ndarray = pc.cast(column, pa.float64()).to_numpy()
    return floats


def _periods(times: np.ndarray, numbers: np.ndarray | None, least: float) -> tuple[float, list[Period]]:
    """Return the length of the periods, s, at least `least`, and the periods in order of time.

    `times` are in s; NaN is ignored. `numbers` are the values at the times, for mean and maximum of each period;
    without them, both are None. Periods without rows are omitted. Return 0 and an empty list without times.
    """
    known = ~np.isnan(times)
    if not known.any():
        return 0.0, []
    start, end = float(times[known].min()), float(times[known].max())
    width = period_width(start, end, least)
    first = np.floor(start / width)
    places = (np.floor(times[known] / width) - first).astype(int)
    counts = np.bincount(places, minlength=1)
    periods = []
    for place in np.flatnonzero(counts):
        mean = most = None
        if numbers is not None:
            inside = numbers[known][places == place]
            inside = inside[~np.isnan(inside)]
            if inside.size:
                mean, most = float(inside.mean()), float(inside.max())
        periods.append(Period(float((first + place) * width), int(counts[place]), mean, most))
    assert len(periods) <= PERIODS + 1
    return width, periods


class _Subjects:
    """A numeric field over time for each subject of the selected rows."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._names = _SUBJECTS[question.collection]
        # By subject and whether the rows are of the warm-up: times and values of each piece.
        self._rows: dict[tuple[tuple[str, ...], bool], list[tuple[np.ndarray, np.ndarray]]] = {}

    def add(self, table: pa.Table) -> None:
        """Add the times and values of a piece of the collection, by subject and warm-up.

        All its rows must match the question.
        """
        keys = [*self._names, *(["segment"] if "segment" in table.column_names else [])]
        times = _floats(table[self._question.time]) if self._question.time else np.full(table.num_rows, np.nan)
        values = _floats(table[self._question.field])
        numbered = table.select(keys).append_column("row", pa.array(np.arange(table.num_rows)))
        for group in numbered.group_by(keys, use_threads=False).aggregate([("row", "list")]).to_pylist():
            rows = np.asarray(group["row_list"])
            subject = tuple(str(group[name]) for name in self._names)
            key = subject, group.get("segment") == "warmup"
            self._rows.setdefault(key, []).append((times[rows], values[rows]))

    def unit(self) -> str:
        """Return the unit of the field, or of the only metric of telemetry; empty if unknown or mixed."""
        field = self._question.field or ""
        if self._question.collection != TELEMETRY:
            return _UNITS.get((self._question.collection, field), "")
        units = {_METRICS.get(metric, "") for (_, metric), _ in self._rows} if field == "value" else {""}
        return units.pop() if len(units) == 1 else ""

    def series(self, width: float) -> tuple[list[Series], list[str]]:
        """Return the series of the first eight subjects, and notes on the others. `width` is the length of a period, s.

        A subject has one series for its warm-up and one for other rows. None are drawn for several metrics of
        telemetry, which have different units.
        """
        subjects = list(dict.fromkeys(subject for subject, _ in self._rows))
        if self._question.collection == TELEMETRY and len({metric for _, metric in subjects}) > 1:
            return [], ["Metrics have different units. To draw one, add a filter by metric."]
        # Names have only the columns in which subjects differ.
        shown = [place for place in range(len(self._names)) if len({subject[place] for subject in subjects}) > 1] or [0]
        series = []
        for (subject, warmup), pieces in self._rows.items():
            number = subjects.index(subject)
            if number < _SERIES:
                name = ", ".join(dict.fromkeys(subject[place] for place in shown))
                times, values = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
                known = ~np.isnan(values)
                points = _points(times[known], values[known], width)
                name += ", warm-up" if warmup else ""
                series.append(Series(name, points, _statistics(values), number, warmup))
        more = len(subjects) - _SERIES
        notes = [f"Not drawn: {more} more. Add a filter to select others."] if more > 0 else []
        return sorted(series, key=lambda one: (one.of, one.warmup)), notes


def _points(times: np.ndarray, values: np.ndarray, width: float) -> list[tuple[float, float | None, float | None]]:
    """Return (mean time, mean, maximum) of each period of `width` s, in order of time.

    `times` are in s, NaN if unknown; `values` must not be NaN. A point with None as mean and maximum marks
    missing periods. Return an empty list without times, or with a width of 0.
    """
    timed = ~np.isnan(times)
    if not timed.any() or not width:
        return []
    times, values = times[timed], values[timed]
    points: list[tuple[float, float | None, float | None]] = []
    places = np.floor(times / width)
    for place in np.unique(places):
        inside = places == place
        time = float(times[inside].mean())
        # Samples are not exactly a period apart.
        if points and time - points[-1][0] > _GAP * width:
            points.append(((points[-1][0] + time) / 2, None, None))
        points.append((time, float(values[inside].mean()), float(values[inside].max())))
    return points


#: Distance of two points that are a gap, in periods.
_GAP = 1.9


def _statistics(numbers: np.ndarray) -> dict[str, float | None]:
    """Return count, min, mean, max and sum of the numbers but NaN; all others are None if the count is 0."""
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return {"count": 0, "min": None, "mean": None, "max": None, "sum": None}
    return {
        "count": numbers.size,
        "min": float(numbers.min()),
        "mean": float(numbers.mean()),
        "max": float(numbers.max()),
        "sum": float(numbers.sum()),
    }
