"""Courses of runs with known truth: a level, a loss, another level, with noise of a known size."""

from dataclasses import replace

import numpy as np

from loadframe.analyze.elastic.course import Course, Event
from loadframe.simulate import autoregressive


def course(
    seconds=600, rate=1000.0, late=0.010, *, noise=0.0, rho=0.0, seed=0, events=(), missing=(), left=(), **changes
):
    """Return a course; `changes` map "x" or "l" to functions of the seconds' middles that give its factor.

    Noise is of successive seconds with that correlation.
    """
    random = np.random.default_rng(seed)
    times = np.arange(seconds) + 0.5

    def series(level, name):
        factor = changes.get(name, lambda t: np.ones(len(t)))(times)
        return level * factor * (1 + noise * autoregressive(random, (seconds,), rho))

    throughput, p99 = series(rate, "x"), series(late, "l")
    p99 = np.where(throughput > 0, p99, np.nan)
    return Course(
        start=0.0,
        throughput=throughput,
        failures=changes.get("failures", lambda t: np.zeros(len(t)))(times),
        response_p50=p99 / 3,
        response_p99=p99,
        events=tuple(events),
        missing=tuple(missing),
        left=tuple(left),
    )


def pieces(*parts):
    """Return a step function that is `value` until `until`, for each (until, value), and keeps its last value."""

    def factor(times):
        result = np.full(len(times), parts[-1][1])
        for until, value in reversed(parts):
            result[times < until] = value
        return result

    return factor


def grown(begin=120.0, joined=150.0, balanced=200.0):
    """Return the events of a node that is requested, joins, and receives its data."""
    return (
        Event(begin, "trigger fired", step=1),
        Event(begin, "node requested", ("node-1",)),
        Event(joined, "node joined", ("node-1",)),
        Event(balanced, "cluster balanced", ("node-1",)),
    )


def paused(shown, period, factor, seed):
    """Return a course with a one-second pause every `period` s from a random second on.

    In a pause throughput falls to 40 %, and p99 is `factor` times its level, if it is not longer anyway.
    """
    at = np.arange(np.random.default_rng(seed).uniform(0, period), len(shown.times), period).astype(int)
    throughput, p99 = shown.throughput.copy(), shown.response_p99.copy()
    throughput[at] *= 0.4
    p99[at] = np.maximum(p99[at], factor * np.median(p99))
    return replace(shown, throughput=throughput, response_p99=p99)
