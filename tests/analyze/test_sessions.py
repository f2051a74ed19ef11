"""Which runs are one session and which one block, by what manifests say; histories whose sessions differ."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from loadframe.analyze.comparison import Group
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.history import Shift, ShortHistory, since_last_change
from loadframe.analyze.sessions import block_of, sessions_of
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.manifest import Hardware
from loadframe.record.schema.summary import Latency
from made_up_runs import MadeUp, operation, phase, summary

MONDAY = datetime(2026, 1, 5, 22, tzinfo=UTC)


def run(minutes, *, throughput=100.0, block=None, folder="e/runs", host="bench-1", command=None, lasts=60.0):
    """Return a valid run of one phase that began this many minutes after Monday night."""
    name = f"r{minutes}"
    figures = operation(throughput, response=Latency(p50=1 / throughput))
    started = None if minutes is None else (MONDAY + timedelta(minutes=minutes)).isoformat()
    manifest = Manifest(FORMAT, started=started, session=command, hardware=Hardware(hostname=host, cpu="x"))
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


def test_two_machines_are_two_sessions():
    assert sessions_of([run(0), run(1, host="bench-2"), run(2)]) == [0, 1, 0]


def test_a_run_of_unknown_time_is_of_no_known_session():
    assert sessions_of([run(None), run(5)]) == [None, 0]


def test_blocks_are_shared_within_one_experiments_folder_only():
    first, same, other = run(0, block=1), run(1, block=1), run(2, block=1, folder="f/runs")
    assert block_of(first) == block_of(same) != block_of(other)
    assert block_of(run(3)) is None


def history(random, nights, *, runs=3, spread=0.05, fall=1.0, since=0):
    result = []
    for night in range(nights):
        level = 100 * np.exp(spread * random.standard_normal()) * (fall if night >= since else 1)
        result += [
            run(24 * 60 * night + 3 * number, throughput=level * np.exp(0.02 * random.standard_normal()))
            for number in range(runs)
        ]
    return Group("history", tuple(result))


def test_nights_that_differ_are_no_change_of_the_history():
    """Three runs a night over twenty nights: taken for sixty runs, 58 of 100 such histories have a change."""
    random = np.random.default_rng(1)
    result = [since_last_change(history(random, 20), ["throughput", "p50"])[1] for _ in range(60)]
    assert sum(map(bool, result)) <= 6


def test_only_the_sessions_since_a_fall_are_kept():
    random = np.random.default_rng(2)
    kept, result = since_last_change(history(random, 20, spread=0.02, fall=0.8, since=14), ["throughput"])
    assert len(kept.runs) == 18
    (shift,) = result
    assert isinstance(shift, Shift)
    assert "a throughput changed by -" in shift.cause
    assert f"r{24 * 60 * 14} (2026-01-19" in shift.cause


def test_a_history_of_few_sessions_says_that_no_change_can_be_found_in_it():
    kept, result = since_last_change(history(np.random.default_rng(3), 3, runs=8, fall=0.5, since=2), ["throughput"])
    assert len(kept.runs) == 24
    assert result == [ShortHistory(3, 8)]
    assert "the history has 3 sessions" in result[0].cause
