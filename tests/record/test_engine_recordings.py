"""The engine's output files match the format of run folders."""

import json

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from recordings import manifest, summary

from loadframe import _engine
from loadframe.record import Run, RunWriter, schema

PLAN = {
    "seed": 1,
    "threads": 2,
    "warmup": 1.0,
    "target": {"driver": "null", "hosts": ["127.0.0.1:9200"]},
    "operations": {"nothing": {"request": {"method": "GET", "path": "/"}}},
    "streams": [
        {
            "name": "main",
            "mix": [["nothing", 1.0]],
            "pacing": {"closed": {"clients": 2, "think_time": 0.001}},
            "stop": {"duration": 1.0},
        }
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with RunWriter(tmp_path_factory.mktemp("runs"), "r1") as writer:
        for name in ("first", "second"):
            start = writer.elapsed()
            folder = writer.phase(name, start, PLAN["target"]["hosts"])
            handle = _engine.start(json.dumps(PLAN | {"phase": name, "began": writer.began}), folder)
            assert handle.wait(30)
        return Run(writer.finish(manifest(started=writer.started).as_dict(), summary()))


def test_the_engines_columns_are_those_that_are_documented(tmp_path):
    handle = _engine.start(json.dumps(PLAN | {"phase": "p", "warmup": 0, "streams": [short()]}), tmp_path)
    assert handle.wait(30)
    series = (tmp_path / "series.csv").read_text().splitlines()[0]
    assert series == ",".join(field.name for field in schema.SERIES_RECORDED)
    generator = (tmp_path / "generator.csv").read_text().splitlines()[0]
    *recorded, spinning = (field.name for field in schema.GENERATOR)
    assert (generator, spinning) == (",".join(["second", "rank", "worker", *recorded]), "spin_seconds")


def short():
    return PLAN["streams"][0] | {"stop": {"requests": 10}}


@pytest.mark.slow
def test_seconds_of_all_phases_lie_on_the_runs_time_axis(run):
    rows = run.series.to_pylist()
    assert {row["phase"] for row in rows} == {"first", "second"}
    assert {row["segment"] for row in rows} == {"warmup", "measure"}
    starts = {row["phase"]: row["time"] - row["second"] for row in rows}
    assert starts["first"] < 0.5
    assert 2 < starts["second"] < 4


def test_series_histograms_and_hosts_tell_of_the_same_requests(run):
    rows = [row for row in run.series.to_pylist() if row["phase"] == "second"]
    successes = sum(row["successes"] for row in rows if row["segment"] == "measure")
    assert successes > 100
    assert run.histograms.total("second/nothing/response").count == successes
    served = [
        row
        for row in run.telemetry.to_pylist()
        if (row["source"], row["metric"]) == ("target:127.0.0.1:9200", "requests")
    ]
    assert sum(row["value"] for row in served) == sum(row["requests"] for row in run.series.to_pylist())


def test_histograms_are_found_by_the_seconds_of_the_run(run):
    rows = [row for row in run.series.to_pylist() if (row["phase"], row["segment"]) == ("second", "measure")]
    start = rows[0]["time"] - rows[0]["second"]
    assert run.histograms.total("second/nothing/response", 0.0, start).count == 0
    assert run.histograms.total("second/nothing/response", start, start + 10).count > 0


def test_each_worker_tells_of_itself(run):
    sources = {row["source"] for row in run.telemetry.to_pylist()}
    assert {"generator:0", "generator:1"} <= sources


def test_another_tool_reads_the_same_figures_from_the_log(run):
    log = HistogramLogReader(str(run.path / "histograms.hlog"), HdrHistogram(1, 3_600_000_000_000, 3))
    sums: dict[str, HdrHistogram] = {}
    while (interval := log.get_next_interval_histogram()) is not None:
        sums.setdefault(interval.get_tag(), HdrHistogram(1, 3_600_000_000_000, 3)).add(interval)
    assert sorted(sums) == run.histograms.tags()
    for tag in ("first/nothing/response", "second/nothing/service/warmup", "generator/lag"):
        ours = run.histograms.total(tag)
        assert sums[tag].get_total_count() == ours.count
        # Tools round the rank of a percentile differently, but not these.
        assert sums[tag].get_max_value() / 1e9 == pytest.approx(ours.max)
        assert sums[tag].get_mean_value() / 1e9 == pytest.approx(ours.mean, rel=1e-6)
