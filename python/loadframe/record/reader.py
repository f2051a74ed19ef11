"""Reads a run folder. Whatever it lacks, or holds in a broken state, is one message that names the file."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from loadframe.base.errors import BadInput
from loadframe.record import schema
from loadframe.record.columns import SAMPLES_SCHEMA, SERIES_SCHEMA, TELEMETRY_SCHEMA
from loadframe.record.schema.manifest import Manifest
from loadframe.record.schema.model import from_json
from loadframe.record.schema.summary import Summary

if TYPE_CHECKING:
    from loadframe._engine import HistogramLog

_Model = TypeVar("_Model", Manifest, Summary)

_DEEP = "this JSON is nested too deep to be read"
_BROKEN = "the run was damaged after it was written: copy it again from where it was made, or repeat it"


class Recordings:
    """What was recorded, without what was made of it; each member is read when it is asked for, once."""

    def __init__(self, path: Path):
        self.path = Path(path)

    @cached_property
    def series(self) -> pa.Table:
        """One row per phase, stream, operation, segment and second; see `schema.SERIES`."""
        return self._parquet(schema.SERIES_FILE, SERIES_SCHEMA)

    @cached_property
    def telemetry(self) -> pa.Table:
        """One row per sample, in no order; see `schema.TELEMETRY`."""
        return self._parquet(schema.TELEMETRY_FILE, TELEMETRY_SCHEMA)

    def samples(self) -> Iterator[pa.RecordBatch]:
        """Yield the run's requests one by one, in pieces; see `schema.SAMPLES`. Nothing where none were kept."""
        path = self.path / schema.SAMPLES_FILE
        if not path.exists():
            return
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=SAMPLES_SCHEMA.names, use_threads=False):
                    yield batch.cast(SAMPLES_SCHEMA)
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise BadInput(f"the table cannot be read: {error}", where=str(path), remedy=_BROKEN) from error

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """What was done to the cluster, and what else happened, in the order of its writing."""
        path = self.path / schema.EVENTS_FILE
        events = []
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise BadInput(
                    f"this is not valid JSON: {error.msg}", where=f"{path}:{number}:{error.colno}", remedy=_BROKEN
                ) from error
            except RecursionError as error:
                raise BadInput(_DEEP, where=f"{path}:{number}", remedy=_BROKEN) from error
        return events

    @cached_property
    def histograms(self) -> "HistogramLog":
        """Response and service times per operation and second, as histograms that add up."""
        from loadframe._engine import HistogramLog

        path = self.path / schema.HISTOGRAMS_FILE
        try:
            return HistogramLog(path)
        except OSError as error:
            raise BadInput(f"the histograms cannot be read: {error}", where=str(path), remedy=_BROKEN) from error

    def _parquet(self, name: str, expected: pa.Schema) -> pa.Table:
        path = self.path / name
        try:
            # These tables are small, and experiments have thousands: threads would cost more than they bring.
            with pq.ParquetFile(path) as file:
                table = file.read(use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"the table cannot be read: {error}", where=str(path), remedy=_BROKEN) from error
        for column in (*schema.SERIES_LATER, *schema.TELEMETRY_LATER):
            if column in expected.names and column not in table.column_names:
                table = table.append_column(column, pa.nulls(table.num_rows))
        missing = [column for column in expected.names if column not in table.column_names]
        if missing:
            raise BadInput(f"the table lacks the column {missing[0]}", where=str(path), remedy=_BROKEN)
        return table.select(expected.names).cast(expected)


class Run(Recordings):
    """A run that was recorded. Opening it checks that it is one; each member is read when it is asked for, once.

    BadInput for a folder that is not a run, for a member that is missing or damaged (it names the field), and for a run
    of a newer loadframe.
    """

    def __init__(self, path: Path):
        super().__init__(path)
        if not (self.path / schema.MANIFEST_FILE).is_file():
            what = "this is not a run folder" if self.path.is_dir() else "there is no such run folder"
            raise BadInput(what, where=str(path), remedy=f"name a folder that holds a {schema.MANIFEST_FILE}")
        for member in schema.MEMBERS:
            if not (self.path / member).is_file():
                raise BadInput(f"the run has lost its {member}", where=str(path), remedy=_BROKEN)
        _ = self.manifest

    @cached_property
    def manifest(self) -> Manifest:
        """What is needed to judge the run and to compare it; `raw_manifest` has all that is needed to repeat it."""
        try:
            manifest = self._model(schema.MANIFEST_FILE, Manifest)
        except BadInput:
            self._check_format(self.raw_manifest.get("format"))
            raise
        self._check_format(manifest.format)
        return manifest

    @cached_property
    def summary(self) -> Summary:
        """What came of it, with the verdict."""
        return self._model(schema.SUMMARY_FILE, Summary)

    @cached_property
    def raw_manifest(self) -> dict[str, Any]:
        """The manifest as it was recorded."""
        return self._json(schema.MANIFEST_FILE)

    @cached_property
    def raw_summary(self) -> dict[str, Any]:
        """The summary as it was recorded."""
        return self._json(schema.SUMMARY_FILE)

    def _check_format(self, number: object) -> None:
        if number not in range(1, schema.FORMAT + 1):
            raise BadInput(
                f"the run has format {number!r}, and this loadframe reads up to {schema.FORMAT}",
                where=str(self.path / schema.MANIFEST_FILE),
                remedy="read it with the loadframe that made it, or with a newer one",
            )

    def _model(self, name: str, model: type[_Model]) -> _Model:
        path = self.path / name
        try:
            return from_json(model, path.read_text(encoding="utf-8", errors="replace"))
        except (ValueError, RecursionError) as error:
            # What is not JSON at all is said with its line.
            self._json(name)
            raise BadInput(str(error), where=str(path), remedy=_BROKEN) from error

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        except json.JSONDecodeError as error:
            raise BadInput(
                f"this is not valid JSON: {error.msg}", where=f"{path}:{error.lineno}:{error.colno}", remedy=_BROKEN
            ) from error
        except RecursionError as error:
            raise BadInput(_DEEP, where=str(path), remedy=_BROKEN) from error
        if not isinstance(value, dict):
            raise BadInput("the file does not hold a JSON object", where=str(path), remedy=_BROKEN)
        return value
