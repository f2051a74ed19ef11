"""Weak scaling uses Gustafson's scaled speed-up instead of the models of strong scaling."""

import numpy as np
import pytest

from loadframe.analyze.scalability import fit, warnings
from loadframe.analyze.scalability.fitting import fit_model
from loadframe.analyze.scalability.intervals import parameters, spread
from loadframe.analyze.scalability.models import GUSTAFSON
from loadframe.analyze.scalability.observations import gather
from loadframe.report.fit import sentence

SIZES = (1, 2, 4, 8, 12, 16)


def grown(share, *, noise=0.0, repetitions=1, seed=0, sizes=SIZES):
    """Return throughputs of clusters that lose a serial share of their time, the work growing with them."""
    n = np.repeat(np.array(sizes, dtype=float), repetitions)
    exact = 100 * (n - share * (n - 1))
    return list(zip(n.tolist(), (exact * (1 + noise * np.random.default_rng(seed).standard_normal(n.size))).tolist(),
                    strict=True))  # fmt: skip


def test_exact_data_give_back_their_serial_share_and_their_scaled_speed_up():
    result = fit(grown(0.1), scaling="weak", over="nodes")
    assert result.best == "gustafson"
    assert result.best_model.parameters["lambda"].value == pytest.approx(100)
    assert result.best_model.parameters["serial"].value == pytest.approx(0.1)
    assert result.scaled_speedup(16).value == pytest.approx(16 - 0.1 * 15)
    assert result.standing == "none"


def test_the_law_is_not_a_model_of_strong_scaling():
    result = fit(grown(0.1))
    assert "gustafson" not in result.models
    assert result.scaled_speedup(16) is None


@pytest.mark.parametrize("repetitions", [1, 3])
def test_the_intervals_hold_the_serial_share(repetitions):
    held = 0
    for seed in range(60):
        data = gather(grown(0.2, noise=0.03, repetitions=repetitions, seed=1000 + seed), "relative")
        point = fit_model(GUSTAFSON, data)
        share = parameters(point, spread(point, data, seed), data)["serial"]
        held += share.low <= 0.2 <= share.high
    assert held >= 50


def test_the_interval_of_the_scaled_speed_up_is_that_of_the_share():
    result = fit(grown(0.2, noise=0.03, seed=1), scaling="weak")
    share, scaled = result.models["gustafson"].parameters["serial"], result.scaled_speedup(16)
    assert (scaled.low, scaled.high) == (16 - 15 * share.high, 16 - 15 * share.low)


def test_the_sentence_quotes_the_law_where_the_data_allow_it_and_says_where_not():
    words = sentence(fit(grown(0.1, noise=0.005), scaling="weak", over="nodes"))
    assert "grows in a straight line from 1 to 16 nodes" in words
    assert "By Gustafson's law: a serial share of 1" in words
    assert "a scaled speed-up of 14.5" in words
    bent = [(n, min(100 * n, 600)) for n in SIZES]
    assert "does not fit these data" in sentence(fit(bent, scaling="weak", over="nodes"))


def test_growth_beyond_size_is_flagged_with_its_negative_share():
    result = fit(grown(-0.1, noise=0.005), scaling="weak")
    assert result.best == "gustafson"
    assert result.best_model.parameters["serial"].high < 0
    assert any(warning.rule == warnings.SUPERLINEAR for warning in result.warnings)
