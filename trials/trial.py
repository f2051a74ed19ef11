"""What a trial is: one behaviour that is tried, and what came of it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """One behaviour: `attempt` returns what was seen in a few words, and raises AssertionError where it failed."""

    name: str
    attempt: Callable[[], str]


@dataclass(frozen=True)
class Result:
    """What came of a trial; `seconds` is how long it took."""

    suite: str
    name: str
    passed: bool
    seen: str
    seconds: float


def attempts(suite: str, trials: Iterator[Trial]) -> Iterator[Result]:
    """Try them one after the other; one that fails ends nothing but itself."""
    for trial in trials:
        began = time.monotonic()
        try:
            passed, seen = True, trial.attempt()
        except Exception as error:
            passed, seen = False, f"{type(error).__name__}: {error}".splitlines()[0][:200]
        yield Result(suite, trial.name, passed, seen, time.monotonic() - began)
