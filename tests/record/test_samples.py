"""Optional records of single requests: as written by the engine, and as stored in a run folder."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recordings import manifest, summary

from loadframe import _engine
from loadframe.record import Run, RunWriter, schema
from loadframe.record.merge import PhaseRecording, sampled_phases, write_samples
from loadframe.record.reader import SAMPLES_SCHEMA

HOSTS = ["127.0.0.1:9200"]
PLAN = {
    "seed": 1,
    "phase": "asking",
    "threads": 2,
    "warmup": 0.3,
    "target": {"driver": "null", "hosts": HOSTS},
    "operations": {"first": {}, "second": {}},
    "streams": [
        {
            "name": "main",
            "mix": [["first", 1.0], ["second", 2.0]],
            "pacing": {"open": {"rate": 2000, "arrivals": "poisson"}},
            "stop": {"duration": 1.2},
        }
    ],
    "samples": True,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with RunWriter(tmp_path_factory.mktemp("runs"), "r1") as writer:
        folder = writer.phase("asking", writer.elapsed(), HOSTS)
        handle = _engine.start(json.dumps(PLAN | {"began": writer.began}), folder)
        assert handle.wait(30)
        return Run(writer.finish(manifest(started=writer.started).as_dict(), summary()))


@pytest.fixture(scope="module")
def samples(run):
    return pa.Table.from_batches(run.samples()).to_pandas()


def test_there_is_a_row_for_each_request_with_the_columns_that_are_documented(run, samples):
    assert samples.columns.tolist() == [field.name for field in schema.SAMPLES]
    counted = run.series.to_pandas().groupby(["stream", "operation", "segment"])[["requests", "documents"]].sum()
    ours = samples.groupby(["stream", "operation", "segment"]).agg(
        requests=("done", "size"), documents=("documents", "sum")
    )
    assert len(ours) == 4
    assert ours.to_dict() == counted.to_dict()
    assert set(samples["node"]) == set(HOSTS)
    assert samples["error"].isna().all()


def test_instants_lie_on_the_runs_time_axis_in_their_order(run, samples):
    assert (samples["scheduled"] <= samples["sent"]).all()
    assert (samples["sent"] <= samples["done"]).all()
    start = run.series.to_pandas()["time"].min()
    assert samples["scheduled"].between(start, start + 1.6).all()


@pytest.mark.parametrize("operation", ["first", "second"])
def test_percentiles_of_samples_are_those_of_the_histograms_within_their_precision(run, samples, operation):
    measured = samples[(samples["operation"] == operation) & (samples["segment"] == "measure")]
    for measure, since in (("response", "scheduled"), ("service", "sent")):
        durations = (measured["done"] - measured[since]).to_numpy()
        histogram = run.histograms.total(f"asking/{operation}/{measure}")
        assert histogram.count == len(durations)
        for quantile in (0.1, 0.5, 0.9, 0.99, 1.0):
            exact = np.quantile(durations, quantile, method="inverted_cdf")
            # Three significant digits.
            assert histogram.quantile(quantile) == pytest.approx(exact, rel=1e-3)


def test_a_run_without_samples_has_no_such_file_and_yields_none(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        path = writer.finish(manifest().as_dict(), summary())
    assert not (path / schema.SAMPLES_FILE).exists()
    assert list(Run(path).samples()) == []


def test_ranks_have_their_own_numbers_and_a_torn_sample_at_the_end_is_left_out(tmp_path):
    phase = PhaseRecording("asking", 3.0, (), tmp_path)
    (tmp_path / "outcome.json").write_text(json.dumps({"offset": 2.5, "hosts": ["a:1", "b:1"], "members": [0, 7]}))
    (tmp_path / "slots.csv").write_text("stream,operation\nmain,read\nmain,scan\nmain,scan.page\n")
    row = [(10**9, 2 * 10**9, 3 * 10**9, 5, 11, 1, 1, 1, 429, 3, 1), (-(10**9), 0, 1, 0, 0, 0, 0, 9, 0, 0, 0)]
    kinds = ["<i8"] * 3 + ["<u4"] * 4 + ["<u2"] * 2 + ["u1"] * 2
    (tmp_path / "samples.bin").write_bytes(np.array(row, dtype=",".join(kinds)).tobytes() + b"torn")
    write_samples(sampled_phases([phase]), tmp_path / "samples.parquet")
    first, second = pq.read_table(tmp_path / "samples.parquet").cast(SAMPLES_SCHEMA).to_pylist()
    assert first == {
        "phase": "asking",
        "stream": "main",
        "operation": "scan",
        "segment": "measure",
        "rank": 7,
        "client": 11,
        "node": "b:1",
        "scheduled": 3.5,
        "sent": 4.5,
        "done": 5.5,
        "documents": 5,
        "error": "rejected",
        "status": 429,
    }
    assert (second["rank"], second["node"], second["error"], second["status"]) == (0, None, None, None)
    assert (second["segment"], second["scheduled"]) == ("warmup", 1.5)


def test_clients_walk_round_the_operations_of_a_mix_each_in_an_order_of_its_own(tmp_path):
    stream = {
        "name": "main",
        "mix": [["first", 1], ["second", 2]],
        "order": "permuted",
        "pacing": {"closed": {"clients": 12}},
        "stop": {"requests": 2400},
    }
    plan = {**PLAN, "phase": "turns", "warmup": 0, "streams": [stream]}
    handle = _engine.start(json.dumps(plan), tmp_path)
    assert handle.wait(30)
    write_samples(sampled_phases([PhaseRecording("turns", 0.0, HOSTS, tmp_path)]), tmp_path / "samples.parquet")
    samples = pq.read_table(tmp_path / "samples.parquet").to_pandas().sort_values(["client", "sent"], kind="stable")
    rounds = set()
    for _, asked in samples.groupby("client")["operation"]:
        names = asked.tolist()
        rounds.add(tuple(names[:3]))
        assert sorted(names[:3]) == ["first", "second", "second"]
        assert names == [names[:3][turn % 3] for turn in range(len(names))]
    assert len(rounds) > 1, "clients send different requests at one instant"
