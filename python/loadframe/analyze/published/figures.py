"""One figure of a publication: what it is of, its value, what it is relative to, and where it stands."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loadframe.analyze.comparison import KINDS
from loadframe.analyze.rates import RATES
from loadframe.record.schema.event_kinds import FIRED, REQUESTED

#: Instants of elastic runs, s since the measured window began: their names, and the events that mark them.
INSTANTS = {"trigger_fired": FIRED, "node_requested": REQUESTED}
#: Statistics of a run's requests/s in samples of 5 s, and which of the spread's figures they are.
SAMPLES = {f"{name}_5s": name for name in ("least", "q1", "median", "mean", "q3", "most")}
#: What YCSB gives of response times beside the mean: the least, and the 95th percentile.
YCSB = ("min", "p95")
MEASURES = (*KINDS, *YCSB, *SAMPLES, *INSTANTS)
#: Of these the measures of something per second.
PER_SECOND = (*RATES, *SAMPLES)


@dataclass(frozen=True)
class PublishedFigure:
    """A figure as a publication has it.

    `value` is in 1/s, in s or a share; None where the publication gives the change alone. `change` is its ratio to the
    figure at `against` less 1; None where it is relative to nothing. `levels` and `against` are levels of factors;
    `phase` is empty where the figure is held against every measured phase. `series` says whose it is in the
    publication, such as a store that this experiment does not have.
    """

    measure: str
    levels: Mapping[str, Any]
    phase: str
    series: str
    value: float | None
    change: float | None
    against: Mapping[str, Any]
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, from which `PublishedFigure(**known)` makes it again."""
        return asdict(self)
