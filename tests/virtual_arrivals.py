"""Poisson arrivals at a simulated store in virtual time: the queue of known capacity for capacity searches."""

import heapq
import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.simulate import Array, Load, draws
from loadframe.store.sim.model import SimModel, inflation


@dataclass(frozen=True, eq=False)
class Arrivals(Load):
    """Requests that arrive at a total `rate` (1/s). Rejected requests are only counted, by second."""

    rejected: npt.NDArray[np.int64]
    rate: float

    @property
    def responses(self) -> Array:
        """Response times, s, of requests that were scheduled in the measured window, also if answered after its end."""
        return (self.done - self.scheduled)[self._measured]

    @property
    def achieved(self) -> float:
        """Share of the requests due in the measured window that were answered in it.

        Requests in flight at its end do not count as missing: the work of one mean response time is allowed for.
        """
        due = np.count_nonzero(self._measured) + int(self.rejected[int(self.warmup) :].sum())
        in_flight = self.rate * min(float(self.responses[: max(due // 10, 1)].mean()), self.duration) if due else 0.0
        return min((self.throughput * self.duration + in_flight) / due, 1.0) if due else 1.0

    @property
    def errors(self) -> float:
        """The share of requests that were rejected."""
        rejected = int(self.rejected[int(self.warmup) :].sum())
        return rejected / max(rejected + int(np.count_nonzero(self._measured)), 1)

    def backlog(self) -> Array:
        """Return how many requests are in flight at the end of each second of the measured window."""
        ends = np.arange(int(self.warmup) + 1, int(self.warmup + self.duration) + 1, dtype=float)
        due = np.searchsorted(np.sort(self.scheduled), ends, side="right")
        done = np.searchsorted(np.sort(self.done), ends, side="right")
        return (due - done).astype(float)

    @property
    def _measured(self) -> npt.NDArray[np.bool_]:
        return (self.scheduled >= self.warmup) & (self.scheduled < self.warmup + self.duration)


def arriving(
    model: SimModel, nodes: int, rate: float, *, duration: float, warmup: float = 0.0, seed: int = 0
) -> Arrivals:
    """Return the load of Poisson arrivals at `rate` (1/s) in all, split over the nodes at random."""
    source = np.random.default_rng(seed)
    end = warmup + duration
    requests = []
    rejected = np.zeros(int(np.ceil(end)), np.int64)
    for _ in range(nodes):
        arrivals = np.sort(source.uniform(0, end, source.poisson(rate / nodes * end)))
        factor = inflation(nodes, model.sigma, model.kappa)
        if model.servers == 1 and not model.stall and not model.client_sigma and not model.client_kappa:
            done = _open_one_server(model, arrivals, factor, source)
        else:
            done = _open_servers(model, arrivals, factor, source)
        done, refused = _bounded(arrivals, done, model.queue + model.servers)
        np.add.at(rejected, arrivals[refused].astype(int), 1)
        requests.append((arrivals[~refused], done[~refused]))
    scheduled, done = (np.concatenate(columns) for columns in zip(*requests, strict=True))
    return Arrivals(scheduled, done, warmup, duration, rejected, rate)


def _open_one_server(model: SimModel, arrivals: Array, factor: float, source: np.random.Generator) -> Array:
    """Lindley's recursion in closed form: done(k) = W(k) + max over j <= k of (arrival(j) - W(j-1)), W the work."""
    work = np.cumsum(draws(model, len(arrivals), source) * factor)
    before = np.concatenate(([0.0], work[:-1])) if len(work) else work
    return work + np.maximum.accumulate(arrivals - before) if len(work) else work


def _open_servers(model: SimModel, arrivals: Array, factor: float, source: np.random.Generator) -> Array:
    free, present = [0.0] * model.servers, [0.0]
    drawing = random.Random(int(source.integers(2**62)))
    done = []
    for came in arrivals.tolist():
        while present and present[0] <= came:
            heapq.heappop(present)
        crowd = inflation(len(present) + 1, model.client_sigma, model.client_kappa)
        finish = model.finish(max(came, free[0]), model.draw(drawing) * factor * crowd)
        heapq.heapreplace(free, finish)
        heapq.heappush(present, finish)
        done.append(finish)
    return np.array(done)


def _bounded(arrivals: Array, done: Array, most: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return which requests met a full queue. Their cost to other requests is not subtracted."""
    present = np.arange(1, len(arrivals) + 1) - np.searchsorted(np.sort(done), arrivals, side="right")
    return done, present > most
