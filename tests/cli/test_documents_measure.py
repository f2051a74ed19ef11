"""documents/s is a measure wherever requests/s is: compared, gated, bounded, and the objective of settings."""

import pytest

from commands import loadframe, result
from loadframe.analyze.compare import Measure
from loadframe.analyze.compare.measures import measures_of
from loadframe.analyze.experiment import read_experiment
from loadframe.experiment.power import GateShape
from simulated import Truth, write_experiment, write_variants


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Experiments of the same load: one as it was, one with a third less throughput; 100 documents a request."""
    top = tmp_path_factory.mktemp("results")
    for name, lam in (("before", 300.0), ("after", 200.0)):
        write_experiment(top / name, Truth(lam=lam), nodes=(1,), clients=(4,), repetitions=6)
    return top


def test_documents_are_counted_apart_from_requests(results):
    runs = read_experiment(results / "before").used
    (measure,) = measures_of(runs, ["documents"])
    assert (measure.better, measure.unit, measure.phrase) == ("higher", "1/s", "documents of range_100")
    requests = Measure("range_100", "throughput")
    assert all(measure.of(run) == pytest.approx(100 * requests.of(run)) for run in runs)


def test_fewer_documents_are_a_regression_and_break_a_bound(results):
    arguments = ("gate", results / "after", "--baseline", results / "before", "--measure", "documents")
    done = loadframe(*arguments)
    assert done.returncode == 1
    assert "range_100 documents" in done.stdout
    known = Measure("range_100", "documents").of(read_experiment(results / "after").used[0])
    for share, status in ((0.5, 0), (1.5, 1)):
        bound = f"documents>={share * known:.0f}/s"
        done = loadframe("gate", results / "after", "--bound", bound, "--measure", "documents")
        assert done.returncode == status, done.stdout
    done = loadframe("gate", results / "after", "--bound", "documents<=10/s")
    assert done.returncode == 2
    assert "documents needs a lower bound" in done.stderr


@pytest.mark.slow
def test_documents_are_compared(tmp_path):
    path = write_variants(tmp_path / "e", {"old": Truth(noise=0.01), "new": Truth(noise=0.01, lam=150.0)})
    contrasts = result("compare", path, "--measure", "documents")["contrasts"]
    assert {contrast["measure"] for contrast in contrasts} == {"documents"}
    assert all(contrast["ratio"]["value"] == pytest.approx(1.5, rel=0.05) for contrast in contrasts)


def test_a_plan_counts_them_like_throughput():
    shape = GateShape(treatments=3, operations=(1, 2), closed=(True, False))
    assert shape.members("documents") == shape.members("throughput") == 3
