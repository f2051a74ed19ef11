"""False and true positive rates of the steadiness test with autocorrelated seconds.

Run it with `python -m benchmarks.simulate_steadiness`.
"""

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.verdict.trends import steadiness
from loadframe.simulate import autoregressive

SEED = 22
SECONDS, RHOS, NOISES = (20, 40, 60, 99, 100, 300), (0.0, 0.4, 0.8), (0.03, 0.10)


def main(trials: int = 1000) -> None:
    """Print lab/simulations/steadiness.md, with `trials` steady windows per cell and a third of other windows."""
    promise = Promises()
    source = np.random.default_rng(SEED)
    print(f"{trials} steady windows a cell, {trials // 3} of each other kind, seed {SEED}")
    print(f"{'':17s}" + "".join(f"{seconds:>7d} s" for seconds in SECONDS))
    for words, factor in (
        ("steady", np.ones_like),
        ("trend of 15 %", lambda place: 0.925 + 0.15 * place),
        ("trend of 30 %", lambda place: 0.85 + 0.3 * place),
        ("a fifth at half", lambda place: np.where(place < 0.2, 0.5, 1.0)),
    ):
        print(f"called unsteady: {words}")
        for noise in NOISES:
            for rho in RHOS:
                cells = []
                for seconds in SECONDS:
                    size = trials if words == "steady" else trials // 3
                    series = 1 + noise * autoregressive(source, (size, seconds), rho)
                    series *= factor(np.linspace(0, 1, seconds))
                    judged = [steadiness(np.maximum(row, 0.0)) for row in series]
                    cells.append(np.mean([not verdict.steady for verdict in judged if verdict]))
                    if words == "steady":
                        promise.at_most(f"{seconds} s, {noise:.0%}, rho {rho}", float(cells[-1]), size, 0.05)
                print(f"  {noise:4.0%}, rho {rho:.1f}   " + "".join(f"{cell:8.1%} " for cell in cells), flush=True)
    promise.settle()


if __name__ == "__main__":
    start(main)
