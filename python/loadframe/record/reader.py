"""Reading of run folders and of earlier attempts, with the Arrow schemas of their tables."""

import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loadframe.base.errors import BadInput
from loadframe.base.folders import ends_mid_line, named_path, require_utf8
from loadframe.record import schema
from loadframe.record.schema import SAMPLES, SERIES, SERIES_RECORDED, TELEMETRY, Field
from loadframe.record.schema.figures import Figures, Latency
from loadframe.record.schema.manifest import Manifest
from loadframe.record.schema.model import from_json
from loadframe.record.schema.summary import Summary

if TYPE_CHECKING:
    from loadframe._engine import HistogramLog


_TYPES = {"string": pa.string(), "double": pa.float64(), "int64": pa.int64()}


def _arrow(fields: Iterable[Field]) -> pa.Schema:
    """Return the Arrow schema with the names and types of these fields."""
    return pa.schema([(field.name, _TYPES[field.type]) for field in fields])


SERIES_SCHEMA = _arrow(SERIES)
SERIES_TYPES = {field.name: _TYPES[field.type] for field in SERIES_RECORDED}
TELEMETRY_SCHEMA = _arrow(TELEMETRY)
SAMPLES_SCHEMA = _arrow(SAMPLES)

_Model = TypeVar("_Model", Manifest, Summary)

_DEEP = "the JSON is nested too deeply"
_BROKEN = "the run was damaged after it was written: copy it again from its origin, or repeat it"


class Recordings:
    """Recorded data of a run, without manifest and summary. Each file is read once, on first access."""

    def __init__(self, path: Path):
        self.path = named_path(Path(path))

    @cached_property
    def series(self) -> pa.Table:
        """A row per phase, stream, operation, segment and second; see `schema.SERIES`. BadInput if it is damaged."""
        return self._parquet(schema.SERIES_FILE, SERIES_SCHEMA)

    @cached_property
    def telemetry(self) -> pa.Table:
        """A row per sample, unordered; see `schema.TELEMETRY`. BadInput if it is damaged."""
        return self._parquet(schema.TELEMETRY_FILE, TELEMETRY_SCHEMA)

    def samples(self) -> Iterator[pa.RecordBatch]:
        """Yield the table of recorded requests in batches; see `schema.SAMPLES`. Nothing if none were recorded.

        BadInput if the file is damaged.
        """
        path = self.path / schema.SAMPLES_FILE
        if not path.exists():
            return
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=SAMPLES_SCHEMA.names, use_threads=False):
                    whole = batch.cast(SAMPLES_SCHEMA)
                    _require_finite(pa.Table.from_batches([whole]), path)
                    yield whole
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
            raise BadInput(f"cannot read the table: {error}", where=str(path), remedy=_BROKEN) from error

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """Events of the run, such as changes of the cluster, in the order of the file. BadInput for a damaged line.

        Each has a `kind` and a `time`, s since the run began.
        """
        path = self.path / schema.EVENTS_FILE
        events = []
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, start=1):
            event = _json_object(line, path, number)
            if not isinstance(event.get("kind"), str) or not isinstance(event.get("time"), int | float):
                raise BadInput("the event lacks its kind or its time", where=f"{path}:{number}", remedy=_BROKEN)
            events.append(event)
        return events

    @cached_property
    def histograms(self) -> "HistogramLog":
        """Histograms of times per operation, kind (such as `response`) and second. BadInput if they cannot be read."""
        path = self.path / schema.HISTOGRAMS_FILE
        try:
            return histogram_log(path)
        except OSError as error:
            raise BadInput(f"cannot read the histograms: {error}", where=str(path), remedy=_BROKEN) from error

    def _parquet(self, name: str, expected: pa.Schema) -> pa.Table:
        """Return a Parquet file of the run with the columns of `expected`, in that order and of these types.

        Columns of SERIES_LATER and TELEMETRY_LATER that the file lacks are null; further columns are dropped. BadInput
        if the file cannot be read, lacks another column, has values of another type, an infinite value or NaN.
        """
        path = self.path / name
        try:
            # For thousands of small tables, threads cost more than they save.
            with pq.ParquetFile(path) as file:
                table = file.read(use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"cannot read the table: {error}", where=str(path), remedy=_BROKEN) from error
        for column in (*schema.SERIES_LATER, *schema.TELEMETRY_LATER):
            if column in expected.names and column not in table.column_names:
                table = table.append_column(column, pa.nulls(table.num_rows))
        missing = [column for column in expected.names if column not in table.column_names]
        if missing:
            raise BadInput(f"the table lacks the column {missing[0]}", where=str(path), remedy=_BROKEN)
        try:
            table = table.select(expected.names).cast(expected)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInput(f"a column has values of another type: {error}", where=str(path), remedy=_BROKEN) from error
        _require_finite(table, path)
        return table


def _require_finite(table: pa.Table, path: Path) -> None:
    """Raise BadInput if a column has an infinite value or NaN. Runs are recorded without these."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False:
            raise BadInput(f"the column {name} has an infinite value or NaN", where=str(path), remedy=_BROKEN)


def _json_object(text: str, path: Path, line: int = 0) -> dict[str, Any]:
    """Parse a JSON object; BadInput for anything else, and for infinite numbers and NaN.

    `line` is the line's number in a file with an object per line, and 0 for a file with one object.
    """
    where = f"{path}:{line}" if line else str(path)
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        place = f"{path}:{line or error.lineno}:{error.colno}"
        raise BadInput(f"invalid JSON: {error.msg}", where=place, remedy=_BROKEN) from error
    except ValueError as error:
        raise BadInput(f"invalid JSON: {error}", where=where, remedy=_BROKEN) from error
    except RecursionError as error:
        raise BadInput(_DEEP, where=where, remedy=_BROKEN) from error
    if not isinstance(value, dict):
        raise BadInput("not a JSON object", where=where, remedy=_BROKEN)
    return value


def _finite(text: str) -> float:
    """Parse a number of JSON; ValueError if it is NaN or infinite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def histogram_log(path: Path) -> "HistogramLog":
    """Open a `histograms.hlog`, also of a running phase; OSError if it cannot be read."""
    from loadframe._engine import HistogramLog

    return HistogramLog(path)


class Run(Recordings):
    """A recorded run. Opening it checks that all files exist and reads the manifest; others are read on first access.

    BadInput if the folder is not a run, a file is missing or damaged, or a newer loadframe wrote the run.
    """

    def __init__(self, path: Path):
        """Open a run: check that its files exist and its events end with a whole line, and read its manifest.

        BadInput if the folder is not a run, the run is unfinished, a file is missing or damaged, or a newer loadframe
        wrote the run.
        """
        super().__init__(path)
        require_utf8(self.path)
        if partial := schema.PARTIAL.fullmatch(self.path.name):
            raise BadInput(
                "the run was interrupted: its process was killed, or still records it",
                where=str(path),
                remedy="if it was killed, repeat its command, which makes the run again; or report the recorded seconds"
                f" with `loadframe report {shlex.quote(str(self.path.parent / partial['run']))}`",
            )
        if not (self.path / schema.MANIFEST_FILE).is_file():
            cause = "not a run folder" if self.path.is_dir() else "no such run folder"
            raise BadInput(cause, where=str(path), remedy=f"give a folder with a {schema.MANIFEST_FILE}")
        for member in schema.MEMBERS:
            if not (self.path / member).is_file():
                raise BadInput(f"the run's {member} is missing", where=str(path), remedy=_BROKEN)
        _require_complete_lines(self.path / schema.EVENTS_FILE)
        _ = self.manifest

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest, with the keys that analyses use; `raw_manifest` has all. BadInput if damaged or too new."""
        try:
            manifest = self._model(schema.MANIFEST_FILE, Manifest)
        except BadInput:
            self._check_format(self.raw_manifest.get("format"))
            raise
        self._check_format(manifest.format)
        return manifest

    @cached_property
    def summary(self) -> Summary:
        """The summary, with the verdict. BadInput if it is damaged, or a phase has a negative duration or figure.

        These figures are the counts, rates and times of operations and their parts.
        """
        summary = self._model(schema.SUMMARY_FILE, Summary)
        for number, phase in enumerate(summary.phases):
            at = f"phases[{number}]"
            key = f"{at}.duration" if phase.duration < 0 else _negative(phase.operations, f"{at}.operations")
            if key:
                where = str(self.path / schema.SUMMARY_FILE)
                raise BadInput(f"{key}: the number is negative", where=where, remedy=_BROKEN)
        return summary

    @cached_property
    def raw_manifest(self) -> dict[str, Any]:
        """The manifest as it was recorded, with all keys, as a mapping. BadInput if it is damaged."""
        return self._json(schema.MANIFEST_FILE)

    @cached_property
    def raw_summary(self) -> dict[str, Any]:
        """The summary as it was recorded, with all keys, as a mapping. BadInput if it is damaged."""
        return self._json(schema.SUMMARY_FILE)

    def require_whole(self) -> None:
        """Read all files except `samples`; BadInput if one is damaged.

        BadInput, too, if a histogram has another number of requests than the summary has for that operation.
        """
        _ = self.series, self.telemetry, self.events
        path = self.path / schema.HISTOGRAMS_FILE
        known = set(self.histograms.tags())
        for phase in self.summary.phases:
            for name, figures in phase.operations.items():
                for kind in ("response", "service", "failure"):
                    times: Latency | None = getattr(figures, kind)
                    tag = f"{phase.name}/{name}/{kind}"
                    counted = self.histograms.total(tag).count if tag in known else 0
                    if times is not None and times.count != counted:
                        raise BadInput(
                            f"the histograms of {tag} hold {counted:,} requests, and {schema.SUMMARY_FILE} counts"
                            f" {times.count:,}",
                            where=str(path),
                            remedy=_BROKEN,
                        )

    def _check_format(self, number: object) -> None:
        """Raise BadInput unless `number` is a run format that this version reads: 1 to FORMAT."""
        if number not in range(1, schema.FORMAT + 1):
            raise BadInput(
                f"unsupported run format {number!r}; this version reads up to {schema.FORMAT}",
                where=str(self.path / schema.MANIFEST_FILE),
                remedy="use the version that wrote the run, or a newer one",
            )

    def _model(self, name: str, model: type[_Model]) -> _Model:
        """Read the JSON file `name` of the run as a `model`. BadInput, with line or key, if it is damaged."""
        path = self.path / name
        text = path.read_text(encoding="utf-8", errors="replace")
        if _MAYBE_INFINITE.search(text):
            _json_object(text, path)
        try:
            return from_json(model, text)
        except (ValueError, RecursionError) as error:
            # For invalid JSON, raise an error with its line.
            _json_object(text, path)
            raise BadInput(str(error), where=str(path), remedy=_BROKEN) from error

    def _json(self, name: str) -> dict[str, Any]:
        """Read the JSON file `name` of the run as a mapping. BadInput, with the line, if it is damaged."""
        path = self.path / name
        return _json_object(path.read_text(encoding="utf-8", errors="replace"), path)


#: Text of JSON that may hold an infinite number or NaN.
_MAYBE_INFINITE = re.compile(r"NaN|Infinity|[eE]\+?\d{3}")


def _negative(value: object, key: str) -> str | None:
    """Return the path, which begins with `key`, of the first negative number in `value`, or None.

    `value` is a number, `Figures`, `Latency` or a mapping of these; other values inside are not searched.
    """
    if isinstance(value, int | float):
        return key if value < 0 else None
    if isinstance(value, Figures | Latency):
        value = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    below = value.items() if isinstance(value, Mapping) else ()
    return next(filter(None, (_negative(one, f"{key}.{name}") for name, one in below)), None)


def _require_complete_lines(path: Path) -> None:
    """Raise BadInput if the last line of a file is cut off."""
    with path.open("rb") as file:
        if ends_mid_line(file.fileno()):
            raise BadInput("the file ends in the middle of a line", where=str(path), remedy=_BROKEN)


#: Folder of earlier attempts in an experiment's folder; RUN.1 is the first attempt of RUN.
ATTEMPTS = "attempts"
_NAME = re.compile(r"(?P<run>.+)\.(?P<number>[1-9]\d*)")


@dataclass(frozen=True)
class Attempt:
    """A failed run that was repeated: the run's name in the design, and the number of the attempt, from 1."""

    run_id: str
    number: int
    run: Run


def set_aside(experiment: Path, run: Path) -> Path:
    """Move a run's folder to `attempts/RUN.NUMBER` in the folder of its experiment, and return the new path.

    NUMBER is one more than the highest of this run's attempts, from 1.
    """
    folder = experiment / ATTEMPTS
    folder.mkdir(exist_ok=True)
    number = 1 + max((place for name, place, _ in _numbered_attempts(folder) if name == run.name), default=0)
    place = folder / f"{run.name}.{number}"
    run.rename(place)
    return place


def attempts(experiment: Path) -> tuple[Attempt, ...]:
    """Return the attempts in an experiment's folder (`attempts/RUN.NUMBER`), sorted by run and number.

    Other names are ignored. BadInput if an attempt cannot be opened as a run.
    """
    named = sorted(_numbered_attempts(experiment / ATTEMPTS))
    return tuple(Attempt(name, number, Run(path)) for name, number, path in named)


def earlier_attempts(run: Path) -> tuple[Attempt, ...]:
    """Return the earlier attempts of the run at EXPERIMENT/runs/RUN, by number; empty without a folder `attempts`.

    BadInput if any attempt in the folder cannot be opened, also of another run.
    """
    return tuple(attempt for attempt in attempts(run.parent.parent) if attempt.run_id == run.name)


def _numbered_attempts(folder: Path) -> list[tuple[str, int, Path]]:
    """Return run name, number and path of each attempt in a folder, unordered; empty if it does not exist."""
    if not folder.is_dir():
        return []
    matches = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()]
    return [(match["run"], int(match["number"]), path) for path, match in matches if match]
