"""Recordings of a phase as the engine writes them, in small."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from loadframe.record import ManifestDraft
from loadframe.record.machine import hardware
from loadframe.record.schema import GENERATOR, SERIES_RECORDED
from loadframe.record.schema.figures import GrowthFigures, SourceFigures, StoredEvents
from loadframe.record.schema.model import as_document
from loadframe.record.schema.summary import ChosenWindow, MachineFigures, RankFigures

SERIES_HEADER = ",".join(field.name for field in SERIES_RECORDED)
GENERATOR_HEADER = ",".join(["second", "worker", *(field.name for field in GENERATOR)])


def write_phase(folder: Path, seconds: int, *, phase: str = "range", offset: int = 0) -> None:
    """Write the engine's output for a phase with one stream, one operation and one worker into `folder`."""
    counts = "10,9,90,1000,20000,0,0,0,0,0,1,0,0,0,0,0"
    rows = [
        f"main,range,measure,{s},{counts},0.001000,0.002000,0.003000,0.001000,0.002000,0.003000,0.004000,0.004000,0.004000,,,,2,0.500000"
        for s in range(seconds)
    ]
    (folder / "series.csv").write_text("\n".join([SERIES_HEADER, *rows]) + "\n")
    watched = [
        f"{s},0,0.250000,0.000000,1.000000,0.000010,0.000020,0.000030,0.000040,0.000000,4,0.100000"
        for s in range(seconds)
    ]
    (folder / "generator.csv").write_text("\n".join([GENERATOR_HEADER, *watched]) + "\n")
    served = [f"range,{node},{s},{requests}" for s in range(seconds) for node, requests in ((0, 6), (1, 4))]
    (folder / "nodes.csv").write_text("\n".join(["operation,node,second,requests", *served]) + "\n")
    intervals = [
        f"Tag={phase}/range/response,{offset + s}.000,1.000,3.000,{encoded(1000, 2000)}" for s in range(seconds)
    ]
    head = ["#[Histogram log format version 1.3]", "#[StartTime: 1.000 (seconds since epoch)]"]
    (folder / "histograms.hlog").write_text("\n".join([*head, *intervals]) + "\n")


def encoded(*microseconds: int) -> str:
    """Return a histogram of these values in the engine's layout, compressed and in base64."""
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for value in microseconds:
        histogram.record_value(1000 * value)
    return histogram.encode().decode()


def manifest(**parts: Any) -> ManifestDraft:
    """Return a manifest with every part; `parts` replace some."""
    whole = {
        "run": "r1",
        "started": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "treatment": {"nodes": 2, "clients": 8},
        "workload": {"workload": "nyc_taxis", "parameters": {"documents": 1000}},
        "store": {"kind": "opensearch", "version": "3.8.0", "nodes": 2},
        "seed": 42,
        "generator": {
            "ranks": 1,
            "threads": 2,
            "spread": "fixed",
            "connections": None,
            "samples": False,
            "trace": 0.001,
            "spin": True,
            "kernel_timestamps": True,
            "members": [{"rank": 0, "machine": "m1"}],
            "nearest": {"range": {"hosts": ["127.0.0.1:9200"]}},
            "ceiling": 80000.0,
        },
        "hardware": {**hardware(), "yardstick": [0.0017, 0.0018]},
    }
    return ManifestDraft(**(whole | parts))


def latency() -> dict[str, float]:
    """Return a summary's percentiles."""
    return {"count": 9, "mean": 0.001, "p50": 0.001, "p90": 0.002, "p99": 0.002, "p999": 0.003, "max": 0.003}


def summary(**parts: Any) -> dict[str, Any]:
    """Return a summary with every key; `parts` replace some."""
    figures = {
        "requests": 10,
        "successes": 9,
        "documents": 90,
        "errors": {"rejected": 1},
        "throughput": 9.0,
        "documents_per_second": 90.0,
        "response": latency(),
        "service": latency(),
        "failure": latency(),
        "all": latency(),
    }
    growth = as_document(GrowthFigures(2e-3, 1e-3, 3e-3, 0.0, 9e3, held=True, all=True, apart=False))
    operation = figures | {
        "dropped": 0,
        "in_flight_at_end": 1,
        "inherited": 2,
        "reconnects": 1,
        "retries": 4,
        "messages": [{"error": "rejected", "message": "busy", "count": 1, "status": 429}],
        "of_several": False,
        "recall": 0.9,
        "resolution": 0.01,
        "growth": growth,
        "kernel_times": {"overhead": latency(), "corrected": latency(), "without": 1, "receive_only": 0},
    }
    operation["parts"] = {"page": figures}
    source = as_document(
        SourceFigures(
            lines=10,
            accepted=9,
            indexed=8,
            sampled=3,
            seen=2,
            unseen=1,
            left_over=1,
            dead_letters={"not JSON": 1},
            kinds={"bid": 8},
            kept="dead-letters-range-ads.ndjson",
            connections=2,
            bytes=900,
            address="127.0.0.1:5000",
            trouble=("no room",),
        )
    )
    phase = {
        "name": "range",
        "prepares": False,
        "start": 0.5,
        "clock": {"started": 1767323045.5, "uncertainty": 5e-8, "drift": 1e-6},
        "warmup": 0.0,
        "duration": 3.0,
        "first_failure": 1.0,
        "setup": latency(),
        "streams": [
            {
                "name": "main",
                "pacing": {"closed": {"clients": 8, "think_time": 0.0}},
                "measured": 3.0,
                "ran_out": False,
                "iterations": 0,
                "overruns": 0,
                "group": 1,
            }
        ],
        "stopped_by": {"metric": "dropped", "above": 1.0, "seconds": 5},
        "window": as_document(ChosenWindow(warmup_limit=300.0, steady_from=12.0)),
        "backlog": 0,
        "backlog_age": None,
        "set_aside": [{"corpus": "c", "lines": 1, "kept": ["c.broken"]}],
        "operations": {"range": operation},
        "sources": {"ads": source},
        "ranks": [as_document(RankFigures(rank=0, machine="m1"))],
        "machines": [as_document(MachineFigures("m1", 0.0, (0.0017, 0.0018)))],
    }
    generator = {
        "threads": 2,
        "cpu_share": 0.25,
        "cpu_share_peak": 0.3,
        "waited_share": 0.01,
        "throttled_share": 0.0,
        "stolen_share": 0.01,
        "network_share": None,
        "ceiling_share": 0.1,
        "lateness_p99": 1e-5,
        "lag_p99": 3e-5,
        "longest_stall": 4e-5,
        "away_share": 0.0,
        "achieved": None,
    }
    reason = {"code": "generator_cpu", "cause": "the generator was busy", "remedy": "use more", "phase": "range",
              "severity": 0.9}  # fmt: skip
    bounded = {"phase": "range", "figure": "response", "state": "bounded", "operation": "range",
               "reasons": ["generator_cpu"], "low": {"p99": 0.0}, "high": {"p99": 0.1}}  # fmt: skip
    verdict = {"valid": False, "reasons": [reason], "not_judged": ["steadiness: too short"], "explained": ["a fall"],
               "figures": [bounded]}  # fmt: skip
    stored = StoredEvents(
        collection="ads-*", documents=7, events={"bid": 7}, indexed=8, unique=True, acknowledged_at_kill=5
    )
    parts = {"stored": [as_document(stored)]} | parts
    return {"status": "done", "phases": [phase], "generator": generator, "verdict": verdict} | parts
