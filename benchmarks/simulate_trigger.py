"""False alarms of the overload trigger with constant throughput, and its delay after a true drop.

Run it with `python -m benchmarks.simulate_trigger`.
"""

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.experiment.runner.triggers import throughput_drop
from loadframe.simulate import autoregressive

SEED = 23
SECONDS, SINCE, LENGTH, DROP = 900, 60, 10, 0.05
RHOS, NOISES, DROPS = (0.0, 0.4, 0.8), (0.03, 0.10), (0.10, 0.20, 0.40)
#: Time of the drop, and time limit for its detection, s.
FALLS, WATCHED = 180, 300


def main(trials: int = 60) -> None:
    """Print the table of lab/simulations/trigger.md, with `trials` runs per cell, and a third of runs with a drop."""
    promise = Promises()
    source, falls = np.random.default_rng(SEED), max(trials // 3, 1)
    print(f"{trials} runs a cell without a fall, {falls} with each, seed {SEED}; drop: 5%, seconds: 10, window: 60s")
    print("noise  rho  false alarms    false alarms, clients    seconds until a fall of")
    print("            in 15 minutes   arrive for 5 minutes     " + "".join(f"{drop:<22.0%}" for drop in DROPS))
    for noise in NOISES:
        for rho in RHOS:
            flat, rising = np.ones(SECONDS), np.minimum(0.1 + 0.1 * (np.arange(SECONDS) // 30), 1.0)
            alarms = [
                np.mean([_seen(source, level, noise, rho, SINCE) is not None for _ in range(trials)])
                for level in (flat, rising)
            ]
            for share in alarms:
                promise.at_most(f"false alarms, {noise:.0%}, rho {rho}", float(share), trials, 0.05)
            delays = [_delay(source, drop, noise, rho, falls) for drop in DROPS]
            print(
                f"{noise:5.0%}  {rho:.1f}  {alarms[0]:12.1%}  {alarms[1]:16.1%}           {''.join(delays)}", flush=True
            )
    promise.settle()


def _delay(source, drop, noise, rho, trials):
    level = np.where(np.arange(FALLS + WATCHED) < FALLS, 1.0, 1 - drop)
    seen = [_seen(source, level, noise, rho, FALLS) for _ in range(trials)]
    result = sorted(at - FALLS for at in seen if at is not None)
    if len(result) <= trials / 2:
        return f"{f'seen in {len(result) / trials:.0%} of runs':22s}"
    every = f" ({len(result) / trials:.0%})" if len(result) < trials else ""
    return f"{f'{np.median(result):.0f}, 90 % {np.quantile(result, 0.9):.0f}{every}':22s}"


def _seen(source, level, noise, rho, since):
    """Return the second in which the trigger detects a drop; None if it does not."""
    rates = level * np.maximum(1 + noise * autoregressive(source, (len(level),), rho), 0.0)
    return next((now for now in range(since, len(rates) + 1) if throughput_drop(rates[:now], LENGTH, DROP)), None)


if __name__ == "__main__":
    start(main)
