"""`loadframe compare`: table, sentence, page and JSON; refusal of incomparable runs."""

import json
import shutil

import pytest

import loadframe as loadframe_library
from commands import loadframe, result, within
from simulated import Truth, write_experiment, write_run, write_variants


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("compare")
    for seed, (name, lam) in enumerate({"old": 100, "slow": 80}.items()):
        for number in range(5):
            write_run(root / name, f"r{number}", Truth(lam=lam, seconds=2), seed=100 * seed + number)
    return root


def test_a_sentence_a_table_and_a_page(results, tmp_path):
    done = loadframe("compare", results / "old", results / "slow", "--output", tmp_path / "c.html")
    assert done.returncode == 0, done.stderr
    assert "slow is worse than old (ratio" in " ".join(done.stdout.split())
    page = (tmp_path / "c.html").read_text()
    assert "Each mark is a run" in page
    assert "old (baseline): 5 runs; slow: 5 runs." in page


def test_json_has_every_contrast(results):
    document = result("compare", results / "old", results / "slow", "--measure", "throughput,max")
    assert [contrast["measure"] for contrast in document["contrasts"]] == ["throughput", "max"]
    assert document["contrasts"][0]["outcome"] == "worse"
    assert document["groups"][0] == {"group": "old", "runs": [f"r{n}" for n in range(5)], "left_out": []}


def test_percentages_above_100_are_accepted(results):
    places = ("compare", results / "old", results / "slow", "--measure", "throughput")
    assert result(*places)["contrasts"][0]["outcome"] == "worse"
    assert result(*places, "--least", "150%", "--session-spread", "120%")["contrasts"][0]["outcome"] == "alike"


def test_unknown_ends_of_intervals_are_null(results):
    places = ("compare", results / "old/r0", results / "slow/r0")
    contrasts = result(*places, "--measure", "throughput,p50,errors")["contrasts"]
    assert [contrast["measure"] for contrast in contrasts] == ["throughput", "p50", "errors"]
    for contrast in contrasts:
        # The share of errors of a group can be 0, unlike their ratio.
        known = [contrast["ratio"], *(contrast["means"] if contrast["measure"] != "errors" else [])]
        assert {(it["low"], it["high"]) for it in known} == {(None, None)}
        assert contrast["outcome"] == "inconclusive"
    rows = loadframe_library.compare(*places[1:], measures=["throughput", "errors"]).contrasts.to_polars()
    assert rows["low"].to_list() == rows["high"].to_list() == [None, None]
    row = rows.row(0, named=True)
    assert [row[name] for name in ("baseline_low", "group_high")] == [None] * 2
    assert (row["group_mean"] / row["baseline_mean"], row["outcome"]) == (pytest.approx(row["ratio"]), "inconclusive")


def test_a_single_experiment_is_split_by_its_treatments(tmp_path):
    write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1, 8), repetitions=4)
    document = result("compare", tmp_path / "e", "--measure", "throughput")
    assert [group["group"] for group in document["groups"]] == ["clients 1", "clients 8"]


def test_the_baseline_is_the_first_level_of_each_factor_or_the_chosen_group(tmp_path):
    folder = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1, 4, 8), repetitions=2)
    file = folder / "experiment.json"
    description = json.loads(file.read_text())
    # A design has its runs in a random order.
    file.write_text(json.dumps(description | {"design": description["design"][::-1]}))
    status, told, said = within("compare", folder, "--measure", "throughput")
    assert status == 0
    assert "clients 1 (baseline): 2 runs; clients 4: 2 runs" in " ".join(told.split())
    assert "the baseline is clients 1; choose another group with --baseline" in said
    chosen = result("compare", folder, "--measure", "throughput", "--baseline", "clients 8")
    assert [group["group"] for group in chosen["groups"]] == ["clients 8", "clients 1", "clients 4"]
    assert {contrast["baseline"] for contrast in chosen["contrasts"]} == {"clients 8"}
    assert loadframe_library.compare(folder, baseline="clients 4").baseline == "clients 4"
    status, _, said = within("compare", folder, "--baseline", "client 8")
    assert (status, "--baseline: no group is named 'client 8'" in said) == (2, True)
    assert "did you mean 'clients 8'?" in said


def test_a_folder_with_a_copy_of_a_run_is_not_split_by_treatments(tmp_path):
    for number in range(4):
        nodes = 1 + number % 2
        write_run(
            tmp_path / "runs", f"r{number}", Truth(seconds=2), nodes=nodes, seed=number, treatment={"nodes": nodes}
        )
    assert within("compare", tmp_path / "runs")[0] == 0
    shutil.copytree(tmp_path / "runs/r0", tmp_path / "runs/copy")
    status, _, errors = within("compare", tmp_path / "runs")
    assert status == 2
    assert "are the same run" in errors
    assert "name each run once, without copies" in " ".join(errors.split())


def test_an_experiment_that_compares_variants_is_split_by_these(tmp_path):
    write_variants(tmp_path / "e", {"now": Truth(seconds=2), "then": Truth(seconds=2)}, repetitions=2)
    document = result("compare", tmp_path / "e", "--measure", "throughput")
    assert [group["group"] for group in document["groups"]] == ["now", "then"]
    assert [contrast["treatment"] for contrast in document["contrasts"]] == [{"clients": 4}, {"clients": 8}]
    assert [warning for warning in document["warnings"] if "load" in warning["cause"]] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["old"], "the same treatment"),
        (["old", "nowhere"], "nowhere: this folder does not exist"),
        (["old", "./old"], "./old: this folder is given twice"),
        (["old", "nowhere-*"], "nowhere-*: no run matches this pattern"),
        (["old", "slow", "--measure", "trhoughput"], "did you mean 'throughput'?"),
        (["old", "slow", "--least", "five"], "is not a share"),
        (["old", "slow", "--least", "nan"], "is not a share"),
        (["old", "slow", "--least", "5"], "write a percentage such as 5%"),
        (
            ["old", "slow", "--least", "20000%"],
            "--least must be above 0 and at most 1, or a percentage below 10000%; got 20000%",
        ),
        (
            ["old", "slow", "--session-spread", "5"],
            "--session-spread must be above 0 and at most 1, or a percentage below 10000%; got 5",
        ),
        (
            ["old", "slow", "--least", "inf"],
            "--least must be above 0 and at most 1, or a percentage below 10000%; got inf",
        ),
        (["old", "slow", "--level", "2"], "--level must be above 0 and below 1"),
    ],
)
def test_incomparable_runs_are_refused(results, monkeypatch, words, said):
    monkeypatch.chdir(results)
    status, _, errors = within("compare", *words)
    assert status == 2
    assert said in errors
