"""Coverage of the intervals of the scalability fit for the known sigma and kappa of a simulated store; target 95 %."""

from loadframe.analyze.scalability import fit
from loadframe.simulate import closed
from loadframe.store.sim.model import SimModel

TRIALS = 400
SIZES = (1, 2, 4, 8, 16, 32, 48)
REPETITIONS = 3
NOISE = 0.03


def main() -> None:
    """Print the share of experiments with intervals that contain the true values."""
    model = SimModel(service=0.01, distribution="constant", sigma=0.03, kappa=5e-4)
    held = {"sigma": 0, "kappa": 0}
    for trial in range(TRIALS):
        result = fit(_runs(model, trial), seed=trial).models["usl"].parameters
        for name in held:
            held[name] += result[name].low <= getattr(model, name) <= result[name].high
    design = f"{len(SIZES)} sizes to {SIZES[-1]}, {REPETITIONS} repetitions, noise {NOISE:.0%}"
    for name, count in held.items():
        print(f"  {name} within its 95 % interval: {count} of {TRIALS} experiments ({design})")


def _runs(model: SimModel, trial: int) -> list[tuple[float, float]]:
    return [
        (
            float(nodes),
            closed(
                model, nodes, 2 * nodes, duration=20, seed=1000 * trial + 10 * nodes + repetition, noise=NOISE
            ).throughput,
        )
        for nodes in SIZES
        for repetition in range(REPETITIONS)
    ]
