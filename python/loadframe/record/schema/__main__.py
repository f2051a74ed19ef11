"""Prints the documentation of run folders as a page: `python -m loadframe.record.schema > docs/run-folder.md`."""

import sys
from collections.abc import Iterable

from loadframe.record import schema
from loadframe.record.schema.model import Field

_HEAD = f"""\
# The run folder

<!-- Written by `python -m loadframe.record.schema`; change python/loadframe/record/schema instead. -->

Everything after the load works from run folders alone. A folder holds the members below, and appears whole or not at
all: while a run is recorded it grows in a hidden folder beside its place. Copy it, archive it, read it with anything
that reads JSON, Parquet and HdrHistogram logs; `loadframe.record.Run(path)` reads it in Python, as in
`Run(path).summary.phases[0].operations["read"].response.p99`.

| member | holds |
|---|---|
| `{schema.MANIFEST_FILE}` | all that is needed to repeat the run |
| `{schema.SUMMARY_FILE}` | what came of it, per phase and operation, with the verdict |
| `{schema.SERIES_FILE}` | counts and percentiles per phase, stream, operation, segment and second |
| `{schema.HISTOGRAMS_FILE}` | histograms of response and service times per operation and second |
| `{schema.TELEMETRY_FILE}` | what was watched beside: nodes, this machine, the generator, the store's statistics |
| `{schema.EVENTS_FILE}` | what happened, one JSON object a line |
| `{schema.SAMPLES_FILE}` | each request for itself, where `--samples` asked for that |
| `answers-PHASE.json` | the last answers to operations whose answers are drawn, by operation; not of ranks |
| `dead-letters-PHASE-SOURCE.ndjson` | of a source, lines that are not events and events that the store refused |

Times are seconds since the run began, by the monotonic clock, unless a unit says otherwise. Sizes are bytes. In a
path, a key in capitals stands for any name, `[]` for each element of a list, and `**` for whatever lies below.
"""

_MANIFEST = """\
Secrets never get into it: the value of a key such as `password`, `api_key`, `token` or `secret` reads `***`.
"""

_HISTOGRAMS = """\
The HdrHistogram log format 1.3, as its tools in many languages read it. Values are nanoseconds, from 1 ns to 1 h at
three significant digits; `Interval_Max` is in milliseconds. Run folders of Loadframe 0.1 have microseconds, which the
highest trackable value of their histograms (3,600,000,000) shows; `Run.histograms` reads both. Start timestamps are
seconds since the run began, on top of the header's base time. Equal layouts add exactly: a percentile over a window is
that of the sum of its histograms.

| tag | holds |
|---|---|
| `PHASE/OPERATION/response` | done - scheduled of the successes in the measured segment |
| `PHASE/OPERATION/service` | done - sent of the same requests |
| `PHASE/OPERATION/failure` | done - scheduled of the failures; added to those of the successes, it makes all requests |
| `PHASE/OPERATION/setup` | setup of connections that were opened for its requests: TCP, TLS and authentication |
| `PHASE/OPERATION.PART/response`, `.../service`, `.../failure` | done - sent of a part of the operation, all three |
| `PHASE/OPERATION/response/warmup`, and so on | the same of the warm-up |
| `generator/lateness` | how late clients handled requests that were due |
| `generator/lag` | how late the event loops ran a check of their own that is due every 50 ms |
"""

_SERIES = """\
An operation that consists of several exchanges with the store, such as a scroll, has rows for itself and for each of
its parts, such as `OPERATION.page`. Add up one or the other, not both: throughput counts operations. A part has no
schedule of its own, so its response time is its service time, and it is written down in the second in which its
operation was done. Its bytes are counted with the operation.

A second in which nothing was done has a row nevertheless where requests were in flight at its end: `unanswered` says
how many, and the oldest of them will have taken at least as long as `oldest_unanswered` says. They count in the segment
in which they were scheduled, as they do when they are done. A request that is tried again counts once, its bytes with
every attempt.
"""

_SAMPLES = """\
Not there unless `--samples`, or `samples: true` in an experiment file, asked for it. One row for each request that
ended, second by second; within a second there is no order. A request that is tried again has one row. Requests that
were never sent, or still in flight at the end, have none: the series and the summary count them.

done - scheduled is the response time and done - sent the service time, as histograms have them to three digits. While
the load runs, samples go to the disk once a second, 46 bytes each: memory grows with the requests of a second, and not
with the length of a run. Those of ranks go to rank 0 with their seconds, so that there is one file. The table is made
of them when the run is finished, piece by piece.
"""

_TELEMETRY = """\
One sample a row, in no order. A `level` is the value at that instant; a `rate` covers the time since the sample
before, or in the generator's rows the second that begins at `time`. A counter that starts anew (a node that was
restarted) gives no rate across the restart. What a store reports of its nodes stands under `node:NODE` and `cluster`
with the names that the store's page explains. A sample that could not be taken leaves no row, and an event `gap` says
when that began and why.
"""


def page() -> str:
    """Return the page, in Markdown."""
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
    return "\n".join(["| kind | says |", "|---|---|", *rows]) + "\n"


def _table(fields: Iterable[Field], heading: str) -> str:
    rows = [f"| {heading} | type | unit | says |", "|---|---|---|---|"]
    rows += [f"| `{field.name}` | {field.type} | {field.unit} | {field.says} |" for field in fields]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
