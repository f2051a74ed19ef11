"""Documents of Rally and OpenSearch Benchmark (OSB), its fork: race.json or test_run.json, and metrics records.

`latency` is the response time (done - scheduled), `service_time` the service time (done - sent). Percentiles of a race
are of successes, as in reports; Rally's include failures. `throughput` has the successes of each measured second and,
as mean, the throughput of the report; Rally's values are means since the task began. `error_rate` is the share of
finished requests that failed: Rally sends late requests instead of dropping them, so it has no dropped ones. `meta` has
the numbers of dropped and unanswered requests. `duration` and relative times count from the start of the task's phase,
including its warm-up. `meta` of each task and record names these differences, and holds the verdict.
"""

import json
import re
import statistics
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from loadframe.analyze.experiment import validity
from loadframe.analyze.failures import recorded_reasons
from loadframe.analyze.figures import codes_about
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.record.schema import ERROR_CLASSES
from loadframe.record.schema.figures import Latency, OperationFigures
from loadframe.record.schema.summary import PhaseSummary, whole_seconds
from loadframe.report.setup import started

#: Rally's keys of percentiles.
_PERCENTILES = {"p50": "50_0", "p90": "90_0", "p99": "99_0", "p999": "99_9", "max": "100_0"}
_NOTE = "percentiles of successes; throughput by second"
#: Names of Rally's times, and the histograms that hold them.
_TIMES = {"latency": "response", "service_time": "service"}


@dataclass(frozen=True)
class _Words:
    """Names of keys that differ between Rally and OSB."""

    version: str
    revision: str
    race: str
    timestamp: str
    track: str
    parameters: str
    challenge: str
    car: str
    team: str
    relative: str
    #: Times that Loadframe does not record.
    absent: tuple[str, ...]


_RALLY = _Words(
    "rally-version", "rally-revision", "race-id", "race-timestamp", "track", "track-params", "challenge", "car",
    "team-revision", "relative-time", ("processing_time",),
)  # fmt: skip
_OSB = _Words(
    "benchmark-version", "benchmark-revision", "test-run-id", "test-run-timestamp", "workload", "workload-params",
    "test_procedure", "cluster-config-instance", "cluster-config-revision", "relative-time-ms",
    ("processing_time", "client_processing_time"),
)  # fmt: skip
_WORDS = {"rally": _RALLY, "osb": _OSB}


def race(run: Run) -> str:
    """Return a run as the JSON text of Rally's race.json. BadInput if the start time is missing."""
    return json.dumps(_document(run, _RALLY), indent=1) + "\n"


def osb_run(run: Run) -> str:
    """Return a run as the JSON text of OpenSearch Benchmark's test_run.json. BadInput if the start time is missing."""
    return json.dumps(_document(run, _OSB), indent=1) + "\n"


def race_id(run: Run) -> str:
    """Return the identifier of the race, a UUID: the same for each export of a run, unless its folder is renamed."""
    manifest = run.manifest
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"loadframe:{manifest.session}/{manifest.started}/{run.path.name}"))


def _document(run: Run, words: _Words) -> dict[str, Any]:
    """Return a run as the race document of Rally or OSB; `words` are that tool's names of keys."""
    manifest, summary = run.manifest, run.summary
    verdict = summary.verdict
    tags = {"loadframe-run": run.path.name, "loadframe-status": summary.status}
    if verdict is not None:
        tags["loadframe-valid"] = str(validity(run)).lower()
    if manifest.store.kind:
        tags["store"] = manifest.store.kind
    return {
        words.version: f"loadframe {manifest.versions.loadframe}",
        words.revision: manifest.versions.commit,
        **_identity(run, words),
        "pipeline": "benchmark-only",
        "user-tags": tags,
        words.parameters: dict(manifest.workload.parameters),
        "cluster": {
            "revision": None,
            "distribution-version": manifest.store.version,
            "distribution-flavor": manifest.store.kind,
            words.team: None,
        },
        "results": {"op_metrics": list(_tasks(run, words))},
    }


def _identity(run: Run, words: _Words) -> dict[str, Any]:
    """Return the keys that a race shares with its metrics records, in the spelling of the tool (`words`)."""
    manifest = run.manifest
    return {
        "environment": "loadframe",
        words.race: race_id(run),
        words.timestamp: f"{started(run):%Y%m%dT%H%M%SZ}",
        words.track: manifest.workload.name,
        words.challenge: manifest.workload.name,
        words.car: manifest.store.kind or "external",
    }


def _tasks(run: Run, words: _Words) -> Iterator[dict[str, Any]]:
    """Yield an entry of the race's `op_metrics` for each operation of each phase; times in ms.

    `words` are the tool's names of keys.
    """
    names = _task_names(run)
    for phase in run.summary.phases:
        rates = _rates(run, phase, phase.whole_seconds)
        for name, figures in phase.operations.items():
            unit, values = _unit(run, phase, name), rates.get(name, [])
            mean = figures.documents_per_second if unit == "docs/s" else figures.throughput
            yield {
                "task": names[phase.name, name],
                "operation": name,
                "throughput": {
                    "min": min(values, default=mean),
                    "mean": mean,
                    "median": statistics.median(values) if values else mean,
                    "max": max(values, default=mean),
                    "unit": unit,
                },
                "latency": _percentiles(figures.response),
                "service_time": _percentiles(figures.service),
                **{name: {} for name in words.absent},
                "error_rate": sum(figures.errors.values()) / figures.requests if figures.requests else 0.0,
                "duration": 1e3 * (phase.warmup + phase.duration),
                "meta": _meta(run, phase, figures),
            }


def _task_names(run: Run) -> dict[tuple[str, str], str]:
    """Return (phase, operation) -> name of the task: the operation, or `PHASE-OPERATION` if several phases have it."""
    keys = [(phase.name, name) for phase in run.summary.phases for name in phase.operations]
    names = [name for _, name in keys]
    return {(phase, name): name if names.count(name) == 1 else f"{phase}-{name}" for phase, name in keys}


def _meta(run: Run, phase: PhaseSummary, figures: OperationFigures) -> dict[str, Any]:
    """Return the `meta` of a task: phase, validity, reasons, and numbers of errors, dropped and unanswered requests."""
    reasons = codes_about(recorded_reasons(run), phase.name, [entry.name for entry in run.summary.phases])
    return {
        "loadframe-note": _NOTE,
        "loadframe-phase": phase.name,
        "loadframe-valid": validity(run),
        "loadframe-reasons": list(reasons),
        "loadframe-errors": dict(figures.errors),
        "loadframe-dropped": figures.dropped,
        "loadframe-unanswered": figures.in_flight_at_end,
    }


def _percentiles(latency: Latency) -> dict[str, Any]:
    """Return Rally's statistics, in ms; empty without requests, as in Rally."""
    if not latency.count:
        return {}
    times = {key: 1e3 * (latency.at(name) or 0.0) for name, key in _PERCENTILES.items()}
    return {**times, "mean": 1e3 * (latency.mean or 0.0), "unit": "ms"}


def _unit(run: Run, phase: PhaseSummary, operation: str) -> str:
    """Return the unit of throughput: `docs/s` for bulk requests, as in Rally, else `ops/s`."""
    return "docs/s" if _type(run, phase, operation) == "bulk" else "ops/s"


def _type(run: Run, phase: PhaseSummary, operation: str) -> str:
    """Return the type of an operation by the workload, such as `bulk`; its name if the type is not recorded."""
    planned = next((it for it in run.manifest.workload.phases if it.get("name") == phase.name), {})
    form = planned.get("operations", {}).get(operation)
    return next(iter(form), operation) if isinstance(form, Mapping) else operation


def _rates(run: Run, phase: PhaseSummary, seconds: range) -> dict[str, list[float]]:
    """Return the throughput of all streams, 1/s, in each of `seconds` of a phase, by operation.

    It counts documents for bulk requests, else successes. `seconds` are numbered from 0 at the start of the phase's
    load. A success counts in the second of its response, not of its scheduled time.
    """
    counts: dict[str, dict[int, float]] = defaultdict(lambda: dict.fromkeys(seconds, 0.0))
    columns = run.series.select(["phase", "operation", "second", "documents", "successes"])
    for row in columns.filter(pc.equal(columns["phase"], phase.name)).to_pylist():
        if row["second"] in seconds:
            key = "documents" if _unit(run, phase, row["operation"]) == "docs/s" else "successes"
            counts[row["operation"]][row["second"]] += row[key]
    return {name: list(by_second.values()) for name, by_second in counts.items()}


def records(run: Run, tool: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metrics records of a run with their identifiers: `throughput`, `latency` and `service_time`.

    Each operation has a record of throughput for each whole second of the warm-up and the measured window. A request
    has one record of each time, from the run's samples or else, to three digits, from its histograms. In the latter
    case the service time of a failure is unknown: its record holds the response time, and its `meta` says so. `tool` is
    `rally` or `osb`.
    """
    for number, record in enumerate(_records(run, _WORDS[tool])):
        yield f"{race_id(run)}-{number}", record


def _records(run: Run, words: _Words) -> Iterator[dict[str, Any]]:
    """Yield the metrics records of a run, without identifiers; see `records`."""
    names, began = _task_names(run), started(run).timestamp()
    identity = _identity(run, words) | {words.parameters: dict(run.manifest.workload.parameters)}
    valid = validity(run)
    starts = {phase.name: phase.start for phase in run.summary.phases}
    keys = [(phase, name) for phase in run.summary.phases for name in phase.operations]
    units = {(phase.name, name): _unit(run, phase, name) for phase, name in keys}
    types = {(phase.name, name): _type(run, phase, name) for phase, name in keys}

    def record(
        key: tuple[str, str], time: float, segment: str, name: str, value: float, unit: str, **meta: Any
    ) -> dict[str, Any]:
        """Return a record of the operation `key` (phase, name) at `time`, s since the run began.

        `name` is its metric, and `value` is in `unit`. `segment` is `warmup` or `measure`; `meta` are further entries
        of the record's `meta`.
        """
        return {
            "@timestamp": round(1e3 * (began + time)),
            words.relative: 1e3 * (time - starts[key[0]]),
            **identity,
            "name": name,
            "value": value,
            "unit": unit,
            "sample-type": "warmup" if segment == "warmup" else "normal",
            "task": names[key],
            "operation": key[1],
            "operation-type": types[key],
            "meta": {"loadframe-run": run.path.name, "loadframe-valid": valid, **meta},
        }

    for phase in run.summary.phases:
        for segment, seconds in (("warmup", whole_seconds(0.0, phase.warmup)), ("measure", phase.whole_seconds)):
            for name, values in _rates(run, phase, seconds).items():
                if (key := (phase.name, name)) in units:
                    for second, rate in zip(seconds, values, strict=True):
                        yield record(key, phase.start + second, segment, "throughput", rate, units[key])
    for key, time, segment, times, meta in _sampled(run) if _has_samples(run) else _reconstructed(run):
        if key in names:
            for name, value in times.items():
                yield record(key, time, segment, name, 1e3 * value, "ms", **meta)


_Request = tuple[tuple[str, str], float, str, Mapping[str, float], Mapping[str, Any]]


def _has_samples(run: Run) -> bool:
    """Return whether the run recorded single requests, at least one."""
    return next(run.samples(), None) is not None


def _sampled(run: Run) -> Iterator[_Request]:
    """Yield (phase, operation), time sent, segment, times and outcome of each recorded request.

    The time sent is in s since the run began; `times` maps `latency` and `service_time` to s.
    """
    for batch in run.samples():
        for row in batch.to_pylist():
            times = {"latency": row["done"] - row["scheduled"], "service_time": row["done"] - row["sent"]}
            outcome = _outcome(row["error"]) | ({"request-status": row["status"]} if row["status"] else {})
            yield (row["phase"], row["operation"]), row["sent"], row["segment"], times, outcome


def _reconstructed(run: Run) -> Iterator[_Request]:
    """Yield (phase, operation), second (s since the run began), segment, one time (s) and outcome, from the histograms.

    A request gives two items, one for each time, with values to three digits. Failures have the response time in both.
    The error class of a failure is one of those counted in its second, or `unknown`.
    """
    known = set(run.histograms.tags())
    classes: dict[tuple[str, str, str, int], list[str]] = defaultdict(list)
    for row in run.series.to_pylist():
        for error in ERROR_CLASSES:
            key = (row["phase"], row["operation"], row["segment"], row["second"])
            classes[key] += [error.name] * (row[f"error_{error.name}"] or 0)
    for phase in run.summary.phases:
        for name in phase.operations:
            for segment in ("warmup", "measure"):
                suffix = "/warmup" if segment == "warmup" else ""
                for title, kind in _TIMES.items():
                    if (tag := f"{phase.name}/{name}/{kind}{suffix}") in known:
                        for time, value in _values(run.histograms.seconds(tag)):
                            yield (phase.name, name), time, segment, {title: value}, _outcome(None)
                if (tag := f"{phase.name}/{name}/failure{suffix}") in known:
                    for time, value in _values(run.histograms.seconds(tag)):
                        failed = classes[phase.name, name, segment, round(time - phase.start)]
                        outcome = _outcome(failed.pop() if failed else "unknown")
                        yield (phase.name, name), time, segment, {"latency": value}, outcome
                        outcome |= {"loadframe-note": "response time; the service time is unknown"}
                        yield (phase.name, name), time, segment, {"service_time": value}, outcome


def _values(seconds: Iterable[tuple[float, Any]]) -> Iterator[tuple[float, float]]:
    """Yield (second, value) of each request, from (second, histogram) pairs.

    Values are in s: quantiles of the histogram at even steps, as many as it has counts, ascending.
    """
    for time, histogram in seconds:
        for index in range(histogram.count):
            yield time, histogram.quantile((index + 0.5) / histogram.count) or 0.0


def _outcome(error: str | None) -> dict[str, Any]:
    """Return `success` and, for a failure, `error-type` of a request; `error` is its class, or None for a success."""
    return {"success": error is None} | ({"error-type": error} if error else {})


def require_index(name: str) -> None:
    """Raise BadInput if Elasticsearch and OpenSearch accept `name` neither as index nor as alias.

    Capital letters are accepted, because an alias may have them.
    """
    size = len(name.encode(errors="replace"))
    if size > 255 or not re.fullmatch(r"(?!\.{1,2}$|[-_+])[^\s\\/*?\"<>|,#:%\ud800-\udfff]+", name):
        raise BadInput(
            f"{name!r:.80} cannot be the name of an index",
            remedy="give a name of lower-case letters, digits and hyphens, such as benchmark-metrics-2026-01",
        )


def mapping(tool: str) -> dict[str, Any]:
    """Return the mappings of an index for records, as in the templates of Rally or OSB. `tool` is `rally` or `osb`."""
    names = _WORDS[tool]
    keyword = {"type": "keyword"}
    return {
        "mappings": {
            "date_detection": False,
            "dynamic_templates": [
                {"strings": {"match": "*", "match_mapping_type": "string", "mapping": keyword}},
            ],
            "properties": {
                "@timestamp": {"type": "date", "format": "epoch_millis"},
                names.timestamp: {
                    "type": "date",
                    "format": "basic_date_time_no_millis",
                    "fields": {"raw": keyword},
                },
                names.relative: {"type": "float"},
                "value": {"type": "float"},
            },
        }
    }
