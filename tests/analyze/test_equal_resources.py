"""Horizontal versus vertical scaling: only clusters with equal total CPUs are compared."""

from dataclasses import replace

import pytest

from loadframe.analyze.scale.sweep import equal_resources, read_sweep
from loadframe.report import scale_words
from simulated import Truth, write_experiment


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """Nodes of half a CPU, and of a whole one, which are twice as fast; nodes slow each other down."""
    return measured_curves(tmp_path_factory, noise=0.01)


def measured_curves(tmp_path_factory, noise):
    result = []
    for cpus, lam in ((0.5, 100.0), (1.0, 200.0)):
        truth = Truth(lam=lam, node_sigma=0.25, sigma=0.0, kappa=0.0, noise=noise, seconds=2)
        path = write_experiment(
            tmp_path_factory.mktemp("equal") / "e", truth, nodes=(1, 2, 4), clients=(4,), repetitions=2
        )
        (values,) = read_sweep(path).curves
        result.append(replace(values, others={"store.limits.cpus": cpus}))
    return result


@pytest.mark.slow
def test_shapes_of_the_same_cpus_are_compared_with_the_fewest_nodes(curves):
    shapes = equal_resources(curves)
    assert [(shape.nodes, shape.cpus) for shape in shapes] == [(1, 1.0), (2, 0.5), (2, 1.0), (4, 0.5)]
    _, small, _, smaller = shapes
    # By the law, 2/1.25 of 100 against 200, and 4/1.75 of 100 against 2/1.25 of 200.
    assert small.ratio.value == pytest.approx(0.8, rel=0.05)
    assert small.ratio.low < 0.8 < small.ratio.high
    assert smaller.ratio.value == pytest.approx((4 / 1.75) / (2 / 1.25 * 2), rel=0.05)


def test_it_is_said_in_words(curves):
    words = scale_words.equal_resources(equal_resources(curves), "requests/s")
    assert len(words) == 2
    assert words[0].startswith("range_100, 1 CPUs in total: 2 nodes of 0.5 gave 0.")
    assert "times the throughput of 1 node of 1" in words[0]


def test_failures_leave_an_end_of_the_ratio_open(curves):
    half = curves[0]
    treatments = tuple(replace(at, failed=at.nodes == 2) for at in half.treatments)
    shapes = equal_resources([replace(half, treatments=treatments), curves[1]])
    assert [shape.is_open for shape in shapes] == [False, True, False, False]
    assert (shapes[1].ratio.low, shapes[1].ratio.high < 1) == (0, True)
    words = scale_words.equal_resources(shapes, "requests/s")
    assert (
        f"the store failed, so the ratio of 2 nodes of 0.5 to 1 node of 1 is below {shapes[1].ratio.high:.3g} ("
        in words[0]
    )
    assert "the store failed" not in words[1]


def test_without_a_limit_that_varies_there_is_nothing_to_compare(curves):
    assert equal_resources(curves[:1]) == ()
    assert equal_resources([replace(curve, others={}) for curve in curves]) == ()


@pytest.mark.slow
def test_a_noisy_phase_does_not_widen_the_intervals_of_another(curves, tmp_path_factory):
    noisy = [replace(curve, phase="noisy") for curve in measured_curves(tmp_path_factory, noise=0.3)]
    alone, together = equal_resources(curves), equal_resources([*curves, *noisy])
    assert together[: len(alone)] == alone
    assert together[1].ratio.high / together[1].ratio.low < together[5].ratio.high / together[5].ratio.low
