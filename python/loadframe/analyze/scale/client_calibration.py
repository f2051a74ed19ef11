"""How many clients load a cluster well: no node is idle, none is overloaded.

Both bounds are those of the elasticity paper: no node below 20 % of its CPUs, none above 90 %. Where nodes have no CPU
limit that holds them, only throughput can tell when there are clients enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.analyze.scale.telemetry import cpu_shares

IDLE, OVERLOADED = 0.2, 0.9
#: A doubling of clients that brings less than this has found the end.
_GAIN = 1.05
#: More clients than this are another generator's business.
_MOST = 4096


@dataclass(frozen=True)
class ClientsTried:
    """What a number of clients did: throughput (1/s), the least and the most busy node's share of its CPU limit."""

    clients: int
    throughput: float | None  #: None where the run is invalid
    idlest: float | None = None
    busiest: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The most clients at which every node was between the bounds; None where no number was seen to be so."""

    nodes: int | None
    clients: int | None
    idlest: float | None
    busiest: float | None


def clients_tried(run: RecordedRun, phase: str, rate: Rate = THROUGHPUT) -> ClientsTried:
    """Return what a run says of its number of clients."""
    clients, entry = run.clients(phase) or 0, run.phase(phase)
    # A throughput without an upper bound says nothing of whether more clients would do more.
    if entry is None or not isfinite(run.figure(phase, rate.name).high):
        return ClientsTried(clients, None)
    shares = cpu_shares(run, phase).values()
    return ClientsTried(clients, rate.of(entry), min(shares, default=None), max(shares, default=None))


def next_clients(trials: Sequence[ClientsTried]) -> int | None:
    """Return how many clients to try next, twice as many each time; None when more would say nothing new.

    That is when a node is overloaded, when the last doubling brought less than 5 %, or when the last two runs were
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
    """Return all numbers of clients that may be tried on one cluster."""
    numbers = [1]
    while 2 * numbers[-1] <= _MOST:
        numbers.append(2 * numbers[-1])
    return numbers


def calibrate(nodes: int | None, trials: Sequence[ClientsTried]) -> Calibration | None:
    """Return the calibrated number of clients from all runs of a number of nodes; None without CPU limits to go by."""
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
