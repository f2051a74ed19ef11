"""`loadframe demo`, within a test's time: it starts, can be stopped, and can continue."""

import json
import math
import signal
from types import SimpleNamespace

import pytest

from commands import Running, servers
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scale.curves import SpeedUp
from loadframe.analyze.scale.treatments import Treatment
from loadframe.report.scale_words import conclusion


@pytest.mark.store
def test_the_demo_begins_and_stops_at_once_on_request(state, tmp_path):
    with Running("demo", "--output", tmp_path / "demo", folder=tmp_path) as command:
        command.wait_for("18 runs, about")
        command.wait_for("starting ")
        status, seconds = command.send(signal.SIGINT)
        assert status == 130
        assert seconds < 10
        assert "repeat the command to resume" in command.stderr
        assert "Traceback" not in command.stderr
    assert servers(state) == []
    assert not any(state.glob("passing/*"))
    assert len(json.loads((tmp_path / "demo" / "experiment.json").read_text())["design"]) == 18
    assert not any((tmp_path / "demo" / "runs").iterdir())


def rows(*ratios: tuple[float, float, float]) -> list[SpeedUp]:
    """Return speed-ups of 1, 2, 4, ... nodes; the first is 1."""
    of = [Estimate(1.0, 1.0, 1.0), *(Estimate(*ratio) for ratio in ratios)]
    throughput = Estimate(10.0, 9.0, 11.0)
    return [
        SpeedUp(Treatment(2**at, 4, (), throughput, None, None, None), estimate, estimate)
        for at, estimate in enumerate(of)
    ]


def claimed(speedups: list[SpeedUp], invalid: int = 0, failed: tuple[SimpleNamespace, ...] = ()) -> str:
    """Return the demo's conclusion for eight runs, `invalid` of them invalid, with these `failed` levels."""
    runs = [SimpleNamespace(sound=number >= invalid) for number in range(8)]
    curves = SimpleNamespace(speedups=speedups, failed=failed)
    return conclusion(SimpleNamespace(curves=[curves], folder=SimpleNamespace(runs=runs)))


def test_growth_is_claimed_where_the_whole_interval_is_above_one():
    words = claimed(rows((1.9, 1.5, 2.4), (3.6, 2.9, 4.4)))
    assert words.startswith("Conclusion: more nodes answer more requests")
    assert "3.6 [2.9, 4.4] times the throughput on 4 nodes instead of 1" in words


@pytest.mark.parametrize(
    "speedups",
    [rows((1.6, 0.9, 2.8)), rows((1.6, 0.0, math.inf)), rows(), []],
    ids=["wide", "unbounded", "one", "none"],
)
def test_conclusions_without_support_by_the_intervals_are_not_claimed(speedups):
    words = claimed(speedups, invalid=3)
    assert words.startswith("No conclusion: ")
    assert "3 of 8 runs were invalid" in words
    assert "run it again" in words


def test_a_loss_is_claimed_as_a_loss():
    assert claimed(rows((0.5, 0.4, 0.6))).startswith("Conclusion: more nodes answered fewer requests")


def test_levels_that_the_store_failed_are_the_conclusion():
    failed = (SimpleNamespace(cause="the store failed in 3 of 3 runs on 4 nodes"),)
    words = claimed(rows((1.9, 1.5, 2.4)), failed=failed)
    assert words == "No conclusion: the store failed in 3 of 3 runs on 4 nodes."
