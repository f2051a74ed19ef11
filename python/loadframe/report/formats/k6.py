"""k6's end-of-test summary: the JSON that `handleSummary` receives.

`http_req_duration` is the service time, which excludes connection setup as in k6. k6 counts failed requests in it, but
Loadframe records no service times of failures. If requests failed, the summary has only the submetric of successes,
`expected_response:true`. The custom metric `response_time` is done - scheduled of successes.

As in k6, `http_reqs` and `http_req_failed` count finished requests. Dropped requests are `dropped_iterations` only.
Requests without an answer at the end of the phase count nowhere: k6 does not sample interrupted requests.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadframe.analyze.experiment import bounding_reasons, validity
from loadframe.analyze.failures import recorded_reasons
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

if TYPE_CHECKING:
    from loadframe.record import HistogramLog

_TREND = ("avg", "min", "med", "max", "p(90)", "p(95)", "p(99)", "p(99.9)", "count")
_QUANTILES = {"med": 0.5, "p(90)": 0.9, "p(95)": 0.95, "p(99)": 0.99, "p(99.9)": 0.999}


def summary(run: Run) -> str:
    """Return the measured phases of a run as the JSON of one k6 summary, times in ms."""
    phases = run.summary.measured
    document = {
        "root_group": {"name": "", "path": "", "id": _id(""), "groups": [], "checks": _checks(run)},
        "options": {"summaryTrendStats": list(_TREND), "summaryTimeUnit": "ms", "noColor": True},
        "state": {
            "isStdOutTTY": False,
            "isStdErrTTY": False,
            "testRunDurationMs": 1e3 * sum(phase.duration for phase in phases),
        },
        "metrics": _metrics(run, phases),
    }
    return json.dumps(document, indent=2) + "\n"


def _metrics(run: Run, phases: Sequence[PhaseSummary]) -> dict[str, Any]:
    """Return k6's metrics of the measured phases: totals, and submetrics by the name of the operation.

    Rates are in 1/s, times in ms, data in bytes. Operations of the same name in several phases are merged.
    """
    operations = [(phase, name, figures) for phase in phases for name, figures in phase.single.items()]
    duration = sum(phase.duration for phase in phases)
    done = sum(figures.requests for _, _, figures in operations)
    failed = sum(sum(figures.errors.values()) for _, _, figures in operations)
    dropped = sum(figures.dropped for _, _, figures in operations)
    measured = {phase.name for phase in phases}
    rows = [row for row in run.series.to_pylist() if row["segment"] == "measure" and row["phase"] in measured]
    single = {(phase.name, name) for phase, name, _ in operations}
    sent, received = (
        sum(row[key] or 0 for row in rows if (row["phase"], row["operation"]) in single)
        for key in ("bytes_sent", "bytes_received")
    )
    names = list(dict.fromkeys(name for _, name, _ in operations))
    metrics = {
        "http_reqs": _counter(done, duration),
        "http_req_failed": _rate(failed, done),
        "dropped_iterations": _counter(dropped, duration),
        "data_sent": _counter(sent, duration, "data"),
        "data_received": _counter(received, duration, "data"),
        "checks": _rate(sum(check["passes"] for check in _checks(run)), len(_checks(run))),
    }
    trends = {"http_req_duration{expected_response:true": "service", "response_time": "response"}
    for title, kind in trends.items():
        tags = {name: [f"{phase.name}/{it}/{kind}" for phase, it, _ in operations if it == name] for name in names}
        whole = _trend(run.histograms, [tag for several in tags.values() for tag in several])
        submetrics = title.endswith("true")
        metrics[f"{title}}}" if submetrics else title] = whole
        if submetrics and not failed:
            metrics["http_req_duration"] = whole
        for name, several in tags.items():
            key = f"{title},name:{name}}}" if submetrics else f"{title}{{name:{name}}}"
            metrics[key] = _trend(run.histograms, several)
    for name in names:
        figures = [of_phase for _, it, of_phase in operations if it == name]
        requests = sum(of_phase.requests for of_phase in figures)
        metrics[f"http_reqs{{name:{name}}}"] = _counter(requests, duration)
        metrics[f"http_req_failed{{name:{name}}}"] = _rate(
            sum(sum(of_phase.errors.values()) for of_phase in figures), requests
        )
    return metrics


def _checks(run: Run) -> list[dict[str, Any]]:
    """Return the status and the verdict as checks of k6, each with `passes` and `fails` of 0 or 1.

    One check is for the status, one for the validity if the run has a verdict, and one for each reason of the verdict.
    A reason that only bounds figures passes.
    """
    verdict, bounding = run.summary.verdict, bounding_reasons(run)
    passed = {"the run is done": run.summary.status == "done"}
    if verdict is not None:
        passed["the run is valid"] = validity(run) is True
        passed |= {f"{reason.code}: {reason.cause}": reason.code in bounding for reason in recorded_reasons(run)}
    return [
        {"name": name, "path": f"::{name}", "id": _id(f"::{name}"), "passes": int(good), "fails": int(not good)}
        for name, good in passed.items()
    ]


def _id(path: str) -> str:
    """Return k6's identifier of a group or check: the MD5 of its path."""
    return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()


def _counter(count: int, duration: float, contains: str = "default") -> dict[str, Any]:
    """Return a k6 counter of `count` with its rate, 1/s, over `duration` s; rate 0 if that is 0.

    `contains` is k6's type of content.
    """
    return {
        "type": "counter",
        "contains": contains,
        "values": {"count": count, "rate": count / duration if duration else 0.0},
    }


def _rate(nonzero: int, count: int) -> dict[str, Any]:
    """Return a k6 rate: the share of `nonzero` samples among `count`, 0 without any.

    `passes` counts nonzero samples, which are the failures in `http_req_failed`.
    """
    values = {"rate": nonzero / count if count else 0.0, "passes": nonzero, "fails": count - nonzero}
    return {"type": "rate", "contains": "default", "values": values}


def _trend(histograms: "HistogramLog", tags: Iterable[str]) -> dict[str, Any]:
    """Return a k6 trend: statistics in ms of the merged histograms with these tags.

    Unknown tags are ignored. All statistics are 0 without requests, as in k6.
    """
    known = set(histograms.tags())
    totals = [histograms.total(tag) for tag in tags if tag in known]
    values: Mapping[str, float] = {**dict.fromkeys(_TREND, 0.0), "count": 0}
    if totals and (total := sum(totals[1:], totals[0])).count:
        times = {
            "avg": total.mean,
            "min": total.quantile(0.5 / total.count),
            "max": total.max,
            **{name: total.quantile(quantile) for name, quantile in _QUANTILES.items()},
        }
        values = {name: 1e3 * (times[name] or 0.0) for name in _TREND if name != "count"} | {"count": total.count}
    return {"type": "trend", "contains": "time", "values": values}
