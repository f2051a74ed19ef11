"""`loadframe gate`: its exit status is 0, 1, 2 or 3, and its files agree with it."""

import json
import shutil
from datetime import UTC, datetime

import pytest

from commands import loadframe, within
from simulated import Truth, write_run, write_variants


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("gates")
    # The runs of `alone` and `brief` have 400 requests, the others 1,000.
    sides = [("old", 100, 6, 5), ("same", 100, 6, 5), ("slow", 80, 6, 5), ("alone", 100, 1, 2), ("brief", 100, 6, 2)]
    for seed, (name, lam, runs, seconds) in enumerate(sides):
        for number in range(runs):
            write_run(root / name, f"r{number}", Truth(lam=lam, seconds=seconds), seed=100 * seed + number)
    return root


@pytest.mark.parametrize(
    ("new", "status", "words"), [("same", 0, "passed"), ("slow", 1, "regression"), ("alone", 3, "can")]
)
def test_the_exit_status_gives_the_outcome(results, tmp_path, new, status, words):
    files = ["--junit", tmp_path / "g.xml", "--markdown", tmp_path / "g.md"]
    old = results / "old" / ("r0" if new == "alone" else "")
    ended, said, errors = within("gate", results / new, "--baseline", old, *files)
    assert ended == status, errors
    assert words in said
    assert ("<failure" in (tmp_path / "g.xml").read_text()) == (status == 1)
    assert words in (tmp_path / "g.md").read_text()


def test_the_terminal_shows_the_means_of_both_sides_as_the_markdown_does(results, tmp_path):
    file = tmp_path / "g.md"
    _, said, _ = within("gate", results / "slow", "--baseline", results / "old", "--markdown", file,
                        "--junit", tmp_path / "g.xml")  # fmt: skip
    row = next(line for line in file.read_text().splitlines() if "throughput" in line)
    before, now = (cell.strip() for cell in row.split("|")[3:5])
    assert before != now
    # 80 columns are too few for one line.
    assert f"{before} → {now}: " in said
    assert f"{before} → {now}: " in (tmp_path / "g.xml").read_text()
    assert max(map(len, said.splitlines())) <= 80


def test_one_run_does_not_tell_whether_a_bound_holds(results):
    status, said, _ = within("gate", results / "alone", "--bound", "p99<=10s")
    assert status == 3
    assert "a single run does not show the run-to-run variance" in " ".join(said.split())


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("p99", "p99 needs at least 1,000 (a duration of 6 s)"),
        ("p50", None),
        ("p99.9", "p99.9 needs at least 10,000"),
    ],
)
@pytest.mark.parametrize("against", ["baseline", "bound"])
def test_an_undecided_percentile_of_short_runs_names_the_missing_requests(results, kind, needed, against):
    words = {
        "baseline": ("--baseline", results / "old", "--measure", kind, "--catch", "1%", "--least", "0.5%"),
        "bound": ("--bound", f"{kind}<=10s"),
    }[against]
    new = results / ("brief" if against == "baseline" else "alone")
    status, said, _ = within("gate", new, *words)
    assert status == 3
    document = json.loads(within("gate", new, *words, "--json")[1])
    (check,) = [it for it in document["checks"] if it["measure"] == kind]
    assert (document["standing"], check["standing"]) == ("undecided", "undecided")
    for text in (" ".join(said.split()), check["why"]):
        assert ("make more runs" if against == "bound" else "takes more than 50 runs of each side") in text
        assert ("too few requests" in text) == bool(needed)
        assert (needed or "") in text


def test_runs_of_another_treatment_are_judged_only_on_request(results, tmp_path):
    for number in range(6):
        write_run(tmp_path / "other", f"r{number}", Truth(), seed=900 + number, treatment={"clients": 8})
    status, _, errors = within("gate", tmp_path / "other", "--baseline", results / "old")
    assert status == 2
    assert "other were measured at different treatments (clients: not set → 8)" in errors
    assert within("gate", tmp_path / "other", "--baseline", results / "old", "--across-treatments")[0] == 0


def test_a_bound_is_enough(results):
    assert within("gate", results / "same", "--bound", "p99<=10s")[0] == 0
    assert loadframe("gate", "same", "--bound", "throughput>=1000000/s", cwd=results).returncode == 1


@pytest.mark.parametrize(("lam", "status"), [(100, 0), (75, 1)])
def test_an_experiment_that_compares_two_variants_is_judged_by_itself(tmp_path, lam, status):
    write_variants(tmp_path / "both", {"main": Truth(), "new": Truth(lam=lam)})
    ended, said, errors = within("gate", tmp_path / "both")
    assert ended == status, errors
    assert said.startswith("new ")


def test_of_three_variants_none_is_the_new_one(tmp_path):
    write_variants(tmp_path / "e", {name: Truth(seconds=2) for name in "abc"}, repetitions=1)
    status, _, errors = within("gate", tmp_path / "e")
    assert status == 2
    assert "a gate compares two" in errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "neither a baseline nor bounds"),
        (["--baseline", "old", "--history", "old"], "contradict"),
        (["--bound", "p99>=1s"], "an upper bound"),
        (["--bound", "p99"], "write it as"),
        (["--bound", "p98<=1s"], "unknown measure 'p98'"),
        (["--bound", "p99<=fast"], "not a duration"),
        (["--bound", "errors<=5"], "write a percentage such as 5%"),
        (["--bound", "errors<=1"], "'errors<=1' always holds"),
        (["--bound", "throughput>=0/s"], "'throughput>=0/s' always holds"),
        (["--bound", "throughput>=1e300/s"], "'throughput>=1e300/s' can never hold: rates are below 1e9/s"),
        (["--bound", "documents>=1e9/s"], "can never hold"),
        (["--bound", "p99<=0ms"], "'p99<=0ms' can never hold: response times are at least 1 ns"),
        (["--bound", "mean<=1e-9us"], "can never hold"),
        (["--bound", "p99<=1h"], "'p99<=1h' always holds"),
        (["--bound", "p99<=50"], "write p99<=50ms or p99<=50s"),
        (
            ["--baseline", "old", "--catch", "2"],
            "--catch must be above 0 and at most 1, or a percentage below 10000%; got 2",
        ),
        (["--baseline", "nowhere"], "nowhere: this folder does not exist"),
        (["--baseline", "./same"], "name a folder of earlier runs with --baseline"),
        (["--history", "same"], "same: the new runs and --history are the same folder"),
        (["--baseline", "old", "--least", "p90=5%"], "which is not in --measure"),
        (
            ["--baseline", "old", "--catch", "0%"],
            "--catch must be above 0 and at most 1, or a percentage below 10000%; got 0%",
        ),
        (["--baseline", "old", "--least", "throughput=100%"], "--least 100% never stops throughput"),
        (["--baseline", "old", "--catch", "500%"], "--catch 500% never stops throughput"),
        (
            ["--baseline", "old", "--least", "p50=10%", "--catch", "p50=10%"],
            "--catch for p50 is 10 %, which must exceed --least, 10 %",
        ),
        (["--baseline", "old", "--catch", "10%"], "--catch for p99 is 10 %, which must exceed --least, 10 %"),
        (["--baseline", "old", "--watch", "nothing"], "measured this operation"),
        (["--baseline", "old", "--record", "history", "--commit", ""], "--commit is an empty text"),
    ],
)
def test_typing_errors_are_reported_with_status_2(results, monkeypatch, words, said):
    monkeypatch.chdir(results)
    status, _, errors = within("gate", "same", *words)
    assert status == 2
    assert said in errors


@pytest.mark.parametrize("least", ["p50=20%", "p50=25%", "throughput=60%"])
def test_a_least_effect_raises_the_default_effect_to_catch(results, least):
    assert within("gate", results / "same", "--baseline", results / "old", "--least", least)[0] == 0


def test_a_least_effect_for_all_measures_may_exceed_the_default_effect_to_catch_of_errors(results):
    assert within("gate", results / "same", "--baseline", results / "old", "--least", "3%")[0] == 0


@pytest.mark.parametrize("baseline", ["same", "./same", "s*e", "*", "same/r3", "link", "copy"])
@pytest.mark.parametrize("command", ["gate", "compare"])
def test_runs_are_not_compared_with_themselves(results, tmp_path, monkeypatch, command, baseline):
    shutil.copytree(results / "same", tmp_path / "same")
    monkeypatch.chdir(tmp_path)
    if baseline == "link":
        (tmp_path / "link").symlink_to("same")
    elif baseline == "copy":
        shutil.copytree("same", "copy")
    status, _, errors = within(command, "same", *(["--baseline"] if command == "gate" else []), baseline)
    assert status == 2
    expected = {"gate": "the new runs and --baseline are the same folder", "compare": "this folder is given twice"}
    if baseline in ("same", "./same", "link"):
        assert expected[command] in errors
        return
    assert "are the same run" in errors
    assert f"{'r3' if baseline == 'same/r3' else 'r0'}:" in errors
    assert ("name earlier runs with --baseline" if command == "gate" else "name each run once") in " ".join(
        errors.split()
    )


def test_a_copy_among_the_new_runs_is_not_blamed_on_the_baseline(results, tmp_path):
    shutil.copytree(results / "same", tmp_path / "new")
    shutil.copytree(results / "same/r0", tmp_path / "new/copy")
    status, _, errors = within("gate", tmp_path / "new", "--baseline", results / "old")
    assert status == 2
    assert "name each run once, without copies" in " ".join(errors.split())
    assert "--baseline" not in errors


def test_strict_refuses_a_gate_that_leaves_runs_out(results, tmp_path):
    for number in range(6):
        write_run(tmp_path / "new", f"r{number}", Truth(), seed=100 + number,
                  deviations=["a copy is out of service"] if number == 5 else [])  # fmt: skip
    assert within("gate", tmp_path / "new", "--baseline", results / "old")[0] == 0
    status, _, errors = within("gate", tmp_path / "new", "--baseline", results / "old", "--strict")
    assert status == 4
    assert "1 run left out: r5: a copy is out of service" in errors


def test_strict_ignores_invalid_runs_of_other_stores_in_a_history(results, tmp_path):
    for number in range(8):
        for name, kind in (("old", "opensearch"), ("other", "redis")):
            lost = ["a copy is out of service"] if (number, name) == (1, "other") else []
            labels = {"started": datetime(2026, 1, 1 + number, tzinfo=UTC), "session": f"night {number}"}
            made = write_run(tmp_path / "history", f"{name}{number}", Truth(seconds=2), seed=number,
                             deviations=lost, **labels)  # fmt: skip
            file = made.path / "manifest.json"
            file.write_text(file.read_text().replace('"kind": "opensearch"', f'"kind": "{kind}"'))
    words = ("gate", results / "same", "--history", tmp_path / "history", "--measure", "throughput,p50")
    status, _, errors = within(*words, "--strict")
    assert status == within(*words)[0], errors
