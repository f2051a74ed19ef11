"""Rates as a share of a control run's rate, which must come from a valid run."""

from dataclasses import replace

import pytest

from loadframe.base.errors import LoadframeError
from loadframe.experiment.kinds.elastic import capacity_shown
from simulated import Truth, write_run

TRUTH = Truth(lam=100.0, sigma=0.0, kappa=0.0, noise=0.0)


def test_an_invalid_control_run_shows_no_capacity(tmp_path):
    starved = write_run(tmp_path, "b1-control", TRUTH, deviations=["the cluster was rebalancing"]).path
    with pytest.raises(LoadframeError, match=r"no control run that measures it is valid .b1-control: ") as refused:
        capacity_shown([("b1-control", starved), ("b2-control", tmp_path / "b2-control")])
    assert "delete the control run's folder" in refused.value.remedy
    sound = write_run(tmp_path, "b2-control", replace(TRUTH, lam=200.0)).path
    alone = capacity_shown([("b2-control", sound)])
    assert alone > 0
    assert capacity_shown([("b1-control", starved), ("b2-control", sound)]) == alone


def test_a_control_run_that_is_not_made_yet_shows_no_capacity(tmp_path):
    with pytest.raises(LoadframeError, match="none is recorded yet"):
        capacity_shown([("b1-control", tmp_path / "b1-control")])
