"""The recording of a killed process becomes a failed run."""

from unittest.mock import Mock

import pytest
from recordings import manifest, write_phase

from commands import within
from loadframe.experiment.runner.recover_run import recover_runs
from loadframe.library.actions import convert
from loadframe.library.experiment import open as opened
from loadframe.library.reports import export_report, send_records
from loadframe.record import Run, RunWriter
from loadframe.record.unfinished import LOCK_FILE, partial_name
from loadframe.store.search import SearchStore

PACING = {"closed": {"clients": 4, "think_time": 0.0}}


def asked(name, **parts):
    stream = {"name": "main", "pacing": PACING}
    return {"name": name, "prepares": False, "warmup": 0.0, "operations": {"range": {}}, "streams": [stream], **parts}


@pytest.fixture
def killed(tmp_path):
    """A run folder of a killed process: 3 s of a phase are complete, and the later data are truncated."""
    writer = RunWriter(tmp_path, "r1").__enter__()
    workload = {"workload": "nyc_taxis", "phases": [asked("load", prepares=True), asked("range", warmup=1.0)]}
    parts = {"workload": workload, "generator": {"ranks": 1, "threads": 1}}
    writer.draft(manifest(started=writer.started, **parts).as_dict())
    folder = writer.phase("range", 2.0)
    write_phase(folder, 3, offset=2)
    writer.begun(folder, {"phase": "range", "start": 2.0, "threads": 1, "ranks": 1})
    writer.event("phase started", 2.0, phase="range")
    for name in ("series.csv", "histograms.hlog"):
        with (folder / name).open("a") as file:
            file.write("Tag=range/ra")
    with (writer.folder / "events.jsonl").open("a") as file:
        file.write('{"time": 4.')
    # The kernel releases the lock of a process that has died.
    writer._release()
    return tmp_path


def test_recorded_data_are_kept_as_a_failed_run(killed):
    (path,) = recover_runs(killed, why="rank 0 was killed")
    run = Run(path)
    assert [entry.name for entry in killed.iterdir()] == ["r1"]
    assert (run.summary.status, run.summary.fault) == ("failed", "generator")
    assert run.summary.failure == "rank 0 was killed in phase range"
    assert run.summary.verdict.reasons[0].code == "generator_failed" and not run.summary.verdict.valid
    (phase,) = run.summary.phases
    assert (phase.start, phase.warmup, phase.duration) == (2.0, 1.0, 2.0)
    figures = phase.operations["range"]
    assert (figures.requests, figures.successes, figures.documents, figures.in_flight_at_end) == (30, 27, 270, 2)
    assert figures.response.count == 6
    assert run.series.num_rows == 3
    assert [event["kind"] for event in run.events] == ["phase started", "phase ended"]
    # Which node a number means is not known before a phase ends.
    assert not [row for row in run.telemetry.to_pylist() if row["source"].startswith("target:")]


def test_a_stream_at_a_low_rate_lasts_as_long_as_the_recording(tmp_path):
    writer = RunWriter(tmp_path, "r1").__enter__()
    names = {"main": {"duration": 60.0}, "few": {"requests": 30}, "short": {"duration": 4.0}}
    phase = asked("range", streams=[{"name": name, "pacing": PACING, "stop": stop} for name, stop in names.items()])
    parts = {"workload": {"workload": "w", "phases": [phase]}, "generator": {"ranks": 1, "threads": 1}}
    writer.draft(manifest(started=writer.started, **parts).as_dict())
    folder = writer.phase("range", 2.0)
    write_phase(folder, 10, offset=2)
    series = folder / "series.csv"
    # The last requests of the streams are in the fourth and in the second of ten seconds.
    head, *rows = series.read_text().splitlines()
    others = [row.replace("main,", "few,", 1) for row in rows[:2]]
    series.write_text("\n".join([head, *rows[:4], *others, ""]))
    writer.begun(folder, {"phase": "range", "start": 2.0, "threads": 1, "ranks": 1})
    writer._release()
    (path,) = recover_runs(tmp_path)
    streams = {stream.name: stream.measured for stream in Run(path).summary.phases[0].streams}
    assert streams == {"main": 10.0, "few": 2.0, "short": 4.0}


def test_a_report_on_a_killed_run_keeps_it(killed):
    status, output, _ = within("report", killed / "r1", "--output", killed / "report.html")
    assert status == 0
    assert "The run failed: the process that recorded the run was killed in phase range" in output


#: Accepts records.
CLUSTER = Mock(store=Mock(spec=SearchStore, **{"write_documents.return_value": 7}))
#: Calls and options of the command that read the run at a path, and may write a file; truthy if they succeed.
READERS = {
    "open": lambda path, folder: opened(path).status,
    "convert": lambda path, folder: convert(path, "markdown").text,
    "export": lambda path, folder: export_report(path, folder, ["csv"]).files,
    "send_records": lambda path, folder: send_records(path, "i", "rally", lambda: CLUSTER),
    **{
        words: lambda path, folder, words=words: within("report", path, *words.split(), folder)[0] == 0
        for words in ("--format jsonl --output", "--format queries --output", "--format csv --export")
    },
}


@pytest.mark.parametrize("reader", READERS)
def test_reading_a_killed_run_keeps_it(killed, tmp_path_factory, reader):
    assert READERS[reader](killed / "r1", tmp_path_factory.mktemp("out") / "it")
    assert Run(killed / "r1").summary.status == "failed"


def test_queries_of_a_killed_run_are_written_to_its_folder(killed):
    assert within("report", killed / "r1", "--format", "queries")[0] == 0
    assert (killed / "r1" / "queries.json").exists()


def test_a_run_that_lives_or_had_not_begun_is_left_alone(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.draft(manifest(started=writer.started).as_dict())
        assert recover_runs(tmp_path) == []
        gone = tmp_path / partial_name("r2")
        gone.mkdir()
        (gone / LOCK_FILE).touch()
        assert recover_runs(tmp_path) == []
