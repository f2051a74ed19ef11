"""`loadframe run` on real nodes: an experiment with levels that cannot work, cut off, gone on with and mended."""

import json
import re
import signal
from pathlib import Path

import pytest

from commands import Running, loadframe, open_folder, result, servers
from loadframe.record import Run

WORKLOAD = """\
workload: small
parameters: {documents: 200}
collections: {trips: {elasticsearch: {settings: {number_of_replicas: 0}}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: "${documents}"}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 100}}
  refresh: {refresh: {collection: trips}}
  look: {search: {collection: trips, size: 10}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 2, until: exhausted}
  - {name: refresh, prepares: true, operation: refresh, clients: 1, requests: 1}
  - {name: look, operation: look, clients: 1, duration: 1m}
"""
EXPERIMENT = """\
experiment: small
question: Do more clients find more?
store: {kind: opensearch}
workload: ./small.yaml
kind: scale
factors: {nodes: [1], clients: [1, 2], store.settings.heap: [400m, much]}
duration: 1s
repetitions: 2
"""
SEARCH = """\
experiment: search
store: {kind: opensearch}
workload: ./small.yaml
kind: settings
scheme: tpe
factors: {clients: [1, 2, 3], store.settings.heap: [400m, 500m]}
trials: 5
confirm: 0
duration: 6h
"""
GOOD, BAD = "400m", "much"


@pytest.fixture(scope="module")
def place():
    """The folder of the experiment's files, where the commands work, and one for their clusters."""
    with open_folder("run") as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LOADFRAME_STATE", str(folder / "state"))
        Path("small.yaml").write_text(WORKLOAD)
        Path("e.yaml").write_text(EXPERIMENT)
        yield folder


@pytest.fixture(scope="module")
def design(place):
    """Return the planned runs."""
    return result("run", "e.yaml", "--dry-run")["design"]


@pytest.fixture(scope="module")
def interrupted(place, design):
    """Interrupt the command in its second run; return the folder that it leaves."""
    with Running("run", "e.yaml", folder=place) as command:
        second = [run["run"] for run in design if run["treatment"]["store.settings.heap"] == GOOD][1]
        command.wait_for(second, "phase look")
        status, _ = command.send(signal.SIGINT)
        return status, command.stderr, sorted(path.name for path in Path("results/small/runs").iterdir())


@pytest.fixture(scope="module")
def finished(interrupted):
    """Run the same command again, to its end."""
    return loadframe("run", "e.yaml")


@pytest.fixture(scope="module")
def runs(finished):
    """Return the runs in order of their start."""
    return sorted(map(Run, Path("results/small/runs").iterdir()), key=lambda run: run.raw_manifest["started"])


def test_a_dry_run_prints_the_runs_and_starts_nothing(place):
    printed = loadframe("run", "e.yaml", "--dry-run")
    assert printed.returncode == 0
    assert printed.stdout.startswith("small: 8 runs, about ")
    assert "b2-nodes1-clients2-heapmuch" in printed.stdout
    told = result("run", "e.yaml", "--dry-run")
    assert len(told["design"]) == 8
    assert told["expected_seconds"] > 8
    assert not Path("results").exists()
    assert not Path("state").exists()


def test_a_dry_run_prints_the_range_of_automatic_lengths(place):
    Path("auto.yaml").write_text(EXPERIMENT.replace("1s", "{at_least: 1m, at_most: 10m}"))
    printed = loadframe("run", "auto.yaml", "--dry-run")
    assert re.match(r"small: 8 runs, \d+ min( \d+ s)? to 1 h \d+ min\n", printed.stdout)
    told = result("run", "auto.yaml", "--dry-run")
    assert 8 * 60 <= told["least_seconds"] < 10 * 60 and told["expected_seconds"] > 8 * 600
    Path("auto.yaml").unlink()


def test_an_experiment_of_days_wants_to_be_meant(place):
    Path("long.yaml").write_text(EXPERIMENT.replace("1s", "5h"))
    refused = loadframe("run", "long.yaml")
    assert refused.returncode == 2
    assert "the experiment takes about 40 h" in refused.stderr
    assert "--yes" in refused.stderr
    # Five trials are planned in sequence, so the check covers their total time.
    Path("long.yaml").write_text(SEARCH)
    refused = loadframe("run", "long.yaml")
    assert (refused.returncode, "the experiment takes at most about 30 h" in refused.stderr) == (2, True)
    assert not Path("results").exists()


@pytest.mark.store
def test_an_interrupt_keeps_the_runs_that_are_whole(interrupted, design):
    status, said, kept = interrupted
    assert status == 130
    assert "stopped; repeat the command to resume results/small" in said
    assert "Traceback" not in said
    before = [run["run"] for run in design[: len(kept)]]
    assert kept == sorted(before), "no half run, and none out of turn"


@pytest.mark.store
def test_repeating_the_command_makes_the_missing_runs_in_design_order(finished, runs, design, interrupted):
    assert f"resuming: {len(interrupted[2])} of 8 runs are already recorded" in finished.stderr
    assert [run.raw_manifest["run"] for run in runs] == [run["run"] for run in design]


@pytest.mark.store
def test_runs_carry_their_treatment_block_and_seed(runs, design):
    assert [dict(run.raw_manifest["treatment"]) for run in runs] == [run["treatment"] for run in design]
    assert [(run.raw_manifest["block"], run.raw_manifest["repetition"]) for run in runs] == 4 * [(1, 1)] + 4 * [(2, 2)]
    assert [run.raw_manifest["seed"] for run in runs] == 4 * [1] + 4 * [2], "another block sends other requests"


@pytest.mark.store
def test_levels_that_work_are_measured(runs):
    good = [run for run in runs if run.raw_manifest["treatment"]["store.settings.heap"] == GOOD]
    assert len(good) == 4
    for run in good:
        (phase,) = run.raw_summary["phases"]
        assert (run.raw_summary["status"], phase["name"], phase["duration"]) == (
            "done",
            "look",
            pytest.approx(1, abs=0.2),
        )
        assert phase["streams"][0]["pacing"]["closed"]["clients"] == run.raw_manifest["treatment"]["clients"]
        assert phase["operations"]["look"]["successes"] > 0
        assert run.raw_manifest["store"]["heap"] == 400 * 2**20


@pytest.mark.store
def test_levels_that_cannot_work_are_recorded_as_failed_and_the_status_says_so(finished, runs):
    bad = [run for run in runs if run.raw_manifest["treatment"]["store.settings.heap"] == BAD]
    assert [run.raw_summary["status"] for run in bad] == 4 * ["failed"]
    assert all("'much' is not a size" in run.raw_summary["failure"] for run in bad)
    assert all(run.raw_manifest["store"]["settings"] == {"heap": BAD} for run in bad)
    assert {run.manifest.store.kind for run in bad} == {"opensearch"}
    assert finished.returncode == 1
    assert "4 of 8 runs failed\n  the report gives the causes; --retry-failed" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.store
def test_a_report_is_written_and_printed(finished):
    page = Path("results/small/report.html").read_text()
    assert "Do more clients find more?" in page
    assert "is not a size" in page
    assert "4 failed" in finished.stdout


@pytest.mark.store
def test_nothing_is_left_running(finished, place):
    assert servers(place / "state") == []
    assert not any(place.glob("state/passing/*"))


@pytest.mark.store
def test_failed_runs_are_made_again_only_on_request(finished, runs):
    def started():
        return {path.name: Run(path).raw_manifest["started"] for path in Path("results/small/runs").iterdir()}

    before = started()
    again = loadframe("run", "e.yaml", "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout)
    assert started() == before
    retried = loadframe("run", "e.yaml", "--retry-failed")
    assert retried.returncode == 1
    after = started()
    bad = {name for name in before if BAD in name}
    assert {name for name in before if before[name] != after[name]} == bad
    kept = {path.name: Run(path).raw_manifest["started"] for path in Path("results/small/attempts").iterdir()}
    assert kept == {f"{name}.1": before[name] for name in bad}
    # The terminal breaks lines.
    assert f"{len(bad)} earlier attempts failed" in " ".join(retried.stdout.split())


@pytest.mark.store
def test_another_experiment_does_not_mix_with_the_runs_of_the_first(finished):
    files = sorted(Path("results").rglob("*"))
    Path("other.yaml").write_text(EXPERIMENT.replace("duration: 1s", "duration: 2s"))
    refused = loadframe("run", "other.yaml")
    assert refused.returncode == 2
    assert "the folder holds an experiment with other values of `duration`" in refused.stderr
    Path("small.yaml").write_text(WORKLOAD.replace("size: 10}", "size: 20}"))
    refused = loadframe("run", "e.yaml")
    assert refused.returncode == 2
    assert "other values of `workload`\n" in refused.stderr
    assert sorted(Path("results").rglob("*")) == files
