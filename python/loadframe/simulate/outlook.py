"""What a design can know: it is carried out many times in virtual time, and the analysis is asked what it saw.

The store that is simulated has a supposed or an already fitted law; how well the same law is found again is what the
design is worth.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy import special

from loadframe.analyze.estimate import Estimate
from loadframe.store.sim.model import SimModel

#: Experiments that are made of each design. More would move the figures by less than they are worth.
TRIALS = 16


@dataclass(frozen=True)
class Law:
    """What is supposed of the store: contention, coherency, the relative standard deviation of repeated runs."""

    sigma: float
    kappa: float
    noise: float

    @property
    def peak(self) -> float:
        """Where throughput is greatest; infinite without coherency."""
        return math.sqrt((1 - self.sigma) / self.kappa) if self.kappa else math.inf


@dataclass(frozen=True)
class Outlook:
    """What a scale design can know. Intervals are what such an experiment would report, in the middle of many.

    `peak` has the true peak and the 5-95 % range of what experiments take for it; `claimed` is the share of them that
    name one.
    """

    name: str
    sizes: tuple[int, ...]
    repetitions: int
    sigma: Estimate
    kappa: Estimate
    peak: Estimate
    claimed: float

    @property
    def runs(self) -> int:
        """The runs that the design takes."""
        return len(self.sizes) * self.repetitions


def outlook(name: str, sizes: Sequence[int], repetitions: int, law: Law, *, seed: int = 0) -> Outlook:
    """Carry out a scale design many times on a store of that law, and say what it finds."""
    # Only designs of curves are fitted, and the fit takes a second to import.
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
    )


def candidates(sizes: Sequence[int], repetitions: int, budget: int | None) -> list[tuple[str, tuple[int, ...], int]]:
    """Return designs to weigh against each other: as it is, repeated more, reaching further, and both."""
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
            (f"{budget} runs on these sizes", candidates, budget // len(candidates)),
            (f"{budget} runs on seven sizes", spread, budget // len(spread)),
        ]
        designs = [design for design in designs if design[2] * len(design[1]) <= budget]
    unique: dict[tuple[tuple[int, ...], int], str] = {}
    for name, sizes_of_it, count in designs:
        if count and len(sizes_of_it) >= _LEAST:
            unique.setdefault((sizes_of_it, count), name)
    return [(name, sizes_of_it, count) for (sizes_of_it, count), name in unique.items()]


#: A curve of fewer sizes cannot be fitted.
_LEAST = 3


def least_effect(noise: float, first: int, second: int, power: float = 0.8) -> float:
    """Return the least relative difference that a comparison of means of runs sees with that power, at 5 %.

    By Student's t for the logarithms of runs: exp((t(0.975) + t(power)) noise sqrt(1/n1 + 1/n2)) - 1, with
    n1 + n2 - 2 degrees of freedom; infinite where there is none.
    """
    freedom = first + second - 2
    if freedom < 1 or not first or not second:
        return math.inf
    quantiles = float(special.stdtrit(freedom, 0.975) + special.stdtrit(freedom, power))
    return math.expm1(quantiles * noise * math.sqrt(1 / first + 1 / second))


def _throughput(model: SimModel, size: int, noise: float, seed: int) -> float:
    # What `closed` comes to with a client for each node and constant service times, without its requests.
    return model.throughput(size) / math.exp(noise * float(np.random.default_rng(seed).standard_normal()))


def _between(sizes: tuple[int, ...]) -> tuple[int, ...]:
    middles = {round(math.sqrt(low * high)) for low, high in itertools.pairwise(sizes)}
    return tuple(sorted({*sizes, *middles}))


def _typical(truth: float, estimates: Sequence[Estimate]) -> Estimate:
    """Return the truth with the middle of the intervals' ends."""
    return Estimate(
        truth, median(estimate.low for estimate in estimates), median(estimate.high for estimate in estimates)
    )
