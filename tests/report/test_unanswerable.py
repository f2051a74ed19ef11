"""Questions that valid runs cannot answer: a message after the report, and status 2."""

import json

import pytest

from commands import within
from elastic_folder import write_elastic
from loadframe.report.kinds import read_report
from simulated import Truth, write_run


def capacity_folder(path, response):
    """A search that may not go below the rate at which it starts, and fails there unless the SLO is wide."""
    truth = Truth(seconds=5, warmup=1, rate=10.0, noise=0.0)
    design = []
    (path / "runs").mkdir(parents=True)
    for trial in (1, 2):
        name, treatment = f"b1-nodes1-rate10-t{trial}", {"nodes": 1, "rate": 10.0}
        design.append({"run": name, "block": 1, "treatment": treatment})
        write_run(path / "runs", name, truth, seed=trial, treatment=treatment, block=1, repetition=1)
    description = {
        "experiment": "known",
        "kind": "capacity",
        "store": {"kind": "sim", "nodes": 1},
        "workload": "nyc_taxis",
        "factors": {"nodes": [1]},
        "measure": ["range_100"],
        "prepare": [],
        "slo": {"response": response, "percentile": "p99", "errors": 0.01},
        "search": {"start": 10.0, "least": 10.0, "most": 100.0, "factor": 2.0, "precision": 0.05},
        "demands": [],
        "repetitions": 1,
        "seed": 1,
        "file": "",
        "design": design,
    }
    (path / "experiment.json").write_text(json.dumps(description))
    return path


def test_an_slo_that_no_rate_meets(tmp_path):
    path = capacity_folder(tmp_path / "e", response=1e-6)
    status, told, said = within("report", path)
    assert status == 2
    assert "no rate meets the SLO. At 10/s, the lowest tried" in told, "the report comes first"
    assert "no rate meets the SLO: p99 within 1 us" in said
    assert "search: least" in said


def test_a_search_that_is_not_done_may_have_an_answer_yet(tmp_path):
    assert read_report(capacity_folder(tmp_path / "e", response=3600.0)).unanswerable is None


@pytest.mark.parametrize(("fired", "status"), [(False, 2), (True, 0)])
def test_triggers_that_never_fire(tmp_path, fired, status):
    path = write_elastic(tmp_path / "e", repetitions=1, fired=fired)
    done, _, said = within("report", path)
    assert done == status
    assert ("no trigger fired in any run" in said) == (not fired)
