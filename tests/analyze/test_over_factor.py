"""Curves over a factor that is neither nodes nor clients, of requests or documents, from runs with known truth."""

import json

import numpy as np
import pytest

from loadframe.analyze.compare import Measure
from loadframe.analyze.experiment import RecordedRun, read_experiment
from loadframe.analyze.scale import curves
from loadframe.analyze.scale.curves import curves_over
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.analyze.scale.treatments import pooled_noise
from loadframe.analyze.verdict.rules import NODE_LOST
from loadframe.record.schema.figures import Latency
from loadframe.report import scale_words
from loadframe.report.kinds import read_report
from loadframe.report.kinds.scale import sweep_page
from loadframe.report.sections import further
from made_up_runs import MadeUp, operation, phase, summary
from simulated import Truth, write_experiment, write_run

#: Size of a simulated request.
DOCUMENTS = 100
SIZES = [10, 100, 1000, 10000]
FACTOR = "with.result_size"


def rate(size, clients):
    """The true requests/s of one node: a search takes 1 ms and 10 us for each document."""
    return 1000 * clients / (1 + size / 100)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Four sizes of a result at two numbers of clients, two repetitions, one run that is invalid."""
    path = tmp_path_factory.mktemp("over") / "e"
    treatments = [{FACTOR: size, "clients": clients} for size in SIZES for clients in (1, 4)]
    design = [
        {"run": f"b{block}-size{at[FACTOR]}-clients{at['clients']}", "block": block, "treatment": at}
        for block in (1, 2)
        for at in treatments
    ]
    names = [entry["run"] for entry in design]
    write_experiment(
        path, missing=names, design=design, factors={FACTOR: SIZES, "clients": [1, 4]}, objective="documents"
    )
    for seed, entry in enumerate(design):
        at = entry["treatment"]
        spoilt = entry["run"] == "b1-size100-clients4"
        truth = Truth(lam=rate(at[FACTOR], 1), sigma=0.0, kappa=0.0, noise=0.02)
        labels = {"treatment": at, "block": entry["block"], "repetition": entry["block"]}
        labels |= {"deviations": ["a copy is out of service"]} if spoilt else {}
        write_run(path / "runs", entry["run"], truth, clients=at["clients"], seed=seed, **labels)
    return path


@pytest.fixture(scope="module")
def curve(experiment):
    (curve,) = curves_over(read_experiment(experiment))
    return curve


def test_a_response_time_that_varies_more_than_the_others_has_its_own_interval():
    random, held, trials = np.random.default_rng(5), 0, 200
    for _ in range(trials):
        groups = [
            [RecordedRun(f"r{number}", None, {}, MadeUp(summary(phase("read", {"get": operation(100.0, response=Latency(
                count=100, p50=float(time)))})))) for number, time in enumerate(times)]
            for times in (0.1 * (1 + 0.2 * random.standard_normal(3)), *(0.05 * (1 + 0.02 * random.standard_normal(3))
                                                                          for _ in range(3)))
        ]  # fmt: skip
        measure = Measure("read", "p50", "get")
        noise = pooled_noise([[measure.of(run) for run in group] for group in groups])
        mean = curves._mean(groups[0], measure, noise)
        held += mean.low <= 0.1 <= mean.high
    assert held >= 0.9 * trials


@pytest.mark.slow
def test_there_is_a_line_for_each_number_of_clients_on_a_logarithmic_axis(curve):
    assert curve.levels.spacing == "log"
    assert [line.others for line in curve.lines] == [{"clients": 1}, {"clients": 4}]
    assert [[point.level for point in line.points] for line in curve.lines] == [SIZES, SIZES]


def test_points_are_documents_per_second_with_intervals_that_hold_the_truth(curve):
    points = [(line.others["clients"], point) for line in curve.lines for point in line.points]
    for clients, point in points:
        truth = DOCUMENTS * rate(point.level, clients)
        assert point.rate.value == pytest.approx(truth, rel=0.06)
        assert 0 < point.rate.low < point.rate.value < point.rate.high
    held = [point.rate.low <= DOCUMENTS * rate(point.level, clients) <= point.rate.high for clients, point in points]
    assert sum(held) >= len(held) - 1


def test_a_run_that_is_invalid_is_in_no_point(curve):
    runs = {(line.others["clients"], point.level): point.runs for line in curve.lines for point in line.points}
    assert runs[4, 100] == 1
    assert {count for at, count in runs.items() if at != (4, 100)} == {2}


def test_curves_over_clients_count_documents_too_and_say_so(experiment):
    sweep = read_sweep(experiment)
    first = sweep.curves[0]
    assert first.rate.unit == "documents/s"
    (one, *_) = first.treatments
    assert one.throughput.value == pytest.approx(DOCUMENTS * rate(10, 1), rel=0.05)
    # Little's law applies to requests, independent of the unit of throughput.
    assert one.parallelism == pytest.approx(one.clients, rel=0.05)
    assert "documents/s" in scale_words.lead(first)
    assert sweep.as_dict()["unit"] == "documents/s"
    more = further(sweep.folder)
    page = sweep_page(sweep, more.sections, more.curves)
    assert "requests/s" not in page.split("Percentiles over time")[0]
    assert "documents/s (log scale)" in page
    assert "so their intervals of the same figures differ" in " ".join(page.split())


def test_the_document_has_each_point(experiment):
    document = json.loads(json.dumps(further(read_experiment(experiment)).document, allow_nan=False))
    (over,) = document["over_factors"]
    assert (over["factor"], over["unit"], over["axis"]) == (FACTOR, "documents/s", "log")
    assert [point["level"] for point in over["lines"][0]["points"]] == SIZES


def test_an_experiment_may_say_how_an_axis_is_spaced(experiment):
    folder = read_experiment(experiment)
    folder.description["axes"] = {FACTOR: "linear"}
    (curve,) = curves_over(folder)
    assert curve.levels.spacing == "linear"


def test_nodes_and_clients_have_fitted_curves_and_no_others(tmp_path):
    folder = read_experiment(write_experiment(tmp_path / "e", clients=(1, 2), nodes=(1, 2), repetitions=1))
    assert curves_over(folder) == ()


def test_a_level_at_which_every_run_failed_is_named_without_a_figure(tmp_path):
    design = [{"run": f"b1-size{size}", "block": 1, "treatment": {FACTOR: size}} for size in SIZES]
    names = [entry["run"] for entry in design]
    path = write_experiment(tmp_path / "e", missing=names, design=design, factors={FACTOR: SIZES})
    for size, entry in zip(SIZES, design, strict=True):
        write_run(path / "runs", entry["run"], Truth(seconds=2), treatment=entry["treatment"], block=1)
        if size == SIZES[-1]:
            file = path / "runs" / entry["run"] / "summary.json"
            file.write_text(json.dumps({"status": "failed", "failure": "node-0 ended", "fault": "store"}))
    (curve,) = curves_over(read_experiment(path))
    ((*others, dead),) = [line.points for line in curve.lines]
    assert [(point.runs, point.failed) for point in others] == [(1, 0)] * 3
    assert (dead.level, dead.runs, dead.failed, dead.rate) == (SIZES[-1], 0, 1, None)
    assert "1 failed" in read_report(path).page


def test_a_failed_run_in_the_figures_is_named_as_included(tmp_path):
    design = [{"run": f"b1-size{size}", "block": 1, "treatment": {FACTOR: size}} for size in SIZES]
    names = [entry["run"] for entry in design]
    path = write_experiment(tmp_path / "e", missing=names, design=design, factors={FACTOR: SIZES})
    for entry in design:
        write_run(path / "runs", entry["run"], Truth(seconds=2), treatment=entry["treatment"], block=1)
    file = path / "runs" / names[-1] / "summary.json"
    summary = json.loads(file.read_text())
    reason = {"code": NODE_LOST.code, "cause": "node-0 ended", "remedy": "see its log"}
    summary["verdict"] |= {"valid": False, "reasons": [reason], "figures": []}
    file.write_text(json.dumps(summary))
    ((*_, last),) = [line.points for (curve,) in [curves_over(read_experiment(path))] for line in curve.lines]
    assert (last.runs, last.failed, last.included) == (1, 1, 1)
    assert "1 failed, 1 of them included" in read_report(path).page
