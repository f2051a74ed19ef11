"""Throughputs with known truth, for tests of the fits and of the reports."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

SCALING = Path(__file__).parent.parent / "data" / "scaling"


def read_pairs(name: str, rows: int | None = None) -> list[tuple[float, float]]:
    """Read a published data set as pairs, all or its first rows."""
    lines = (SCALING / f"{name}.csv").read_text().split()[1:]
    pairs = [tuple(float(cell) for cell in line.split(",")) for line in lines]
    return pairs[:rows]


def simulate(
    sizes: Sequence[float], *, lam: float, sigma: float, kappa: float, noise: float, repetitions: int, seed: int
) -> list[tuple[float, float]]:
    """Draw repeated runs around a USL curve, with noise relative to throughput."""
    n = np.repeat(np.array(sizes, dtype=float), repetitions)
    exact = lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
    noisy = exact * (1 + noise * np.random.default_rng(seed).standard_normal(n.size))
    return list(zip(n.tolist(), noisy.tolist(), strict=True))
