"""Why curves over clients bend: which resources the telemetry of the best runs shows to be saturated."""

from dataclasses import replace

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from loadframe.analyze.scale.saturation import BEND
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.base.units import format_count
from loadframe.report.scale_words import limits
from simulated import Truth, write_experiment

#: 32 clients do the work of 2.9.
BENT = Truth(seconds=3, sigma=0.3, kappa=0.0, node_sigma=0.0)


def bends(path, truth, **more):
    (curves,) = read_sweep(write_experiment(path, truth, nodes=(1,), repetitions=1, **more)).curves
    return curves.bends


def test_a_curve_that_keeps_up_has_no_bend(tmp_path):
    assert bends(tmp_path / "e", replace(BENT, sigma=0.0), clients=(1, 2, 4)) == ()


def test_a_bend_gives_the_number_of_effective_clients(tmp_path):
    (result,) = bends(tmp_path / "e", replace(BENT, node_cpu=0.2), clients=(1, 4, 16, 32))
    assert (result.figures["nodes"], result.figures["clients"]) == (1, 32)
    assert result.figures["effective"] == pytest.approx(32 / (1 + 0.3 * 31), rel=0.15)
    assert result.figures["reasons"] == ()
    assert "no monitored resource was saturated" in result.cause


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        ({"node_cpu": 0.49}, "the busiest node used 98 % of its CPU limit"),
        ({"node_cpu": 0.2, "busy": 0.98}, "the machine was 98 % busy"),
        ({"node_cpu": 0.2, "watched": {"search_queue": (7.0, 7.0), "search_active": (4.0, 4.0)}},
         "7.0 requests waited in each node's search queue, while 4.0 were served"),
        ({"node_cpu": 0.2, "watched": {"search_rejected": (10.0, 30.0)}}, "nodes rejected 20 requests"),
        ({"node_cpu": 0.2, "watched": {"gc_old_ms": (0.0, 1500.0)}}, "nodes collected garbage for 50 % of the time"),
        ({"node_cpu": 0.2, "waiting": 0.4}, "tasks on the machine waited for storage for 40 % of the time"),
        ({"node_cpu": 0.2, "watched": {"cgroup.throttled_time": (0.3, 0.3)}},
         "nodes' threads were throttled by their CPU quota for 0.3 s in each second"),
    ],
)  # fmt: skip
def test_exhausted_resources_are_named_with_their_figures(tmp_path, truth, said):
    (result,) = bends(tmp_path / "e", replace(BENT, **truth), clients=(1, 16))
    assert result.figures["reasons"] == (said,)
    assert result.rule == BEND
    assert said in result.cause
    assert result.remedy


def test_only_nodes_with_samples_count_for_garbage_collections(tmp_path):
    truth = replace(BENT, node_cpu=0.2, watched={"gc_old_ms": (0.0, 450.0)})
    path = write_experiment(tmp_path / "e", truth, nodes=(2,), clients=(1, 16), repetitions=1)
    for file in path.glob("runs/*/telemetry.parquet"):
        rows = pq.read_table(file)
        of_second = pc.and_(pc.equal(rows["source"], "node:1"), pc.equal(rows["metric"], "gc_old_ms"))
        assert pc.any(of_second).as_py()
        pq.write_table(rows.filter(pc.invert(of_second)), file)
    (result,) = read_sweep(path).curves[0].bends
    assert result.figures["reasons"] == ("nodes collected garbage for 15 % of the time",)


def test_more_clients_are_not_advised_where_a_resource_is_saturated(tmp_path):
    for cpu, edge in ((0.2, (1,)), (0.49, ())):
        truth = replace(BENT, node_cpu=cpu)
        folder = write_experiment(tmp_path / str(cpu), truth, nodes=(1,), clients=(1, 16), repetitions=1)
        (curves,) = read_sweep(folder).curves
        assert curves.at_edge == edge
        assert any("Add larger numbers of clients" in words for words in limits(curves)) == bool(edge)


def test_the_cause_compares_the_throughput_with_that_of_the_fewest_clients(tmp_path):
    (result,) = bends(tmp_path / "e", replace(BENT, node_cpu=0.49), clients=(4, 16))
    times = result.figures["effective"] / 4
    assert result.cause.startswith(f"at 1 node throughput with 16 clients was {format_count(times)} times that with 4:")


def test_a_generator_that_ended_the_curve_is_named(tmp_path):
    (result,) = bends(tmp_path / "e", replace(BENT, node_cpu=0.2), clients=(1, 4, 8), saturated=["b1-nodes1-clients8"])
    assert result.figures["clients"] == 4
    assert "the load generator was the limit" in result.figures["reasons"][0]
