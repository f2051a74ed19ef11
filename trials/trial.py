"""A trial of one behaviour, and its result."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """One behaviour: `attempt` returns a short description, and raises AssertionError on failure."""

    name: str
    attempt: Callable[[], str]


@dataclass(frozen=True)
class Result:
    """Result of a trial; `seconds` is its duration."""

    suite: str
    name: str
    passed: bool
    seen: str
    seconds: float


def attempts(suite: str, trials: Iterator[Trial]) -> Iterator[Result]:
    """Run the trials in sequence; a failure does not stop the others."""
    for trial in trials:
        began = time.monotonic()
        try:
            passed, seen = True, trial.attempt()
        except Exception as error:
            passed, seen = False, f"{type(error).__name__}: {error}".splitlines()[0][:200]
        yield Result(suite, trial.name, passed, seen, time.monotonic() - began)
