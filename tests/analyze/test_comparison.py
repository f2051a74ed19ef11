"""Groups of runs against each other: what is claimed, what is not, and what is said about the conditions."""

import json
import shutil

import pytest

from loadframe.analyze.comparison import compare, read_groups, read_runs, split_by_treatment
from loadframe.errors import BadInput
from simulated import Truth, write_experiment, write_run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Six runs each of two equal versions, and of one that is slower by a fifth."""
    root = tmp_path_factory.mktemp("versions")
    for seed, (name, lam) in enumerate({"old": 100, "same": 100, "slow": 80}.items()):
        for number in range(6):
            write_run(root / name, f"r{number}", Truth(lam=lam, seconds=2), seed=100 * seed + number)
    return root


def between(root, *names, **options):
    return compare(read_groups([str(root / name) for name in names]), **options)


def test_a_slower_version_is_worse_in_throughput_and_response_times(results):
    compared = between(results, "old", "slow")
    assert [contrast.measure.name for contrast in compared.contrasts] == [
        "range_100 throughput",
        "range_100 p50",
        "range_100 p99",
    ]
    throughput, p50, _ = compared.contrasts
    assert {contrast.outcome for contrast in compared.contrasts} == {"worse"}
    assert throughput.ratio.low < 0.8 < throughput.ratio.high
    assert p50.ratio.low < 1.25 < p50.ratio.high
    assert throughput.delta == -1
    assert throughput.raw_p == pytest.approx(2 / 924)
    assert throughput.p == pytest.approx(3 * 2 / 924)


def test_an_equal_version_is_not_claimed_to_differ(results):
    assert not {"better", "worse"} & {contrast.outcome for contrast in between(results, "old", "same").contrasts}


def test_a_difference_that_matters_is_excluded_only_if_the_interval_does(results):
    (contrast,) = between(results, "old", "same", kinds=["throughput"], least=0.1).contrasts
    assert contrast.outcome == "alike"
    (contrast,) = between(results, "old", "same", kinds=["throughput"], least=0.001).contrasts
    assert contrast.outcome == "open"


def test_each_group_is_held_against_the_first(results):
    compared = between(results, "old", "same", "slow", kinds=["throughput"])
    assert [(each.baseline, each.label) for each in compared.contrasts] == [("old", "same"), ("old", "slow")]


def test_three_runs_against_three_are_said_to_be_too_few(results):
    old, slow = read_groups([f"{results}/old/r[0-2]", f"{results}/slow/r[0-2]"])
    compared = compare([old, slow], ["throughput"])
    assert compared.contrasts[0].outcome == "open"
    (warning,) = [each for each in compared.warnings if "can never" in each.cause]
    assert warning.cause == "3 runs against 3 can never reach p < 0.05: at best p = 0.1"
    assert "at least 4" in warning.remedy


def test_runs_that_must_not_be_believed_are_left_out(results, tmp_path):
    shutil.copytree(results / "slow", tmp_path / "slow")
    write_run(tmp_path / "slow", "busy", Truth(cpu_share=0.97, seconds=2), seed=1)
    compared = compare(read_groups([str(results / "old"), str(tmp_path / "slow")]))
    assert [run.id for run in compared.groups[1].left_out] == ["busy"]
    assert len(compared.contrasts[0].second) == 6


def test_another_machine_and_another_load_are_said(results, tmp_path):
    shutil.copytree(results / "same", tmp_path / "other")
    for run in (tmp_path / "other").iterdir():
        file = run / "manifest.json"
        manifest = json.loads(file.read_text())
        manifest["hardware"]["cpu"] = "Another CPU"
        manifest["workload"]["parameters"]["documents"] = 5
        manifest["store"]["version"] = "9.9"
        file.write_text(json.dumps(manifest))
    compared = compare(read_groups([str(results / "old"), str(tmp_path / "other")]))
    causes = [warning.cause for warning in compared.warnings]
    assert any("different machines" in cause and "Another CPU" in cause for cause in causes)
    assert any("another load (workload.parameters.documents: 30000 → 5)" in cause for cause in causes)
    assert "store.version: 3.8.0 → 9.9" in [str(each) for each in compared.differing["other"]]


def test_runs_that_were_not_interleaved_are_said(results, tmp_path):
    shutil.copytree(results / "same", tmp_path / "later")
    for run in (tmp_path / "later").iterdir():
        file = run / "manifest.json"
        manifest = json.loads(file.read_text())
        file.write_text(json.dumps(manifest | {"started": "2027-01-01T00:00:00.000+00:00"}))
    compared = compare(read_groups([str(results / "old"), str(tmp_path / "later")]))
    assert any("drifted in between" in warning.cause for warning in compared.warnings)


def test_two_experiments_are_compared_treatment_by_treatment(tmp_path):
    few = {"nodes": (1,), "repetitions": 4}
    write_experiment(tmp_path / "a", Truth(seconds=2), clients=(1, 4), **few)
    write_experiment(tmp_path / "b", Truth(seconds=2, lam=150), clients=(4, 8), **few)
    compared = compare(read_groups([str(tmp_path / "a"), str(tmp_path / "b")]), ["throughput"])
    (contrast,) = compared.contrasts
    assert contrast.treatment == {"nodes": 1, "clients": 4}
    assert contrast.outcome == "better"
    assert [each.cause for each in compared.warnings if "counterpart" in each.cause] == [
        "one treatment of a has no counterpart to be compared with",
        "one treatment of b has no counterpart to be compared with",
    ]
    split = split_by_treatment(read_runs(str(tmp_path / "a")))
    assert [(group.label, len(group.runs)) for group in split] == [("clients 1", 4), ("clients 4", 4)]


def test_an_open_load_has_no_throughput_to_compare(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, "r", Truth(seconds=2, rate=100), seed=1)
    compared = between(tmp_path, "a", "b")
    assert [contrast.measure.kind for contrast in compared.contrasts] == ["p50", "p99"]


def test_groups_are_called_by_what_tells_them_apart(results):
    labels = [group.label for group in read_groups([f"{results}/old", f"{results}/./same", f"{results}/old/r0"])]
    assert labels == ["old", "same", "r0"]
    labels = [group.label for group in read_groups([f"{results}/old/r0", f"{results}/same/r0"])]
    assert labels == ["old/r0", "same/r0"]


def test_what_holds_no_run_is_refused(results, tmp_path):
    for nothing in (tmp_path, tmp_path / "no", f"{tmp_path}/*"):
        with pytest.raises(BadInput, match="no run") as caught:
            read_runs(str(nothing))
        assert caught.value.where == str(nothing)
    with pytest.raises(BadInput, match="nothing to be compared"):
        compare(read_groups([str(results / "old")]))
