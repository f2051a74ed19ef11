"""Damaged and hostile files: each must be read, or refused with a message, within seconds."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from trials.trial import Trial

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import fuzz

FILES = 3000


def trials(seed: int) -> Iterator[Trial]:
    """Yield a trial for each kind of input file."""
    for target in fuzz.TARGETS:
        yield Trial(f"{FILES} damaged files: {target}", lambda target=target: _attempt(target, seed))  # type: ignore[misc]


def _attempt(target: str, seed: int) -> str:
    before = signal.signal(signal.SIGALRM, fuzz.alarm)
    refused = 0
    try:
        with TemporaryDirectory(prefix="loadframe-trial-") as folder, fuzz.expanded_here():
            for number in range(FILES):
                content = fuzz.damage(target, seed * 1_000_000 + number)
                signal.alarm(fuzz.PATIENCE)
                refused += fuzz.refuses(target, content, Path(folder))
                signal.alarm(0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return f"{refused} refused, {FILES - refused} read"
