"""Closed-loop clients on a simulated store in virtual time.

Data are balanced and do not move, and a client uses one node, so that nodes are independent. Nodes with one server are
computed by cumulative sums, nodes with several servers request by request.
"""

import heapq
import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.store.sim.model import SimModel

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Load:
    """Requests of a phase: scheduled and done times, s since the phase began."""

    scheduled: Array
    done: Array
    warmup: float
    duration: float

    @property
    def throughput(self) -> float:
        """Requests answered in the measured window, per second."""
        end = self.warmup + self.duration
        return float(np.count_nonzero((self.done >= self.warmup) & (self.done < end))) / self.duration


def closed(
    model: SimModel,
    nodes: int,
    clients: int,
    *,
    duration: float,
    warmup: float = 0.0,
    seed: int = 0,
    noise: float = 0.0,
) -> Load:
    """Simulate closed-loop clients without think time, spread evenly over the nodes.

    `noise` is the relative standard deviation of the store's speed between runs.
    """
    source = np.random.default_rng(seed)
    slow = float(np.exp(noise * source.standard_normal()))
    end = warmup + duration
    requests = []
    for node in range(min(nodes, clients)):
        at_node = clients // nodes + (node < clients % nodes)
        factor = slow * model.slowdown(nodes, at_node)
        if model.servers == 1 and not model.stall:
            requests.append(_closed_one_server(model, at_node, factor, end, source))
        else:
            requests.append(_closed_servers(model, at_node, factor, end, source))
    scheduled, done = (np.concatenate(columns) for columns in zip(*requests, strict=True))
    return Load(scheduled, done, warmup, duration)


def draws(model: SimModel, count: int, source: np.random.Generator) -> Array:
    """Draw service times from the distribution of `SimModel.draw`, s."""
    if model.distribution == "constant":
        return np.full(count, model.service)
    if model.distribution == "exponential":
        return source.exponential(model.service, count)
    spread = np.log1p(model.variation**2)
    return source.lognormal(np.log(model.service) - spread / 2, np.sqrt(spread), count)


def _closed_one_server(
    model: SimModel, clients: int, factor: float, end: float, source: np.random.Generator
) -> tuple[Array, Array]:
    """Simulate a node with one server: it is never idle, and request k arrives when request k - clients is done."""
    mean = model.service * factor
    count = int(end / mean + 8 * np.sqrt(end / mean) * max(model.variation, 1) + clients + 8)
    done = np.cumsum(draws(model, count, source) * factor)
    scheduled = np.concatenate((np.zeros(clients), done[: count - clients]))
    kept = scheduled < end
    return scheduled[kept], done[kept]


def _closed_servers(
    model: SimModel, clients: int, factor: float, end: float, source: np.random.Generator
) -> tuple[Array, Array]:
    """Simulate a node with several servers, with heaps of the clients' next requests and the servers' free times."""
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


def autoregressive(source: np.random.Generator, shape: tuple[int, ...], rho: float) -> npt.NDArray[np.float64]:
    """Draw stationary normal AR(1) series of mean 0 and standard deviation 1 along the last axis.

    Values k apart have the correlation `rho` ** k.
    """
    shocks = source.standard_normal(shape)
    shocks[..., 1:] *= np.sqrt(1 - rho**2)
    # Imported here because it takes half a second, and most simulations have no such noise.
    from scipy.signal import lfilter

    series: npt.NDArray[np.float64] = lfilter([1.0], [1.0, -rho], shocks, axis=-1)
    return series
