"""Fits of a scale experiment's curves use its scaling, blocks and run names."""

import json

import pytest

from loadframe.analyze.scale.strong_weak import Law
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.report.scale_words import limits
from simulated import Truth, write_experiment, write_run

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
