"""A run folder appears complete or not at all."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import datetime
from pathlib import Path

import pytest
from hdrh.log import HistogramLogReader
from recordings import manifest, summary, write_phase

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.record import Run, RunWriter, unfinished
from loadframe.record.schema import MEMBERS
from loadframe.record.unfinished import partial_name


def record(parent: Path, run_id: str = "r1") -> Run:
    with RunWriter(parent, run_id) as writer:
        write_phase(writer.phase("load", 0.5), 2, phase="load")
        write_phase(writer.phase("range", 2.5, ["127.0.0.1:9200", "127.0.0.2:9200"]), 3, offset=2)
        writer.event("phase started", 0.5, phase="load")
        writer.telemetry(1.0, "node:0", "process.cpu", 0.5)
        writer.finish(manifest(run=run_id, started=writer.started).as_dict(), summary())
    return Run(parent / run_id)


def samples(run: Run, source: str, metric: str) -> list[tuple[float, float]]:
    rows = run.telemetry.to_pylist()
    return sorted((row["time"], row["value"]) for row in rows if (row["source"], row["metric"]) == (source, metric))


def test_a_finished_run_holds_its_members_and_nothing_else(tmp_path):
    run = record(tmp_path / "runs")
    assert sorted(path.name for path in run.path.iterdir()) == sorted(MEMBERS)
    assert [path.name for path in run.path.parent.iterdir()] == ["r1"]


def test_a_run_is_not_seen_before_it_is_finished(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.event("started")
        assert not writer.path.exists()
        assert all(path.name.startswith(".") for path in tmp_path.iterdir())
        writer.finish(manifest().as_dict(), summary())
        assert writer.path.is_dir()


def test_late_events_are_sorted_by_time(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        for kind, time in (("third", 3.0), ("first", 1.0), ("second", 2.0), ("with the second", 2.0)):
            writer.event(kind, time)
        path = writer.finish(manifest().as_dict(), summary())
    assert [event["kind"] for event in Run(path).events] == ["first", "second", "with the second", "third"]


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), RunWriter(tmp_path, "r1") as writer:
        writer.telemetry(0.0, "host", "cpu.busy", 1 / 0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_left_without_finishing_it_leaves_nothing(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.event("started")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_is_kept_when_it_is_finished(tmp_path):
    with pytest.raises(KeyboardInterrupt), RunWriter(tmp_path, "r1") as writer:
        write_phase(writer.phase("range", 0.0), 1)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            writer.finish(manifest().as_dict(), summary(status="interrupted"))
            raise
    run = Run(tmp_path / "r1")
    assert run.raw_summary["status"] == "interrupted"
    assert run.series.num_rows == 1


def test_a_run_that_exists_is_not_overwritten(tmp_path):
    run = record(tmp_path)
    before = (run.path / "manifest.json").read_bytes()
    with pytest.raises(BadInput, match="already exists"), RunWriter(tmp_path, "r1"):
        pass
    assert (run.path / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r1"]


def test_the_second_of_two_writers_of_a_run_is_refused(tmp_path):
    with pytest.raises(LoadframeError, match="another process"), RunWriter(tmp_path, "r1") as writer:
        (tmp_path / "r1").mkdir()
        writer.finish(manifest().as_dict(), summary())
    assert [path.name for path in tmp_path.iterdir()] == ["r1"]
    assert list((tmp_path / "r1").iterdir()) == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "nul\0"])
def test_a_run_needs_a_name_that_a_folder_can_have(tmp_path, name):
    with pytest.raises(BadInput, match="invalid run name"):
        RunWriter(tmp_path, name)


def test_a_parent_that_is_a_file_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write runs to this folder"), RunWriter(tmp_path / "file", "r1"):
        pass


def test_a_killed_process_leaves_a_hidden_folder_that_the_next_start_removes(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from loadframe.record import RunWriter\n"
        "with RunWriter(Path(sys.argv[1]), 'killed'): print('up', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"up\n"
        with RunWriter(tmp_path, "other"):
            assert list(tmp_path.glob(".killed.*")), "a living process keeps its folder"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert list(tmp_path.glob(".killed.*"))
    record(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["r1"]


def test_a_run_of_a_container_with_the_same_host_name_is_left_alone(tmp_path):
    """The writer lives in another process namespace, where its process id means another process."""
    script = (
        "import sys; from pathlib import Path; from loadframe.record import RunWriter\n"
        "with RunWriter(Path(sys.argv[1]), 'elsewhere'): print('up', flush=True); sys.stdin.read()"
    )
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]
    command = [*unshare, sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"up\n"
        record(tmp_path)
        assert list(tmp_path.glob(".elsewhere.*"))
        child.kill()
        # The writer must not see the end of its input before its death, or it removes the folder itself.
        child.wait()
    end = time.monotonic() + 60
    while not unfinished.stale(tmp_path) and time.monotonic() < end:
        time.sleep(0.01)
    record(tmp_path, "r2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r1", "r2"]


@pytest.mark.parametrize(("kind", "kept"), [("ext4", False), ("nfs4", True)])
def test_a_folder_of_another_kernel_is_removed_where_its_lock_would_be_seen(tmp_path, monkeypatch, kind, kept):
    old = tmp_path / re.sub("-[0-9a-f]{8}-", "-00000000-", partial_name("old"))
    old.mkdir()
    (old / unfinished.LOCK_FILE).touch()
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mounts"
    mounts.write_text(f"22 1 {os.major(device)}:{os.minor(device)} / /data rw - {kind} server:/data rw\n")
    monkeypatch.setattr(unfinished, "_MOUNTS", mounts)
    record(tmp_path)
    assert old.exists() == kept


def test_a_folder_without_a_lock_is_left_alone(tmp_path):
    new = tmp_path / partial_name("new")
    new.mkdir()
    record(tmp_path)
    assert new.exists()


def test_partial_folders_of_earlier_versions_and_other_machines_are_left_alone(tmp_path):
    elsewhere = tmp_path / ".old.partial-another-machine-1-1"
    elsewhere.mkdir()
    record(tmp_path)
    assert elsewhere.exists()


def test_finished_runs_do_not_have_a_lock_file(tmp_path):
    record(tmp_path)
    assert not (tmp_path / "r1" / unfinished.LOCK_FILE).exists()


def test_series_join_the_phases_on_the_time_axis_of_the_run(tmp_path):
    series = record(tmp_path).series.to_pylist()
    assert [(row["phase"], row["second"], row["time"]) for row in series] == [
        ("load", 0, 0.5),
        ("load", 1, 1.5),
        ("range", 0, 2.5),
        ("range", 1, 3.5),
        ("range", 2, 4.5),
    ]
    assert {key: series[0][key] for key in ("requests", "successes", "error_rejected", "response_p99")} == {
        "requests": 10,
        "successes": 9,
        "error_rejected": 1,
        "response_p99": 0.002,
    }


def test_seconds_without_successes_do_not_have_percentiles(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        folder = writer.phase("range", 0.0)
        write_phase(folder, 1)
        with (folder / "series.csv").open("a") as series:
            series.write("main,range,measure,1,5,0,0,0,0,0,0,0,5,0,0,0,0,0,0,0,,,,,,,,,,,,,0,\n")
        writer.finish(manifest().as_dict(), summary())
    assert Run(tmp_path / "r1").series["response_p50"].to_pylist() == [0.001, None]


def test_the_generators_view_of_itself_becomes_telemetry(tmp_path):
    run = record(tmp_path)
    assert samples(run, "generator:0", "cpu_seconds") == [(t, 0.25) for t in (0.5, 1.5, 2.5, 3.5, 4.5)]
    assert samples(run, "generator:0", "in_flight")[0] == (0.5, 4.0)
    assert samples(run, "generator:0", "spin_seconds")[0] == (0.5, 0.1)


def test_which_host_served_how_much_becomes_telemetry(tmp_path):
    run = record(tmp_path)
    assert samples(run, "target:127.0.0.2:9200", "requests") == [(2.5, 4.0), (3.5, 4.0), (4.5, 4.0)]
    assert samples(run, "target:1", "requests") == [(0.5, 4.0), (1.5, 4.0)], "without hosts, their numbers"


def test_documents_of_a_host_are_telemetry_too(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        folder = writer.phase("range", 0.0)
        write_phase(folder, 0)
        (folder / "nodes.csv").write_text("operation,node,second,requests,documents\na,0,0,3,300\nb,0,0,4,50\n")
        writer.finish(manifest().as_dict(), summary())
    run = Run(tmp_path / "r1")
    assert (samples(run, "target:0", "requests"), samples(run, "target:0", "documents")) == (
        [(0.0, 7.0)],
        [(0.0, 350.0)],
    )


def test_requests_of_several_streams_to_one_host_add_up(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        folder = writer.phase("range", 0.0)
        write_phase(folder, 0)
        (folder / "nodes.csv").write_text("operation,node,second,requests\na,0,0,3\nb,0,0,4\na,0,0,5\n")
        writer.finish(manifest().as_dict(), summary())
    assert samples(Run(tmp_path / "r1"), "target:0", "requests") == [(0.0, 12.0)]


def test_histograms_of_all_phases_stand_in_one_log_that_other_tools_read(tmp_path):
    run = record(tmp_path)
    log = HistogramLogReader(str(run.path / "histograms.hlog"), _histogram())
    starts, counts = [], []
    while (histogram := log.get_next_interval_histogram()) is not None:
        starts.append(histogram.get_start_time_stamp() / 1000)
        counts.append(histogram.get_total_count())
    began = datetime.fromisoformat(run.raw_manifest["started"]).timestamp()
    assert [round(start - began, 2) for start in starts] == [0, 1, 2, 3, 4]
    assert counts == [2] * 5


def _histogram():
    from hdrh.histogram import HdrHistogram

    return HdrHistogram(1, 3_600_000_000_000, 3)


def test_a_phase_that_ended_before_it_recorded_adds_nothing(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.phase("never", 0.0)
        writer.finish(manifest().as_dict(), summary(status="failed"))
    run = Run(tmp_path / "r1")
    assert run.series.num_rows == run.telemetry.num_rows == 0


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("series.csv", "stream,operation\nmain,range\n"),
        ("generator.csv", "second,worker\n0,zero\n"),
        ("histograms.hlog", "nothing of the kind\n"),
        ("histograms.hlog", "#[Histogram log format version 1.3]\n0.0,1.0,1.0,HIST"),
    ],
)
def test_a_recording_that_cannot_be_read_is_named_and_leaves_nothing(tmp_path, file, content):
    with pytest.raises(LoadframeError, match=file), RunWriter(tmp_path, "r1") as writer:
        folder = writer.phase("range", 0.0)
        write_phase(folder, 1)
        (folder / file).write_text(content)
        writer.finish(manifest().as_dict(), summary())
    assert list(tmp_path.iterdir()) == []


def test_events_carry_both_clocks(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.event("node requested", 1.5, node="n4")
        writer.event("now")
        writer.finish(manifest(started=writer.started).as_dict(), summary())
    run = Run(tmp_path / "r1")
    now, first = run.events
    assert first.items() >= {"time": 1.5, "kind": "node requested", "node": "n4"}.items()
    began = datetime.fromisoformat(run.raw_manifest["started"])
    assert (datetime.fromisoformat(first["wall"]) - began).total_seconds() == pytest.approx(1.5, abs=0.002)
    assert 0 <= now["time"] < 60


def test_events_are_on_the_disk_at_once(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.event("started")
        (events,) = tmp_path.glob(".r1.*/events.jsonl")
        assert json.loads(events.read_text())["kind"] == "started"


def test_telemetry_from_several_threads_is_complete(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:

        def write(source: str) -> None:
            for second in range(10_000):
                writer.telemetry(second, source, "x", 1.0)

        threads = [threading.Thread(target=write, args=(f"node:{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.finish(manifest().as_dict(), summary())
    run = Run(tmp_path / "r1")
    assert run.telemetry.num_rows == 40_000
    assert run.telemetry["value"].to_pylist() == [1.0] * 40_000


@pytest.mark.slow
def test_memory_for_telemetry_does_not_grow_with_the_run(tmp_path):
    def peak(rows: int) -> int:
        tracemalloc.start()
        with RunWriter(tmp_path, f"r{rows}") as writer:
            for row in range(rows):
                writer.telemetry(row * 0.01, f"node:{row % 3}", "x", row * 0.5)
            writer.finish(manifest().as_dict(), summary())
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    peak(1)
    assert peak(120_000) < 1.3 * peak(40_000)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to write to")
def test_a_full_disk_is_one_message(tmp_path):
    with pytest.raises(LoadframeError, match="the disk has space"), RunWriter(tmp_path, "r1") as writer:
        (next(tmp_path.glob(".r1.*")) / "summary.json").symlink_to("/dev/full")
        writer.finish(manifest().as_dict(), summary())
    assert not (tmp_path / "r1").exists()


def test_values_outside_json_become_null(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.event("ratio", 0.0, value=float("nan"))
        writer.finish(manifest().as_dict(), summary(status=float("inf")))
    run = Run(tmp_path / "r1")
    assert run.raw_summary["status"] is None
    assert run.events[0]["value"] is None


def test_recordings_are_joined_for_a_summary_before_the_run_is_finished(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        write_phase(writer.phase("range", 0.5), 3)
        writer.telemetry(1.0, "host", "cpu.busy", 0.5)
        recordings = writer.join()
        series, telemetry = recordings.series, recordings.telemetry
        assert series.num_rows == 3
        assert not writer.path.exists()
        writer.finish(manifest().as_dict(), summary())
    run = Run(tmp_path / "r1")
    assert run.series.equals(series)
    assert run.telemetry.equals(telemetry)


def test_the_sums_over_the_workers_of_many_ranks_become_telemetry(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        folder = writer.phase("range", 0.0)
        write_phase(folder, 2)
        sums = ["second,ranks,workers,cpu_seconds,waited_seconds,away_seconds,in_flight"]
        sums += ["0,16,32,4.000000,0.100000,0.000000,128", "1,15,30,3.500000,0.200000,0.050000,120"]
        (folder / "workers.csv").write_text("\n".join(sums) + "\n")
        writer.finish(manifest().as_dict(), summary())
    run = Run(tmp_path / "r1")
    expected = {
        "ranks": [16.0, 15.0],
        "workers": [32.0, 30.0],
        "cpu_seconds": [4.0, 3.5],
        "waited_seconds": [0.1, 0.2],
        "away_seconds": [0.0, 0.05],
        "in_flight": [128.0, 120.0],
    }
    assert {metric: [value for _, value in samples(run, "workers", metric)] for metric in expected} == expected
