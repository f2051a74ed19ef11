"""What a settings report quotes of the winner's confirmation is that of the objective's own phase and operation."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from loadframe.analyze.effects.settings import analyse
from loadframe.analyze.experiment import RecordedRun
from loadframe.report.settings_words import lead

#: What the setting does to each operation's throughput.
GAINS = {"first": {"read": 1.0}, "second": {"write": 1.5, "read": 1.1}}


def run(name, number, level, block):
    random = np.random.default_rng(number)
    phases = []
    for phase, gains in GAINS.items():
        operations = {}
        for operation, gain in gains.items():
            rate = 100 * gain**level * np.exp(0.02 * random.standard_normal())
            times = {"p50": 1 / rate, "p99": 3 / rate}
            operations[operation] = {"throughput": rate, "requests": 900, "successes": 900, "response": times}
        operations[next(iter(gains))]["successes"] = 1000
        phases.append({"name": phase, "prepares": False, "start": 0.0, "warmup": 1.0, "duration": 9.0,
                       "operations": operations, "streams": [{"pacing": {"closed": {"clients": 1}}}]})  # fmt: skip
    started = (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=number)).isoformat()
    summary = {"status": "done", "verdict": {"valid": True, "reasons": []}, "phases": phases}
    recorded = SimpleNamespace(manifest={"started": started}, summary=summary, path=Path("e/runs") / name)
    return RecordedRun(name, block, {"x": level}, recorded)


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
