"""A folder that is not a run, is incomplete or is damaged gives one message with the file and the field."""

import json
import math
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram
from recordings import manifest, summary, write_phase

from commands import within
from loadframe.base.errors import BadInput
from loadframe.record import Run, RunWriter
from loadframe.record.schema import MEMBERS, SERIES_LATER
from loadframe.record.unfinished import partial_name


@pytest.fixture
def folder(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        write_phase(writer.phase("range", 0.5), 3)
        writer.event("started")
        return writer.finish(manifest().as_dict(), summary())


def test_a_run_can_be_read_where_it_was_moved_to(folder, tmp_path):
    run = Run(shutil.move(folder, tmp_path / "elsewhere"))
    assert run.manifest.treatment == {"nodes": 2, "clients": 8}
    assert run.raw_summary == summary()
    assert run.summary.as_dict() == summary(), "the model has every key of a summary"
    assert run.series.num_rows == 3
    assert run.events[0]["kind"] == "started"


def test_a_run_in_the_working_folder_has_the_name_of_that_folder(folder, monkeypatch):
    (folder / "below").mkdir()
    monkeypatch.chdir(folder)
    assert Run(Path()).path.name == Run(Path("below/..")).path.name == "r1"


def test_folders_without_a_run_are_bad_input(tmp_path):
    with pytest.raises(BadInput, match="not a run folder"):
        Run(tmp_path)


def test_a_missing_folder_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="no such run folder"):
        Run(tmp_path / "nowhere")


def test_a_run_without_an_end_is_interrupted_rather_than_damaged(folder):
    partial = folder.rename(folder.with_name(partial_name("r1")))
    (partial / "summary.json").unlink()
    with pytest.raises(BadInput, match="the run was interrupted") as refused:
        Run(partial)
    assert f"`loadframe report {folder}`" in str(refused.value.remedy)


@pytest.mark.parametrize("member", MEMBERS[1:])
def test_a_missing_member_is_named(folder, member):
    (folder / member).unlink()
    with pytest.raises(BadInput, match=f"{member} is missing"):
        Run(folder)


@pytest.mark.parametrize("name", ["series", "telemetry"])
@pytest.mark.parametrize("keep", [0, 3, 0.5, 0.99])
def test_a_truncated_table_is_bad_input(folder, name, keep):
    path = folder / f"{name}.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(len(whole) * keep)])
    with pytest.raises(BadInput, match=rf"{name}\.parquet: cannot read the table"):
        getattr(Run(folder), name)


def test_a_table_that_lacks_a_column_is_bad_input(folder):
    path = folder / "series.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["dropped"]), path)
    with pytest.raises(BadInput, match="lacks the column dropped"):
        _ = Run(folder).series


def test_a_table_with_a_column_of_another_type_is_bad_input(folder):
    path = folder / "series.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("dropped")
    for values in (pa.array(["many"] * len(table)), pa.array([[1]] * len(table))):
        pq.write_table(table.set_column(place, "dropped", values), path)
        with pytest.raises(BadInput, match=r"series\.parquet: a column has values of another type"):
            _ = Run(folder).series


def test_values_missing_in_older_runs_are_unknown(folder):
    path = folder / "series.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(list(SERIES_LATER)), path)
    series = Run(folder).series
    assert series.schema == table.schema
    assert all(series[column].null_count == series.num_rows for column in SERIES_LATER)


def test_histograms_of_microseconds_are_read_exactly(folder):
    """Run folders of Loadframe 0.1 count microseconds."""
    old = HdrHistogram(1, 3_600_000_000, 3)
    old.record_value(40)
    head = "#[Histogram log format version 1.3]\n"
    (folder / "histograms.hlog").write_text(f"{head}Tag=x,0.500,1.000,0.040,{old.encode().decode()}\n")
    histogram = Run(folder).histograms.total("x")
    assert (histogram.quantile(0.5), histogram.max, histogram.count) == (40e-6, 40e-6, 1)


def test_truncated_json_is_reported_with_its_place(folder):
    path = folder / "summary.json"
    path.write_text(path.read_text()[:100])
    with pytest.raises(BadInput, match=r"summary\.json:\d+:\d+: invalid JSON"):
        _ = Run(folder).summary


def test_json_without_an_object_is_bad_input(folder):
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(BadInput, match="not a JSON object"):
        Run(folder)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("summary.json", {"phases": [{"name": "range"}]}, r"phases\[0\]\.start is missing"),
        ("summary.json", {"status": 3}, "status: input should be a valid string, not 3"),
        ("summary.json", {"generator": []}, r"generator: .*, not \[\]"),
        ("manifest.json", {"block": "1"}, 'block: input should be a valid integer, not "1"'),
        ("manifest.json", {"hardware": {"load": [0.1, None]}}, r"hardware\.load\[1\]: .*valid number, not null"),
    ],
)
def test_a_damaged_field_is_named(folder, file, change, words):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BadInput, match=rf"{file}: {words}"):
        _ = Run(folder).summary


def test_a_damaged_operation_is_named(folder):
    path = folder / "summary.json"
    damaged = json.loads(path.read_text())
    damaged["phases"][0]["operations"]["range"]["response"]["p99"] = "fast"
    path.write_text(json.dumps(damaged))
    with pytest.raises(
        BadInput, match=r"phases\[0\]\.operations\.range\.response\.p99: input should be a valid number"
    ):
        _ = Run(folder).summary


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("duration",), "duration"),
        (("operations", "range", "throughput"), r"operations\.range\.throughput"),
        (("operations", "range", "errors", "timeout"), r"operations\.range\.errors\.timeout"),
        (("operations", "range", "response", "p99"), r"operations\.range\.response\.p99"),
    ],
)
def test_a_negative_number_in_a_phase_is_named(folder, keys, words):
    path = folder / "summary.json"
    damaged = json.loads(path.read_text())
    place = damaged["phases"][0]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = -1
    path.write_text(json.dumps(damaged))
    with pytest.raises(BadInput, match=rf"summary\.json: phases\[0\]\.{words}: the number is negative"):
        _ = Run(folder).summary


def test_a_pacing_that_is_neither_open_nor_closed_is_named(folder):
    path = folder / "summary.json"
    damaged = json.loads(path.read_text())
    damaged["phases"][0]["streams"][0]["pacing"] = {}
    path.write_text(json.dumps(damaged))
    with pytest.raises(
        BadInput, match=r"phases\[0\]\.streams\[0\]: .*a pacing is `open`, `closed`, `users` or `source`"
    ):
        _ = Run(folder).summary


def test_a_run_of_an_older_version_lacks_fields_and_one_of_a_newer_has_more(folder):
    path = folder / "summary.json"
    recorded = json.loads(path.read_text())
    (phase,) = recorded["phases"]
    del phase["set_aside"], phase["clock"], phase["streams"][0]["measured"], recorded["generator"]["away_share"]
    for key in ("failure", "all", "recall", "parts"):
        del phase["operations"]["range"][key]
    path.write_text(json.dumps(recorded | {"of a later version": {}}))
    (path.parent / "manifest.json").write_text('{"format": 1}')
    run = Run(folder)
    operation = run.summary.phases[0].operations["range"]
    assert (operation.all, operation.recall, operation.parts) == (None, None, {})
    assert (run.summary.phases[0].streams[0].measured, run.summary.generator.away_share) == (None, None)
    assert (run.manifest.session, run.manifest.hardware.yardstick, run.manifest.store.limits.in_force) == (
        None,
        (),
        False,
    )


def test_broken_events_are_reported_with_their_line(folder):
    with (folder / "events.jsonl").open("a") as events:
        events.write('{"time": 1.0,\n')
    with pytest.raises(BadInput, match=r"events\.jsonl:2:\d+: invalid JSON"):
        _ = Run(folder).events


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"kind": "added"}', "lacks its kind or its time"),
        ('{"time": 1.0}', "lacks its kind or its time"),
        ('{"time": NaN, "kind": "added"}', "NaN is not a finite number"),
        ('{"time": 1e999, "kind": "added"}', "1e999 is not a finite number"),
    ],
)
def test_events_without_kind_or_time_are_bad_input(folder, line, words):
    with (folder / "events.jsonl").open("a") as events:
        events.write(f"{line}\n")
    with pytest.raises(BadInput, match=rf"events\.jsonl:2: .*{words}"):
        _ = Run(folder).events


@pytest.mark.parametrize("command", ["report", "compare", "gate", "explore"])
def test_commands_refuse_events_that_are_cut_off(folder, command):
    path = folder / "events.jsonl"
    path.write_text(path.read_text()[:-20])
    other = shutil.copytree(folder, folder.parent / "other")
    others = ["--baseline", other] if command == "gate" else [other] if command == "compare" else []
    status, output, errors = within(command, folder, *others)
    assert (status, output) == (2, "")
    assert "events.jsonl: the file ends in the middle of a line\n  the run was damaged" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(("file", "column"), [("series", "response_p99"), ("telemetry", "value")])
def test_infinite_values_of_a_table_are_bad_input(folder, file, column, value):
    path = folder / f"{file}.parquet"
    table = pq.read_table(path)
    place = table.column_names.index(column)
    values = pa.array([value, *table[column].to_pylist()[1:]], pa.float64(), from_pandas=False)
    pq.write_table(table.set_column(place, column, values), path)
    with pytest.raises(BadInput, match=rf"{file}\.parquet: the column {column} has an infinite value or NaN"):
        getattr(Run(folder), file)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400"])
def test_infinite_figures_of_a_summary_are_bad_input(folder, value):
    path = folder / "summary.json"
    path.write_text(re.sub(r'"p99": [\d.e-]+', f'"p99": {value}', path.read_text(), count=1))
    with pytest.raises(BadInput, match=rf"summary\.json: invalid JSON: {value} is not a finite number"):
        _ = Run(folder).summary


def test_samples_without_a_finite_value_are_not_recorded(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        for value in (math.nan, 2.0, math.inf):
            writer.telemetry(0.5, "node:n1", "mean", value)
        run = Run(writer.finish(manifest().as_dict(), summary()))
    assert run.telemetry["value"].to_pylist() == [2.0]


@pytest.mark.parametrize("number", [2, 0, None, "1"])
def test_an_unknown_format_is_bad_input(folder, number):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": number}))
    with pytest.raises(BadInput, match="this version reads up to 1"):
        Run(folder)


@pytest.mark.parametrize("file", ["events.jsonl", "manifest.json", "summary.json"])
def test_json_that_is_nested_too_deep_is_bad_input(folder, file):
    (folder / file).write_text("[" * 100_000 + "\n")
    with pytest.raises(BadInput, match="nested too deep"):
        run = Run(folder)
        _ = run.manifest, run.summary, run.events


def test_a_command_refuses_a_folder_with_json_that_is_nested_too_deep(folder):
    (folder / "manifest.json").write_text("[" * 100_000)
    status, _, errors = within("report", folder)
    assert status == 2
    assert "nested too deep" in errors
    assert "Traceback" not in errors
