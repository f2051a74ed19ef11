"""Response times that follow from a fitted curve, where N is concurrency (closed clients) and not nodes.

By Little's law without think time R(N) = N / X(N) = D(N) / L. The inversions below solve the quadratics in N that
follow from D(N) = 1 + s (N - 1) + k N (N - 1), in the form that stays exact as k goes to 0.
"""

import math


def response_at_size(n: float, lam: float, sigma: float, kappa: float) -> float:
    """Return R(N) = D(N) / L in seconds, with `lam` in 1/s and no think time."""
    return (1 + sigma * (n - 1) + kappa * n * (n - 1)) / lam


def size_at_response(response: float, lam: float, sigma: float, kappa: float) -> float:
    """Return the N at which the response time is `response` (seconds); infinite where it never grows so far.

    Solves k N^2 + (s - k) N - (L R - 1 + s) = 0; with k = 0 this is (L R - 1 + s) / s.
    """
    slope, excess = sigma - kappa, lam * response - 1 + sigma
    denominator = slope + math.sqrt(slope**2 + 4 * kappa * excess)
    return 2 * excess / denominator if denominator > 0 else math.inf


def size_at_throughput(throughput: float, lam: float, sigma: float, kappa: float) -> float:
    """Return the least N (the stable branch) that reaches `throughput`; nan above the peak X*.

    Solves k X N^2 - (L + (k - s) X) N + (1 - s) X = 0; with k = 0 this is (1 - s) X / (L - s X).
    """
    linear = lam + (kappa - sigma) * throughput
    discriminant = linear**2 - 4 * kappa * (1 - sigma) * throughput**2
    if discriminant < 0 or linear <= 0:
        return math.nan
    return 2 * (1 - sigma) * throughput / (linear + math.sqrt(discriminant))


def response_at_throughput(throughput: float, lam: float, sigma: float, kappa: float) -> float:
    """Return R = N / X on the stable branch, in seconds; with k = 0 this is (1 - s) / (L - s X)."""
    return size_at_throughput(throughput, lam, sigma, kappa) / throughput
