"""The engine's interface for ranks: the seconds of several ranks are summed, and rank 0 writes the record."""

import csv
import json
import math
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from loadframe import _engine
from loadframe.record.merge import PhaseRecording, sampled_phases, write_samples

PLAN = {
    "seed": 5,
    "phase": "load",
    "target": {"driver": "null"},
    "operations": {"a": {}, "b": {}},
    "streams": [
        {
            "name": "s",
            "mix": [["a", 1], ["b", 2]],
            "pacing": {"open": {"rate": 2000, "arrivals": "poisson"}},
            "stop": {"duration": 1.2},
        }
    ],
}


def run(plan, ranks, threads, folder, start_in=0.2, adjust=None):
    """Carry out a plan on ranks that are all in this process, adding their seconds as a tree of ranks does."""
    began = time.monotonic() - 1
    ready = [
        _engine.prepare_rank(json.dumps(plan | {"rank": rank, "ranks": ranks, "threads": threads, "began": began}))
        for rank in range(ranks)
    ]
    start = time.monotonic() + start_in
    recorder = ready[0].recorder(folder, start)
    handles = [prepared.begin(start) for prepared in ready]
    assert handles[0].started == pytest.approx(start, abs=1e-6)
    queues = [[] for _ in handles]
    while True:
        over = [handle.wait(0.02) for handle in handles]
        for queue, handle in zip(queues, handles, strict=True):
            queue.extend(handle.seconds())
        while any(queues) and all(queue or done for queue, done in zip(queues, over, strict=True)):
            recorder.second(_engine.add([queue.pop(0) for queue in queues if queue]))
            for handle in handles:
                handle.apply(recorder.directives())
            if adjust and (chosen := adjust(recorder.progress()["seconds"], time.monotonic() - start)):
                recorder.adjust(**chosen)
                for handle in handles:
                    handle.adjust(**chosen)
        if all(over) and not any(queues):
            break
    parts = [handle.outcome() for handle in handles]
    outcome = json.loads(recorder.finish([_engine.add_outcomes(parts[:2]), *parts[2:]]))
    assert outcome == json.loads((folder / "outcome.json").read_text())
    assert outcome["offset"] == pytest.approx(start - began, abs=1e-5)
    return outcome, recorder


def rows(folder: Path, name: str):
    with (folder / name).open() as text:
        return list(csv.DictReader(text))


@pytest.mark.slow
def test_ranks_and_threads_share_the_same_requests_and_write_one_record(tmp_path):
    counts = []
    for ranks, threads in ((1, 8), (8, 1), (3, 2)):
        folder = tmp_path / f"{ranks}x{threads}"
        folder.mkdir()
        outcome, recorder = run(PLAN, ranks, threads, folder)
        assert outcome["failed"] is None
        assert (outcome["rank"], outcome["ranks"], outcome["threads"]) == (0, ranks, threads)
        counts.append([operation["requests"] for operation in outcome["operations"]])
        assert sum(int(row["requests"]) for row in rows(folder, "series.csv")) == sum(counts[-1])
        assert recorder.progress()["requests"] == sum(counts[-1])
        assert [share["rank"] for share in outcome["by_rank"]] == list(range(ranks))
        assert sum(share["requests"] for share in outcome["by_rank"]) == sum(counts[-1])
        workers = rows(folder, "workers.csv")
        assert {(int(row["ranks"]), int(row["workers"])) for row in workers[:1]} == {(ranks, ranks * threads)}
        named = {(row["rank"], row["worker"]) for row in rows(folder, "generator.csv")}
        assert named == {(str(rank), str(thread)) for rank in range(ranks) for thread in range(threads)}
    assert counts[0] == counts[1] == counts[2]


def test_rows_of_many_workers_are_those_of_the_worst(tmp_path):
    run(PLAN | {"streams": [PLAN["streams"][0] | {"stop": {"duration": 0.3}}]}, 5, 3, tmp_path)
    seconds = [row["second"] for row in rows(tmp_path, "generator.csv")]
    assert all(seconds.count(second) <= 8 for second in seconds)
    assert rows(tmp_path, "workers.csv")[0]["workers"] == "15"


def test_a_condition_is_met_by_the_sum_and_ends_all_ranks(tmp_path):
    plan = PLAN | {"stop_when": [{"metric": "error_share", "above": -1, "seconds": 1}]}
    plan["streams"] = [PLAN["streams"][0] | {"stop": {"duration": 60}}]
    outcome, recorder = run(plan, 2, 1, tmp_path)
    assert recorder.stopped_by()
    assert outcome["stopped_by"]["metric"] == "error_share"
    assert not outcome["interrupted"]
    assert outcome["measured"] < 59


@pytest.mark.slow
def test_all_ranks_measure_the_window_that_is_chosen_during_the_load(tmp_path):
    chosen = {}

    def adjust(seconds, elapsed):
        ahead = math.ceil(elapsed) + 2
        if "measured_from" not in chosen:
            return chosen.setdefault("measured_from", {"measured_from": ahead})
        if "until" not in chosen and seconds > chosen["measured_from"]["measured_from"]:
            return chosen.setdefault("until", {"until": ahead})
        return None

    plan = PLAN | {"warmup": 300, "adjustable": True, "stop_when": [{"metric": "missed_share", "above": 2}]}
    plan["streams"] = [PLAN["streams"][0] | {"stop": {"duration": 600}}]
    outcome, _ = run(plan, 3, 2, tmp_path, adjust=adjust)
    begin, end = chosen["measured_from"]["measured_from"], chosen["until"]["until"]
    assert (outcome["warmup"], outcome["measured"]) == (begin, end - begin)
    assert (outcome["failed"], outcome["interrupted"], outcome["stopped_by"]) == (None, False, None)
    due = sum(operation["requests"] for operation in outcome["operations"])
    assert due == pytest.approx(2000 * (end - begin), rel=0.1)
    assert all(share["requests"] > 0.2 * due for share in outcome["by_rank"])
    with pytest.raises(ValueError, match="adjustable"):
        _engine.start_rank(json.dumps(PLAN)).adjust(until=5)


def test_the_end_of_a_stream_over_all_ranks_ends_the_phase(tmp_path):
    # The leader has one client, so only one of the three ranks has a part of it.
    leader = {"name": "leader", "mix": [["a", 1]], "stop": {"requests": 5}}
    leader["pacing"] = {"closed": {"clients": 1, "think_time": 0.1}}
    follower = {"name": "follower", "mix": [["b", 1]], "pacing": {"open": {"rate": 300}}, "stop": "ended"}
    outcome, _ = run(PLAN | {"streams": [leader, follower], "ends_with": ["leader"]}, 3, 1, tmp_path)
    operations = {operation["operation"]: operation["requests"] for operation in outcome["operations"]}
    assert operations["a"] == 5
    assert operations["b"] > 100
    assert all(share["requests"] > 30 for share in outcome["by_rank"])
    assert outcome["failed"] is None


def test_a_late_rank_keeps_the_others_seconds_and_reports_its_delay(tmp_path):
    outcome, _ = run(PLAN, 2, 1, tmp_path, start_in=-0.4)
    assert all(0.4 <= share["began_late"] < 60 for share in outcome["by_rank"])
    assert outcome["measured"] == pytest.approx(1.2)
    assert max(int(row["second"]) for row in rows(tmp_path, "series.csv")) >= 1


def test_a_rank_can_be_stopped_before_the_start():
    handle = _engine.prepare_rank(json.dumps(PLAN)).begin(time.monotonic() + 60)
    assert not handle.wait(0.1)
    handle.stop()
    assert handle.wait(120)
    assert json.loads(handle.outcome())["stopped"]


def test_what_is_no_second_no_part_or_of_another_phase_is_refused(tmp_path):
    prepared = _engine.prepare_rank(json.dumps(PLAN))
    recorder = prepared.recorder(tmp_path)
    handle = prepared.begin()
    with pytest.raises(RuntimeError, match="begun already"):
        prepared.begin()
    other = _engine.start_rank(json.dumps(PLAN | {"seed": 6}))
    assert handle.wait(120)
    assert other.wait(120)
    (first, *_), (foreign, *_) = handle.seconds(), other.seconds()
    assert _engine.second_number(first) == 0
    for call in (
        lambda: _engine.add([]),
        lambda: _engine.add([b"nothing"]),
        lambda: _engine.add([first, foreign]),
        lambda: _engine.add_outcomes([]),
        lambda: _engine.add_outcomes(["{}"]),
        lambda: _engine.second_number(b""),
        lambda: recorder.second(foreign),
        lambda: recorder.finish([]),
        lambda: recorder.finish([other.outcome()]),
        lambda: handle.apply(b""),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call()
    recorder.second(first)
    with pytest.raises(_engine.PlanRefused, match="this machine's clock"):
        _engine.prepare_rank(json.dumps(PLAN)).begin(time.time())


def test_samples_of_ranks_are_those_of_one_process(tmp_path):
    seen = []
    for ranks, threads in ((1, 2), (4, 1)):
        folder = tmp_path / f"{ranks}x{threads}"
        folder.mkdir()
        outcome, _ = run(PLAN | {"samples": True}, ranks, threads, folder)
        phase = PhaseRecording("load", 0.0, (), folder)
        write_samples(sampled_phases([phase]), folder / "samples.parquet")
        samples = pq.read_table(folder / "samples.parquet").to_pylist()
        assert len(samples) == sum(operation["requests"] for operation in outcome["operations"])
        assert {sample["rank"] for sample in samples} == set(range(ranks))
        first = min(sample["scheduled"] for sample in samples)
        seen.append(sorted((sample["scheduled"] - first, sample["operation"]) for sample in samples))
    assert [operation for _, operation in seen[0]] == [operation for _, operation in seen[1]]
    assert [due for due, _ in seen[0]] == pytest.approx([due for due, _ in seen[1]], abs=1e-6)
