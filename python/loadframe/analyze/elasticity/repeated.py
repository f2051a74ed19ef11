"""A measure over repetitions: its mean with an interval, with the event, and against the control runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.elasticity.measures import Value
from loadframe.analyze.estimate import Estimate, mean_interval


@dataclass(frozen=True)
class Repeated:
    """One measure's values by block, of runs with the event and of their control runs. `runs` might have had one.

    `mean` is over the former. Where some are censored, it is a lower bound and its interval is open to above.
    `difference` is the mean of what blocks with both runs have more with the event than without.
    """

    name: str
    runs: int
    values: Mapping[int, Value]
    control: Mapping[int, Value]
    mean: Estimate
    difference: Estimate | None

    @property
    def conditional(self) -> Estimate | None:
        """The mean of the runs in which it is known, where it is censored in others; None where it is so in none."""
        known = [value.value for value in self.values.values() if not value.censored]
        return mean_interval(known) if known and self.censored else None

    @property
    def censored(self) -> int:
        """In how many runs it is only known to be more than the value."""
        return sum(value.censored for value in self.values.values())

    @property
    def drift(self) -> Estimate | None:
        """Its mean in the control runs, which is of what happened by itself; None without any."""
        return mean_interval([value.value for value in self.control.values()]) if self.control else None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "mean": self.mean.as_dict(),
            "runs": self.runs,
            "censored": self.censored,
            "conditional": self.conditional and self.conditional.as_dict(),
            "difference": self.difference and self.difference.as_dict(),
            "values": {str(block): value.value for block, value in self.values.items()},
            "control": {str(block): value.value for block, value in self.control.items()},
        }


def repeated(name: str, runs: int, values: Mapping[int, Value], control: Mapping[int, Value]) -> Repeated:
    """Return a measure over the repetitions that have it; at least one must."""
    mean = mean_interval([value.value for value in values.values()])
    if any(value.censored for value in values.values()):
        mean = Estimate(mean.value, min(mean.low, mean.value) if math.isfinite(mean.low) else -math.inf, math.inf)
    both = [block for block in values if block in control]
    known = both and not any(values[block].censored or control[block].censored for block in both)
    differences = [values[block].value - control[block].value for block in both]
    return Repeated(name, runs, values, control, mean, mean_interval(differences) if known else None)
