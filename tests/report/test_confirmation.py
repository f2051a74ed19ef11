"""What a settings report quotes of the winner's confirmation is that of the objective's own phase and operation."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from loadframe.analyze.effects.settings import analyse
from loadframe.analyze.experiment import RecordedRun
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.summary import Latency
from loadframe.report.settings_words import lead
from made_up_runs import MadeUp, operation, phase, summary

#: What the setting does to each operation's throughput.
GAINS = {"first": {"read": 1.0}, "second": {"write": 1.5, "read": 1.1}}


def run(run_id, number, level, block):
    random = np.random.default_rng(number)
    phases = []
    for of, gains in GAINS.items():
        operations = {}
        for name, gain in gains.items():
            rate = 100 * gain**level * np.exp(0.02 * random.standard_normal())
            times = Latency(p50=1 / rate, p99=3 / rate)
            successes = 1000 if name == next(iter(gains)) else 900
            operations[name] = operation(rate, successes=successes, response=times)
        phases.append(phase(of, operations))
    started = (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=number)).isoformat()
    recorded = MadeUp(summary(*phases), Manifest(FORMAT, started=started), Path("e/runs") / run_id)
    return RecordedRun(run_id, block, {"x": level}, recorded)


@pytest.fixture(scope="module")
def runs():
    order = [(block, level) for block in range(1, 5) for level in (0, 1)]
    designed = [run(f"b{block}-x{level}", at, level, block) for at, (block, level) in enumerate(order)]
    again = [
        run(f"confirm-b{block + 4}-x{level}", at + 20, level, block + 4) for at, (block, level) in enumerate(order)
    ]
    return [*designed, *again]


@pytest.mark.parametrize(("objective", "change"), [("throughput", "+30 %"), ("p50", "-33 %")])
def test_the_confirmation_is_that_of_the_objective(runs, objective, change):
    description = {"factors": {"x": [0, 1]}, "at": {}, "measure": ["first", "second"], "objective": objective,
                   "scheme": "full", "hard": []}  # fmt: skip
    second = next(each for each in analyse(description, runs, costs=False) if each.phase == "second")
    assert second.winner == (1,)
    sentence = next(each for each in lead(second, description["factors"]) if "Measured again" in each)
    again = sentence.partition("Measured again")[2]
    value = int(again.split(" %")[0].rpartition(" ")[2])
    assert abs(value - int(change.split()[0])) <= 3
    assert "it held" in again
    assert {contrast.estimate.design for contrast in second.confirmation.contrasts} == {"paired"}
