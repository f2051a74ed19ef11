"""Tiers of an application: the store's share of the response time, as means over runs."""

import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.scale.sweep import tiers
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Latency, PartFigures
from loadframe.record.schema.manifest import RecordedStore
from made_up_runs import MadeUp, invalid, operation, phase, summary


class Untold(MadeUp):
    """A run without telemetry."""

    @property
    def telemetry(self):
        import pyarrow as pa

        names = {"time": pa.float64(), "source": pa.string(), "metric": pa.string(), "value": pa.float64()}
        return pa.table({name: pa.array([], kind) for name, kind in names.items()})


def run(name, nodes, response, store, *, family="http", verdict=None, **more):
    whole = operation(10.0)
    counts = {"requests": 1000, "successes": 1000, "documents": 0, "errors": {}}
    part = PartFigures(
        **counts, throughput=10.0, documents_per_second=0.0, response=Latency(mean=store), service=Latency(mean=store)
    )
    walk = operation(10.0, response=Latency(mean=response), parts={"store": part})
    manifest = Manifest(FORMAT, store=RecordedStore(family=family))
    made = summary(phase("week", {"walk": walk, "log_in": whole}), **({"verdict": verdict} if verdict else {}))
    return RecordedRun(name, 1, {"nodes": nodes, **more}, Untold(made, manifest))


def test_shares_are_means_over_runs_and_have_intervals():
    runs = [run("a", 1, 0.02, 0.01), run("b", 1, 0.04, 0.03), run("c", 2, 0.01, 0.008)]
    one, two = tiers(runs, "week").waiting
    assert (one.nodes, one.operation, one.part) == (1, "walk", "store")
    assert one.share.value == pytest.approx((0.5 + 0.75) / 2)
    assert one.response.value == pytest.approx(0.03)
    assert one.share.is_finite
    assert 0 <= one.share.low < one.share.value < one.share.high <= 1, "no share is outside of 0 to 1"
    assert two.share.value == pytest.approx(0.8)
    assert not two.share.is_finite, "a single run has no interval"


def test_runs_that_are_not_sound_and_stores_that_are_no_services_do_not_count():
    spoilt = run("a", 1, 0.02, 0.01, verdict=invalid("cluster-state"))
    assert tiers([spoilt, run("b", 1, 0.02, 0.01, family="elasticsearch")], "week").waiting == ()


def test_first_executions_and_the_age_of_data_are_no_tiers():
    made = run("a", 1, 0.02, 0.01)
    (of_phase,) = made.run.summary.phases
    (store,) = of_phase.operations["walk"].parts.values()
    of_phase.operations["walk"].parts.update(dict.fromkeys(("first", "again", "age"), store))
    assert [row.part for row in tiers([made], "week").waiting] == ["store"]


def test_runs_with_different_numbers_of_clients_are_not_mixed():
    runs = [run("a", 1, 0.02, 0.01, clients=1), run("b", 1, 0.2, 0.18, clients=8)]
    few, many = tiers(runs, "week").waiting
    assert [(row.clients, row.response.value) for row in (few, many)] == [(1, 0.02), (8, 0.2)]
    assert many.share.value == pytest.approx(0.9)
    assert not many.share.is_finite, "runs of another load do not repeat it"
