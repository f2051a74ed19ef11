"""What matters to a gate: which worsening is too much, which must not slip through, and absolute bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadframe.analyze.compare import LEVEL
from loadframe.analyze.rates import RATES

#: What is checked unless other measures are named.
KINDS = ("throughput", "p50", "p99", "errors")
#: The least change for the worse that matters, as a share of the baseline. Tails vary more from run to run. For errors
#: it is a share of the requests: 0.001 more of them failed than before.
LEAST: Mapping[str, float] = {"p90": 0.1, "p99": 0.1, "p99.9": 0.2, "max": 0.5, "errors": 0.001}
#: The change for the worse that must not slip through: while it cannot be excluded, nothing passes.
CATCH: Mapping[str, float] = {"p90": 0.5, "p99": 0.5, "p99.9": 1.0, "max": 2.0, "errors": 0.01}
_LEAST, _CATCH = 0.05, 0.2


@dataclass(frozen=True)
class Bound:
    """A value that a measure must not exceed, or where more is better not fall below: 1/s, s, a share of requests."""

    kind: str
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value >= self.limit if self.kind in RATES else value <= self.limit


@dataclass(frozen=True)
class Thresholds:
    """What matters: per kind of measure the least effect and the one to catch, as shares; absolute bounds.

    `level` is the chance of a false stop by all comparisons with the baseline together, when nothing got worse.
    """

    least: Mapping[str, float] = field(default_factory=dict)
    catch: Mapping[str, float] = field(default_factory=dict)
    bounds: Sequence[Bound] = ()
    level: float = LEVEL

    def least_of(self, kind: str) -> float:
        """Return the least effect of a kind of measure."""
        return self.least.get(kind, LEAST.get(_plain(kind), _LEAST))

    def catch_of(self, kind: str) -> float:
        """Return the effect of a kind of measure that must not slip through; no less than its least effect."""
        return max(self.catch.get(kind, CATCH.get(_plain(kind), _CATCH)), self.least_of(kind))


def _plain(kind: str) -> str:
    """Return the kind whose thresholds are meant: the same for all requests as for the successes."""
    return kind.removeprefix("all-")
