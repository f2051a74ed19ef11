"""First and later executions, and the age of answers, over the runs of an experiment."""

import json
import math

import pytest

from loadframe.analyze.executions import executions_at
from loadframe.analyze.experiment import read_experiment
from loadframe.report.sections import further
from simulated import Truth, write_experiment


def part(mean, count):
    """The figures of a part, as summaries have them."""
    response = {"count": count, **dict.fromkeys(("mean", "p50", "p90", "p99", "p999", "max"), mean)}
    counts = {"requests": count, "successes": count, "documents": 0, "errors": {}}
    return {**counts, "throughput": 1.0, "documents_per_second": 0.0, "response": response, "service": response}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three runs; their first executions took 2, 4 and 8 times the later 10 ms."""
    truth = Truth()
    path = write_experiment(tmp_path_factory.mktemp("executions") / "e", truth, nodes=(1,), clients=(4,), repetitions=3)
    for number, file in enumerate(sorted(path.glob("runs/*/summary.json"))):
        summary = json.loads(file.read_text())
        operation = summary["phases"][-1]["operations"][truth.operation]
        operation["parts"] = {
            "first": part(0.02 * 2**number, 1),
            "again": part(0.01, 40 + number),
            "age": part(3.0, 30),
        }
        file.write_text(json.dumps(summary))
    return read_experiment(path)


def test_means_weight_runs_equally_for_any_number_of_executions(folder):
    (row,) = executions_at(folder)
    assert (row.runs, row.first, row.again) == (3, 3, 123)
    assert row.first_mean.value == pytest.approx(0.04)
    assert row.again_mean.value == pytest.approx(0.01)
    assert row.ratio.value == pytest.approx(4.0)
    # Logarithms 1, 2 and 3 of base 2: a mean of 2, a standard error of 1/sqrt(3), and Student's t of two degrees.
    half = math.log(2) * 4.302653 / math.sqrt(3)
    assert row.ratio.high == pytest.approx(4.0 * math.exp(half), rel=1e-5)
    assert row.age.value == pytest.approx(3.0)


def test_reports_have_them(folder):
    more = further(folder)
    assert "First and repeated executions" in [title for title, _ in more.sections]
    assert more.document["executions"][0]["ratio"]["value"] == pytest.approx(4.0)
    json.dumps(more.document, allow_nan=False)


def test_experiments_that_tell_nothing_apart_say_nothing(tmp_path):
    path = write_experiment(tmp_path / "e", nodes=(1,), clients=(4,), repetitions=1)
    assert executions_at(read_experiment(path)) == []
