"""A settings report quotes the winner's confirmation from the phase and operation of the objective."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.settings.analysis import analyse
from loadframe.analyze.telemetry import FRESH_NODE
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Latency
from loadframe.report.settings_words import lead
from made_up_runs import MadeUp, invalid, operation, phase, summary

#: Factor of each operation's throughput by setting.
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


def made_invalid(run, code, factor=1.0):
    """Return the run with a reason against it, and throughput multiplied by a factor."""
    phases = [
        replace(phase, operations={
            name: replace(operation, throughput=factor * operation.throughput, successes=10**6)
            for name, operation in phase.operations.items()
        })
        for phase in run.run.summary.phases
    ]  # fmt: skip
    changed = summary(*phases, verdict=invalid(code))
    return replace(run, run=MadeUp(changed, run.run.manifest, run.run.path))


def description(objective):
    return {"factors": {"x": [0, 1]}, "at": {}, "measure": ["first", "second"], "objective": objective,
            "scheme": "full", "hard": []}  # fmt: skip


@pytest.mark.parametrize("code", ["cluster_state", "generator_failed"])
def test_a_ranking_and_its_confirmation_are_of_valid_runs_only(runs, code):
    """Half of the runs of either setting are invalid, and would turn the ranking round."""
    spoilt = [
        made_invalid(run, code, 0.1 if run.treatment["x"] else 10.0) if run.block in (1, 2, 5, 6) else run
        for run in runs
    ]
    valid = [run for run in runs if run.block not in (1, 2, 5, 6)]
    for objective in ("throughput", "p50"):
        one, other = (analyse(description(objective), some, costs=False)[1] for some in (spoilt, valid))
        assert one.objective == other.objective
        assert one.standings == other.standings
        assert one.winner == other.winner == (1,)
        assert [c.ratio for c in one.confirmation.contrasts] == [c.ratio for c in other.confirmation.contrasts]


def test_a_combination_at_which_requests_failed_does_not_win_though_the_default_fails_as_often(runs):
    spoilt = [made_invalid(run, "errors") if run.block in (1, 2) else run for run in runs]
    result = analyse(description("throughput"), spoilt, costs=False)[1]
    assert (result.winner, result.confirmation) == (None, None)
    (standing,) = [standing for standing in result.standings if standing.combination]
    assert (standing.ratio.low, standing.ratio.high, standing.better) == (0.0, np.inf, None)
    assert lead(result, {"x": [0, 1]})[0].endswith("unknown: too few valid runs at combinations without failures.")


def test_a_winner_that_was_measured_again_with_failures_only_is_not_confirmed(runs):
    failing = [made_invalid(run, "errors") if run.id.startswith("confirm-") else run for run in runs]
    second = analyse(description("throughput"), failing, costs=False)[1]
    assert (second.winner, second.confirmation) == ((1,), None)


@pytest.mark.parametrize(("objective", "change"), [("throughput", "+30 %"), ("p50", "-33 %")])
def test_the_confirmation_is_that_of_the_objective(runs, objective, change):
    (_, second) = analyse(description(objective), runs, costs=False)
    assert second.winner == (1,)
    sentence = next(words for words in lead(second, description(objective)["factors"]) if "measured again" in words)
    again = sentence.partition("measured again")[2]
    value = int(again.split(" %")[0].rpartition(" ")[2])
    assert abs(value - int(change.split()[0])) <= 3
    assert sentence.startswith("The best combination is x 1: measured again")
    assert {contrast.estimate.design for contrast in second.confirmation.contrasts} == {"paired"}


@pytest.mark.parametrize(
    ("valid", "cause"),
    [
        ({"b1-x0", "b1-x1"}, "no combination has two valid runs"),
        ({"b1-x0", "b1-x1", "b2-x1"}, "estimating effects and block differences uses up the valid runs"),
    ],
)
def test_runs_that_do_not_show_how_they_scatter_answer_nothing(runs, valid, cause):
    left = [run if run.id in valid else made_invalid(run, "cluster_state") for run in runs]
    second = analyse(description("throughput"), left, costs=False)[1]
    effects, winner = lead(second, description("throughput")["factors"])
    assert effects.startswith("Inconclusive: whether a setting changes throughput of second is unknown")
    assert "not corrected for chance" in winner
    assert any(doubt.cause.startswith(cause) for doubt in second.warnings), [doubt.cause for doubt in second.warnings]


def test_a_winner_without_significant_effects_is_reported_as_undecided(runs):
    (_, second) = analyse(description("throughput"), runs, costs=False)
    unclaimed = tuple(
        replace(response, adjusted=dict.fromkeys(response.adjusted, 1.0)) for response in second.responses
    )
    effects, winner = lead(replace(second, responses=unclaimed), description("throughput")["factors"])
    assert "x 1" in winner
    assert "No setting changes" not in effects
    assert effects.startswith("Inconclusive: no setting or interaction")
    nothing, _ = lead(replace(second, responses=unclaimed, winner=None), description("throughput")["factors"])
    assert nothing.startswith("No setting changes")


def test_fresh_nodes_of_design_and_confirmation_are_reported_once(runs, monkeypatch):
    analysis, contrasts = "loadframe.analyze.settings.analysis", "loadframe.analyze.compare.contrasts"
    seen = []

    def fresh(some, _phases):
        seen.append(len(some))
        return [FRESH_NODE(nodes=[2], young=20.0, old=3600.0)]

    monkeypatch.setattr(f"{analysis}.fresh_nodes", fresh)
    monkeypatch.setattr(f"{contrasts}.fresh_nodes", fresh)
    monkeypatch.setattr(f"{analysis}._costs", lambda *_: {})
    second = analyse(description("throughput"), runs)[1]
    assert [finding.rule for finding in second.warnings].count(FRESH_NODE) == 1
    assert max(seen) == len(runs)
