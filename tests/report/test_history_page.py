"""The history of a folder: its change points, the runs behind them, accepted changes, references, damaged records."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from pages import Page

from commands import within
from loadframe.analyze.compare import read_groups
from loadframe.analyze.history import change_points
from loadframe.analyze.recorded_history import read_history
from loadframe.base.errors import BadInput
from loadframe.base.machine_references import disk_reference, network_reference
from loadframe.record import RunWriter
from loadframe.record.gate_log import GATE_LOG, Acceptance, GateRecord, add_to_gate_log, read_gate_log
from loadframe.record.schema import FORMAT
from loadframe.report.history import changes_table, history_page, sentences
from recorded_history import CHANGED, NIGHTS, commit, write_history
from simulated import Truth, write_run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return write_history(tmp_path_factory.mktemp("histories") / "recorded")


@pytest.fixture
def folder(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "history")


def test_the_change_is_found_at_its_commit_with_its_size_and_runs(recorded):
    history = read_history(recorded, ["throughput"])
    (change,) = history.changes
    assert change.point.commit == commit(CHANGED)
    assert change.step.change == pytest.approx(-0.3, abs=0.03)
    assert change.is_worse
    assert [run.id for run in change.point.runs] == ["run-0", "run-1"]
    assert [point.commit for point in history.points] == [commit(night) for night in range(NIGHTS)]


def test_it_is_the_change_that_the_gate_finds_in_these_values(recorded):
    (line,) = read_history(recorded, ["throughput"]).lines
    assert [change.step for change in line.changes] == list(change_points(np.array(line.values)))
    medians = [np.median([line.measure.of(run) for run in point.runs]) for point in line.points]
    assert line.values == pytest.approx(medians)


def test_a_history_without_a_change_has_none(tmp_path):
    history = read_history(write_history(tmp_path / "flat", loss=0.0))
    assert history.changes == []
    assert len(history.lines) == 3


def test_a_short_history_says_how_many_points_it_needs(recorded, tmp_path):
    shutil.copytree(recorded / "night-00", tmp_path / "short" / "night-00")
    status, printed, _ = within("history", tmp_path / "short")
    assert status == 0
    assert "Too few points to find a change: 1 of at least 9 for 3 measures." in " ".join(printed.split())
    assert not re.search(r"reference: (\S+ \S+) to \1", printed)
    text = Page((tmp_path / "short" / "history.html").read_text()).text
    assert "Too few points to find a change: 1 of at least 9." in text
    assert "The gate counts sessions, which may have several commits" in text
    assert "Measures with too few points" in text
    assert "Measures without a change" not in text
    assert "No change." not in text


def test_the_page_shows_the_answer_the_changes_the_runs_and_the_machine(recorded):
    text = history_page(read_history(recorded))
    page = Page(text)
    label = commit(CHANGED)[:12]
    assert re.search(
        rf"range_100 throughput worsened by [23]\d(\.\d)? % at {label} \(2026-01-07 \d\d:\d\d\)\.", page.text
    )
    assert page.loads == []
    assert {"Changes", "Machine", "Runs of each point"} <= set(page.headings)
    assert {"h0", "machine"} <= set(page.plots)
    assert "range_100 throughput" in page.headings
    assert [panel["title"] for panel in page.plots["machine"]["panels"]] == [
        "CPU time, ms",
        "disk, MB/s",
        "network, MB/s",
    ]
    assert any("run-0, run-1" in words for words in page.plots["h0"]["traces"][0]["texts"])


def test_the_command_writes_the_page_and_prints_the_change(folder):
    status, printed, messages = within("history", folder)
    assert status == 0, messages
    assert commit(CHANGED)[:12] in printed
    assert "CPU time reference" in printed
    assert (folder / "history.html").read_text().startswith("<!doctype html>")
    # The page is not read as a record.
    assert within("history", folder)[:2] == (status, printed)


def test_other_measures_have_a_page_of_their_own(folder):
    within("history", folder)
    usual = (folder / "history.html").read_text()
    _, printed, _ = within("history", folder, "--measure", "p99.9,throughput")
    (page,) = folder.glob("history-*.html")
    assert page.name == "history-p99.9-throughput.html"
    assert (folder / "history.html").read_text() == usual != page.read_text()
    assert within("history", folder, "--measure", "p99.9,throughput")[1] == printed, "pages are not read as records"


def test_json_has_points_series_and_changes(folder):
    status, printed, _ = within("history", folder, "--measure", "throughput", "--json")
    document = json.loads(printed)
    assert status == 0
    assert [change["label"] for change in document["changes"]] == [commit(CHANGED)[:12]]
    assert len(document["points"]) == len(document["series"][0]["values"]) == NIGHTS
    assert document["points"][0]["references"].keys() == {"cpu", "disk", "network"}


def test_changes_of_two_stores_in_one_folder_name_their_stores(folder):
    later = CHANGED + 3
    for night in range(NIGHTS):
        target = folder / f"night-{night:02}"
        source = target if night >= later else folder / f"night-{night % CHANGED:02}"
        for run in ("run-0", "run-1"):
            shutil.copytree(source / run, target / f"late-{run}")
            manifest = json.loads((target / run / "manifest.json").read_text())
            manifest["store"]["kind"] = "redis"
            (target / f"late-{run}" / "manifest.json").write_text(json.dumps(manifest))
    history = read_history(folder, ["throughput"])
    assert [(it["title"], it["label"]) for it in history.as_dict()["changes"]] == [
        ("redis", commit(later)[:12]),
        ("opensearch", commit(CHANGED)[:12]),
    ]
    _, *changes = sentences(history)
    assert [words.partition(" worsened")[0] for words in changes] == [
        "range_100 throughput, redis",
        "range_100 throughput, opensearch",
    ]
    assert [row[0].text for row in changes_table(history.changes).rows] == [
        "range_100 throughput, redis",
        "range_100 throughput, opensearch",
    ]


def test_an_accepted_change_is_shown_with_its_reason(folder):
    status, printed, messages = within("history", folder, "--accept", commit(CHANGED)[:9], "--reason", "checksums")
    assert status == 0
    assert f"accepted: {commit(CHANGED)[:9]}: checksums\n" in messages
    assert "checksums" in printed
    assert "worsened" not in printed
    assert "checksums" in Page((folder / "history.html").read_text()).text


@pytest.mark.slow
def test_the_gate_reports_each_change_until_it_is_accepted(tmp_path):
    folder = write_history(tmp_path / "history", nights=18, changed=(6, 12))
    first, second = (f"2026-01-{night + 1:02}T02:00" for night in (6, 12))

    def reported():
        judged = json.loads(within("gate", folder / "night-17", "--history", folder, "--json")[1])
        return [it["cause"] for it in judged["warnings"] if it["code"] == "level_change"]

    assert {first in cause or second in cause for cause in reported()} == {True}
    before = len(reported())
    assert within("history", folder, "--accept", commit(6), "--reason", "checksums")[0] == 0
    assert reported()
    assert len(reported()) < before
    assert all(second in cause for cause in reported()), "the later change is still a regression that passed"
    assert within("history", folder, "--accept", "night-12", "--reason", "encryption")[0] == 0
    assert reported() == []


def test_a_change_accepted_by_the_name_of_a_run_is_one_change(tmp_path):
    folder = write_history(tmp_path / "history", nights=18, changed=(6, 12))
    before = (folder / GATE_LOG).read_bytes()
    status, _, messages = within("history", folder, "--accept", "run-0", "--reason", "checksums")
    assert (status, (folder / GATE_LOG).read_bytes()) == (2, before)
    assert f"name one of these: {commit(12)[:12]}, {commit(6)[:12]}" in messages
    (folder / "night-06" / "run-0").rename(folder / "night-06" / "only")
    assert within("history", folder, "--accept", "only", "--reason", "checksums")[0] == 0
    assert read_gate_log(folder).accepted[0].at == "night-06"


def test_only_a_change_can_be_accepted(folder):
    before = (folder / GATE_LOG).read_bytes()
    status, _, messages = within("history", folder, "--accept", commit(1), "--reason", "no change")
    assert status == 2
    assert commit(CHANGED)[:12] in messages
    assert (folder / GATE_LOG).read_bytes() == before


def test_the_page_does_not_replace_the_target_of_a_link(folder, tmp_path):
    target = tmp_path / "precious"
    target.write_text("kept")
    (folder / "history.html").symlink_to(target)
    status, _, messages = within("history", folder)
    assert (status, "is a symbolic link" in messages, target.read_text()) == (2, True, "kept")
    assert within("history", folder, "--output", tmp_path / "page.html")[0] == 0


@pytest.mark.parametrize("options", [("--accept", "x"), ("--reason", "x"), ("--measure", "errors")])
def test_options_that_do_not_fit_are_refused(folder, options):
    status, printed, messages = within("history", folder, *options)
    assert (status, printed) == (2, "")
    assert options[0] in messages


def test_damaged_records_are_named_and_skipped(folder):
    (folder / "night-03" / "run-0" / "summary.json").write_text("{")
    (folder / "night-04" / "run-1" / "manifest.json").unlink()
    with (folder / GATE_LOG).open("a") as file:
        file.write('{"format": 1, "kind": "gate"}\nnonsense')
    status, printed, messages = within("history", folder)
    assert status == 0, messages
    text = Page((folder / "history.html").read_text()).text
    for name in (
        "night-03/run-0",
        "night-04/run-1",
        f"{GATE_LOG}, line {NIGHTS + 1}",
        f"{GATE_LOG}, line {NIGHTS + 2}",
    ):
        assert f"skipped {name}" in printed
        assert name in text
    assert commit(CHANGED)[:12] in printed
    # The runs of a stopped release would become the baseline.
    with pytest.raises(BadInput, match="the outcome of a gate is unknown") as refused:
        read_groups([str(folder)])
    assert refused.value.where == f"{folder / GATE_LOG}, line {NIGHTS + 1}"


def test_a_page_does_not_replace_a_record(folder):
    for name in (GATE_LOG, "night-03/run-0/summary.json"):
        before = (folder / name).read_text()
        status, _, messages = within("history", folder, "--output", folder / name)
        assert (status, "part of a recorded run" in messages) == (2, True)
        assert (folder / name).read_text() == before


@pytest.mark.parametrize("change", [{"outcome": "Regression"}, {"references": {"cpu": 10**400}}, {"outcome": None}])
def test_a_record_with_values_that_no_gate_writes_is_damaged(folder, change):
    with (folder / GATE_LOG).open("a") as file:
        gate = GateRecord("2026-01-20T02:00:00+00:00", "night-03", commit(20), "regression")
        file.write(json.dumps({"format": 1, "kind": "gate", **vars(gate), "references": {}, **change}) + "\n")
    assert read_gate_log(folder).damaged == [(NIGHTS + 1, "is not a record of a gate")]


def test_an_empty_name_accepts_nothing(folder):
    add_to_gate_log(folder, GateRecord("2026-01-20T02:00:00+00:00", "night-03", None, "regression"))
    assert within("history", folder, "--accept", "", "--reason", "agreed")[0] == 2
    add_to_gate_log(folder, Acceptance("2026-01-21T02:00:00+00:00", "", "agreed"))
    assert read_gate_log(folder).refused == {"night-03"}


def test_an_unfinished_line_does_not_damage_the_next(folder):
    with (folder / GATE_LOG).open("a") as file:
        file.write('{"format": 1, "ki')
    add_to_gate_log(folder, Acceptance("2026-01-20T00:00:00+00:00", commit(CHANGED), "checksums"))
    log = read_gate_log(folder)
    assert [entry.reason for entry in log.accepted] == ["checksums"]
    assert [number for number, _ in log.damaged] == [NIGHTS + 1]


@pytest.mark.parametrize("content", ["empty", "foreign", "absent", "file"])
def test_a_folder_without_runs_gives_one_message_and_status_2(tmp_path, content):
    folder = tmp_path / content
    if content == "file":
        folder.write_text("text")
    elif content != "absent":
        folder.mkdir()
    if content == "foreign":
        (folder / "notes").mkdir()
        (folder / "notes" / "todo.txt").write_text("text")
    status, printed, messages = within("history", folder)
    assert (status, printed) == (2, "")
    assert str(folder) in messages
    assert "Traceback" not in messages
    assert not (tmp_path / content / "history.html").exists()


def test_a_history_of_failed_runs_has_no_conclusion(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.finish({"format": FORMAT}, {"status": "failed"})
    status, printed, messages = within("history", tmp_path)
    assert status == 0, messages
    assert "No conclusion: 0 points, and no valid measurement." in printed
    assert "(r1: failed)" in printed


def test_a_folder_with_only_damaged_runs_names_the_first(tmp_path):
    write_run(tmp_path, "run-0", Truth(seconds=2))
    (tmp_path / "run-0" / "summary.json").write_text("{")
    status, _, messages = within("history", tmp_path)
    assert status == 2
    assert "run-0" in messages


def test_the_gate_records_its_runs_outcome_commit_and_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_SHA", commit(0))
    for seed in range(3):
        write_run(tmp_path / "new", f"run-{seed}", Truth(seconds=2), seed=seed)
    history = tmp_path / "history"
    place = ("--bound", "throughput>=1/s", "--measure", "throughput", "--record", history)
    for words in ((), ("--commit", "v2")):
        status, _, messages = within("gate", tmp_path / "new", *place, *words)
        assert status == 0
        assert "without a commit" not in messages
    log = read_gate_log(history)
    assert [(gate.commit, gate.outcome) for gate in log.gates] == [(commit(0), "passed"), ("v2", "passed")]
    assert all(gate.references.keys() == {"cpu", "disk", "network"} for gate in log.gates)
    for gate in log.gates:
        assert sorted(path.name for path in (history / gate.folder).iterdir()) == ["run-0", "run-1", "run-2"]
    recorded = read_history(history)
    # The same runs are one point, with both gates.
    assert [(point.label, [gate.commit for gate in point.gates]) for point in recorded.points] == [
        (commit(0)[:12], [commit(0), "v2"])
    ]
    assert "passed, then passed as v2" in Page(history_page(recorded)).text
    # The folder of the first commit, although a newer commit also has the runs.
    (point,) = recorded.as_dict()["points"]
    assert (point["commit"], point["folder"]) == (commit(0), log.gates[0].folder)
    assert point["references"]["disk"] == log.gates[0].references["disk"]


def test_a_gate_without_a_commit_says_how_the_history_names_its_point(tmp_path, monkeypatch):
    for name in ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT"):
        monkeypatch.delenv(name, raising=False)
    write_run(tmp_path / "new", "run-0", Truth(seconds=2))
    place = ("--bound", "errors<=50%", "--measure", "errors", "--record", tmp_path / "history")
    _, _, messages = within("gate", tmp_path / "new", *place)
    assert "recorded without a commit" in messages
    assert "give --commit" in messages


def test_runs_of_a_stopped_release_are_no_baseline_until_they_are_accepted(folder):
    gate = GateRecord("2026-01-20T02:00:00+00:00", "night-20", commit(20), "regression", ["range_100 p50"])
    write_run(folder / "night-20", "run-0", Truth(seconds=2), started=datetime(2026, 1, 20, 2, tzinfo=UTC))
    add_to_gate_log(folder, gate)
    assert len(read_groups([str(folder)])[0].runs) == 2 * NIGHTS
    # A pattern names the same runs, and a folder alone may be judged again.
    for pattern in ("night-*", "night-*/run-*"):
        assert len(read_groups([str(folder / pattern)])[0].runs) == 2 * NIGHTS
    assert len(read_groups([str(folder / "night-20")])[0].runs) == 1
    stopped = f"The gate stopped {commit(20)[:12]}: range_100 p50."
    assert sentences(read_history(folder))[-1] == stopped
    assert within("history", folder, "--accept", commit(20), "--reason", "agreed")[0] == 0
    assert stopped not in sentences(read_history(folder))
    assert len(read_groups([str(folder)])[0].runs) == 2 * NIGHTS + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.rename(path.with_name("other")), "(other may be the new name) rename each folder back"),
        (
            lambda path: path.rename(path.parent / "night-05" / path.name),
            "without commit and gate rename each folder back",
        ),
        (shutil.rmtree, "commit and gate rename each folder back"),
    ],
)
def test_a_folder_that_was_moved_is_named(folder, change, words):
    change(folder / "night-04")
    status, output, _ = within("history", folder)
    assert status == 0
    text = " ".join(output.split())
    assert "night-04 of gates.jsonl is missing" in text
    assert words in text


def test_a_history_that_was_moved_as_a_whole_is_the_same(folder, tmp_path):
    before = read_history(folder).as_dict()
    after = read_history(folder.rename(tmp_path / "elsewhere")).as_dict()
    assert after == before | {"folder": str(tmp_path / "elsewhere")}


def test_a_stopped_release_does_not_become_the_baseline_by_a_new_name(folder):
    log = folder / "gates.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    lines[CHANGED] = lines[CHANGED].replace('"inconclusive"', '"regression"')
    log.write_text("".join(lines))
    (folder / f"night-{CHANGED:02}").rename(folder / "other")
    status, output, errors = within("gate", folder / "night-11", "--history", folder)
    assert (status, output) == (2, "")
    assert f"night-{CHANGED:02} of a stopped release is missing, and other may be its new name" in errors


def test_a_record_folder_that_cannot_be_written_is_bad_input(tmp_path):
    write_run(tmp_path / "new", "run-0", Truth(seconds=2))
    (tmp_path / "file").write_text("")
    place = ("--bound", "throughput>=1/s", "--record", tmp_path / "file")
    status, _, messages = within("gate", tmp_path / "new", *place)
    assert status == 2
    assert str(tmp_path / "file") in messages


@pytest.mark.parametrize("place", ["new/run-0", "new/run-0/deeper", "e", "e/runs"])
def test_a_record_folder_in_recorded_data_is_refused(tmp_path, place):
    write_run(tmp_path / "new", "run-0", Truth(seconds=2))
    (tmp_path / "e" / "runs").mkdir(parents=True)
    (tmp_path / "e" / "experiment.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    words = ("--bound", "throughput>=1/s", "--record", tmp_path / place)
    status, _, messages = within("gate", tmp_path / "new", *words)
    assert (status, "is in a folder of recorded data" in messages) == (2, True), messages
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_cannot_be_copied_is_named_in_one_sentence(tmp_path):
    write_run(tmp_path / "new", "run-0", Truth(seconds=2))
    (tmp_path / "new" / "run-0" / "extra").symlink_to("missing")
    words = ("--bound", "throughput>=1/s", "--record", tmp_path / "history")
    status, _, messages = within("gate", tmp_path / "new", *words)
    assert status == 2
    assert "the runs cannot be copied: [Errno 2] No such file or directory" in messages
    assert "[(" not in messages


def test_a_damaged_run_behind_links_is_listed_once(folder):
    (folder / "night-03" / "run-0" / "summary.json").write_text("{")
    (folder / "a-link").symlink_to("night-03", target_is_directory=True)
    (folder / "loop").symlink_to(".", target_is_directory=True)
    shutil.copytree(folder / "night-03" / "run-0", folder / "run-9")
    names = [name for name, _ in read_history(folder, ["throughput"]).skipped]
    assert names == ["night-03/run-0", "run-9"]


def test_the_references_of_disk_and_network_are_positive(tmp_path: Path):
    assert disk_reference(tmp_path) > 0
    assert network_reference() > 0
    assert list(tmp_path.iterdir()) == []


def test_the_history_says_which_points_a_measure_lacks_and_why(folder):
    longer = folder / "night-03"
    for run in ("run-0", "run-1"):
        file = longer / run / "summary.json"
        summary = json.loads(file.read_text())
        (phase,) = summary["phases"]
        phase["duration"] *= 10
        for figures in phase["operations"].values():
            figures["requests"] *= 10
        file.write_text(json.dumps(summary))
    for run in ("run-0", "run-1"):
        file = folder / "night-04" / run / "summary.json"
        summary = json.loads(file.read_text())
        for figures in summary["phases"][0]["operations"].values():
            figures["throughput"] = 0.0
        file.write_text(json.dumps(summary))
    history = read_history(folder, ["throughput", "max"])
    assert [len(line.points) for line in history.lines] == [NIGHTS - 1] * 2
    assert [it.cause for it in history.warnings if it.code == "left_out"] == [
        f"range_100 throughput lacks 1 point ({commit(4)[:12]}): nothing succeeded",
        f"range_100 max lacks 1 point ({commit(3)[:12]}): another length than the newest run",
    ]
    status, printed, _ = within("history", folder, "--measure", "throughput,max")
    assert status == 0
    assert f"lacks 1 point ({commit(4)[:12]}): nothing succeeded" in " ".join(printed.split())


def test_a_measure_without_any_value_is_reported(folder):
    """Before, it had no line and no word."""
    for file in folder.glob("night-*/run-*/summary.json"):
        summary = json.loads(file.read_text())
        for entry in summary["verdict"]["figures"]:
            if entry["figure"] == "response":
                entry["state"] = "unknown"
        file.write_text(json.dumps(summary))
    history = read_history(folder, ["throughput", "p99"])
    assert [line.measure.kind for line in history.lines] == ["throughput"]
    (warning,) = [it for it in history.warnings if it.code == "left_out"]
    assert warning.cause.startswith(f"range_100 p99 lacks {NIGHTS} points (")
    assert warning.cause.endswith("): no valid figure")


def test_a_history_of_several_short_series_is_too_short(tmp_path):
    """Three series of five points are fifteen points, but none shows a change."""
    for number, store in enumerate(("redis", "valkey", "mongodb")):
        made = write_history(tmp_path / store, loss=0.0, nights=5, changed=(), runs=1)
        for night in sorted(made.glob("night-*")):
            target = shutil.copytree(night, tmp_path / "all" / f"{night.name}-{number}")
            file = target / "run-0" / "manifest.json"
            manifest = json.loads(file.read_text())
            manifest["store"]["kind"] = store
            file.write_text(json.dumps(manifest))
    history = read_history(tmp_path / "all", ["throughput"])
    assert (len(history.points), len(history.lines)) == (15, 3)
    assert sentences(history)[0] == f"Too few points to find a change: 5 of at least {history.needed} for 3 measures."


def test_the_newest_commit_is_stopped_if_the_gate_of_one_of_its_stores_did(folder):
    """The last gate of the commit, on another store, passed. A later gate on the store counts instead of its first."""

    def gate(store, hour, outcome):
        name = f"night-{NIGHTS - 1:02}-{store}-{hour}"
        shutil.copytree(folder / f"night-{NIGHTS - 1:02}", folder / name)
        for file in (folder / name).glob("*/manifest.json"):
            manifest = json.loads(file.read_text())
            manifest["store"]["kind"] = store
            manifest["started"] = manifest["started"].replace("T02:", f"T{hour:02}:")
            manifest["session"] = name
            file.write_text(json.dumps(manifest))
        failed = ["range_100 p50"] if outcome == "regression" else []
        add_to_gate_log(folder, GateRecord("2026-01-13T00:00:00+00:00", name, commit(NIGHTS - 1), outcome, failed))

    stopped = f"The gate stopped {commit(NIGHTS - 1)[:12]}: range_100 p50."
    gate("redis", 5, "regression")
    gate("valkey", 8, "passed")
    assert sentences(read_history(folder, ["throughput"]))[-1] == stopped
    gate("redis", 11, "passed")
    assert stopped not in sentences(read_history(folder, ["throughput"]))


def _retry(folder, night, outcome, minutes=10, criteria=()):
    """Gate a copy of a night's runs as a separate session, `minutes` later; return the name of the copy."""
    name = f"night-{night:02}-retried"
    shutil.copytree(folder / f"night-{night:02}", folder / name)
    for file in (folder / name).glob("*/manifest.json"):
        manifest = json.loads(file.read_text())
        later = datetime.fromisoformat(manifest["started"]) + timedelta(minutes=minutes)
        file.write_text(json.dumps(manifest | {"started": later.isoformat(), "session": name}))
    failed = ["range_100 p50"] if outcome == "regression" else []
    record = GateRecord("2026-01-13T00:00:00+00:00", name, commit(night), outcome, failed)
    add_to_gate_log(folder, replace(record, criteria=criteria))
    return name


def test_a_retried_job_is_one_point_with_the_runs_of_both_attempts(folder):
    before = read_history(folder, ["throughput"])
    retried = _retry(folder, 3, "passed")
    history = read_history(folder, ["throughput"])
    assert [point.commit for point in history.points] == [commit(night) for night in range(NIGHTS)]
    assert [len(point.runs) for point in history.points] == [4 if night == 3 else 2 for night in range(NIGHTS)]
    assert [change.step for change in history.changes] == [change.step for change in before.changes]
    assert history.points[3].folders == ("night-03", retried)
    assert "passed, then passed" in Page(history_page(history)).text
    # A later measurement of the commit is another session, as for the gate.
    _retry(folder, 5, "passed", minutes=300)
    assert len(read_history(folder, ["throughput"]).points) == NIGHTS + 1


def test_jobs_of_a_commit_that_check_different_things_both_count(folder, tmp_path):
    """The gate of p99 stops the commit. A gate of errors passes later, on the same runs; then the first job again."""

    def gate(*criteria, outcome="passed", name=f"night-{NIGHTS - 1:02}-again"):
        number = sum(path.name.startswith(name) for path in folder.iterdir())
        shutil.copytree(folder / f"night-{NIGHTS - 1:02}", folder / f"{name}-{number}")
        failed = ["range_100 p99"] if outcome == "regression" else []
        record = GateRecord("2026-01-13T00:00:00+00:00", f"{name}-{number}", commit(NIGHTS - 1), outcome, failed)
        add_to_gate_log(folder, replace(record, criteria=criteria))
        return read_history(folder, ["throughput"])

    before = read_history(folder, ["throughput"])
    stopped = f"The gate stopped {commit(NIGHTS - 1)[:12]}: range_100 p99."
    assert sentences(gate("p99 within 0.05", outcome="regression"))[-1] == stopped
    history = gate("errors within 0.01")
    point = history.points[-1]
    assert (sentences(history)[-1], point.is_stopped, point.outcome) == (stopped, True, "regression")
    assert (point.as_dict()["gate"], point.as_dict()["failed_checks"]) == ("regression", ["range_100 p99"])
    assert "passed, then regression: range_100 p99, then passed" in Page(history_page(history)).text
    # Copied runs add neither points nor values.
    assert [line.values for line in history.lines] == [line.values for line in before.lines]
    assert [len(point.runs) for point in history.points] == [len(point.runs) for point in before.points]
    assert not gate("p99 within 0.05").points[-1].is_stopped


@pytest.mark.parametrize(
    ("earlier", "later", "replaced"),
    [
        (["p99: 0.05 0.2"], ["p99: 0.1 0.5"], True),
        (["p99: 0.05 0.2"], ["p50: 0.05 0.2", "p99: 0.1 0.5"], True),
        (["p50: 0.05 0.2", "p99: 0.05 0.2"], ["p99: 0.1 0.5"], False),
        (["p99: 0.05 0.2"], ["p99 within 0.05"], False),
        (["p99 within 0.05"], ["p99 within 0.5", "watch p99: read within 3"], True),
        (["errors within 0.01", "watch read"], ["errors within 0.1"], False),
        (["errors within 0.01", "watch read"], ["errors within 0.1", "watch write"], False),
        (["errors within 0.01", "watch read"], ["errors within 0.1", "watch read", "watch write"], True),
        (["p99: 0.05 0.2", "watch a: b"], ["p99: 0.1 0.5", "watch a: c"], False),
        (["all-p99: 0.05 0.2"], ["p99: 0.05 0.2"], False),
        ([], ["p99: 0.05 0.2"], False),
        (["p99: 0.05 0.2"], [], False),
        ([], [], True),
    ],
)
@pytest.mark.parametrize("minutes", [10, 300])
def test_a_later_gate_of_the_same_measures_replaces_an_earlier_one(folder, earlier, later, replaced, minutes):
    """Ten minutes later it is one point with the first gate, five hours later another."""
    night = NIGHTS - 1
    lines = (folder / GATE_LOG).read_text().splitlines(keepends=True)
    first = json.loads(lines[-1]) | {"outcome": "regression", "failed": ["range_100 p50"], "criteria": earlier}
    (folder / GATE_LOG).write_text("".join([*lines[:-1], json.dumps(first) + "\n"]))
    stopped = f"The gate stopped {commit(night)[:12]}: range_100 p50."
    assert sentences(read_history(folder, ["throughput"]))[-1] == stopped
    _retry(folder, night, "passed", minutes, later)
    history = read_history(folder, ["throughput"])
    assert len(history.points) == NIGHTS + (minutes == 300)
    assert (stopped not in sentences(history)) == replaced


def test_copied_and_linked_runs_are_not_sessions_of_their_own(folder):
    before = read_history(folder, ["throughput"])
    (folder / "a-link").symlink_to(folder / "night-03", target_is_directory=True)
    shutil.copytree(folder / "night-04", folder / "b-copy")
    history = read_history(folder, ["throughput"])
    assert [(point.folders, point.commit) for point in history.points] == [
        (point.folders, point.commit) for point in before.points
    ]
    assert [line.values for line in history.lines] == [line.values for line in before.lines]
    (warning,) = (warning for warning in history.warnings if warning.code == "own_copies")
    assert warning.figures["runs"] == 4


def test_a_gate_records_what_it_checks(tmp_path):
    write_run(tmp_path / "new", "run-0", Truth(seconds=2))
    for bound in ("errors<=50%", "errors<=40%", "errors<=50%"):
        words = ("--bound", bound, "--measure", "errors", "--record", tmp_path / "history", "--commit", "v2")
        within("gate", tmp_path / "new", *words)
    first, second, again = read_gate_log(tmp_path / "history").gates
    assert first.criteria == again.criteria != second.criteria
    assert len(read_history(tmp_path / "history").points) == 1


def test_a_regression_of_either_attempt_can_be_accepted(folder):
    lines = (folder / GATE_LOG).read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace('"passed"', '"regression"')
    (folder / GATE_LOG).write_text("".join(lines))
    retried = _retry(folder, 3, "passed")
    for run in (folder / retried).iterdir():
        run.rename(run.with_name(f"retried-{run.name}"))
    assert read_gate_log(folder).refused == {"night-03"}
    assert within("history", folder, "--accept", "retried-run-0", "--reason", "agreed")[0] == 0
    assert read_gate_log(folder).refused == set()


def test_the_page_marks_the_points_that_the_gate_stopped(folder):
    lines = (folder / GATE_LOG).read_text().splitlines(keepends=True)
    lines[4] = lines[4].replace('"passed"', '"regression"')
    (folder / GATE_LOG).write_text("".join(lines))

    def marked():
        traces = Page(history_page(read_history(folder, ["throughput"]))).plots["h0"]["traces"]
        return [trace["x"] for trace in traces if trace["name"] == "stopped by the gate"]

    earlier = f"Stopped by the gate earlier, and not accepted: {commit(4)[:12]}."
    assert marked() == [[5]]
    assert sentences(read_history(folder, ["throughput"]))[-1] == earlier
    assert within("history", folder, "--accept", commit(4), "--reason", "agreed")[0] == 0
    assert marked() == []
    assert earlier not in sentences(read_history(folder, ["throughput"]))


def test_a_short_history_begins_with_the_stopped_commit(tmp_path):
    folder = write_history(tmp_path / "history", loss=0.0, nights=3, changed=(), runs=1)
    add_to_gate_log(folder, GateRecord("2026-01-20T02:00:00+00:00", "night-01", commit(1), "regression", ["p50"]))
    first, second, *_ = sentences(read_history(folder))
    assert first == f"Stopped by the gate earlier, and not accepted: {commit(1)[:12]}."
    assert second.startswith("Too few points to find a change: 3 of")
    manifest = json.loads(next(folder.glob("*/*/manifest.json")).read_text())
    page = history_page(read_history(folder))
    assert f"History of {manifest['workload']['name']} on {manifest['store']['kind']}" in Page(page).text


def test_a_later_gate_of_an_earlier_commit_replaces_its_stop(folder):
    add_to_gate_log(folder, GateRecord("2026-01-20T02:00:00+00:00", "night-04", commit(4), "regression", ["p50"]))
    assert "not accepted" in sentences(read_history(folder))[-1]
    shutil.copytree(folder / "night-04", folder / "night-14")
    for file in (folder / "night-14").glob("*/manifest.json"):
        manifest = json.loads(file.read_text())
        file.write_text(json.dumps(manifest | {"session": "again", "started": "2026-01-06T12:00:00+00:00"}))
    add_to_gate_log(folder, GateRecord("2026-01-20T03:00:00+00:00", "night-14", commit(4), "passed", []))
    assert not any("not accepted" in words for words in sentences(read_history(folder)))


def test_an_acceptance_of_one_attempt_does_not_hide_the_regression_of_another(folder):
    lines = (folder / GATE_LOG).read_text().splitlines(keepends=True)
    lines[-1] = lines[-1].replace('"passed"', '"regression"')
    (folder / GATE_LOG).write_text("".join(lines))
    retried = _retry(folder, NIGHTS - 1, "regression")
    for name, stopped in ((f"night-{NIGHTS - 1:02}", True), (retried, False)):
        add_to_gate_log(folder, Acceptance("2026-01-20T02:00:00+00:00", name, "agreed"))
        assert read_history(folder, ["throughput"]).points[-1].is_stopped == stopped
