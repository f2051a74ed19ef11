"""Load on a simulated store in virtual time: closed clients and open arrivals, request by request, at no clock's pace.

Data is balanced and at rest, and requests stay with the node that their client asks, so that nodes are independent of
each other; `transition` is about the time in which that is not so. One server with a queue is computed in one piece, by
running sums; several servers request by request.
"""

import heapq
import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.store.sim.model import Model, inflation

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Load:
    """What became of the requests of a phase, in s since it began: when each was scheduled, and when it was done.

    `rate` is None of closed clients. Requests that were rejected are only counted, by the second.
    """

    scheduled: Array
    done: Array
    rejected: npt.NDArray[np.int64]
    nodes: int
    clients: int | None
    rate: float | None
    warmup: float
    duration: float

    @property
    def throughput(self) -> float:
        """Requests per second that were answered in the measured window."""
        end = self.warmup + self.duration
        return float(np.count_nonzero((self.done >= self.warmup) & (self.done < end))) / self.duration

    @property
    def responses(self) -> Array:
        """Response times, s, of what was scheduled in the measured window and answered, also after its end."""
        return (self.done - self.scheduled)[self._measured]

    @property
    def achieved(self) -> float | None:
        """Of what was due in the measured window, the share that was answered in it; None of closed clients.

        What is in flight at any instant is not missing: one mean response time's worth of requests is allowed for.
        """
        if self.rate is None:
            return None
        due = np.count_nonzero(self._measured) + int(self.rejected[int(self.warmup) :].sum())
        in_flight = self.rate * min(float(self.responses[: max(due // 10, 1)].mean()), self.duration) if due else 0.0
        return min((self.throughput * self.duration + in_flight) / due, 1.0) if due else None

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


def closed(
    model: Model, nodes: int, clients: int, *, duration: float, warmup: float = 0.0, seed: int = 0, noise: float = 0.0
) -> Load:
    """Return the load of closed clients without think time, spread over the nodes as evenly as can be.

    `noise`: the relative standard deviation of the whole store's speed from run to run.
    """
    source = np.random.default_rng(seed)
    slow = float(np.exp(noise * source.standard_normal()))
    end = warmup + duration
    found = []
    for node in range(min(nodes, clients)):
        own = clients // nodes + (node < clients % nodes)
        factor = slow * model.slowdown(nodes, own)
        if model.servers == 1 and not model.stall:
            found.append(_closed_one_server(model, own, factor, end, source))
        else:
            found.append(_closed_servers(model, own, factor, end, source))
    scheduled, done = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return Load(scheduled, done, np.zeros(int(np.ceil(end)), np.int64), nodes, clients, None, warmup, duration)


def arriving(
    model: Model, nodes: int, rate: float, *, duration: float, warmup: float = 0.0, seed: int = 0, noise: float = 0.0
) -> Load:
    """Return the load of Poisson arrivals at `rate` (1/s) in all, split over the nodes at random."""
    source = np.random.default_rng(seed)
    slow = float(np.exp(noise * source.standard_normal()))
    end = warmup + duration
    found = []
    rejected = np.zeros(int(np.ceil(end)), np.int64)
    for _ in range(nodes):
        arrivals = np.sort(source.uniform(0, end, source.poisson(rate / nodes * end)))
        factor = slow * inflation(nodes, model.sigma, model.kappa)
        if model.servers == 1 and not model.stall and not model.client_sigma and not model.client_kappa:
            done = _open_one_server(model, arrivals, factor, source)
        else:
            done = _open_servers(model, arrivals, factor, source)
        done, refused = _bounded(arrivals, done, model.queue + model.servers)
        np.add.at(rejected, arrivals[refused].astype(int), 1)
        found.append((arrivals[~refused], done[~refused]))
    scheduled, done = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return Load(scheduled, done, rejected, nodes, None, rate, warmup, duration)


def draws(model: Model, count: int, source: np.random.Generator) -> Array:
    """Return service times as `Model.draw` gives them, s."""
    if model.distribution == "constant":
        return np.full(count, model.service)
    if model.distribution == "exponential":
        return source.exponential(model.service, count)
    spread = np.log1p(model.variation**2)
    return source.lognormal(np.log(model.service) - spread / 2, np.sqrt(spread), count)


def _closed_one_server(
    model: Model, clients: int, factor: float, end: float, source: np.random.Generator
) -> tuple[Array, Array]:
    """The server is never idle, and request k comes as soon as request k - clients is done."""
    mean = model.service * factor
    count = int(end / mean + 8 * np.sqrt(end / mean) * max(model.variation, 1) + clients + 8)
    done = np.cumsum(draws(model, count, source) * factor)
    scheduled = np.concatenate((np.zeros(clients), done[: count - clients]))
    kept = scheduled < end
    return scheduled[kept], done[kept]


def _closed_servers(
    model: Model, clients: int, factor: float, end: float, source: np.random.Generator
) -> tuple[Array, Array]:
    """Clients' next requests and servers' next free instants, each in a heap."""
    waiting, free = [0.0] * clients, [0.0] * model.servers
    drawing = random.Random(int(source.integers(2**62)))
    scheduled, done = [], []
    while (came := heapq.heappop(waiting)) < end:
        finish = model.finish(max(came, free[0]), model.draw(drawing) * factor)
        heapq.heapreplace(free, finish)
        heapq.heappush(waiting, finish)
        scheduled.append(came)
        done.append(finish)
    return np.array(scheduled), np.array(done)


def _open_one_server(model: Model, arrivals: Array, factor: float, source: np.random.Generator) -> Array:
    """Lindley's recursion in closed form: done(k) = W(k) + max over j <= k of (arrival(j) - W(j-1)), W the work."""
    work = np.cumsum(draws(model, len(arrivals), source) * factor)
    before = np.concatenate(([0.0], work[:-1])) if len(work) else work
    return work + np.maximum.accumulate(arrivals - before) if len(work) else work


def _open_servers(model: Model, arrivals: Array, factor: float, source: np.random.Generator) -> Array:
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
    """Say which requests found the queue full. What they would have cost the others is not taken back."""
    present = np.arange(1, len(arrivals) + 1) - np.searchsorted(np.sort(done), arrivals, side="right")
    return done, present > most
