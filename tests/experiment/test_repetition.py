"""Repetition, block by block, until the intervals of the recorded runs are narrow enough."""

import math
import shutil

import numpy as np
import pytest

from loadframe.analyze.compare import read_runs
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.scale.treatments import pooled_noise, widest_interval
from loadframe.experiment.design.plans import StoppingRule, design
from loadframe.record.reader import set_aside
from simulated import Truth, fail_store, write_run

EXPERIMENT = """\
experiment: e
store: {kind: opensearch}
workload: small.yaml
kind: scale
factors: {clients: [1, 4]}
measure: look
repetitions: 2
until: {relative_interval: 10%, most: 6}
"""


def further(experiment, path):
    return [run.id for run in experiment.kind.next_runs(experiment, path)]


def record(path, runs, noise):
    for run in runs:
        truth = Truth(operation="look", noise=noise, seconds=1, warmup=0)
        seed = run.block * 100 + run.treatment["clients"]
        write_run(path, run.id, truth, clients=run.treatment["clients"], seed=seed, treatment=dict(run.treatment))


def test_the_design_has_the_repetitions_and_the_most_is_known_before(load):
    experiment = load(EXPERIMENT)
    assert len(design(experiment).runs) == 2 * 2
    most = experiment.kind.largest_design(experiment).runs
    assert len(most) == 6 * 2
    assert most[:4] == design(experiment).runs


def test_steady_runs_of_two_treatments_end_two_blocks_after_they_are_narrow(load, tmp_path):
    experiment = load(EXPERIMENT)
    made = list(experiment.kind.largest_design(experiment).runs)
    record(tmp_path / "runs", made[:4], noise=0.001)
    for block in (3, 4, 5):
        following = [run for run in made if run.block == block]
        assert further(experiment, tmp_path / "runs") == [run.id for run in following]
        record(tmp_path / "runs", following, noise=0.001)
    assert further(experiment, tmp_path / "runs") == []


def test_intervals_cover_after_the_stopping_rule():
    """One treatment, 5 % noise, until 5 %: without the two blocks afterwards the interval covers in 89 %."""
    random = np.random.default_rng(28)
    covered, trials = 0, 1000
    for _ in range(trials):
        values = np.exp(0.05 * random.standard_normal(20)).tolist()
        stopping, blocks = StoppingRule(0.05, 1), 2
        while blocks < 20 and not stopping.ends(blocks, pooled_noise([values[:blocks]]).half_width(blocks)):
            blocks += 1
        estimate = pooled_noise([values[:blocks]]).mean(values[:blocks])
        covered += estimate.low <= np.exp(0.05**2 / 2) <= estimate.high
    # 95 % less three standard errors.
    assert covered >= 0.929 * trials


def test_noisy_runs_get_whole_blocks_until_there_are_the_most(load, tmp_path):
    experiment = load(EXPERIMENT)
    most = experiment.kind.largest_design(experiment).runs
    path = tmp_path / "runs"
    record(path, design(experiment).runs, noise=0.5)
    for block in (3, 4, 5, 6):
        following = [run for run in most if run.block == block]
        assert further(experiment, path) == [run.id for run in following]
        record(path, following[:1], noise=0.5)
        assert further(experiment, path) == [run.id for run in following], "half a block does not count"
        record(path, following[1:], noise=0.5)
    assert further(experiment, path) == []


def test_a_treatment_without_a_valid_run_is_not_known(tmp_path):
    for number in range(3):
        labels = {"treatment": {"clients": 1}}
        write_run(tmp_path, f"a{number}", Truth(seconds=1, noise=0.001), seed=number, **labels)
    assert widest_interval(read_runs(str(tmp_path)), ["range_100"]) < 0.2
    labels = {"treatment": {"clients": 2}, "deviations": ["a copy is out of service"]}
    write_run(tmp_path, "b", Truth(seconds=1), seed=1, **labels)
    assert widest_interval(read_runs(str(tmp_path)), ["range_100"]) == math.inf
    assert widest_interval((), []) == math.inf


def test_survivors_of_a_failing_treatment_do_not_narrow_the_intervals(tmp_path, monkeypatch):
    """The slow run failed, and the survivors are alike."""
    for number in range(4):
        write_run(tmp_path, f"a{number}", Truth(seconds=1, noise=0.001), seed=number, treatment={"clients": 1})
    assert widest_interval(read_runs(str(tmp_path)), ["range_100"]) < 0.2
    monkeypatch.setattr(RecordedRun, "store_failed", property(lambda run: run.id.endswith("a0")))
    assert widest_interval(read_runs(str(tmp_path)), ["range_100"]) == math.inf


def test_failed_attempts_of_repeated_runs_do_not_narrow_the_intervals(load, tmp_path):
    """The store failed in an earlier attempt at each treatment, so no treatment shows the noise."""
    experiment = load(EXPERIMENT)
    made = list(experiment.kind.largest_design(experiment).runs)
    record(tmp_path / "runs", made[:10], noise=0.001)
    assert further(experiment, tmp_path / "runs") == []
    for run in made[:2]:
        again = shutil.copytree(tmp_path / "runs" / run.id, tmp_path / run.id)
        set_aside(tmp_path, fail_store(tmp_path / "runs" / run.id))
        again.rename(tmp_path / "runs" / run.id)
    assert further(experiment, tmp_path / "runs") == [run.id for run in made if run.block == 6]


def test_an_open_load_is_judged_by_its_response_time(tmp_path):
    for number in range(4):
        write_run(tmp_path, f"a{number}", Truth(seconds=1, rate=50, noise=0.3), seed=number)
    assert widest_interval(read_runs(str(tmp_path)), ["range_100"]) > 0.05


@pytest.mark.parametrize(
    ("until", "what"),
    [
        ("{relative_interval: five%, most: 6}", "is not a share"),
        ("{relative_interval: 10%, most: 1}", "at least 2"),
        ("{relative_interval: 10%}", "most"),
        ("{relative_interval: 0, most: 6}", "above 0"),
    ],
)
def test_typing_errors_are_reported(refused, until, what):
    error, _ = refused(EXPERIMENT.replace("{relative_interval: 10%, most: 6}", until))
    assert what in error.what


def test_the_most_is_no_less_than_what_there_is_anyway(refused):
    error, _ = refused(EXPERIMENT.replace("most: 6", "most: 2").replace("repetitions: 2", "repetitions: 3"))
    assert "most must be at least repetitions" in error.what


def test_searches_end_by_themselves(refused):
    searching = EXPERIMENT.replace("kind: scale", "kind: capacity\nslo: {response: 1s}").replace(
        "factors: {clients: [1, 4]}\n", ""
    )
    error, place = refused(searching)
    assert "do not support until" in error.what
    assert place.startswith("until")
