"""A number never travels without its interval: the one type in which results are given."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval; an end may be infinite where the data do not bound it."""

    value: float
    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """Whether the data bound the value on both sides."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def as_dict(self) -> dict[str, float | None]:
        """Return the three numbers for JSON, which has no infinity: an unbounded end is null."""
        return {key: number if math.isfinite(number) else None for key, number in vars(self).items()}
