"""A recorded run: its tables, times, report and plots."""

import math
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from loadframe.analyze.experiment import validity
from loadframe.analyze.failures import recorded_reasons
from loadframe.analyze.percentiles import percentiles_of
from loadframe.library.arguments import Positive, Seconds, checked, in_python, listed
from loadframe.library.options import USUAL_EXPORT, Access, ExportFormat, RecordsOf, attachment
from loadframe.library.plots import RunPlots
from loadframe.library.reports import Exported, Report, SentRecords, export_report, run_report, send_records
from loadframe.library.tables import Table, cell, table_of
from loadframe.library.times import Times, buckets, selected
from loadframe.record import Run as RecordedRun
from loadframe.record.reader import SAMPLES_SCHEMA
from loadframe.record.schema.summary import RecordedReason
from loadframe.report.run_status import standing_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Times that histograms record for each operation.
_KINDS = ("response", "service", "failure")
#: Kinds of times by the kernel's timestamps.
_STAMPED = ("corrected", "overhead")
#: Columns of every table of events.
EVENT_COLUMNS = ("time", "wall", "kind", "nodes")
_STATISTICS = ("mean", "p50", "p90", "p99", "p999", "max")


class Run:
    """A recorded run. Opening it reads the manifest; tables are read on first use.

    `operations`, `seconds`, `histograms`, `percentiles`, `telemetry`, `events` and `samples` are tables. The reference
    page of run folders explains their columns.

    >>> run = loadframe.open("results/tail")
    >>> run.name, run.status
    ('tail', 'done')
    >>> run.seconds.to_polars().height > 0
    True
    """

    @checked
    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the run in a folder; BadInput if the folder is not a run, or is damaged."""
        self._run = RecordedRun(Path(path))

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._run.path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def status(self) -> str:
        """`done`, `failed` or `interrupted`."""
        return self._run.summary.status

    @property
    def failure(self) -> str | None:
        """The failure of a failed run, or None."""
        return self._run.summary.failure

    @property
    def valid(self) -> bool:
        """Whether the run is done and at least one of its figures is good or bounded."""
        return validity(self._run) is True

    @property
    def reasons(self) -> Table:
        """The reasons of the verdict: a row each, with cause and remedy."""
        rows = [
            {"code": it.code, "phase": it.phase, "cause": it.cause, "remedy": in_python(it.remedy)}
            for it in self._reasons
        ]
        return Table("reasons", lambda: table_of(rows, ("code", "phase", "cause", "remedy")))

    @property
    def _reasons(self) -> tuple[RecordedReason, ...]:
        """The reasons of the verdict; empty without a verdict."""
        return recorded_reasons(self._run) if self._run.summary.verdict else ()

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: everything needed to repeat the run."""
        return self._run.raw_manifest

    @property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json: figures and verdict."""
        return self._run.raw_summary

    @cached_property
    def operations(self) -> Table:
        """Figures of the measured windows: a row for each operation of each phase.

        With kernel timestamps, `corrected_p99` is the p99 of service times without the generator's part, and
        `overhead_p99` that of the part; likewise for other statistics.
        """
        return Table("operations", lambda: operations_table(self._run))

    @cached_property
    def seconds(self) -> Table:
        """Counts and response times: a row for each phase, stream, operation, segment and second."""
        return Table("seconds", lambda: self._run.series)

    @cached_property
    def histograms(self) -> Table:
        """Times of the measured windows: a row for each phase, operation, kind, second and recorded value.

        `kind` is response, service or failure; with kernel timestamps also corrected (the service time without the
        generator's part) and overhead (that part). `time` is the start of the second, since the run began.
        """
        return Table("histograms", lambda: histograms_table(self._run))

    @cached_property
    def percentiles(self) -> Table:
        """Percentiles of response times with 95 % intervals: a row for each phase, operation and percentile.

        A bound is null if too few requests support it.
        """
        return Table("percentiles", lambda: percentiles_table(self._run))

    @cached_property
    def telemetry(self) -> Table:
        """Samples of nodes, processes and the load generator: a row for each sample."""
        return Table("telemetry", lambda: self._run.telemetry)

    @cached_property
    def events(self) -> Table:
        """Events, such as changes of the cluster, in their order. Nested values are JSON."""
        return Table("events", lambda: table_of(self._run.events, EVENT_COLUMNS))

    @cached_property
    def samples(self) -> Table:
        """Each request, if the run recorded them (`samples=True`); else a table without rows."""
        return Table("samples", lambda: _samples(self._run))

    @checked
    def response_times(
        self, *, operation: str | None = None, phase: str | None = None, start: Seconds = 0.0, end: Seconds = math.inf
    ) -> Times:
        """Return the response times (done - scheduled) of successes in the measured windows.

        Without `phase`: all measured phases. `start` and `end` select the seconds that begin from `start` to before
        `end`, s since the run began. BadInput for an unknown phase or operation.

        >>> loadframe.open("results/tail").response_times(operation="read", start=2).count > 0
        True
        """
        return selected([self._run], "response", phase, operation, start, end)

    @checked
    def service_times(
        self, *, operation: str | None = None, phase: str | None = None, start: Seconds = 0.0, end: Seconds = math.inf
    ) -> Times:
        """Return the service times (done - sent) of successes, with the selection of `response_times`."""
        return selected([self._run], "service", phase, operation, start, end)

    @checked
    def failure_times(
        self, *, operation: str | None = None, phase: str | None = None, start: Seconds = 0.0, end: Seconds = math.inf
    ) -> Times:
        """Return the response times of failures, with the selection of `response_times`."""
        return selected([self._run], "failure", phase, operation, start, end)

    @checked
    def report(self, *, bands: Sequence[Positive] = ()) -> Report:
        """Return the report: a page, its summary and its values. `bands` are upper bounds of latency buckets, s."""
        return run_report(self._run, bands)

    @checked
    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        formats: ExportFormat | Sequence[ExportFormat] = USUAL_EXPORT,
        bands: Sequence[Positive] = (),
    ) -> Exported:
        """Write the report's plots and tables, the plot of percentiles, the answer and BibTeX entries to a folder.

        Creates the folder and replaces existing files. PDF and PNG need the extra `figures`.
        """
        return export_report(self.path, Path(folder), listed(formats), bands)

    @checked
    def send_records(
        self,
        index: str,
        *,
        hosts: str | Sequence[str],
        to: RecordsOf = "rally",
        store: str = "opensearch",
        **access: Unpack[Access],
    ) -> SentRecords:
        """Write metrics records of Rally or OpenSearch Benchmark to an index of the search engine at `hosts`.

        `store` is its kind. The index is created if it does not exist. Returns the index, the number of `records` and
        the identifier of the `race`. BadInput for another store, an invalid name or a damaged run; StoreFailed if the
        store refuses a record.
        """
        attach = attachment(store, hosts, access, lambda _: None, loads=False)
        assert attach
        return send_records(self.path, index, to, attach)

    @property
    def plot(self) -> RunPlots:
        """The plots of the run, by name."""
        return RunPlots(self._run)

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.status}, {'valid' if self.valid else 'not valid'}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: status, validity, causes of the verdict, and the table of operations."""
        _, standing = standing_of(self._run, percentiles_of(self._run))
        head = f"<p><b>Run {cell(self.name)}</b>: {self.status}. {cell(standing)}</p>"
        reasons = "".join(f"<li>{cell(reason.cause)}</li>" for reason in self._reasons)
        return f"{head}{f'<ul>{reasons}</ul>' if reasons else ''}{self.operations._repr_html_()}"


def operations_table(run: RecordedRun) -> "pa.Table":
    """Return a row for each operation of each phase: counts and figures of its measured window.

    Includes phases that prepare. Times are s, throughput is 1/s.
    """
    rows = []
    for phase in run.summary.phases:
        for name, figures in phase.operations.items():
            row: dict[str, Any] = {
                "phase": phase.name,
                "operation": name,
                "prepares": phase.prepares,
                "requests": figures.requests,
                "successes": figures.successes,
                "errors": sum(figures.errors.values()),
                "dropped": figures.dropped,
                "throughput": figures.throughput,
                "documents_per_second": figures.documents_per_second,
            }
            times = {"response": figures.response, "service": figures.service}
            if figures.kernel_times:
                times |= {name: getattr(figures.kernel_times, name) for name in _STAMPED}
            for kind, latency in times.items():
                row |= {f"{kind}_{statistic}": latency.at(statistic) for statistic in _STATISTICS}
            rows.append(row)
    return table_of(rows, ("phase", "operation"))


def histograms_table(run: RecordedRun) -> "pa.Table":
    """Return each recorded value with its count, by phase, operation, kind and second.

    `time` is the start of the second, s since the run began; `value` is s.
    """
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in ("phase", "operation", "kind", "time", "value", "count")}
    tags = set(run.histograms.tags())
    for phase in run.summary.phases:
        for operation in phase.operations:
            for kind in (*_KINDS, *_STAMPED):
                tag = f"{phase.name}/{operation}/{kind}"
                for time, histogram in run.histograms.seconds(tag) if tag in tags else ():
                    for value, count in buckets(histogram):
                        for name, part in zip(columns, (phase.name, operation, kind, time, value, count), strict=True):
                            columns[name].append(part)
    types = (pa.string(), pa.string(), pa.string(), pa.float64(), pa.float64(), pa.int64())
    return pa.table({name: pa.array(columns[name], type_) for name, type_ in zip(columns, types, strict=True)})


def percentiles_table(run: RecordedRun) -> "pa.Table":
    """Return the percentiles of response times with their intervals, by phase and operation."""
    rows = [
        {"phase": phase, "operation": operation, "percentile": name, **percentile.as_dict()}
        for phase, operations in percentiles_of(run).items()
        for operation, percentiles in operations.items()
        for name, percentile in percentiles.items()
    ]
    return table_of(rows, ("phase", "operation", "percentile"))


def _samples(run: RecordedRun) -> "pa.Table":
    """Return the recorded requests as a table, without rows if the run did not record them."""
    import pyarrow as pa

    return pa.Table.from_batches(run.samples(), SAMPLES_SCHEMA)
