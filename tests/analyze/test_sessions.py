"""Assignment of runs to sessions and blocks by their manifests; histories with different sessions."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from loadframe.analyze.compare import Group, compare
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.gate import Thresholds, judge_gate
from loadframe.analyze.history import LEVEL_CHANGE, OTHER_SUBJECTS, SHORT_HISTORY, series_of, since_last_change
from loadframe.analyze.scale.treatments import points
from loadframe.analyze.sessions import block_of, blocks_of, sessions_of
from loadframe.base.errors import BadInput
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Latency
from loadframe.record.schema.manifest import Hardware, RecordedStore
from made_up_runs import MadeUp, operation, phase, summary

MONDAY = datetime(2026, 1, 5, 22, tzinfo=UTC)


def run(
    minutes,
    *,
    throughput=100.0,
    block=None,
    folder="e/runs",
    host="bench-1",
    command=None,
    lasts=60.0,
    longest=None,
    store=None,
    requests=None,
):
    """Return a valid run of one phase that began this many minutes after Monday night."""
    name = f"r{minutes}"
    done = requests or round(throughput * lasts)
    times = Latency(p50=1 / throughput, max=longest)
    figures = operation(throughput, requests=done, successes=done, response=times)
    started = None if minutes is None else (MONDAY + timedelta(minutes=minutes)).isoformat()
    manifest = Manifest(
        FORMAT,
        started=started,
        session=command,
        hardware=Hardware(hostname=host, cpu="x"),
        store=RecordedStore(kind=store),
    )
    result = summary(phase("a", {"read": figures}, warmup=10.0, duration=lasts))
    return RecordedRun(name, block, {}, MadeUp(result, manifest, Path(folder) / name))


def test_an_hour_without_a_run_parts_two_sessions():
    runs = [run(0), run(10), run(24 * 60), run(24 * 60 + 61), run(24 * 60 + 63, lasts=3600), run(24 * 60 + 170)]
    assert sessions_of(runs) == [0, 0, 1, 1, 1, 1]
    assert sessions_of([run(0), run(63)]) == [0, 1]
    assert sessions_of(runs[::-1]) == [1, 1, 1, 1, 0, 0]


def test_runs_of_one_command_are_one_session_however_long_it_prepares():
    assert sessions_of([run(0, command="a"), run(300, command="a"), run(900, command="b")]) == [0, 0, 1]
    assert sessions_of([run(0, command="a"), run(20, command="b")]) == [0, 0]


def test_two_commands_that_compare_two_groups_are_two_sessions_within_the_hour_too():
    runs = [*(run(at, command="a") for at in (0, 2, 4)), *(run(at, command="b") for at in (10, 12, 14))]
    assert sessions_of(runs, "AAABBB") == [0, 0, 0, 1, 1, 1]
    assert sessions_of(runs, "ABABAB") == [0, 0, 0, 1, 1, 1]
    # Each run is a separate command, as `bench` makes them.
    assert sessions_of([run(at, command=str(at)) for at in range(0, 24, 4)], "AAABBB") == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("groups", "sessions"),
    [
        ("ABABAB", [0] * 6),
        ("ABBABA", [0] * 6),
        ("ABBA", [0] * 4),
        ("AABB", [0, 0, 1, 1]),
        ("AABBAA", [0, 0, 1, 1, 2, 2]),
        ("AAABBA", [0, 0, 0, 1, 1, 2]),
        ("AB", [0, 1]),
    ],
)
def test_commands_are_one_session_where_their_groups_alternate_in_time(groups, sessions):
    runs = [run(4 * number, command=str(number)) for number in range(len(groups))]
    assert sessions_of(runs, groups) == sessions
    # Folders of versions that named no command.
    assert sessions_of([run(4 * number) for number in range(len(groups))], groups) == sessions


def test_runs_of_an_experiments_folder_without_a_command_are_one_session():
    runs = [run(4 * number, block=1 + number // 2) for number in range(4)]
    assert sessions_of(runs, "AABB") == [0] * 4
    later = [run(70 + 4 * number, block=1, folder="f/runs") for number in range(2)]
    assert sessions_of([*runs, *later], "AABBBB") == [0, 0, 0, 0, 1, 1]


def drifting(random, groups, *, commands, drift=0.05, hours=1.0, noise=0.01, minutes=4.0):
    """Return two groups of runs without a difference, on a machine with drifting speed (Ornstein-Uhlenbeck)."""
    sides, level = ([], []), drift * random.standard_normal()
    kept = math.exp(-minutes / 60 / hours)
    for number, side in enumerate(groups):
        value = 100 * np.exp(level + noise * random.standard_normal())
        sides[side].append(run(minutes * number, throughput=value, command=commands(number, side)))
        level = kept * level + drift * math.sqrt(1 - kept**2) * random.standard_normal()
    return Group("old", tuple(sides[0])), Group("new", tuple(sides[1]))


LAYOUTS = {
    "one command each": ([0] * 5 + [1] * 5, lambda number, side: str(side)),
    "ten commands one after the other": ([0] * 5 + [1] * 5, lambda number, side: str(number)),
    "commands in turns": ([0, 1] * 5, lambda number, side: str(number)),
    "commands of ABBA": ([0, 1, 1, 0] * 3, lambda number, side: str(number)),
    "one command in turns": ([0, 1, 1, 0] * 3, lambda number, side: "all"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_slow_drift_of_the_machine_does_not_stop_a_gate(layout):
    """Runs that follow each other slowly drift apart: taken as one session, one side's runs would look changed."""
    random = np.random.default_rng(7)
    groups, commands = LAYOUTS[layout]
    covered, stops, trials = 0, 0, 150
    for _ in range(trials):
        old, new = drifting(random, groups, commands=commands)
        gate = judge_gate(new, old, Thresholds(), kinds=("throughput",))
        (contrast,) = gate.comparison.contrasts
        covered += contrast.ratio.low <= 1 <= contrast.ratio.high
        stops += gate.standing == "regression"
    # 95 % less three standard errors; of the gate's one-sided test 2.5 % and as much more.
    assert covered >= 0.90 * trials
    assert stops <= 0.06 * trials


def test_the_gate_reports_runs_without_interleaving():
    random = np.random.default_rng(8)
    late = [run(24 * 60 * night, throughput=100 + random.standard_normal(), command=str(night)) for night in (0, 1, 2)]
    new = [run(24 * 60 * night, throughput=100 + random.standard_normal(), command=str(night)) for night in (3, 4, 5)]
    gate = judge_gate(Group("new", tuple(new)), Group("old", tuple(late)), Thresholds(), kinds=("throughput",))
    assert any("drift between them" in warning.cause for warning in gate.warnings)


def test_two_machines_are_two_sessions():
    assert sessions_of([run(0), run(1, host="bench-2"), run(2)]) == [0, 1, 0]


def test_a_run_of_unknown_time_is_of_no_known_session():
    assert sessions_of([run(None), run(5)]) == [None, 0]


def test_blocks_are_shared_within_one_experiments_folder_only():
    first, same, other = run(0, block=1), run(1, block=1), run(2, block=1, folder="f/runs")
    assert block_of(first) == block_of(same) != block_of(other)
    assert block_of(run(3)) is None


def test_a_block_that_two_sessions_made_is_two_blocks():
    runs = [run(0, block=1), run(4, block=1), run(600, block=1), run(604, block=2), run(608)]
    assert blocks_of(runs) == [(1, 0), (1, 0), (1, 1), (2, 1), None]


def test_points_of_a_block_that_two_nights_made_are_of_two_blocks():
    """Four blocks of two sizes; each was interrupted after its first size and went on in a slower night."""
    runs = []
    for block in range(4):
        for place, nodes in enumerate((1, 2) if block % 2 else (2, 1)):
            night = 2 * block + place
            level = 0.5 if place else 1.0
            made = run(24 * 60 * night, throughput=100 * nodes * level, block=block)
            runs.append(RecordedRun(made.id, block, {"nodes": nodes}, made.run))
    labels = [point.block for point in points(runs, "a", "read")]
    assert len(set(labels)) == 8


def history(random, nights, *, runs=3, spread=0.05, fall=1.0, since=0):
    result = []
    for night in range(nights):
        level = 100 * np.exp(spread * random.standard_normal()) * (fall if night >= since else 1)
        result += [
            run(24 * 60 * night + 3 * number, throughput=level * np.exp(0.02 * random.standard_normal()))
            for number in range(runs)
        ]
    return Group("history", tuple(result))


@pytest.mark.slow
def test_differences_between_nights_are_not_a_change_of_the_history():
    """Twenty nights of three runs: treated as sixty independent runs, 58 of 100 such histories would have a change."""
    random = np.random.default_rng(1)
    result = [
        since_last_change(past, past, ["throughput", "p50"])[1] for past in (history(random, 20) for _ in range(60))
    ]
    assert sum(map(bool, result)) <= 6


def test_only_the_sessions_since_a_fall_are_kept():
    random = np.random.default_rng(2)
    past = history(random, 20, spread=0.02, fall=0.8, since=14)
    kept, result = since_last_change(past, past, ["throughput"])
    assert len(kept.runs) == 18
    (shift,) = result
    assert shift.rule == LEVEL_CHANGE
    assert "a throughput changed by -" in shift.cause
    assert f"r{24 * 60 * 14} (2026-01-19" in shift.cause


def test_a_history_of_few_sessions_reports_that_changes_cannot_be_found():
    past = history(np.random.default_rng(3), 3, runs=8, fall=0.5, since=2)
    kept, result = since_last_change(past, past, ["throughput"])
    assert len(kept.runs) == 24
    assert result == [SHORT_HISTORY(sessions=3, at="", needed=8)]
    assert "the history has 3 sessions" in result[0].cause


@pytest.mark.parametrize(("lasts", "changed", "sessions"), [((60.0, 60.0), True, 14), ((2.0, 60.0), False, 7)])
def test_maxima_of_runs_of_other_lengths_are_not_a_change(lasts, changed, sessions):
    """Longer runs have more requests, so their maximum is larger although the store is the same."""
    random = np.random.default_rng(5)
    result = [
        run(24 * 60 * night, lasts=lasts[night >= 7], longest=(1.4 if night >= 7 else 1.0) * random.uniform(0.99, 1.01))
        for night in range(14)
    ]
    past = Group("history", tuple(result))
    kept, findings = since_last_change(past, past, ["max"])
    assert (len(kept.runs), [it.rule for it in findings]) == ((7, [LEVEL_CHANGE]) if changed else (14, []))
    [series] = series_of(result, {id(it): night for night, it in enumerate(result)}, ["max"])
    assert len(series.values) == sessions


def test_a_store_that_answers_fewer_requests_in_the_same_time_keeps_its_maxima():
    result = [
        run(24 * 60 * night, throughput=600 if night >= 7 else 1000, longest=1 + (night >= 7)) for night in range(14)
    ]
    [series] = series_of(result, {id(it): night for night, it in enumerate(result)}, ["max"])
    assert len(series.values) == 14


def test_a_phase_of_a_fixed_number_of_requests_keeps_its_maxima_however_long_it_lasts():
    result = [
        run(24 * 60 * night, requests=6000, lasts=100 if night >= 7 else 60, longest=1 + (night >= 7))
        for night in range(14)
    ]
    [series] = series_of(result, {id(it): night for night, it in enumerate(result)}, ["max"])
    assert (len(series.values), series.left_out) == (14, {})


def test_a_series_gives_the_reason_for_each_session_that_it_lacks():
    lengths, longest = [60, 60, 60, 600, 60], [1.0, None, 1.0, 3.0, 1.0]
    result = [run(24 * 60 * night, lasts=lengths[night], longest=longest[night]) for night in range(5)]
    [series] = series_of(result, {id(it): night for night, it in enumerate(result)}, ["max"])
    assert series.sessions == (0, 2, 4)
    assert series.left_out == {1: "no valid figure", 3: "another length than the newest run"}


def nights(count, **parts):
    """Return a run of each of some nights."""
    random = np.random.default_rng(11)
    return [run(24 * 60 * night, **parts, throughput=100 * random.uniform(0.99, 1.01)) for night in range(count)]


def test_a_gate_compares_with_the_history_of_its_own_store():
    """In one folder, a store that is ten times as fast came later: no regression, and no change of the level."""
    redis = [run(24 * 60 * night + 60, store="redis", throughput=1000, folder="f/runs") for night in range(8, 16)]
    past = Group("history", (*nights(16, store="mongodb"), *redis))
    new = Group("new", tuple(run(24 * 60 * 20 + 3 * number, store="mongodb") for number in range(4)))
    kept, findings = since_last_change(past, new, ["throughput"])
    assert {it.manifest.store.kind for it in kept.runs} == {"mongodb"}
    assert [it.rule for it in findings] == [OTHER_SUBJECTS]
    assert findings[0].cause.startswith("the gate leaves out 8 runs of the history")
    assert "redis" in findings[0].cause
    (check,) = judge_gate(new, past, Thresholds(), kinds=["throughput"], history=True).checks
    assert check.standing == "passed"


def test_a_gate_refuses_a_history_of_other_stores_and_new_runs_of_several():
    new = Group("new", (run(0, store="mongodb"), run(5, store="mongodb")))
    with pytest.raises(BadInput, match="history has no run of mongodb, only of redis"):
        since_last_change(Group("history", tuple(nights(8, store="redis"))), new, ["throughput"])
    mixed = Group("new", (*new.runs, run(9, store="redis")))
    with pytest.raises(BadInput, match=r"new has runs of several stores \(mongodb, redis\)"):
        since_last_change(Group("history", tuple(nights(8, store="redis"))), mixed, ["throughput"])


def test_a_gate_refuses_a_history_of_its_store_at_another_treatment_only():
    """Another store in the folder has the treatment of the new runs."""
    at = {clients: {"clients": clients} for clients in (4, 8)}
    past = [replace(it, treatment=at[4]) for it in nights(8, store="redis")]
    past += [replace(it, treatment=at[8]) for it in nights(8, store="mongodb")]
    new = Group("new", tuple(replace(run(24 * 60 * 20 + n, store="redis"), treatment=at[8]) for n in range(3)))
    with pytest.raises(BadInput, match="were measured at different treatments"):
        judge_gate(new, Group("history", tuple(past)), Thresholds(), kinds=["throughput"], history=True)


def test_a_short_history_of_one_treatment_is_not_hidden_by_a_long_one_of_another():
    two, four = ({"nodes": 2}, {"nodes": 4})
    past = Group(
        "history",
        tuple(
            replace(it, treatment=at)
            for night, it in enumerate(nights(20))
            for at in ((two, four) if night >= 17 else (two,))
        ),
    )
    new = Group("new", tuple(replace(run(24 * 60 * 21), treatment=at) for at in (two, four)))
    _, findings = since_last_change(past, new, ["throughput"])
    assert [it.cause.partition(":")[0] for it in findings] == [
        "the history has 3 sessions at the treatment with the fewest"
    ]


@pytest.mark.parametrize("longer", ["history", "new"])
def test_maxima_of_single_longer_runs_do_not_mix_with_the_others(longer):
    """Of ten earlier runs one was ten times as long, with a maximum three times as large."""
    odd = {"lasts": 600.0, "longest": 3.0}
    random = np.random.default_rng(12)

    def side(first, name):
        runs = [run(24 * 60 * (first + night), longest=random.uniform(0.97, 1.03)) for night in range(9)]
        return Group(name, (*runs, *([run(24 * 60 * (first + 9), **odd)] if name == longer else [])))

    old, new = side(0, "history"), side(20, "new")
    comparison = compare([old, new], ["max"])
    (contrast,) = comparison.contrasts
    assert contrast.outcome == "alike"
    assert contrast.ratio.value == pytest.approx(1, abs=0.03)
    assert (len(contrast.first), len(contrast.second)) == (9, 9)
    (warning,) = [it for it in comparison.warnings if it.code == "other_length"]
    assert warning.cause.startswith(f"in phase a, 1 run of {longer} measured for a much longer or shorter time than")
    # The other measures keep the run.
    (throughput,) = compare([old, new], ["throughput"]).contrasts
    assert len(throughput.first) + len(throughput.second) == 19
