"""Tables and times of the library: their content equals the records, and percentiles merge exactly."""

import html
import json
import math
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import loadframe
from commands import result, within
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.percentiles import percentiles_of
from loadframe.record import Run
from loadframe.report.formats.tables import markdown
from loadframe.report.run_status import run_status, standing_of
from simulated import Truth, write_experiment, write_run

CHANGED = "b1-nodes1-clients4"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return loadframe.open(write_run(tmp_path_factory.mktemp("run"), "r", Truth(seconds=6)).path)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("experiments") / "nodes"
    truth = Truth(events=[(1.0, "node killed", {"node": "node-1", "counts": {"a": 1}})])
    write_experiment(path, truth, nodes=(1, 2), clients=(1, 4), repetitions=2, invalid=["b1-nodes1-clients1"])
    return loadframe.open(path)


def values(histogram):
    """Return every recorded value of a table of histograms."""
    return np.repeat(histogram["value"].to_numpy(), histogram["count"].to_numpy())


def rank_value(recorded, percent):
    """Return the smallest value that at least this percentage of the values do not exceed."""
    return np.sort(recorded)[max(math.ceil(percent / 100 * len(recorded)), 1) - 1]


def test_open_returns_the_kind_of_the_folder(run, experiment):
    assert isinstance(run, loadframe.Run)
    assert isinstance(experiment, loadframe.Experiment)


def test_open_refuses_other_folders(tmp_path):
    with pytest.raises(loadframe.BadInput, match="neither a run nor an experiment"):
        loadframe.open(tmp_path)
    with pytest.raises(loadframe.BadInput, match="no such run folder"):
        loadframe.open(tmp_path / "missing")


@pytest.mark.parametrize(
    "name", ["operations", "seconds", "histograms", "percentiles", "telemetry", "events", "samples"]
)
def test_tables_of_a_run_have_the_same_content_in_every_library(run, name):
    table = getattr(run, name)
    arrow, polars, pandas = table.to_arrow(), table.to_polars(), table.to_pandas()
    assert isinstance(arrow, pa.Table)
    assert polars.shape == pandas.shape == (len(table), len(table.columns)) == (arrow.num_rows, arrow.num_columns)
    assert pl.DataFrame(table).equals(polars)
    assert polars.to_dicts() == list(table)


def test_histograms_hold_every_request_and_seconds_equal_the_series(run):
    histograms = run.histograms.to_polars()
    of_kind = dict(histograms.group_by("kind").agg(pl.col("count").sum()).iter_rows())
    assert of_kind == {"response": run.response_times().count, "service": run.service_times().count}
    assert run.seconds.to_arrow() == pa.parquet.read_table(run.path / "series.parquet")


@pytest.mark.parametrize("percent", [1, 50, 90, 99, 99.9, 100])
def test_percentiles_of_seconds_are_those_of_all_their_requests(run, percent):
    histograms = run.histograms.to_polars().filter(kind="response")
    begin = histograms["time"].min() + 2
    chosen = histograms.filter(pl.col("time") >= begin)
    times = run.response_times(start=begin)
    assert times.count == chosen["count"].sum() < run.response_times().count
    assert times.percentile(percent) == rank_value(values(chosen), percent)


def test_percentiles_merge_over_runs_instead_of_being_averaged(experiment):
    one, many = (experiment.response_times(where={"clients": clients}) for clients in (1, 4))
    merged = experiment.response_times()
    assert merged.count == one.count + many.count == (one + many).count == sum([one, many]).count
    averaged = (one.percentile(99) + many.percentile(99)) / 2
    kept = [run for run in experiment.runs if run["valid"]]
    table = experiment.histograms.to_polars().filter(pl.col("run").is_in([run["run"] for run in kept]))
    exact = rank_value(values(table.filter(kind="response")), 99)
    assert merged.percentile(99) == sum([one, many]).percentile(99) == exact != averaged


@pytest.mark.parametrize(
    ("how", "valid"), [({"saturated": [CHANGED]}, True), ({"invalid": [CHANGED]}, False), ({}, True)]
)
def test_valid_has_one_meaning_for_runs_and_experiments(tmp_path, how, valid):
    path = write_experiment(tmp_path / "e", nodes=(1,), clients=(4,), repetitions=2, **how)
    folder = path / "runs" / CHANGED
    if "saturated" in how:
        # Earlier versions recorded runs with any reason as not valid.
        document = json.loads((folder / "summary.json").read_text())
        document["verdict"]["valid"] = False
        (folder / "summary.json").write_text(json.dumps(document))
    run, experiment = loadframe.open(folder), loadframe.open(path)
    (row,) = [row for row in experiment.runs if row["run"] == CHANGED]
    (listed,) = [entry for entry in result("report", path)["runs"] if entry["run"] == CHANGED]
    word = "valid" if valid else "not valid"
    _, standing = standing_of(Run(folder), percentiles_of(Run(folder)))
    assert standing.startswith("Valid" if valid else "Invalid")
    assert run.valid == row["valid"] == listed["verdict"]["valid"] == valid
    assert result("report", folder)["verdict"]["valid"] == valid
    assert f"{1 + valid} of 2 runs valid" in repr(experiment)
    assert repr(run) == f"<Run {CHANGED}: done, {word}>"
    assert f"done. {html.escape(standing)}" in run._repr_html_()
    assert f"| {word}{', bounded' if 'saturated' in how else ''} |" in markdown([Run(folder)])
    assert run_status(RecordedRun(CHANGED, 1, {}, Run(folder))) == (
        "bounded" if "saturated" in how else "valid" if valid else "invalid"
    )
    printed = within("report", folder)[1].lower()
    assert ("invalid: do not rely" in printed) != valid
    assert ("valid, bounded:" in printed) == ("saturated" in how)


def test_figures_leave_out_invalid_runs_unless_they_are_named(experiment):
    (invalid,) = [run["run"] for run in experiment.runs if not run["valid"]]
    at = {"nodes": 1, "clients": 1}
    both = experiment.response_times(where=at, runs=[run["run"] for run in experiment.runs])
    alone = experiment.response_times(runs=[invalid])
    assert both.count == experiment.response_times(where=at).count + alone.count
    assert alone.count == experiment[invalid].response_times().count > 0


def test_tables_of_an_experiment_name_run_and_factors(experiment):
    for name in ("operations", "seconds", "histograms", "percentiles", "telemetry", "events"):
        table = getattr(experiment, name).to_polars()
        nodes = "factor.nodes" if name == "events" else "nodes"
        assert table.columns[:3] == ["run", nodes, "clients"], name
        assert set(table["run"]) == {run.name for run in experiment}, name
    killed = experiment.events.to_polars().filter(kind="node killed")
    assert set(killed["counts"]) == {'{"a": 1}'}
    assert len(experiment.runs) == len(experiment) == 8


TABLES = ("design", "runs", "operations", "seconds", "histograms", "percentiles", "telemetry", "events")


def with_treatments(path, *treatments, events=()):
    """Write an experiment of two runs with these treatments and events."""
    folder = write_experiment(path, Truth(seconds=2, events=events), nodes=(1, 2), clients=(1,), repetitions=1)
    file = folder / "experiment.json"
    document = json.loads(file.read_text())
    for entry, treatment in zip(document["design"], treatments, strict=True):
        entry["treatment"] = treatment
    file.write_text(json.dumps(document))
    return loadframe.open(folder)


def test_a_factor_with_the_name_of_a_column_has_a_prefix_in_that_table(tmp_path):
    treatments = [{"nodes": n, "operation": "a", "requests": 5 * n, "status": "b"} for n in (1, 2)]
    killed = [(1.0, "node killed", {"nodes": ["node-1"]})]
    experiment = with_treatments(tmp_path / "e", *treatments, events=killed)
    columns = {name: getattr(experiment, name).columns for name in TABLES}
    assert all(len(names) == len(set(names)) for names in columns.values())
    renamed = {name: [it for it in names if it.startswith("factor.")] for name, names in columns.items()}
    assert renamed == {
        "design": [],
        "runs": ["factor.status"],
        "operations": ["factor.operation", "factor.requests"],
        "seconds": ["factor.operation", "factor.requests"],
        "histograms": ["factor.operation"],
        "percentiles": ["factor.operation"],
        "telemetry": [],
        "events": ["factor.nodes"],
    }
    events = experiment.events.to_polars().filter(kind="node killed")
    assert events.select("factor.nodes", "nodes").rows() == [(1, '["node-1"]'), (2, '["node-1"]')]
    assert experiment.operations.to_polars()["factor.requests"].unique().sort().to_list() == [5, 10]


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        ((1, "auto"), ["1", "auto"]),
        ((1.0, "auto"), ["1.0", "auto"]),
        ((True, 1), ["True", "1"]),
        ((True, "auto"), ["True", "auto"]),
        ((1, 2.5), [1.0, 2.5]),
        ((None, 3), [None, 3]),
        ((2**70, 1), [str(2**70), "1"]),
        (([1], {"a": 1}), ["[1]", '{"a": 1}']),
    ],
)
def test_levels_of_several_types_are_the_same_values_in_all_tables(tmp_path, levels, shown):
    events = [(1.0, "changed", {"what": level}) for level in levels]
    experiment = with_treatments(tmp_path / "e", *({"with.x": level} for level in levels), events=events)
    for name in TABLES:
        table = getattr(experiment, name).to_polars()
        assert table.select("run", "with.x").unique().sort("run")["with.x"].to_list() == shown, name
    assert [event["what"] for event in experiment.events if event["kind"] == "changed"] == shown * 2


def test_events_with_different_fields_in_each_run_become_one_table(tmp_path):
    experiment = with_treatments(tmp_path / "e", {"with.x": 1}, {"with.x": 2})
    for number, (value, run) in enumerate(zip((True, 2), experiment, strict=True)):
        with (run.path / "events.jsonl").open("a") as file:
            file.write(json.dumps({"time": 9.0, "wall": "", "kind": "k", "what": value, f"only{number}": 1}) + "\n")
    events = experiment.events.to_polars().filter(kind="k")
    assert events.select("what", "only0", "only1").rows() == [("True", 1, None), ("2", None, 1)]


def test_selections_name_the_nearest_word(run, experiment):
    for select, message in (
        (lambda: run.response_times(operation="range_10"), "unknown operation 'range_10'"),
        (lambda: run.response_times(phase="lod"), "unknown phase 'lod'"),
        (lambda: experiment.response_times(where={"node": 1}), "unknown factor 'node'.*\n.*nodes"),
        (
            lambda: experiment.response_times(where={"clients": "4"}),
            "unknown level '4' of clients.*\n.*levels are 4, 1",
        ),
        (lambda: experiment["b1-nodes1-clients9"], "unknown run"),
        (lambda: run.response_times().percentile(101), "from 0 to 100; got 101"),
    ):
        with pytest.raises(loadframe.BadInput, match=message):
            select()


def test_texts_of_single_things_are_singular(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1,), repetitions=1)
    experiment = loadframe.open(path)
    assert repr(experiment) == "<Experiment simulated: scale, 1 of 1 run valid>"
    assert repr(experiment.runs).startswith("<Table runs: 1 row, ")


def test_an_empty_selection_has_no_percentile(run):
    times = run.response_times(start=1e6)
    assert times.count == 0
    assert math.isnan(times.percentile(99))
    assert math.isnan(run.failure_times().mean)
    assert "0 requests" in repr(times)
    assert "nan" not in times._repr_html_()


def test_shares_above_a_time_count_its_requests(run):
    recorded = values(run.histograms.to_polars().filter(kind="response"))
    limit = float(np.sort(recorded)[len(recorded) // 2])
    assert run.response_times().share_above(limit) == pytest.approx(float((recorded > limit).mean()))


@pytest.mark.parametrize("name", ["polars", "pandas"])
def test_a_missing_library_is_named_with_its_extra(run, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(loadframe.BadInput, match=rf"{name} is not installed\n.*loadframe\[{name}\]"):
        getattr(run.seconds, f"to_{name}")()


def test_notebooks_show_escaped_tables(run, experiment):
    assert "<th>operation</th>" in run._repr_html_()
    assert "12 rows" not in experiment.runs._repr_html_()
    assert "Excerpt of" in run.seconds._repr_html_()
    table = loadframe.Table("t", lambda: pa.table({"<b>": ["<script>\x1b[31m"]}))
    assert "<script>" not in table._repr_html_()
    assert "<b>" not in table._repr_html_()
    assert "\x1b" not in table._repr_html_()
