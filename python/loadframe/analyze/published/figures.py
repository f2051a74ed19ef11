"""One figure of a publication: what it is of, its value, what it is relative to, and where it stands."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loadframe.analyze.comparison import KINDS
from loadframe.record.schema.event_kinds import FIRED, REQUESTED

#: Instants of elastic runs, s since the measured window began: their names, and the events that mark them.
INSTANTS = {"trigger_fired": FIRED, "node_requested": REQUESTED}
MEASURES = (*KINDS, *INSTANTS)


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
