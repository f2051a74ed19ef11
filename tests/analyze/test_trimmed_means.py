"""Robust estimates of ratios: claims and power with outliers, and that only the experiment's file chooses them."""

import json
import math

import numpy as np
import pytest
from benchmarks.simulate_comparison import normal, slow_runs, tailed

from loadframe.analyze.compare import Group, compare, read_variants, uses_robust_estimate
from loadframe.analyze.compare.estimate_ratio import Observation, estimate_ratio
from loadframe.base.errors import BadInput


def claims(draw, loss, *, robust, blocks, trials=400):
    """Return in which share of experiments a loss is claimed."""
    random, made = np.random.default_rng(10), tailed(blocks, draw)
    count = 0
    for _ in range(trials):
        observations = [
            Observation(o.value * (1 - loss if o.group == "new" else 1), o.group, o.block) for o in made(random)
        ]
        count += estimate_ratio(observations, "old", "new", robust=robust).p < 0.05
    return count / trials


@pytest.mark.parametrize("blocks", [6, 10])
def test_trimmed_means_find_more_where_single_runs_are_slow_and_claim_no_more_falsely(blocks):
    assert (
        claims(slow_runs, 0.1, robust=True, blocks=blocks) > claims(slow_runs, 0.1, robust=False, blocks=blocks) + 0.03
    )
    assert claims(slow_runs, 0.0, robust=True, blocks=blocks) < 0.08
    assert claims(normal, 0.0, robust=True, blocks=blocks) < 0.08


def test_one_wild_run_hardly_moves_a_trimmed_ratio():
    values = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01]
    observations = [
        Observation(value * (0.9 if group else 1.0) * (0.2 if group and block == 3 else 1.0), group, block)
        for block, value in enumerate(values)
        for group in (0, 1)
    ]
    robust = estimate_ratio(observations, 0, 1, robust=True)
    assert robust.ratio.value == pytest.approx(0.9)
    assert robust.ratio.high < 0.92
    assert estimate_ratio(observations, 0, 1).ratio.value < 0.75
    unblocked = [Observation(o.value, o.group) for o in observations]
    assert estimate_ratio(unblocked, 0, 1, robust=True).ratio.value == pytest.approx(0.9, rel=0.02)
    nights = [Observation(o.value, o.group, None, (o.group, o.block)) for o in observations]
    assert estimate_ratio(nights, 0, 1, robust=True).ratio.value == pytest.approx(0.9, rel=0.02)


def test_few_runs_are_estimated_as_without_it():
    pair = [Observation(value, group) for group, values in enumerate(([1.0, 1.1, 1.05], [0.9])) for value in values]
    assert estimate_ratio(pair, 0, 1, robust=True) == estimate_ratio(pair, 0, 1)
    alone = [Observation(1.0, 0, 0), Observation(0.9, 1, 0)]
    assert math.isinf(estimate_ratio(alone, 0, 1, robust=True).ratio.high)


def test_the_experiments_file_chooses_the_estimate(tmp_path):
    def folder(name, **more):
        path = tmp_path / name
        (path / "runs").mkdir(parents=True)
        description = {"experiment": "e", "kind": "compare", "factors": {}, "design": [], "measure": ["a"]}
        variants = {"variants": {"old": {}, "new": {"clients": 2}}}
        (path / "experiment.json").write_text(json.dumps(description | variants | more))
        return path

    robust, plain = folder("robust", estimate="robust"), folder("plain")
    assert [group.robust for group in read_variants(str(robust))] == [True, True]
    assert [group.robust for group in read_variants(str(plain))] == [False, False]
    assert uses_robust_estimate(str(robust))
    with pytest.raises(BadInput, match=r"robust has `estimate: robust`, .*plain has not"):
        uses_robust_estimate(str(tmp_path / "*"))
    with pytest.raises(BadInput, match="has `estimate: robust`, but b has not"):
        compare([Group("a", (), robust=True), Group("b", ())])
