"""Coverage of the interval of growth with the documents, and rate of false claims of growth.

Run it with `python -m benchmarks.simulate_growth`.
"""

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.verdict.trends import growth
from loadframe.simulate import autoregressive

SEED = 18
SECONDS, RHOS = (20, 60, 200, 600), (0.0, 0.4, 0.8)


def main(trials: int = 1000) -> None:
    """Print the table of lab/simulations/growth.md, with `trials` runs per cell."""
    promise = Promises()
    source = np.random.default_rng(SEED)
    print(f"{trials} runs a cell, seed {SEED}: the interval covers the slope / growth is claimed")
    print(f"{'':34s}" + "".join(f"{seconds:>12d} s" for seconds in SECONDS))
    for words, slope in (("nothing grows", 0.0), ("+30 % over the run", 0.3)):
        print(words)
        for pace in ("even", "stages"):
            for kind in ("normal", "skewed", "hidden"):
                for rho in RHOS:
                    cells = []
                    for seconds in SECONDS:
                        covered, claimed = _cell(source, seconds, slope, pace, kind, rho, trials)
                        cells.append(f"{covered:6.1%} /{claimed:6.1%}")
                        if slope == 0 and rho < 0.8 and seconds >= 60:
                            promise.at_most(f"{words}, {pace}, {kind}, {seconds} s, rho {rho}", claimed, trials, 0.05)
                    print(f"  {pace:7s}{kind:7s} noise, rho {rho:.1f}   " + " ".join(cells), flush=True)
    promise.settle()


def _cell(
    source: np.random.Generator, seconds: int, slope: float, pace: str, kind: str, rho: float, trials: int
) -> tuple[float, float]:
    """Return the shares of runs with an interval that covers the slope, and with a claim of growth."""
    places = np.linspace(0, 3, seconds, endpoint=False).astype(int)
    rate = np.full(seconds, 100.0) if pace == "even" else np.array([300.0, 10.0, 150.0])[places]
    documents = np.cumsum(rate) - rate / 2
    true = slope / (documents[-1] / 1000)
    covered = claimed = 0
    for _ in range(trials):
        noise = autoregressive(source, (seconds,), rho)
        if kind == "skewed":
            # Lognormal, of mean 0 and standard deviation 1.
            noise = (np.exp(0.8 * noise) - np.exp(0.32)) / np.sqrt(np.exp(1.28) - np.exp(0.64))
        elif kind == "hidden":
            # Additional independent noise of equal variance, which hides the autocorrelation.
            noise = (noise + source.standard_normal(seconds)) / np.sqrt(2)
        means = 1 + true * documents / 1000 + 0.1 * noise
        judged = growth(means, source.poisson(20, seconds).astype(float), documents)
        assert judged is not None
        covered += judged.low <= true <= judged.high
        claimed += judged.grows
    return covered / trials, claimed / trials


if __name__ == "__main__":
    start(main)
