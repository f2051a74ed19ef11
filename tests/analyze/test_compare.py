"""Comparisons of groups of runs: claims, refused claims, and warnings about conditions."""

import json
import math
import shutil
from dataclasses import replace
from itertools import product

import pytest

from loadframe.analyze.compare import Group, compare, read_groups, read_runs, split_by_treatment
from loadframe.analyze.exclusion import selected_in_groups
from loadframe.analyze.recorded_history import _titles
from loadframe.analyze.settings.analysis import _changed
from loadframe.base.errors import BadInput
from simulated import Truth, write_experiment, write_run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Six runs of each of three versions: two equal, and one slower by 20 %."""
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
    assert throughput.estimate.design == "unpaired"
    assert throughput.raw_p < throughput.p < 1e-6


def test_the_working_folder_and_its_parent_have_their_names_as_labels(results, monkeypatch):
    monkeypatch.chdir(results / "old")
    groups = read_groups([".", "../same", "../slow/r0/.."])
    assert [group.label for group in groups] == ["old", "same", "slow"]


def test_an_equal_version_is_not_claimed_to_differ(results):
    assert not {"better", "worse"} & {contrast.outcome for contrast in between(results, "old", "same").contrasts}


def test_a_difference_that_matters_is_excluded_only_if_the_interval_does(results):
    (contrast,) = between(results, "old", "same", kinds=["throughput"], least=0.1).contrasts
    assert contrast.outcome == "alike"
    (contrast,) = between(results, "old", "same", kinds=["throughput"], least=0.001).contrasts
    assert contrast.outcome == "inconclusive"


def test_each_group_is_held_against_the_first(results):
    compared = between(results, "old", "same", "slow", kinds=["throughput"])
    assert [(contrast.baseline, contrast.label) for contrast in compared.contrasts] == [
        ("old", "same"),
        ("old", "slow"),
    ]


def test_one_run_against_one_leaves_the_noise_unknown(results):
    old, slow = read_groups([f"{results}/old/r0", f"{results}/slow/r0"])
    compared = compare([old, slow], ["throughput"])
    (contrast,) = compared.contrasts
    assert (contrast.outcome, contrast.p, contrast.ratio.is_finite) == ("inconclusive", 1, False)
    assert compared.warnings[0].cause.startswith("1 run against 1 do not show the run-to-run variance")


@pytest.mark.parametrize("runs", [2, 3])
def test_few_runs_are_not_called_alike_for_lying_together_by_chance(tmp_path, runs):
    """The bootstrap's interval of two or three runs ends at their extremes, and these lie within 6.3 %."""
    for name, levels in {"a": (97, 100, 103), "b": (97, 100, 103)}.items():
        for number, lam in enumerate(levels[:runs]):
            write_run(tmp_path / name, f"r{number}", Truth(lam=lam, noise=0, seconds=2), seed=number)
    (contrast,) = between(tmp_path, "a", "b", kinds=["throughput"], least=0.063).contrasts
    assert contrast.outcome == "inconclusive"
    assert contrast.ratio.high - contrast.ratio.low > 0.12


def test_runs_that_must_not_be_believed_are_left_out(results, tmp_path):
    shutil.copytree(results / "slow", tmp_path / "slow")
    write_run(tmp_path / "slow", "busy", Truth(seconds=2), seed=1, deviations=["a copy is out of service"])
    compared = compare(read_groups([str(results / "old"), str(tmp_path / "slow")]))
    assert [run.id for run in compared.groups[1].left_out] == ["busy"]
    assert len(compared.contrasts[0].second) == 6


def test_different_machines_and_loads_are_reported(results, tmp_path):
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
    assert any("different loads (workload.parameters.documents: 30000 → 5)" in cause for cause in causes)
    assert "store.version: 3.8.0 → 9.9" in [str(difference) for difference in compared.differing["other"]]


def test_runs_without_interleaving_are_reported(results, tmp_path):
    shutil.copytree(results / "same", tmp_path / "later")
    _start(tmp_path / "later", "2026-01-02T03:34:05.000+00:00")
    compared = compare(read_groups([str(results / "old"), str(tmp_path / "later")]))
    assert any("drift between them" in warning.cause for warning in compared.warnings)
    assert {contrast.estimate.design for contrast in compared.contrasts} == {"unpaired"}


def test_one_session_each_is_reported_and_widens_the_interval(results, tmp_path):
    shutil.copytree(results / "same", tmp_path / "later")
    _start(tmp_path / "later", "2027-01-01T00:00:00.000+00:00", session="another command")
    groups = read_groups([str(results / "old"), str(tmp_path / "later")])
    compared = compare(groups, ["throughput"])
    assert any("one session each" in warning.cause for warning in compared.warnings)
    assert not any("drift between them" in warning.cause for warning in compared.warnings)
    (contrast,) = compared.contrasts
    assert contrast.estimate.design == "one session each"
    # 1.96 * sqrt(2) * 5 %, plus the run-to-run variance.
    assert 0.138 < math.log(contrast.ratio.high / contrast.ratio.value) < 0.16
    (tighter,) = compare(groups, ["throughput"], session_spread=0.01).contrasts
    assert math.log(tighter.ratio.high / tighter.ratio.value) < 0.05


def test_a_loss_is_found_in_blocks_that_differ_by_more(tmp_path):
    """Six blocks with a spread of a tenth: a test that ignores them detects a tenth in 15 % of cases."""
    for block, level in enumerate((1.15, 0.9, 1.0, 1.1, 0.85, 0.95)):
        for name, lam in (("old", 100 * level), ("new", 90 * level)):
            truth = Truth(lam=lam, noise=0.03, seconds=2)
            write_run(tmp_path / name, f"b{block}", truth, seed=10 * block + (name == "new"), block=block)
    runs = {name: read_runs(str(tmp_path / name)) for name in ("old", "new")}
    (apart,) = between(tmp_path, "old", "new", kinds=["throughput"]).contrasts
    assert (apart.estimate.design, apart.outcome) == ("unpaired", "inconclusive")
    for run in runs["new"]:
        shutil.move(run.run.path, tmp_path / "old" / f"new-{run.id}")
    together = {run.id: run for run in read_runs(str(tmp_path / "old"))}
    groups = [
        Group(name, tuple(run for key, run in together.items() if key.startswith("new") == (name == "new")))
        for name in ("old", "new")
    ]
    (contrast,) = compare(groups, ["throughput"]).contrasts
    assert (contrast.estimate.design, contrast.outcome) == ("paired", "worse")


def test_runs_without_successes_are_reported_when_dropped(results, tmp_path):
    shutil.copytree(results / "same", tmp_path / "half")
    file = tmp_path / "half" / "r0" / "summary.json"
    summary = json.loads(file.read_text())
    for operation in summary["phases"][0]["operations"].values():
        operation["throughput"] = 0.0
    file.write_text(json.dumps(summary))
    compared = compare(read_groups([str(results / "old"), str(tmp_path / "half")]), ["throughput"])
    assert any("1 run of half had a throughput of range_100 of 0" in warning.cause for warning in compared.warnings)


def test_failures_against_none_have_a_ratio_and_few_of_them_are_chance(tmp_path):
    for name, share in {"none": 0.0, "many": 0.008}.items():
        for number in range(4):
            write_run(tmp_path / name, f"r{number}", Truth(seconds=2, failed_share=share), seed=number)
    (contrast,) = between(tmp_path, "none", "many", kinds=["errors"]).contrasts
    assert contrast.medians[0] == 0
    assert (contrast.outcome, contrast.ratio.value > 5) == ("worse", True)
    for number in range(4):
        file = tmp_path / "many" / f"r{number}" / "summary.json"
        summary = json.loads(file.read_text())
        for operation in summary["phases"][0]["operations"].values():
            operation["successes"] = operation["requests"] - (number == 0)
        file.write_text(json.dumps(summary))
    (contrast,) = between(tmp_path, "none", "many", kinds=["errors"]).contrasts
    assert contrast.outcome == "inconclusive"


def test_invalid_runs_still_differ_in_their_results(tmp_path):
    for name, rate in {"slow": 100.0, "fast": 300.0}.items():
        write_run(tmp_path / name, "r0", Truth(seconds=2, rate=rate), seed=1, deviations=["a copy is out of service"])
        file = tmp_path / name / "r0" / "manifest.json"
        manifest = json.loads(file.read_text())
        manifest["workload"]["phases"] = [{"name": "a", "streams": [{"rate": rate}]}]
        file.write_text(json.dumps(manifest))
    compared = between(tmp_path, "slow", "fast")
    assert not compared.contrasts
    assert [difference.key for difference in compared.differing["fast"]] == ["workload.phases.a.streams"]


@pytest.mark.parametrize(
    ("part", "key", "first", "second"),
    [
        ("store", "durability", "appendfsync always", "fsync on"),
        ("store", "encryption", "none", "http"),
        ("store", "java", "17.0.15", "21.0.2"),
        ("store", "image", "a:1", "a:2"),
        ("store", "heap", 2**28, 2**29),
        ("generator", "trace", 0.1, 0.2),
        *(("generator", key, "false", "true") for key in ("spin", "kernel_timestamps", "samples")),
    ],
)
def test_recorded_settings_of_store_and_generator_are_differences(tmp_path, part, key, first, second):
    for name, value in {"one": first, "other": second}.items():
        write_run(tmp_path / name, "r0", Truth(seconds=2), seed=1)
        file = tmp_path / name / "r0" / "manifest.json"
        manifest = json.loads(file.read_text())
        manifest[part][key] = {"true": True, "false": False}.get(value, value)
        file.write_text(json.dumps(manifest))
    differing = between(tmp_path, "one", "other").differing["other"]
    assert [str(difference) for difference in differing] == [f"{part}.{key}: {first} → {second}"]


def test_names_of_collections_are_not_a_difference(tmp_path):
    for name in ("one", "other"):
        write_run(tmp_path / name, "r0", Truth(seconds=2), seed=1)
        file = tmp_path / name / "r0" / "manifest.json"
        manifest = json.loads(file.read_text())
        manifest["store"]["prefix"] = f"lf_{name}_"
        file.write_text(json.dumps(manifest))
    assert between(tmp_path, "one", "other").differing["other"] == ()


def _start(folder, instant, **parts):
    for file in folder.glob("*/manifest.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"started": instant, **parts}))


def test_two_experiments_are_compared_treatment_by_treatment(tmp_path):
    few = {"nodes": (1,), "repetitions": 4}
    write_experiment(tmp_path / "a", Truth(seconds=2), clients=(1, 4), **few)
    write_experiment(tmp_path / "b", Truth(seconds=2, lam=150), clients=(4, 8), **few)
    compared = compare(read_groups([str(tmp_path / "a"), str(tmp_path / "b")]), ["throughput"])
    (contrast,) = compared.contrasts
    assert contrast.treatment == {"nodes": 1, "clients": 4}
    assert contrast.outcome == "better"
    assert [warning.cause for warning in compared.warnings if "missing" in warning.cause] == [
        "1 treatment of a is missing in the other group",
        "1 treatment of b is missing in the other group",
    ]
    split = split_by_treatment(read_runs(str(tmp_path / "a")))
    assert [(group.label, len(group.runs)) for group in split] == [("clients 1", 4), ("clients 4", 4)]


def test_factors_whose_names_end_alike_are_told_apart(tmp_path):
    write_run(tmp_path, "r", Truth(seconds=2), seed=1)
    (recorded,) = read_runs(str(tmp_path / "r"))
    levels = {"with.size": (1, 2), "store.settings.size": (1, 2)}
    runs = [replace(recorded, treatment=dict(zip(levels, values, strict=True))) for values in product((1, 2), repeat=2)]
    assert split_by_treatment(runs)[1].label == "with.size 1, settings.size 2"
    assert len({group.label for group in split_by_treatment(runs)}) == 4
    assert _changed(levels, (2, 1)) == "with.size 2"
    assert _changed(levels, (1, 2)) == "settings.size 2"
    assert len({*_titles(runs)}) == 4
    (warning,) = selected_in_groups({"all": (runs * 20, [run for run in runs if run.treatment["with.size"] == 1] * 20)})
    assert "at with.size 2" in warning.cause


def test_throughput_of_open_loads_is_not_compared(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, "r", Truth(seconds=2, rate=100), seed=1)
    compared = between(tmp_path, "a", "b")
    assert [contrast.measure.kind for contrast in compared.contrasts] == ["p50", "p99"]


def test_groups_are_named_by_their_differences(results):
    labels = [group.label for group in read_groups([f"{results}/old", f"{results}/./same", f"{results}/old/r0"])]
    assert labels == ["old", "same", "r0"]
    labels = [group.label for group in read_groups([f"{results}/old/r0", f"{results}/same/r0"])]
    assert labels == ["old/r0", "same/r0"]


def test_folders_without_runs_are_refused(results, tmp_path):
    for nothing, what in (
        (tmp_path, "no run"),
        (tmp_path / "no", "this folder does not exist"),
        (f"{tmp_path}/*", "no run"),
    ):
        with pytest.raises(BadInput, match=what) as caught:
            read_runs(str(nothing))
        assert caught.value.where == str(nothing)
    with pytest.raises(BadInput, match="one group of runs cannot be compared"):
        compare(read_groups([str(results / "old")]))
