"""Fits of a scale experiment's curves use its scaling, blocks and run names."""

import json

import numpy as np
import pytest

from loadframe.analyze.scalability import fit as fitted
from loadframe.analyze.scalability.observations import gather
from loadframe.analyze.scale.strong_weak import Law
from loadframe.analyze.scale.sweep import curves_document, read_sweep
from loadframe.report import scale_words
from loadframe.report.plots.scale import throughput_over_nodes
from loadframe.report.scale_words import limits
from loadframe.report.tables import models_table
from simulated import Truth, fail_store, write_experiment, write_run

NODES = (1, 2, 3, 4, 6, 8)
WEAK = Truth(noise=0.005, node_serial=0.1)


def weak(path, truth=WEAK, nodes=NODES):
    return write_experiment(path, truth, nodes=nodes, clients=(8,), repetitions=2, scaling="weak", grows="documents")


def over_nodes(path):
    (curves,) = read_sweep(path).curves
    return curves.over_nodes.fit


def other_truths(path, truths):
    """Write a strong-scaling experiment in which some runs have a different truth."""
    write_experiment(path, Truth(noise=0.005), nodes=NODES, clients=(8,), repetitions=3, missing=list(truths))
    for seed, (run, truth) in enumerate(truths.items(), start=100):
        block, nodes = int(run[1]), int(run.split("nodes")[1].split("-")[0])
        treatment = {"nodes": nodes, "clients": 8}
        write_run(path / "runs", run, truth, **treatment, seed=seed, treatment=treatment, block=block)
    return path


@pytest.mark.slow
def test_an_experiment_of_weak_scaling_is_judged_by_gustafsons_law(tmp_path):
    fit = over_nodes(weak(tmp_path / "e"))
    assert fit.scaling == "weak"
    assert fit.best == "gustafson"
    share = fit.best_model.parameters["serial"]
    assert share.low <= 0.1 <= share.high
    assert fit.as_dict()["scaled_speedup"] == {"n": 8, "speedup": fit.scaled_speedup(8).as_dict()}


def test_an_experiment_of_strong_scaling_is_not(tmp_path):
    fit = over_nodes(write_experiment(tmp_path / "e", clients=(8,)))
    assert fit.scaling == "strong"
    assert fit.as_dict()["scaled_speedup"] is None


def test_the_report_of_few_weak_sizes_names_the_law(tmp_path):
    (curves,) = read_sweep(weak(tmp_path / "e", nodes=(1, 2, 4))).curves
    assert "By Gustafson's law: a serial share of" in limits(curves)[0]


@pytest.mark.slow
def test_block_effects_are_not_noise_of_the_curve(tmp_path):
    slow = {f"b2-nodes{nodes}-clients8": Truth(noise=0.005, lam=80) for nodes in NODES}
    sigma = over_nodes(other_truths(tmp_path / "e", slow)).models["amdahl"].parameters["sigma"]
    assert sigma.value == pytest.approx(0.1, abs=0.01)
    assert sigma.high - sigma.low < 0.03


@pytest.mark.slow
def test_a_run_that_lies_far_off_is_named(tmp_path):
    odd = {"b2-nodes8-clients8": Truth(noise=0.005, lam=50)}
    fit = over_nodes(other_truths(tmp_path / "e", odd))
    assert any("b2-nodes8-clients8" in warning.cause for warning in fit.warnings)


@pytest.mark.slow
def test_bands_and_speed_ups_cover_the_bounds_of_the_load_generator(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(noise=0.005), nodes=NODES, clients=(8,), repetitions=3)
    exact = over_nodes(path)
    for file in path.glob("runs/*/summary.json"):
        summary = json.loads(file.read_text())
        for figure in summary["verdict"]["figures"]:
            if figure["figure"] == "throughput":
                value = sum(of["throughput"] for of in summary["phases"][0]["operations"].values())
                figure |= {"low": {"value": value}, "high": {"value": 1.04 * value}}
        file.write_text(json.dumps(summary))
    fit = over_nodes(path)
    assert fit.best == exact.best == "amdahl"
    # The curve at one node is lambda.
    (low,), (high,) = fit.best_model.band([1.0])
    lam = fit.best_model.parameters["lambda"]
    assert (low, high) == pytest.approx((lam.low, lam.high))
    assert high > 1.03 * exact.best_model.band([1.0])[1][0]
    usl, plain = (Law("usl", of.models["usl"].parameters["sigma"], True, of.models["usl"]) for of in (fit, exact))
    speedup, narrow = usl.speedup(8), plain.speedup(8)
    assert speedup.value == narrow.value
    # Only the throughputs of the larger, or of the smaller sizes may be 4 % higher.
    assert speedup.low == pytest.approx(narrow.low / 1.04, rel=0.01)
    assert speedup.high == pytest.approx(narrow.high * 1.04, rel=0.01)


def test_failures_at_a_fitted_size_leave_the_intervals_of_the_fit_unknown(tmp_path):
    truth = Truth(node_sigma=0.1, noise=0.01, seconds=2)
    path = write_experiment(tmp_path / "e", truth, nodes=NODES, clients=(8,), repetitions=3)
    (whole,) = read_sweep(path).curves
    assert whole.over_nodes.fit.unknown is None
    assert whole.over_nodes.fit.best_model.settled
    for block in (1, 3):
        fail_store(path / "runs" / f"b{block}-nodes4-clients8")
    (curves,) = read_sweep(path).curves
    fit = curves.over_nodes.fit
    why = "the store failed in 2 of 3 runs with 4 nodes: the intervals are unknown"
    assert fit.unknown == why
    assert scale_words.lead(curves) == f"Inconclusive: {why}."
    point = fit.best_model.parameters["lambda"]
    assert point.value == pytest.approx(whole.over_nodes.fit.best_model.parameters["lambda"].value, rel=0.05)
    for model in fit.models.values():
        assert all(estimate.low <= 0 and np.isinf(estimate.high) for estimate in model.parameters.values())
        assert np.isinf(model.band(np.array([4.0, 16.0]))[1]).all()
        assert np.isinf(model.ratio(8, 1)[1])
    assert np.isinf(fit.candidate.n.high)
    assert (fit.standing, fit.peak, fit.ceiling, fit.robust) == ("open", None, None, None)
    assert not {"no_peak", "peak_open", "runs_decide"} & {finding.code for finding in fit.warnings}
    document = json.loads(json.dumps(curves_document(curves), allow_nan=False))["over_nodes"]
    assert document["unknown"] == why
    assert {
        number["high"] for model in document["fit"]["models"].values() for number in model["parameters"].values()
    } == {None}
    rows = {row[0].text: row[1] for row in models_table(fit, "requests/s").rows}
    cell = rows["λ, throughput of one, requests/s"]
    assert (cell.small, cell.number.low, cell.number.high) == ("", None, None)
    assert "No curve: the data are inconclusive." in throughput_over_nodes(curves, "plot").caption


def test_failures_at_a_number_of_clients_leave_the_intervals_over_clients_unknown(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(2,), clients=(1, 2, 4, 8), repetitions=3)
    fail_store(path / "runs" / "b1-nodes2-clients4")
    (curves,) = read_sweep(path).curves
    words = scale_words.lead(curves)
    assert words == "Inconclusive: the store failed in 1 of 3 runs with 4 clients: the intervals are unknown."


def test_survivors_do_not_enter_the_noise_and_the_lack_of_fit():
    random = np.random.default_rng(3)
    sizes = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 3)
    values = 100 * sizes / (1 + 0.05 * (sizes - 1)) * np.exp(0.01 * random.standard_normal(len(sizes)))
    alike = np.where(sizes == 4, 700.0, values)
    pairs = list(zip(sizes.tolist(), alike.tolist(), strict=True))
    others = [pair for pair in pairs if pair[0] != 4]
    data, rest = gather(pairs, "relative", failed=[4]), gather(others, "relative")
    assert data.pure_error == pytest.approx(rest.pure_error)
    assert data.freedom == rest.freedom + 1
    without = fitted(others).models
    for name, model in fitted(pairs, failed=[4]).models.items():
        assert model.lack_of_fit.p == pytest.approx(without[name].lack_of_fit.p, rel=1e-6)
    assert fitted(pairs).models["amdahl"].lack_of_fit.p < 1e-6 < without["amdahl"].lack_of_fit.p
