"""Prints the documentation of run folders: `python -m loadframe.record.schema > docs/run-folder.md`."""

import sys
from collections.abc import Iterable

from loadframe.record import schema
from loadframe.record.schema.model import Field

_HEAD = f"""\
# The run folder

<!-- Written by `python -m loadframe.record.schema`; change python/loadframe/record/schema instead. -->

A run folder contains all results of a run; analyses and reports need nothing else. A run is recorded in a hidden
folder, which is renamed when it is complete. You can copy and archive run folders, and read them with any tool for
JSON, Parquet and HdrHistogram logs. In Python, use `loadframe.record.Run(path)`, for example
`Run(path).summary.phases[0].operations["read"].response.p99`.

| file | content |
|---|---|
| `{schema.MANIFEST_FILE}` | setup of the run, sufficient to repeat it |
| `{schema.SUMMARY_FILE}` | figures by phase and operation, and the verdict |
| `{schema.SERIES_FILE}` | counts and percentiles per phase, stream, operation, segment and second |
| `{schema.HISTOGRAMS_FILE}` | histograms of response and service times per operation and second |
| `{schema.TELEMETRY_FILE}` | samples of nodes, machine, load generator and the store's statistics |
| `{schema.EVENTS_FILE}` | events, one JSON object a line |
| `{schema.SAMPLES_FILE}` | single requests; only with `--samples` |
| `answers-PHASE.json` | last answers of operations whose answers are drawn, by operation; not with ranks |
| `dead-letters-PHASE-SOURCE.ndjson` | invalid lines of a source, and its events that the store rejected |

Times are seconds since the run began, by the monotonic clock, unless the unit differs. Sizes are bytes. In a path, a
key in capitals stands for any name, `[]` for each element of a list, and `**` for all keys below.
"""

_MANIFEST = """\
Secrets are masked: the value of a key such as `password`, `api_key`, `token` or `secret` is `***`.
"""

_HISTOGRAMS = """\
The file has the HdrHistogram log format 1.3. Values are nanoseconds, from 1 ns to 1 h at three significant digits;
`Interval_Max` is in milliseconds. Run folders of Loadframe 0.1 have microseconds (highest trackable value
3,600,000,000); `Run.histograms` reads both. Start timestamps are seconds since the run began, relative to the header's
base time. For a percentile over several seconds, add their histograms.

| tag | content |
|---|---|
| `PHASE/OPERATION/response` | done - scheduled of the successes in the measured segment |
| `PHASE/OPERATION/service` | done - sent of the successes in the measured segment |
| `PHASE/OPERATION/failure` | done - scheduled of the failures in the measured segment |
| `PHASE/OPERATION/setup` | setup of connections opened for its requests: TCP, TLS and authentication |
| `PHASE/OPERATION.PART/response`, `.../service`, `.../failure` | done - sent of a part of the operation |
| `PHASE/OPERATION/response/warmup`, and so on | the same for the warm-up |
| `generator/lateness` | lateness: delay of due requests in the generator |
| `generator/lag` | event-loop lag: delay of a check that is due every 50 ms |
"""

_SERIES = """\
An operation with several exchanges, such as a scroll, has rows for the operation and for each part, such as
`OPERATION.page`. Sum operations or parts, not both; throughput counts operations. A part is not scheduled, so its
response time equals its service time. It counts in the second in which its operation was done, and its bytes count in
the operation.

A second without finished requests has a row if requests were in flight at its end. `unanswered` is their number, and
`oldest_unanswered` the age of the oldest. They count in the segment in which they were scheduled. A retried request
counts once; its bytes count for each attempt.
"""

_SAMPLES = """\
This file exists only with `--samples`, or `samples: true` in an experiment file. It has a row for each finished
request, ordered by second; within a second the order is undefined. A retried request has one row. Requests that were
not sent, or were in flight at the end, have no row; the series and the summary count them.

The response time is done - scheduled, the service time done - sent. During the load, samples are written to disk every
second, 46 bytes each, so memory does not grow with the length of a run. Ranks send their samples to rank 0.
"""

_TELEMETRY = """\
One sample a row, unordered. A `level` is the value at that time. A `rate` covers the time since the previous sample, or
in the generator's rows the second that begins at `time`. A counter that is reset, such as by a restart of a node, has
no rate across the reset. A store's statistics have the sources `node:NODE` and `cluster`; the store's page documents
them. A failed sample has no row; an event `gap` gives the time and cause.
"""


def page() -> str:
    """Return the documentation of run folders in Markdown."""
    parts = [
        _HEAD,
        _section("manifest.json", schema.MANIFEST, "key", _MANIFEST),
        _section("summary.json", schema.SUMMARY, "key"),
        _section("series.parquet", schema.SERIES, "column", _SERIES),
        f"## {schema.HISTOGRAMS_FILE}\n\n{_HISTOGRAMS}",
        _section("samples.parquet", schema.SAMPLES, "column", _SAMPLES),
        _section("telemetry.parquet", schema.TELEMETRY, "column", _TELEMETRY),
        *(f"### Metrics of `{source}`\n\n{_table(metrics, 'metric')}" for source, metrics in schema.METRICS.items()),
        _section("events.jsonl", schema.EVENTS, "key"),
        f"### Kinds of events\n\n{_kinds()}",
    ]
    return "\n".join(parts)


def _section(title: str, fields: Iterable[Field], heading: str, text: str = "") -> str:
    return f"## {title}\n\n" + (f"{text}\n" if text else "") + _table(fields, heading)


def _kinds() -> str:
    rows = [f"| `{kind.name}` | {kind.says} |" for kind in schema.EVENT_KINDS]
    return "\n".join(["| kind | meaning |", "|---|---|", *rows]) + "\n"


def _table(fields: Iterable[Field], heading: str) -> str:
    rows = [f"| {heading} | type | unit | meaning |", "|---|---|---|---|"]
    rows += [f"| `{field.name}` | {field.type} | {field.unit} | {field.says} |" for field in fields]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
