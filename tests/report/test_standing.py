"""Why runs are left out: each run is counted once for a reason."""

import json

from loadframe.analyze.experiment import read_experiment
from loadframe.report.standing import exclusions
from simulated import Truth, write_experiment


def test_a_run_that_has_a_reason_in_two_phases_is_one_run(tmp_path):
    left_out = "b1-nodes1-clients4"
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(4,), invalid=[left_out])
    file = path / "runs" / left_out / "summary.json"
    summary = json.loads(file.read_text())
    summary["verdict"]["reasons"] *= 2
    file.write_text(json.dumps(summary))
    (group,) = exclusions(read_experiment(path))
    assert group.runs == (left_out,)
