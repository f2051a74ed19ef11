"""Thresholds of a gate: the least effect that matters, the effect to catch, and absolute bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadframe.analyze.compare import LEVEL
from loadframe.analyze.rates import RATES

#: Measures that are checked by default.
KINDS = ("throughput", "p50", "p99", "errors")
#: Least effect: the smallest worsening that matters, as a share of the baseline. Tails vary more between runs. For
#: errors it is a share of the requests: 0.001 more of them failed than before.
LEAST: Mapping[str, float] = {"p90": 0.1, "p99": 0.1, "p99.9": 0.2, "max": 0.5, "errors": 0.001}
#: Effect to catch: a check passes only if it excludes this worsening.
CATCH: Mapping[str, float] = {"p90": 0.5, "p99": 0.5, "p99.9": 1.0, "max": 2.0, "errors": 0.01}
_LEAST, _CATCH = 0.05, 0.2


@dataclass(frozen=True)
class Bound:
    """Limit of a measure (1/s, s or a share of requests): a lower limit if more is better, else an upper limit."""

    kind: str
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value >= self.limit if self.kind in RATES else value <= self.limit


@dataclass(frozen=True)
class Thresholds:
    """Thresholds by kind of measure (least effect and effect to catch, as shares), and absolute bounds.

    `level` is the chance of a false alarm over all comparisons with the baseline together.
    """

    least: Mapping[str, float] = field(default_factory=dict)
    catch: Mapping[str, float] = field(default_factory=dict)
    bounds: Sequence[Bound] = ()
    level: float = LEVEL

    def least_of(self, kind: str) -> float:
        """Return the least effect of a kind of measure."""
        return self.least.get(kind, LEAST.get(_plain(kind), _LEAST))

    def catch_of(self, kind: str) -> float:
        """Return the effect to catch of a kind of measure; at least its least effect."""
        return max(self.catch.get(kind, CATCH.get(_plain(kind), _CATCH)), self.least_of(kind))


def _plain(kind: str) -> str:
    """Return the kind without `all-`, since thresholds are equal for all requests and for successes."""
    return kind.removeprefix("all-")
