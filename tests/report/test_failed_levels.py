"""A scale experiment in which the store fails at some levels: the report names them, and does not draw over them."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from loadframe.analyze.scale.sweep import read_sweep
from loadframe.analyze.verdict.rules import NODE_LOST
from loadframe.record import RunWriter
from loadframe.report.kinds import read_report
from loadframe.report.kinds.scale import print_sweep
from loadframe.report.plots.scale import side_by_side
from loadframe.report.run_status import trust
from loadframe.report.scale_words import limits, treatment_rows
from loadframe.report.tables import speedup_table
from simulated import Truth, write_experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return an experiment in which nothing succeeds with 4 clients, and the store dies once of two with 8."""
    path = write_experiment(
        tmp_path_factory.mktemp("failed") / "e", Truth(seconds=2), nodes=(1,), clients=(1, 2, 4, 8, 16)
    )
    for block in (1, 2):
        file = path / "runs" / f"b{block}-nodes1-clients4" / "summary.json"
        summary = json.loads(file.read_text())
        for operation in summary["phases"][0]["operations"].values():
            operation.update(successes=0, throughput=0.0, documents_per_second=0.0, errors={"timeout": 100})
        reason = {"code": "errors", "cause": "all requests failed", "remedy": "mend it"}
        summary["verdict"] |= {"valid": False, "reasons": [reason], "figures": []}
        file.write_text(json.dumps(summary))
    file = path / "runs" / "b1-nodes1-clients8" / "summary.json"
    file.write_text(json.dumps({"status": "failed", "failure": "node-0 ended", "fault": "store"}))
    return path


def test_levels_at_which_the_store_failed_are_known(folder):
    (curves,) = read_sweep(folder).curves
    told = [tuple(level.figures[key] for key in ("clients", "failed", "total", "shown")) for level in curves.failed]
    assert told == [(4, 2, 2, False), (8, 1, 2, True)]
    assert [treatment.clients for treatment in curves.treatments] == [1, 2, 8, 16]
    assert [treatment.failed for treatment in curves.treatments] == [False, False, True, False]


def test_the_report_says_that_not_all_runs_are_used_and_names_the_failed(folder):
    assert trust(read_sweep(folder).folder).startswith(
        "7 of 10 runs are used; left out: 1 failed, 2 without a success."
    )
    report = read_report(folder)
    console = Console(file=io.StringIO(), width=250)
    report.show(console)
    for text in (" ".join(report.page.split()), " ".join(console.file.getvalue().split())):
        assert (
            "t 1 node, 4 clients the store failed in 2 of 2 runs (b1-nodes1-clients4, b2-nodes1-clients4: in phase"
            " range_100 no request succeeded): the curves lack this level" in text
        )
        assert (
            "t 1 node, 8 clients the store failed in 1 of 2 runs (b1-nodes1-clients8: node-0 ended): the curves"
            " include only the other runs" in text
        )
    assert "nothing succeeded" in report.page
    (curves,) = report.document["curves"]
    assert [(level["clients"], level["failed"], level["runs"]) for level in curves["failed"]] == [(4, 2, 2), (8, 1, 2)]
    assert report.document["excluded"] == [{"run": "b1-nodes1-clients8", "reason": "node-0 ended"}]


def test_a_run_that_was_made_again_has_failed_all_the_same(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1, 2, 4))
    name = "b1-nodes1-clients4"
    with RunWriter(path / "attempts", f"{name}.1") as writer:
        manifest = {"format": 1, "run": name, "treatment": {"nodes": 1, "clients": 4}, "block": 1}
        writer.finish(manifest, {"status": "failed", "failure": "node-0 ended", "fault": "store"})
    (curves,) = read_sweep(path).curves
    (level,) = curves.failed
    assert tuple(level.figures[key] for key in ("clients", "failed", "total")) == (4, 1, 3)
    assert f"{name}, attempt 1: node-0 ended" in level.cause


def test_a_run_that_failed_before_its_phase_belongs_to_the_level_of_its_treatment(tmp_path):
    """Without clients as a factor, only the streams of a phase show their number."""
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1, 2), clients=(8,), repetitions=3)
    description = json.loads((path / "experiment.json").read_text())
    description["factors"].pop("clients")
    for entry in description["design"]:
        entry["treatment"].pop("clients")
    (path / "experiment.json").write_text(json.dumps(description))
    crash = {"status": "failed", "failure": "node-0 ended", "fault": "store"}
    (path / "runs" / "b1-nodes2-clients8" / "summary.json").write_text(json.dumps(crash))
    (level,) = read_sweep(path).curves[0].failed
    assert level.cause == (
        "at 2 nodes, 8 clients the store failed in 1 of 3 runs (b1-nodes2-clients8: node-0 ended): the curves include"
        " only the other runs"
    )


def test_a_run_that_lost_a_node_is_named_as_part_of_the_curves(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1, 2, 4))
    file = path / "runs" / "b1-nodes1-clients4" / "summary.json"
    summary = json.loads(file.read_text())
    reason = {"code": NODE_LOST.code, "cause": "node-0 ended", "remedy": "see its log"}
    summary["verdict"] |= {"valid": False, "reasons": [reason], "figures": []}
    file.write_text(json.dumps(summary))
    (curves,) = read_sweep(path).curves
    assert len(curves.treatments[-1].points) == 2
    (level,) = curves.failed
    assert level.cause.endswith("in 1 of 2 runs (b1-nodes1-clients4: node-0 ended): the curves include 1 of these runs")
    assert "did not fail" not in level.remedy


@pytest.mark.slow
def test_the_best_number_of_clients_is_one_at_which_the_store_did_not_fail(tmp_path):
    truth = Truth(seconds=2, noise=0.0, kappa=0.0)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 2), clients=(1, 4, 8))
    assert [best.clients for best in read_sweep(path).curves[0].best] == [8, 8]
    crash = json.dumps({"status": "failed", "failure": "node-0 ended", "fault": "store"})
    (path / "runs" / "b1-nodes1-clients8" / "summary.json").write_text(crash)
    (curves,) = read_sweep(path).curves
    assert [best.clients for best in curves.best] == [4, 8]
    assert "without a failure of the store, if there is one" in " ".join(limits(curves))
    for clients in (1, 4):
        (path / "runs" / f"b1-nodes1-clients{clients}" / "summary.json").write_text(crash)
    assert [best.clients for best in read_sweep(path).curves[0].best] == [8, 8], "the store failed at all of one node"


def test_bounds_of_response_times_do_not_look_like_an_interval(folder):
    (curves,) = read_sweep(folder).curves
    treatment = replace(
        curves.treatments[0], response_p50=0.0178, response_p50_low=0.0104, response_p99=0.05, response_p99_low=0.0
    )
    columns, (row,) = treatment_rows(replace(curves, treatments=(treatment,)))
    texts = {name: (cell.text, cell.small) for name, cell in zip(columns, row, strict=True)}
    assert texts["p50"] == ("17.8 ms", "or less, down to 10.4 ms")
    assert texts["p99"] == ("50 ms", "or less")


def test_all_tables_of_a_scale_experiment_show_the_bounds_of_response_times(tmp_path):
    sweep = read_sweep(write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1, 2), clients=(4,), repetitions=2))
    (curves,) = sweep.curves
    times = {"response_p50": 0.0178, "response_p50_low": 0.0104, "response_p99": 0.05, "response_p99_low": 0.0}
    bounded = replace(
        curves,
        treatments=tuple(replace(treatment, **times) for treatment in curves.treatments),
        speedups=tuple(replace(row, treatment=replace(row.treatment, **times)) for row in curves.speedups),
    )
    for table in (speedup_table(bounded), side_by_side([bounded, bounded], "beside")):
        (row, *_) = table.rows
        smalls = {name: cell.small for name, cell in zip(table.columns, row, strict=True)}
        assert smalls["p50"].startswith("or less, down to 10.4 ms")
        assert smalls["p99"].startswith("or less")
    console = Console(file=io.StringIO(), width=250)
    print_sweep(replace(sweep, curves=(bounded,)), console)
    assert "or less, down to 10.4 ms" in console.file.getvalue()
