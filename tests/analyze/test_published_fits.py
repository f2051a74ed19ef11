"""Fits of published data give the published answers."""

import pytest
from usl_data import read_pairs

from loadframe.analyze.scalability import fit


@pytest.mark.parametrize(
    ("residuals", "sigma", "kappa", "lam"),
    [("absolute", 0.02444, 0.00163, 20.856), ("relative", 0.01677, 0.00188, 20.268)],
)
def test_the_raytracers_first_six_rows(residuals, sigma, kappa, lam):
    parameters = fit(read_pairs("raytracer", 6), residuals=residuals).models["usl"].parameters
    assert parameters["sigma"].value == pytest.approx(sigma, rel=0.01)
    assert parameters["kappa"].value == pytest.approx(kappa, rel=0.01)
    assert parameters["lambda"].value == pytest.approx(lam, rel=0.01)


def test_all_rows_of_the_raytracer_have_no_coherency():
    result = fit(read_pairs("raytracer"), residuals="absolute")
    parameters = result.models["usl"].parameters
    assert parameters["lambda"].value == pytest.approx(21.849, rel=0.001)
    assert parameters["sigma"].value == pytest.approx(0.05777, rel=0.001)
    assert parameters["kappa"].value == pytest.approx(0, abs=1e-9)
    amdahl = result.models["amdahl"].parameters
    assert amdahl["lambda"].value / amdahl["sigma"].value == pytest.approx(378.2, rel=0.001)
    assert result.best == "amdahl"
    assert result.peak is None


@pytest.mark.parametrize("residuals", ["absolute", "relative"])
def test_exact_data_give_their_parameters_and_their_peak(residuals):
    result = fit(read_pairs("exact"), residuals=residuals)
    parameters = result.models["usl"].parameters
    assert parameters["sigma"].value == pytest.approx(0.02, rel=0.001)
    assert parameters["kappa"].value == pytest.approx(0.02, rel=0.001)
    assert parameters["lambda"].value == pytest.approx(1, rel=0.001)
    assert result.best == "usl"
    assert result.peak is not None
    assert result.peak.n.value == pytest.approx(7, rel=0.001)
    assert result.peak.throughput.value == pytest.approx(7 / 1.96, rel=0.001)


@pytest.mark.parametrize("residuals", ["absolute", "relative"])
def test_a_processor_that_runs_out_of_cores_is_a_knee_and_has_no_peak(residuals):
    result = fit(read_pairs("sysbench_cpu"), residuals=residuals)
    assert result.best == "knee"
    assert result.peak is None
    assert result.best_model.parameters["ceiling"].value == pytest.approx(27349, rel=0.001)


@pytest.mark.parametrize("residuals", ["absolute", "relative"])
def test_a_linear_cluster_claims_no_peak(residuals):
    result = fit(read_pairs("netflix_cassandra"), residuals=residuals)
    assert result.best == "linear"
    assert result.peak is None
    assert result.models["usl"].parameters["kappa"].low == 0
    assert any("cannot be distinguished from 0" in warning.cause for warning in result.warnings)
