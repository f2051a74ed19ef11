"""Simulation of a store in virtual time: closed-loop clients, and the precision of scale designs.

Data are balanced and do not move, and a client uses one node, so that nodes are independent. Nodes with one server are
computed by cumulative sums, nodes with several servers request by request.

A design is simulated many times on a store with an assumed or fitted law. The precision of the estimated law is the
quality of the design.
"""

import heapq
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from loadframe.analyze.estimate import Estimate
from loadframe.base import special
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
        """Requests done in the measured window, from `warmup` until `warmup + duration`, per second."""
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
    """Simulate closed-loop clients without think time, spread evenly over the nodes, from time 0.

    `duration` and `warmup` are s. Returns the requests scheduled before the end, node by node, so times do not ascend.
    `noise` is the relative standard deviation of the store's speed between runs. The same `seed` repeats the times.
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
    """Draw `count` service times from the distribution of `SimModel.draw`, s."""
    if model.distribution == "constant":
        return np.full(count, model.service)
    if model.distribution == "exponential":
        return source.exponential(model.service, count)
    spread = np.log1p(model.variation**2)
    return source.lognormal(np.log(model.service) - spread / 2, np.sqrt(spread), count)


def _closed_one_server(
    model: SimModel, clients: int, factor: float, end: float, source: np.random.Generator
) -> tuple[Array, Array]:
    """Simulate a node with one server: it is never idle, and request k arrives when request k - clients is done.

    Returns scheduled and done times, s, of the requests scheduled before `end` s. `factor` multiplies service times.
    """
    mean = model.service * factor
    count = int(end / mean + 8 * np.sqrt(end / mean) * max(model.variation, 1) + clients + 8)
    done = np.cumsum(draws(model, count, source) * factor)
    scheduled = np.concatenate((np.zeros(clients), done[: count - clients]))
    kept = scheduled < end
    return scheduled[kept], done[kept]


def _closed_servers(
    model: SimModel, clients: int, factor: float, end: float, source: np.random.Generator
) -> tuple[Array, Array]:
    """Simulate a node with several servers, with heaps of the clients' next requests and the servers' free times.

    Returns scheduled and done times, s, of the requests scheduled before `end` s. `factor` multiplies service times.
    """
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
    """Draw stationary normal AR(1) series of mean 0 and standard deviation 1 along the last axis of `shape`.

    Values k apart have the correlation `rho` ** k; `rho` must be from -1 to 1.
    """
    shocks = source.standard_normal(shape)
    shocks[..., 1:] *= np.sqrt(1 - rho**2)
    # Imported here because it takes half a second, and most simulations have no such noise.
    from scipy.signal import lfilter

    series: npt.NDArray[np.float64] = lfilter([1.0], [1.0, -rho], shocks, axis=-1)
    return series


__all__ = ["Load", "closed"]

#: Simulated experiments of each design; more would hardly change the figures.
TRIALS = 16


@dataclass(frozen=True)
class Law:
    """Assumed law of a store: contention, coherency, relative standard deviation of repeated runs."""

    sigma: float
    kappa: float
    noise: float

    @property
    def peak(self) -> float:
        """Size with the highest throughput, sqrt((1 - sigma) / kappa); infinite without coherency."""
        return math.sqrt((1 - self.sigma) / self.kappa) if self.kappa else math.inf


@dataclass(frozen=True)
class Outlook:
    """Expected precision of a scale design. Intervals are medians of simulated experiments.

    `peak` has the true peak and the 5-95 % range of estimated peaks; `claimed` is the share of experiments that report
    a peak. Each size and repetition has `others` runs: one for each combination of the levels of other factors.
    """

    name: str
    sizes: tuple[int, ...]
    repetitions: int
    sigma: Estimate
    kappa: Estimate
    peak: Estimate
    claimed: float
    others: int = 1

    @property
    def runs(self) -> int:
        """Number of runs of the design."""
        return len(self.sizes) * self.repetitions * self.others


def outlook(name: str, sizes: Sequence[int], repetitions: int, law: Law, *, others: int = 1, seed: int = 0) -> Outlook:
    """Simulate a scale design 16 times on a store with that law; return its expected precision.

    A curve has `repetitions` runs of each size, in nodes; each node has one client. `name` and `others` are only
    copied. The same `seed` repeats the result.
    """
    # Imported late: the fit takes a second to import.
    from loadframe.analyze.scalability import fit

    model = SimModel(distribution="constant", sigma=law.sigma, kappa=law.kappa)
    sigmas, kappas, peaks, claims = [], [], [], 0
    for trial in range(TRIALS):
        runs = []
        for index, size in enumerate(sizes):
            for repetition in range(repetitions):
                run_seed = seed + 1 + (trial * len(sizes) + index) * repetitions + repetition
                runs.append((float(size), _throughput(model, size, law.noise, run_seed)))
        fitted = fit(runs, seed=trial)
        usl = fitted.models["usl"].parameters
        sigmas.append(usl["sigma"])
        kappas.append(usl["kappa"])
        claims += fitted.peak is not None
        sigma, kappa = usl["sigma"].value, usl["kappa"].value
        peaks.append(math.sqrt(max(1 - sigma, 0.0) / kappa) if kappa > 0 else math.inf)
    low, high = (float(np.quantile(peaks, q, method="nearest")) for q in (0.05, 0.95))
    return Outlook(
        name,
        tuple(sizes),
        repetitions,
        _typical(law.sigma, sigmas),
        _typical(law.kappa, kappas),
        Estimate(law.peak, low, high),
        claims / TRIALS,
        others,
    )


def candidates(
    sizes: Sequence[int], repetitions: int, budget: int | None, others: int = 1
) -> list[tuple[str, tuple[int, ...], int]]:
    """Return a design and its alternatives as (name, sizes, repetitions), each with at most `budget` runs.

    `sizes` must not be empty; they become ascending and distinct. Each size and repetition has `others` runs. None does
    not limit the runs. Excludes repeated designs, and those with fewer than three sizes, since no fit is possible.
    """
    candidates = tuple(sorted(set(sizes)))
    largest, between = candidates[-1], _between(candidates)
    designs = [
        ("as it is", candidates, repetitions),
        ("repeated more", candidates, 2 * repetitions),
        ("more sizes between", between, repetitions),
        ("twice as far", (*candidates, 2 * largest), repetitions),
        ("four times as far", (*candidates, 2 * largest, 4 * largest), repetitions),
    ]
    if budget is not None:
        spread = tuple(sorted({round(largest ** (step / 6)) for step in range(7)}))
        designs += [
            (f"{budget} runs on these sizes", candidates, budget // (others * len(candidates))),
            (f"{budget} runs on seven sizes", spread, budget // (others * len(spread))),
        ]
        designs = [design for design in designs if others * design[2] * len(design[1]) <= budget]
    unique: dict[tuple[tuple[int, ...], int], str] = {}
    for name, sizes_of_it, count in designs:
        if count and len(sizes_of_it) >= _LEAST:
            unique.setdefault((sizes_of_it, count), name)
    return [(name, sizes_of_it, count) for (sizes_of_it, count), name in unique.items()]


#: Minimum number of sizes for a fit.
_LEAST = 3


def least_effect(noise: float, first: int, second: int, power: float = 0.8) -> float:
    """Return the smallest relative difference that a comparison of means of runs detects with that power, at 5 %.

    `first` and `second` are the numbers of runs, `noise` is the standard deviation of their logarithms. By Student's t:
    exp((t(0.975) + t(power)) noise sqrt(1/n1 + 1/n2)) - 1, with n1 + n2 - 2 degrees of freedom; infinite without
    degrees of freedom.
    """
    freedom = first + second - 2
    if freedom < 1 or not first or not second:
        return math.inf
    quantiles = float(special.stdtrit(freedom, 0.975) + special.stdtrit(freedom, power))
    return math.expm1(quantiles * noise * math.sqrt(1 / first + 1 / second))


def _throughput(model: SimModel, size: int, noise: float, seed: int) -> float:
    """Return the measured throughput of a simulated run on `size` nodes, 1/s: the model's, with log-normal noise.

    `noise` is the relative standard deviation.
    """
    # Equals the result of `closed` with one client per node and constant service times, without simulating requests.
    return model.throughput(size) / math.exp(noise * float(np.random.default_rng(seed).standard_normal()))


def _between(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return ascending sizes with the rounded geometric mean of each pair of neighbours, each once, ascending."""
    middles = {round(math.sqrt(low * high)) for low, high in itertools.pairwise(sizes)}
    return tuple(sorted({*sizes, *middles}))


def _typical(truth: float, estimates: Sequence[Estimate]) -> Estimate:
    """Return an estimate of the true value, with the medians of the lower and of the upper ends of the intervals."""
    return Estimate(
        truth, median(estimate.low for estimate in estimates), median(estimate.high for estimate in estimates)
    )
