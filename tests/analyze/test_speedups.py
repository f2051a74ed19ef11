"""Speed-ups are ratios within blocks, because a block affects all of its runs."""

from dataclasses import replace

import numpy as np
import pytest

from loadframe.analyze.scale.treatments import Point, gather, speedup_of

NOISE = 0.02
#: The true throughputs of one, two and four nodes, 1/s.
TRUTH = {1: 100.0, 2: 180.0, 4: 300.0}


def speedups(random, blocks, spread):
    points = []
    for block in range(blocks):
        level = spread * random.standard_normal()
        for nodes, throughput in TRUTH.items():
            value = throughput * np.exp(level + NOISE * random.standard_normal())
            points.append(Point(f"b{block}-{nodes}", nodes, 8, value, None, None, None, True, block))
    treatments, noise = gather(points)
    return [speedup_of(treatment, treatments[0], treatments, noise) for treatment in treatments[1:]]


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.2])
def test_the_interval_covers_the_truth_and_is_as_narrow_as_the_noise_within_blocks(spread):
    random = np.random.default_rng(1)
    result = [speedup for _ in range(150) for speedup in speedups(random, 4, spread)]
    truths = [1.8, 3.0] * 150
    covered = [speedup.low <= truth <= speedup.high for speedup, truth in zip(result, truths, strict=True)]
    assert 0.91 <= np.mean(covered) <= 0.985
    # t of 6 degrees of freedom, of the difference of two means of four runs.
    assert np.median([np.log(speedup.high / speedup.value) for speedup in result]) == pytest.approx(0.037, abs=0.008)


def test_few_blocks_take_the_spread_of_all_treatments():
    result = speedups(np.random.default_rng(2), 2, 0.1)
    assert all(speedup.low < truth < speedup.high for speedup, truth in zip(result, (1.8, 3.0), strict=True))


def test_speedups_exclude_the_luck_of_a_selected_treatment():
    random = np.random.default_rng(3)
    points = [
        Point(f"{nodes}-{clients}-{block}", nodes, clients, 100 * nodes * np.exp(0.05 * random.standard_normal()),
              None, None, None, True, block)
        for nodes in (1, 2) for clients in (1, 2, 4, 8) for block in range(6)
    ]  # fmt: skip
    treatments, noise = gather(points)
    first, other = treatments[0], treatments[4]
    plain = speedup_of(other, first, [first, other], noise)
    lucky = replace(other, without_luck=0.95)
    assert speedup_of(lucky, first, [first, lucky], noise).value == pytest.approx(0.95 * plain.value)


def test_survivors_of_other_treatments_do_not_narrow_speedups():
    """At four nodes the slow runs failed, and the survivors are alike."""
    random = np.random.default_rng(4)
    points = [
        Point(f"{nodes}-{block}", nodes, 8, TRUTH[nodes] * np.exp(noise * random.standard_normal()), None, None, None,
              True, block)
        for nodes, noise in ((1, 0.05), (2, 0.05), (4, 1e-6)) for block in range(4)
    ]  # fmt: skip
    treatments, noise = gather(points, {"4-0"})
    assert [treatment.failed for treatment in treatments] == [False, False, True]
    alone, noise_alone = gather(points[:8])
    assert noise == noise_alone
    assert speedup_of(treatments[1], treatments[0], treatments, noise) == speedup_of(alone[1], alone[0], alone, noise)
    lasting = speedup_of(treatments[2], treatments[0], treatments, noise)
    assert np.log(lasting.high / lasting.value) > 0.02
    nothing, unknown = gather(points, {point.run for point in points})
    assert unknown.freedom == 0
    assert not nothing[0].throughput.is_finite
