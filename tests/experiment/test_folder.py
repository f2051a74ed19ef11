"""The folder of an experiment: begun, gone on with, refused to others, used by one process at a time."""

import json
import subprocess
import sys

import pytest

from loadframe.analyze.experiment import read_experiment
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.experiment.design import PlannedRun
from loadframe.experiment.runner.folder import ExperimentFolder, RecordedRuns
from loadframe.experiment.runner.listener import Labels
from loadframe.record import Run
from loadframe.record.reader import attempts
from loadframe.report.run_status import trust

DESCRIPTION = {
    "experiment": "e",
    "question": "How far?",
    "with": {"documents": 100},
    "duration": 5.0,
    "repetitions": 1,
    "file": "experiment: e",
    "design": [{"run": "b1-nodes1", "block": 1, "treatment": {"nodes": 1}}],
}
ASKED = {"workload": {"name": "w"}, "store": {"kind": "opensearch"}, "seed": 1, "generator": {"ranks": 1, "threads": 1}}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results" / "e"


def begun(path, **changes):
    return ExperimentFolder(path, DESCRIPTION | changes)


def with_a_run(path, **changes):
    """Leave a folder that holds a run, closed again as by the end of a command."""
    begun(path, **changes).record_failure("b1-nodes1", Labels({"nodes": 1}, 1, 1), ASKED, StoreFailed("no luck"))


def test_a_new_folder_has_the_design_without_runs(folder):
    new = begun(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "experiment.json", "runs"]
    assert not new.has("b1-nodes1")
    assert new.failed() == []


def test_a_failure_is_a_run_with_its_labels_and_its_cause_and_is_kept_as_an_attempt(folder):
    with_a_run(folder)
    again = begun(folder)
    assert again.has("b1-nodes1")
    assert again.failed() == ["b1-nodes1"]
    run = Run(folder / "runs" / "b1-nodes1")
    assert (run.raw_summary["status"], run.raw_summary["failure"]) == ("failed", "no luck")
    assert (run.raw_manifest["treatment"], run.raw_manifest["block"], run.raw_manifest["repetition"]) == (
        {"nodes": 1},
        1,
        1,
    )
    assert run.series.num_rows == 0
    again.set_aside("b1-nodes1")
    assert not again.has("b1-nodes1") and again.failed() == []
    (attempt,) = attempts(folder)
    assert (attempt.run_id, attempt.number, attempt.run.summary.failure) == ("b1-nodes1", 1, "no luck")
    again.record_failure("b1-nodes1", Labels({"nodes": 1}, 1, 1), ASKED, StoreFailed("still none"))
    again.set_aside("b1-nodes1")
    assert [(it.number, it.run.summary.failure) for it in attempts(folder)] == [(1, "no luck"), (2, "still none")]


def test_runs_that_follow_from_others_are_written_down_once_and_read_back(folder):
    with_a_run(folder, kind="scale", factors={"nodes": [1]}, measure=["look"])
    follows = PlannedRun("b2-nodes4", 2, {"nodes": 4}, "nodes=4")
    for _ in range(2):
        # It is still the same experiment, and goes on.
        begun(folder, kind="scale", factors={"nodes": [1]}, measure=["look"]).extend([follows])
    runs = read_experiment(folder).runs
    assert [(run.id, run.status, run.treatment["nodes"]) for run in runs] == [
        ("b1-nodes1", "failed", 1),
        ("b2-nodes4", "missing", 4),
    ]


def test_a_reworded_experiment_can_be_resumed(folder):
    with_a_run(folder)
    assert begun(folder, question="How far indeed?", file="# a remark\nexperiment: e").has("b1-nodes1")


def test_the_objective_and_axes_of_a_scale_experiment_may_change_after_runs(folder):
    with_a_run(folder, kind="scale", objective="throughput")
    begun(folder, kind="scale", objective="documents", axes={"with.size": "log"})
    told = json.loads((folder / "experiment.json").read_text())
    assert (told["objective"], told["axes"]) == ("documents", {"with.size": "log"})


def test_the_objective_of_settings_decides_which_runs_are_made_and_stays(folder):
    with_a_run(folder, kind="settings", objective="p99")
    with pytest.raises(BadInput, match="other values of `objective`"):
        begun(folder, kind="settings", objective="p50")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"duration": 6.0}, "`duration`"),
        ({"with": {"documents": 200}}, "`with`"),
        ({"repetitions": 2, "design": []}, "`repetitions`"),
        ({"duration": 1.0, "experiment": "f"}, "`experiment` and `duration`"),
        ({"duration": 1.0, "with": {}, "repetitions": 2}, "`with`, `duration` and `repetitions`"),
        ({"design": []}, "`design`"),
    ],
)
def test_another_experiment_is_refused_once_there_are_runs(folder, changes, named):
    with_a_run(folder)
    before = (folder / "experiment.json").read_text()
    with pytest.raises(BadInput, match=f"the folder holds an experiment with other values of {named}\n") as caught:
        begun(folder, **changes)
    assert "--output" in str(caught.value.remedy)
    assert (folder / "experiment.json").read_text() == before


def test_an_error_removes_a_new_folder_without_runs_and_keeps_others(folder, tmp_path):
    def ended(path):
        with pytest.raises(BadInput), begun(path) as experiment:
            if path.name == "recorded":
                experiment.record_failure("b1-nodes1", Labels({"nodes": 1}, 1, 1), ASKED, StoreFailed("no luck"))
            raise BadInput("refused")
        return path.exists()

    assert not ended(folder)
    begun(folder).close()
    assert ended(folder)
    assert ended(tmp_path / "recorded")
    with begun(tmp_path / "done"):
        pass
    assert (tmp_path / "done" / "experiment.json").exists()


def test_a_folder_is_checked_without_being_changed(folder):
    recorded = RecordedRuns(folder)
    recorded.require_fitting(DESCRIPTION)
    assert not folder.exists()
    with_a_run(folder)
    before = sorted(folder.rglob("*"))
    recorded.require_fitting(DESCRIPTION)
    with pytest.raises(BadInput, match="other values of `duration`"):
        recorded.require_fitting(DESCRIPTION | {"duration": 6.0})
    assert sorted(folder.rglob("*")) == before


def test_an_experiment_without_runs_may_be_corrected(folder):
    begun(folder, duration=-1.0)
    begun(folder)
    with_a_run(folder)


def test_a_folder_of_something_else_is_left_alone(folder):
    folder.mkdir(parents=True)
    (folder / "thesis.tex").touch()
    with pytest.raises(BadInput, match="the folder is not empty and does not hold an experiment"):
        begun(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_refused(folder):
    folder.parent.mkdir()
    folder.touch()
    with pytest.raises(BadInput, match="cannot write to the folder"):
        begun(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '"e"'])
def test_a_damaged_description_is_named(folder, content):
    with_a_run(folder)
    (folder / "experiment.json").write_text(content)
    with pytest.raises(BadInput) as caught:
        begun(folder)
    assert str(caught.value.where) == str(folder / "experiment.json")


def test_a_run_that_is_not_whole_is_none(folder):
    new = begun(folder)
    (folder / "runs" / ".b1-nodes1.partial-elsewhere-1-1").mkdir()
    assert not new.has("b1-nodes1")
    assert new.failed() == []


def test_two_commands_do_not_work_in_one_folder(folder):
    program = f"""
import sys
from pathlib import Path
from loadframe.experiment.runner.folder import ExperimentFolder, RecordedRuns
folder = ExperimentFolder(Path({str(folder)!r}), {DESCRIPTION!r})
print("holds", flush=True)
sys.stdin.read()
"""
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "holds\n"
        with pytest.raises(BadInput, match="another loadframe process is running this experiment"):
            begun(folder)
    finally:
        other.kill()
        other.communicate()
    assert begun(folder)


INSTRUMENT = {"loadframe": "0.1.0", "hostname": "m1"}


def test_another_instrument_is_a_new_session_that_is_named(folder):
    with_a_run(folder)
    assert begun(folder).begin_session({"redis": "8.0"}, INSTRUMENT) == []
    changed = begun(folder).begin_session({"redis": "8.0"}, INSTRUMENT | {"loadframe": "0.2.0", "hostname": "m2"})
    assert changed == ["loadframe: 0.1.0 → 0.2.0", "hostname: m1 → m2"]


@pytest.mark.parametrize("now", [{"redis": "8.2"}, {"redis": "8.0", "policy p.py": "0123"}, {}])
def test_another_version_of_the_system_under_test_is_refused_after_the_first_run(folder, now):
    begun(folder, kind="scale", factors={"nodes": [1]}, measure=["look"]).begin_session({"redis": "7.4"}, INSTRUMENT)
    parts = {"kind": "scale", "factors": {"nodes": [1]}, "measure": ["look"]}
    # A different version is accepted while the folder has no runs.
    begun(folder, **parts).begin_session({"redis": "8.0"}, INSTRUMENT)
    with_a_run(folder, **parts)
    begun(folder, **parts).begin_session({"redis": "8.0"}, INSTRUMENT)
    with pytest.raises(BadInput, match=r"the system under test has changed .*(redis: 8.0 → |policy p.py: none → 0123)"):
        begun(folder, **parts).begin_session(now, INSTRUMENT)
    begun(folder, **parts).begin_session({"redis": "8.0"}, INSTRUMENT | {"hostname": "m2"})
    assert read_experiment(folder).changed == ("hostname: m1 → m2",)
    assert "changed between sessions: hostname: m1 → m2." in trust(read_experiment(folder))


def test_a_key_that_was_removed_from_the_file_is_a_different_experiment(folder):
    with_a_run(folder, finish=["clean"])
    with pytest.raises(BadInput, match="other values of `finish`\n"):
        begun(folder)
    begun(folder, finish=["clean"])
