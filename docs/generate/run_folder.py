"""The documentation of run folders, from their schema."""

from collections.abc import Iterable

from loadframe.base.event_kinds import MEANINGS
from loadframe.record import schema
from loadframe.record.schema.figures import Latency
from loadframe.record.schema.model import Field, documented

_LATENCY = {field.name for field in documented(Latency)}

_HEAD = f"""\
# The run folder

<!-- Written by `python -m docs.generate`; change python/loadframe/record/schema instead. -->

A run folder contains all results of one run; reports and analyses need nothing else. `loadframe bench` creates it in
`results/`, and `loadframe run` in `results/NAME/runs/`. It appears under its name only when it is complete. You can
copy and archive run folders, and read them with any tool for JSON, Parquet and HdrHistogram logs.

| file | content |
|---|---|
| `{schema.MANIFEST_FILE}` | setup of the run, sufficient to repeat it |
| `{schema.SUMMARY_FILE}` | figures by phase and operation, and the verdict |
| `{schema.SERIES_FILE}` | counts and percentiles by phase, stream, operation, segment and second |
| `{schema.HISTOGRAMS_FILE}` | histograms of response and service times by operation and second |
| `{schema.TELEMETRY_FILE}` | samples of nodes, machines, load generator and the store's statistics |
| `{schema.EVENTS_FILE}` | events, one JSON object a line |
| `{schema.SAMPLES_FILE}` | single requests; only with `--samples` |
| `answers-PHASE.json` | last answers of operations with a `chart`; only with a single load-generator process |
| `dead-letters-PHASE-SOURCE.ndjson` | invalid lines of a source, and its events that the store rejected |

For example, `loadframe bench ycsb/a --store sim --output results/first` records a run. Read it in Python:

```python
from loadframe.record import Run

run = Run("results/first")
print(run.summary.measured[0].operations["read"].response.p99)
print(run.series.column_names)
```

Times are seconds since the run began, by the monotonic clock, unless the unit differs. Sizes are bytes. In a path, a
key in capitals stands for any name, `[]` for each element of a list, and `**` for all keys below.
"""

_MANIFEST = """\
Secrets are masked: the value of a key such as `password`, `api_key`, `token` or `secret` is `***`.
"""

_STATISTICS = """\
Keys that end with `STATISTIC` summarise a histogram:

| statistic | unit | meaning |
|---|---|---|
"""

_HISTOGRAMS = """\
The format is the HdrHistogram log, version 1.3. Values are nanoseconds, from 1 ns to 1 h, with three significant
digits. `Interval_Max` is in milliseconds. Start timestamps are seconds since the run began, relative to the header's
base time. For a percentile over several seconds, add their histograms.

| tag | content |
|---|---|
| `PHASE/OPERATION/response` | done - scheduled of the successes in the measured segment |
| `PHASE/OPERATION/service` | done - sent of the successes in the measured segment |
| `PHASE/OPERATION/failure` | done - scheduled of the failures in the measured segment |
| `PHASE/OPERATION/abandoned` | waits until the end of the phase, since scheduled, of requests without an answer |
| `PHASE/OPERATION/setup` | setup of connections for its requests: TCP, TLS and authentication |
| `PHASE/OPERATION/overhead` | the generator's part of the service time, by the kernel's timestamps |
| `PHASE/OPERATION/corrected` | service time without this part |
| `PHASE/OPERATION.PART/response`, `.../service`, `.../failure` | done - sent of a part of the operation |
| `PHASE/OPERATION/response/warmup`, and so on | the same for the warm-up |
| `generator/lateness` | lateness: delay of due requests in the generator |
| `generator/lag` | event-loop lag: delay of a check that is due every 50 ms |
"""

_SERIES = """\
An operation with several exchanges, such as a scroll, has rows for the operation and for each part, such as
`OPERATION.page`. Sum operations or parts, not both; throughput counts operations. Parts start without a schedule, so
their response time equals their service time. A part counts in the second in which its operation was done, and its
bytes count in the operation.

A second without finished requests has a row if requests were in flight at its end. They count in the segment in which
they were scheduled. A retried request counts once; its bytes count for each attempt.
"""

_SAMPLES = """\
This file requires `--samples`, or `samples: true` in an experiment file. It has a row for each finished request,
ordered by second; within a second the order is undefined. Requests that were not sent, or were in flight at the end,
are absent.

The response time is done - scheduled, the service time done - sent. Samples are written to disk every second, 46 bytes
each.
"""

_TELEMETRY = """\
One sample a row, unordered. A `level` is the value at that time. A `rate` covers the time since the previous sample, or
in the generator's rows the second that begins at `time`. After a reset of a counter, such as by a restart of a node,
the next rate is absent. The sources `node:NODE` and `cluster` also have the statistics of the store, which its
[page](stores/index.md) lists. A failed sample is absent; an event `gap` gives the time and cause.
"""

#: Parts of summary.json with tables of their own, and the paths of their keys.
_SUMMARY_PARTS = (
    ("The run", ""),
    ("Phases", "phases[]."),
    ("Operations", "phases[].operations.OPERATION."),
    ("Sources of events", "phases[].sources.SOURCE."),
    ("Load-generator processes", "phases[].ranks[]."),
    ("Machines", "phases[].machines[]."),
    ("Stored events", "stored[]."),
    ("Load generator", "generator."),
    ("Verdict", "verdict."),
)
_PART = "figures of a part, with the first keys of this table; all its times are done - sent"
_PARTS = "phases[].operations.OPERATION.parts.PART."


def page() -> str:
    """Return the documentation of run folders in Markdown."""
    parts = [
        _HEAD,
        _section("manifest.json", schema.MANIFEST, "key", _MANIFEST),
        "## summary.json\n\n" + _statistics(),
        *(_summary_part(title, path) for title, path in _SUMMARY_PARTS),
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


def _statistics() -> str:
    rows = [f"| `{field.name}` | {field.unit} | {field.says} |" for field in documented(Latency)]
    return _STATISTICS + "\n".join(rows) + "\n"


def _summary_part(title: str, path: str) -> str:
    """Return the table of the keys below a path that belong to no longer path; a histogram has one row."""
    rows = []
    for field in schema.SUMMARY:
        if field.name.startswith(_PARTS):
            continue
        owner = max((other for _, other in _SUMMARY_PARTS if field.name.startswith(other)), key=len)
        if owner != path:
            continue
        name, statistic, last = field.name.removeprefix(path).rpartition(".")
        if statistic and last in _LATENCY and ": " in field.says:
            if last == "count":
                meaning = field.says.rpartition(": ")[0]
                rows.append(Field(f"{name}.STATISTIC", "number or null", "s", meaning))
            continue
        rows.append(Field(field.name.removeprefix(path), field.type, field.unit, field.says))
    if path == _PARTS.removesuffix("parts.PART."):
        rows.append(Field("parts.PART.**", "any", "", _PART))
    heading = f"### {title}\n\n" + (f"Below `{path.removesuffix('.')}`:\n\n" if path else "")
    return heading + _table(rows, "key")


def _kinds() -> str:
    rows = [f"| `{kind}` | {meaning} |" for kind, meaning in MEANINGS.items()]
    return "\n".join(["| kind | meaning |", "|---|---|", *rows]) + "\n"


def _table(fields: Iterable[Field], heading: str) -> str:
    rows = [f"| {heading} | type | unit | meaning |", "|---|---|---|---|"]
    rows += [f"| `{field.name}` | {field.type} | {field.unit} | {field.says} |" for field in fields]
    return "\n".join(rows) + "\n"
