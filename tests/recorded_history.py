"""A history folder with a known truth: nightly gates of commits, through the real recorder and the real log."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from loadframe.record.gate_log import GateRecord, add_to_gate_log
from simulated import Truth, write_run

#: The nights; the commit of the seventh is slower by 30 %.
NIGHTS, CHANGED = 12, 6


def commit(night: int) -> str:
    """Return the commit of a night."""
    return hashlib.sha1(f"night {night}".encode()).hexdigest()


def write_history(
    folder: Path, *, loss: float = 0.3, runs: int = 2, nights: int = NIGHTS, changed: tuple[int, ...] = (CHANGED,)
) -> Path:
    """Write a history in which throughput falls by `loss` at each of the nights in `changed`."""
    fast = Truth(seconds=2, lam=200)
    for night in range(nights):
        started = datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=night)
        truth = replace(fast, lam=fast.lam * (1 - loss) ** sum(night >= first for first in changed))
        name = f"night-{night:02}"
        for number in range(runs):
            labels = {"started": started + timedelta(minutes=number), "session": name}
            write_run(folder / name, f"run-{number}", truth, seed=100 * night + number, **labels)
        references = {"cpu": 0.0017, "disk": 2e8, "network": 3e9}
        outcome = ("inconclusive", ()) if night == CHANGED else ("passed", ())
        add_to_gate_log(folder, GateRecord(started.isoformat(), name, commit(night), *outcome, references))
    return folder
