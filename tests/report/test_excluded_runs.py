"""Reports of every kind name each run that figures leave out, or that the store failed in, with its reason."""

import json
import shutil

import pytest
from pages import Page
from test_further import capacity, printed

from commands import within
from elastic_folder import write_elastic
from loadframe.analyze.experiment import read_experiment
from loadframe.record import RunWriter
from loadframe.record.reader import set_aside
from loadframe.report.kinds import read_report
from loadframe.report.run_status import trust
from simulated import Truth, write_experiment, write_run, write_variants

CRASHED, SPOILT, LOST, EARLIER = (
    "rank 1 was killed",
    "1 of 2 copies is out of service",
    "2 of 2,000 acknowledged documents are missing in taxis",
    "node-0 ended",
)


def crash(folder, run, failure=CRASHED, fault="generator"):
    """Replace a run by a failed one."""
    place = folder / "runs" / run
    manifest = json.loads((place / "manifest.json").read_text())
    shutil.rmtree(place)
    with RunWriter(folder / "runs", run) as writer:
        writer.finish(manifest, {"status": "failed", "failure": failure, "fault": fault})


def judge(place, code, cause):
    """Give a run a verdict with one reason."""
    file = place / "summary.json"
    summary = json.loads(file.read_text())
    reason = {"code": code, "cause": cause, "remedy": "repair it"}
    summary["verdict"] = {"valid": False, "reasons": [reason], "not_judged": [], "explained": [], "figures": []}
    file.write_text(json.dumps(summary))


def settings(path):
    path = write_experiment(path, Truth(seconds=2), nodes=(1,), clients=(4, 8), repetitions=3)
    changed = {"kind": "settings", "scheme": "full", "objective": "throughput", "hard": [], "at": {}, "confirm": 0}
    changed["factors"] = {"clients": [4, 8]}
    return described(path, changed)


def described(path, changed):
    file = path / "experiment.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    return path


KINDS = {
    "scale": lambda path: write_experiment(path, Truth(seconds=2), nodes=(1,), clients=(1, 2, 4), repetitions=2),
    "compare": lambda path: write_variants(path, {"old": Truth(seconds=2), "new": Truth(seconds=2)}, repetitions=2),
    "settings": settings,
    "elastic": lambda path: write_elastic(path, repetitions=3),
    "capacity": capacity,
}


def damaged(path, kind):
    """Write an experiment with a crashed, an invalid and a losing run, a failed attempt and a run with lag.

    Return the first three names with their reasons: the excluded ones, and the losing one.
    """
    folder = KINDS[kind](path)
    names = [entry["run"] for entry in json.loads((folder / "experiment.json").read_text())["design"]]
    if kind == "capacity":
        # Trials are in the order of the search.
        names = [f"b1-nodes1-rate10-t{trial}" for trial in (1, 2, 3, 4)]
        for number, name in enumerate(names):
            write_run(folder / "runs", name, Truth(rate=10.0), seed=number, block=1,
                      treatment={"nodes": 1, "rate": 10.0})  # fmt: skip
        design = [{"run": name, "block": 1, "treatment": {"nodes": 1, "rate": 10.0}} for name in names]
        described(folder, {"design": design})
    crashed, spoilt, lost = names[:3]
    last = folder / "runs" / names[-1]
    shutil.copytree(last, folder / "again")
    crash(folder, names[-1], EARLIER, "store")
    set_aside(folder, last)
    (folder / "again").rename(last)
    judge(last, "loop_lag", "the event loops lagged")
    crash(folder, crashed)
    judge(folder / "runs" / spoilt, "cluster_state", SPOILT)
    judge(folder / "runs" / lost, "documents_lost", LOST)
    return folder, {crashed: CRASHED, spoilt: SPOILT}, {lost: LOST}


@pytest.mark.parametrize("kind", KINDS)
def test_each_excluded_run_is_named_with_its_reason(kind, tmp_path):
    folder, excluded, failed = damaged(tmp_path / "e", kind)
    report = read_report(folder)
    told = report.document["excluded"]
    entries = list(told) if isinstance(told, list) else [entry for group in told.values() for entry in group]
    reasons = {entry["run"]: entry["reason"] for entry in entries}
    assert excluded.items() <= reasons.items()
    assert "selection" in report.document
    page, text = Page(report.page).text, " ".join(printed(report).split())
    for where in (page, text):
        for name, reason in (excluded | failed).items():
            assert name in where
            assert reason in where
        assert EARLIER in where, "an earlier attempt that the store failed"
    warned = report.document["warned_runs"]
    assert warned["warned"] == {"loop_lag": 1}
    unfolded = " ".join(" ".join(Page(report.page).unfolded).split())
    for where in (unfolded, text, trust(read_experiment(folder))):
        assert f"Beware: the generator's event loops lagged in 1 of {warned['total']} runs (loop_lag)" in where


def test_the_terminal_names_three_bounded_runs_and_counts_the_others(tmp_path):
    folder = KINDS["scale"](tmp_path / "e")
    names = sorted(run.name for run in (folder / "runs").iterdir())
    for name in names:
        judge(folder / "runs" / name, "loop_lag", "the event loops lagged")
    report = read_report(folder)
    text = " ".join(printed(report).split())
    assert f"{len(names)} runs: " in text
    assert f"and {len(names) - 3} more the event loops lagged" in text
    assert all(name in Page(report.page).text for name in names)


@pytest.mark.parametrize("command", ["compare", "gate", "history"])
def test_commands_name_each_excluded_run_with_its_reason(command, tmp_path):
    for name in ("old", "new"):
        for number in range(6):
            write_run(tmp_path / name, f"{name}{number}", Truth(seconds=2), seed=number + 10 * (name == "new"))
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "runs").symlink_to(tmp_path / "new")
    crash(tmp_path / "e", "new0")
    judge(tmp_path / "new" / "new1", "cluster_state", SPOILT)
    judge(tmp_path / "new" / "new2", "documents_lost", LOST)
    judge(tmp_path / "new" / "new3", "loop_lag", "the event loops lagged")
    words = {
        "compare": ("compare", tmp_path / "old", tmp_path / "new"),
        "gate": ("gate", tmp_path / "new", "--baseline", tmp_path / "old"),
        "history": ("gate", tmp_path / "new", "--history", tmp_path / "old"),
    }[command]
    status, text, _ = within(*words)
    assert status == (0 if command == "compare" else 1)
    told = json.loads(within(*words, "--json")[1])
    known = told["excluded"] if isinstance(told["excluded"], list) else told["excluded"]["new"]
    assert {entry["run"]: entry["reason"] for entry in known} == {"new0": CRASHED, "new1": SPOILT}
    text = " ".join(text.split())
    assert told["warned_runs"]["warned"] == {"loop_lag": 1}
    assert text.count("the generator's event loops lagged in 1 of 10 runs (loop_lag)") == 1
    for name, reason in {"new0": CRASHED, "new1": SPOILT, "new2": LOST}.items():
        assert name in text
        assert reason in text


@pytest.mark.slow
def test_a_strong_and_a_weak_curve_name_each_excluded_run_with_its_reason(tmp_path):
    strong = write_experiment(tmp_path / "strong", nodes=(1, 2, 4), clients=(8,), repetitions=3, experiment="same")
    weak = write_experiment(tmp_path / "weak", Truth(node_serial=0.1), nodes=(1, 2, 4), clients=(8,), repetitions=3,
                            experiment="grown", scaling="weak", grows="documents")  # fmt: skip
    crash(weak, "b1-nodes1-clients8")
    judge(weak / "runs" / "b2-nodes2-clients8", "cluster_state", SPOILT)
    judge(weak / "runs" / "b3-nodes4-clients8", "documents_lost", LOST)
    named = {"b1-nodes1-clients8": CRASHED, "b2-nodes2-clients8": SPOILT, "b3-nodes4-clients8": LOST}
    status, text, errors = within("report", strong, weak)
    assert status == 0, errors
    page, text = Page((strong / "strong-and-weak.html").read_text()).text, " ".join(text.split())
    told = json.loads(within("report", strong, weak, "--json")[1])
    assert {entry["run"] for entry in told["excluded"]["weak"]} == {"b1-nodes1-clients8", "b2-nodes2-clients8"}
    for name, reason in named.items():
        for where in (page, text):
            assert name in where
            assert reason in where


def test_selection_among_compared_runs_is_in_every_output_form(tmp_path):
    for name in ("old", "new"):
        for number in range(8):
            write_run(tmp_path / name, f"{name}{number}", Truth(seconds=2), seed=number + 10 * (name == "new"))
    for number in range(6):
        judge(tmp_path / "new" / f"new{number}", "cluster_state", SPOILT)
    words = ("compare", tmp_path / "old", tmp_path / "new", "--output", tmp_path / "page.html")
    cause = "xclusion correlates with the result: the 6 excluded of 16 runs are more frequent in new"
    assert cause in " ".join(within(*words)[1].split())
    assert cause in Page((tmp_path / "page.html").read_text()).text
    assert any(cause in warning["cause"] for warning in json.loads(within(*words, "--json")[1])["warnings"])


def test_the_page_of_a_settings_experiment_that_overloaded_the_store_has_its_machine(tmp_path):
    folder = settings(tmp_path / "e")
    for place in (folder / "runs").iterdir():
        judge(place, "unsteady", "throughput fell")
    assert "<h3>Machine</h3>" in read_report(folder).page
