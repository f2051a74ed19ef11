"""Why runs are left out: each run is counted once for a reason."""

import json
import math
from dataclasses import replace

import pytest

import loadframe
from commands import within
from loadframe.analyze.compare import read_groups
from loadframe.analyze.experiment import read_experiment
from loadframe.analyze.percentiles import Percentile, percentiles_of
from loadframe.analyze.verdict.rules import NOT_ACHIEVED, severity_of
from loadframe.record import Run
from loadframe.record.reader import set_aside
from loadframe.report.run_status import exclusions, standing_of, trust
from loadframe.report.tables import runs_table
from simulated import Truth, write_experiment, write_run


def test_a_run_that_has_a_reason_in_two_phases_is_one_run(tmp_path):
    left_out = "b1-nodes1-clients4"
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4,), invalid=[left_out])
    file = path / "runs" / left_out / "summary.json"
    summary = json.loads(file.read_text())
    summary["verdict"]["reasons"] *= 2
    file.write_text(json.dumps(summary))
    (group,) = exclusions(read_experiment(path))
    assert group.runs == (left_out,)


def test_a_group_of_runs_has_the_cause_and_remedy_of_its_worst_run(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4,), repetitions=3)
    lags = {"b1-nodes1-clients4": 0.00697, "b2-nodes1-clients4": 0.0251, "b3-nodes1-clients4": None}
    for name, lag in lags.items():
        reason = {"code": "loop_lag", "cause": f"lagged by {lag}", "remedy": f"wait {lag}", "phase": "range_100"}
        file = path / "runs" / name / "summary.json"
        summary = json.loads(file.read_text())
        # Earlier versions recorded no severity.
        summary["verdict"]["reasons"] = [reason | ({"severity": lag} if lag else {})]
        bound = {"phase": "range_100", "figure": "throughput", "state": "bounded", "low": {"value": 1.0}}
        summary["verdict"]["figures"] = [bound]
        file.write_text(json.dumps(summary))
    (group,) = exclusions(read_experiment(path))
    assert (group.runs, group.cause, group.remedy) == (tuple(lags), "at worst, lagged by 0.0251", "wait 0.0251")


def test_the_verdict_records_the_figure_that_compares_reasons_of_a_rule(tmp_path):
    recorded = {
        name: Run(write_run(tmp_path, name, truth).path).summary.verdict.reasons
        for name, truth in {"mild": Truth(cpu_share=0.9), "bad": Truth(cpu_share=0.97)}.items()
    }
    severities = {
        name: [it.severity for it in reasons if it.code == "generator_cpu"] for name, reasons in recorded.items()
    }
    assert severities == {"mild": [0.9], "bad": [0.97]}
    low, high = (NOT_ACHIEVED(phase="b", achieved=share, warmup=60.0) for share in (0.1, 0.9))
    assert severity_of(low) > severity_of(high), "the smaller share is worse"


def test_a_failure_of_the_store_that_was_retried_is_still_one(tmp_path):
    name, fine = "b1-nodes1-clients4", "b2-nodes1-clients4"
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4,), failed=[name])
    file = path / "runs" / name / "summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"fault": "store"}))
    set_aside(path, path / "runs" / name)
    other = write_experiment(tmp_path / "other", Truth(seconds=2), nodes=(1,), clients=(4,))
    (other / "runs" / name).rename(path / "runs" / name)
    folder = read_experiment(path)
    assert [run.id for run in folder.used] == [name, fine]
    assert trust(folder) == ("All 2 runs are valid. 1 earlier attempt failed, 1 because of the store.")
    assert [run.id for run in folder.failed] == [f"{name}, attempt 1"]
    (group,) = exclusions(folder)
    assert group.runs == (f"{name}, attempt 1",)
    (compared,) = read_groups([str(path)])
    assert [run.id for run in compared.failed] == [f"{name}, attempt 1"]


def test_a_failed_run_with_a_verdict_on_its_first_phases_says_why_it_failed(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4, 8), repetitions=1)
    file = path / "runs" / "b1-nodes1-clients8" / "summary.json"
    reason = {"code": "errors", "cause": "3 % of the requests failed", "remedy": "see the messages"}
    summary = json.loads(file.read_text())
    summary |= {"status": "failed", "failure": "node-0 ended", "fault": "store"}
    summary["verdict"] |= {"valid": False, "reasons": [reason]}
    file.write_text(json.dumps(summary))
    groups = {group.cause: group.runs for group in exclusions(read_experiment(path))}
    assert groups == dict.fromkeys(("3 % of the requests failed", "node-0 ended"), ("b1-nodes1-clients8",))


def test_a_bounded_run_without_a_reason_says_why_and_is_not_called_failed(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4,), repetitions=1)
    folder = read_experiment(path)
    (run,) = folder.runs
    file = path / "runs" / run.id / "summary.json"
    summary = json.loads(file.read_text())
    (phase, *_) = folder.description["measure"]
    bound = {"phase": phase, "figure": "throughput", "state": "bounded", "reasons": ["starved"], "low": {"value": 1.0}}
    summary["verdict"]["figures"] = [bound]
    file.write_text(json.dumps(summary))
    (group,) = exclusions(read_experiment(path))
    assert group.runs == (run.id,)
    assert "bound some figures" in group.cause and "failed" not in group.remedy


def test_a_valid_run_beside_other_programs_names_them(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4,), repetitions=2)
    name = "b1-nodes1-clients4"
    file = path / "runs" / name / "summary.json"
    summary = json.loads(file.read_text())
    reason = {"code": "contended", "cause": "other programs: rustc", "remedy": "stop", "phase": "range_100"}
    summary["verdict"]["reasons"].append(reason | {"severity": 0.4})
    file.write_text(json.dumps(summary))
    folder = read_experiment(path)
    assert [run.id for run in folder.used if run.sound] == [run.id for run in folder.runs]
    (group,) = exclusions(folder)
    assert (group.runs, group.cause) == ((name,), "other programs: rustc")
    assert "other programs used the processors of the nodes in 1 of 2" in trust(folder)
    table = runs_table(folder.runs, ["clients"])
    causes = {row[0].text: row[table.columns.index("why")].text for row in table.rows}
    assert causes == {folder.runs[0].id: "other programs: rustc", folder.runs[1].id: ""}
    rows = loadframe.open(path).runs.to_polars()
    assert dict(zip(rows["run"], rows["why"], strict=True)) == {name: why or None for name, why in causes.items()}


@pytest.mark.parametrize(
    ("codes", "standing"),
    [
        (["not_achieved"], "Valid: the problems below are results of the store; too short for 95 % intervals."),
        (["imprecise"], "Valid, with problems: see below; too short for 95 % intervals."),
        (["not_achieved", "imprecise"], "Valid, with problems: see below; too short for 95 % intervals."),
        (["not_achieved", "contended"], "disturbed the cluster's machines: see the problems below."),
    ],
)
def test_the_verdict_calls_problems_of_the_store_only_results_of_the_store(tmp_path, codes, standing):
    path = write_run(tmp_path, "r1", Truth(seconds=2)).path
    summary = json.loads((path / "summary.json").read_text())
    reason = {"cause": "what happened", "remedy": "what to do", "phase": "range_100"}
    summary["verdict"]["reasons"] = [reason | {"code": code} for code in codes]
    (path / "summary.json").write_text(json.dumps(summary))
    run = Run(path)
    assert standing_of(run, percentiles_of(run))[1].endswith(standing)
    assert standing_of(run, {"range_100": {}})[1].endswith(standing.replace("; too short for 95 % intervals", ""))
    assert within("report", path, "--export", tmp_path / "csv", "--format", "csv")[0] == 0
    quoted = (tmp_path / "csv" / "answer.txt").read_text().splitlines()[0]
    assert quoted.endswith(f"{standing.replace('Valid', 'valid').removesuffix('.')}).")


def test_a_run_without_intervals_is_too_short_or_has_too_few_requests(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=2))
    few = {"p50": Percentile(0.1, 0.0, math.inf, 5, too_short=False)}
    short = {"p50": Percentile(0.1, 0.0, math.inf, 500, too_short=True)}
    for operations, why in (
        ({"read": few}, "too few requests for 95 % intervals"),
        ({"read": short}, "too short for 95 % intervals"),
        ({"read": few, "write": short}, "too short, or too few requests, for 95 % intervals"),
    ):
        assert standing_of(run, {"range_100": operations}) == ("bounded", f"Valid, but {why}.")


@pytest.mark.parametrize(
    ("stop", "lacks"), [({"requests": 1}, False), ({"requests": 2}, True), ({"duration": 2}, True)]
)
def test_a_phase_of_a_single_request_needs_no_interval(tmp_path, stop, lacks):
    run = write_run(tmp_path, "r1", Truth(seconds=2))
    planned = [{"name": "range_100", "streams": [{"stop": stop}]}]
    run.__dict__["manifest"] = replace(run.manifest, workload=replace(run.manifest.workload, phases=planned))
    assert (standing_of(run, percentiles_of(run))[0] == "bounded") == lacks
