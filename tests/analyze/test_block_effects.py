"""Fits within blocks: an effect of a block on all its runs is not noise of the curve."""

import numpy as np
import pytest

from loadframe.analyze.scalability import fit
from loadframe.analyze.scalability.fitting import fit_model
from loadframe.analyze.scalability.intervals import parameters, spread
from loadframe.analyze.scalability.models import USL
from loadframe.analyze.scalability.observations import block_effects, gather, parse_table
from loadframe.report.fit import sentence

pytestmark = pytest.mark.slow

SIZES = (1, 2, 4, 8, 16, 32)
TRUTH = {"lambda": 1000.0, "sigma": 0.03, "kappa": 1.5e-3}


def blocked(repetitions, *, noise, between, seed):
    random = np.random.default_rng(seed)
    n = np.tile(np.array(SIZES, dtype=float), repetitions)
    block = np.repeat(np.arange(repetitions), len(SIZES))
    curve = 1000 * n / (1 + 0.03 * (n - 1) + 1.5e-3 * n * (n - 1))
    levels = np.exp(between * random.standard_normal(repetitions)[block] + noise * random.standard_normal(n.size))
    return list(zip(n.tolist(), (curve * levels).tolist(), strict=True)), block.tolist()


@pytest.mark.parametrize(("noise", "between"), [(0.03, 0.0), (0.03, 0.1)])
def test_intervals_hold_the_truth_with_and_without_effects_of_blocks(noise, between):
    held = dict.fromkeys(TRUTH, 0)
    for seed in range(40):
        runs, blocks = blocked(3, noise=noise, between=between, seed=seed)
        data = gather(runs, "relative", blocks=blocks)
        point = fit_model(USL, data)
        result = parameters(point, spread(point, data, seed), data)
        for name, value in TRUTH.items():
            held[name] += result[name].low <= value <= result[name].high
    assert all(count >= 33 for count in held.values()), held


def test_a_block_column_of_a_csv_file_widens_lambda_to_95_percent():
    """Four blocks that differ by 10 %, 80 files: without the column lambda's interval covers in about 80 %."""
    held = dict.fromkeys(["block", "none"], 0)
    for seed in range(80):
        runs, blocks = blocked(4, noise=0.03, between=0.1, seed=100 + seed)
        lines = [f"{n},{x!r},night {block}" for (n, x), block in zip(runs, blocks, strict=True)]
        table = parse_table("\n".join(["nodes,throughput,block", *lines]).encode(), "a.csv")
        for name, given in (("block", table.blocks), ("none", None)):
            data = gather(table.pairs, "relative", blocks=given)
            point = fit_model(USL, data)
            level = parameters(point, spread(point, data, seed), data)["lambda"]
            held[name] += level.low <= TRUTH["lambda"] <= level.high
    # 95 % less three standard errors.
    assert held["block"] >= 0.876 * 80, held
    assert held["none"] < held["block"] - 8, held


def test_blocks_narrow_the_shape_and_widen_the_level():
    runs, blocks = blocked(3, noise=0.02, between=0.1, seed=4)
    within, plain = (fit(runs, blocks=block).models["usl"].parameters for block in (blocks, None))
    width = {name: [parameters[name].high - parameters[name].low for parameters in (within, plain)] for name in TRUTH}
    assert width["sigma"][0] < 0.6 * width["sigma"][1]
    assert width["kappa"][0] < 0.6 * width["kappa"][1]
    assert width["lambda"][0] > 1.5 * width["lambda"][1]


def test_an_open_level_does_not_hide_a_shape_that_is_known():
    runs, blocks = blocked(2, noise=0.01, between=0.3, seed=1)
    result = fit(runs, blocks=blocks, over="nodes")
    lam = result.best_model.parameters["lambda"]
    assert lam.high - lam.low > lam.value
    assert "Throughput peaks at 2" in sentence(result)


def test_a_block_that_lacks_a_run_does_not_bend_the_curve():
    runs, blocks = blocked(3, noise=0.0, between=0.2, seed=2)
    del runs[17], blocks[17]
    usl = fit(runs, blocks=blocks).models["usl"].parameters
    assert usl["sigma"].value == pytest.approx(0.03, rel=0.01)
    assert usl["kappa"].value == pytest.approx(1.5e-3, rel=0.01)


def test_effects_are_found_exactly_where_there_is_no_noise():
    sizes = np.array([1.0, 2.0, 4.0, 1.0, 2.0, 4.0])
    result = block_effects(sizes, sizes * np.repeat([1.1, 1 / 1.1], 3), list("aaabbb"))
    assert result is not None
    assert result[0].effects == pytest.approx([np.log(1.1), -np.log(1.1)])
    assert result[1] == pytest.approx(np.repeat([1.1, 1 / 1.1], 3))


@pytest.mark.parametrize("blocks", [[1] * 6, [1, 1, 1, 2, 2, None], [1, 1, 1, 2, 3, 4], [1, 2, 3, 1, 2, 3]])
def test_blocks_that_tell_nothing_are_left_alone(blocks):
    sizes = np.array([1.0, 2.0, 4.0, 1.0, 2.0, 4.0])
    assert block_effects(sizes, 100 * sizes, blocks) is None
