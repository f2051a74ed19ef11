"""The batched solver agrees with an independent optimiser."""

import numpy as np
import pytest
from scipy.optimize import least_squares
from usl_data import simulate

from loadframe.analyze.scalability import fit
from loadframe.analyze.scalability.models import solve_knee


def throughput(theta, n):
    lam, sigma, kappa = theta
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("residuals", ["relative", "absolute"])
def test_the_usl_fit_is_at_least_as_good_as_scipys_trust_region(seed, residuals):
    random = np.random.default_rng(seed)
    sigma, kappa = random.uniform(0, 0.3), 10 ** random.uniform(-6, -2)
    data = simulate([1, 2, 3, 5, 9, 17, 33], lam=50, sigma=sigma, kappa=kappa, noise=0.1, repetitions=1, seed=seed)
    n, x = np.array(data).T
    scale = x if residuals == "relative" else np.ones_like(x)
    best = min(
        least_squares(
            lambda theta: (throughput(theta, n) - x) / scale,
            [x[0], s, k],
            bounds=([0, 0, 0], [np.inf, 1, np.inf]),
            x_scale=[50, 0.1, 1e-3],
            ftol=1e-14,
            xtol=1e-14,
            gtol=1e-14,
        ).cost
        * 2
        for s in (0.001, 0.1)
        for k in (1e-6, 1e-3)
    )
    usl = fit(data, residuals=residuals).models["usl"]
    values = sum(residual**2 for residual in usl.residuals)
    if usl.parameters["sigma"].value >= 0:
        assert values <= best * (1 + 1e-6)
    else:  # a superlinear fit has left the bounds
        assert values < best


@pytest.mark.parametrize("seed", range(6))
def test_the_knee_is_the_best_of_a_fine_grid(seed):
    random = np.random.default_rng(seed)
    n = np.array([1.0, 2, 4, 8, 16])
    x = np.minimum(10 * n, random.uniform(15, 170)) * (1 + 0.1 * random.standard_normal(5))
    theta, cost = solve_knee(n, x[None], np.ones((1, 5)))
    lams, ceilings = np.meshgrid(np.linspace(5, 20, 301), np.linspace(5, 250, 491), indexing="ij")
    grid = ((np.minimum(lams[..., None] * n, ceilings[..., None]) - x) ** 2).sum(-1)
    assert cost[0] <= grid.min()
    assert cost[0] == pytest.approx(((np.minimum(theta[0, 0] * n, theta[0, 1]) - x) ** 2).sum())


def test_a_knee_outside_the_sizes_is_known_from_one_side_only():
    n, weights = np.array([1.0, 2, 4]), np.ones((1, 3))
    straight, _ = solve_knee(n, np.array([[10.0, 20, 40]]), weights)
    assert straight[0].tolist() == [10, np.inf]
    flat, _ = solve_knee(n, np.array([[10.0, 10, 10]]), weights)
    assert flat[0].tolist() == [np.inf, 10]
