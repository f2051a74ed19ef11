"""Preparing phases are results only of complete runs that measured nothing else."""

import json
from dataclasses import replace

import pytest

import loadframe
from loadframe.analyze.compare.measures import measures_of
from loadframe.analyze.experiment import RecordedRun, read_experiment
from loadframe.record import Run
from loadframe.report.kinds import read_report
from made_up_runs import MadeUp, operation, phase, summary
from simulated import Truth, write_experiment

LOAD = phase("load", {"put": operation(100.0)}, prepares=True)
READ = phase("read", {"get": operation(50.0)})
CHECK = phase("check", {"count": operation(1.0)}, prepares=True)


@pytest.mark.parametrize(
    ("phases", "status", "measured"),
    [
        ((LOAD, READ, CHECK), "done", ["read"]),
        ((LOAD,), "done", ["load"]),
        ((LOAD,), "failed", []),
        ((LOAD,), "interrupted", []),
        ((LOAD, READ), "failed", ["read"]),
        ((LOAD, READ), "interrupted", ["read"]),
    ],
)
def test_only_a_complete_run_of_preparing_phases_has_them_as_results(phases, status, measured):
    made = replace(summary(*phases), status=status)
    assert [entry.name for entry in made.measured] == measured
    run = RecordedRun("r", 1, {}, MadeUp(made))
    assert run.sound == (status == "done")
    if status == "done":
        assert {entry.phase for entry in run.qualities} == set(measured)


@pytest.mark.parametrize("status", ["failed", "interrupted"])
@pytest.mark.parametrize("kind", ["scale", "settings"])
def test_an_experiment_has_no_results_of_runs_that_ended_while_preparing(tmp_path, status, kind):
    path = write_experiment(
        tmp_path / "e",
        Truth(noise=0.0),
        nodes=(1, 2),
        clients=(4, 8),
        kind=kind,
        objective="throughput",
        scheme="full",
        hard=[],
    )
    ended, *complete = sorted((path / "runs").iterdir())
    for folder in (ended, *complete):
        file = folder / "summary.json"
        document = json.loads(file.read_text())
        (measured,) = document["phases"]
        load = {**measured, "name": "load", "prepares": True}
        if folder is ended:
            # Its histograms belong to `range_100`, so the preparing phase keeps this name.
            document |= {"status": status, "phases": [{**measured, "prepares": True}]}
            document |= {"failure": "killed"} if status == "failed" else {}
            document |= {"fault": "generator"} if status == "failed" else {}
        else:
            document["phases"] = [load, measured, {**load, "name": "check"}]
        file.write_text(json.dumps(document))
    folder = read_experiment(path)
    assert ended.name in [run.id for run in folder.left_out]
    assert {measure.phase for measure in measures_of(folder.runs)} == {"range_100"}
    text = json.dumps(read_report(path).document)
    assert '"load"' not in text
    assert '"check"' not in text
    experiment = loadframe.open(path)
    assert not [name for name in experiment.runs.columns if name.startswith(("load.", "check."))]
    requests = sum(Run(run).histograms.total("range_100/range_100/response").count for run in complete)
    assert experiment.response_times().count == requests
    assert not Run(ended).summary.measured
