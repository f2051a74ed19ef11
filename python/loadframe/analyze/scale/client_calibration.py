"""Calibration of the number of clients: every node busy, none overloaded.

The elasticity paper gives the bounds: every node between 20 % and 90 % of its CPUs. If no CPU limit applies to
the nodes, only throughput shows whether there are enough clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.analyze.scale.telemetry import cpu_shares

IDLE, OVERLOADED = 0.2, 0.9
#: Smallest gain from a doubling of clients that continues the search.
_GAIN = 1.05
#: Largest number of clients; more need another generator.
_MOST = 4096


@dataclass(frozen=True)
class ClientsTried:
    """Result of a number of clients: throughput (1/s), CPU share of the least and of the most busy node."""

    clients: int
    throughput: float | None  #: None if the run is invalid
    idlest: float | None = None
    busiest: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The largest number of clients with every node within the bounds; `clients` is None if there was none."""

    nodes: int | None
    clients: int | None
    idlest: float | None
    busiest: float | None


def clients_tried(run: RecordedRun, phase: str, rate: Rate = THROUGHPUT) -> ClientsTried:
    """Return the result of a run's number of clients."""
    clients, entry = run.clients(phase) or 0, run.phase(phase)
    # A throughput without an upper bound does not show whether more clients would increase it.
    if entry is None or not isfinite(run.figure(phase, rate.name).high):
        return ClientsTried(clients, None)
    shares = cpu_shares(run, phase).values()
    return ClientsTried(clients, rate.of(entry), min(shares, default=None), max(shares, default=None))


def next_clients(trials: Sequence[ClientsTried]) -> int | None:
    """Return the next number of clients, twice the last one; None if the search is finished.

    It is finished if a node is overloaded, if the last doubling gained less than 5 %, or if the last two runs were
    invalid: one may have been disturbed, two mean that the generator is the limit.
    """
    if not trials:
        return 1
    ordered = sorted(trials, key=lambda trial: trial.clients)
    last = ordered[-1]
    if last.throughput is None:
        enough = len(ordered) > 1 and ordered[-2].throughput is None
    else:
        before = max((trial.throughput for trial in ordered[:-1] if trial.throughput is not None), default=0.0)
        enough = last.throughput < _GAIN * before or (last.busiest or 0.0) > OVERLOADED
    return None if enough or 2 * last.clients > _MOST else 2 * last.clients


def every_clients() -> list[int]:
    """Return all numbers of clients that the search may try on one cluster."""
    numbers = [1]
    while 2 * numbers[-1] <= _MOST:
        numbers.append(2 * numbers[-1])
    return numbers


def calibrate(nodes: int | None, trials: Sequence[ClientsTried]) -> Calibration | None:
    """Return the calibrated number of clients from all runs at a number of nodes, or None without CPU limits."""
    known = [trial for trial in trials if trial.idlest is not None and trial.busiest is not None]
    if not known:
        return None
    within = []
    for clients in {trial.clients for trial in known}:
        at_clients = [trial for trial in known if trial.clients == clients]
        idlest, busiest = (
            min(trial.idlest or 0.0 for trial in at_clients),
            max(trial.busiest or 0.0 for trial in at_clients),
        )
        if idlest >= IDLE and busiest <= OVERLOADED:
            within.append(Calibration(nodes, clients, idlest, busiest))
    best = max(within, key=lambda candidate: candidate.clients or 0, default=None)
    if best is not None:
        return best
    return Calibration(
        nodes, None, min(trial.idlest or 0.0 for trial in known), max(trial.busiest or 0.0 for trial in known)
    )
