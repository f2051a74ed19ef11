"""Questions about the documents of a collection over time, and their answers."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadframe.base.errors import BadInput
from loadframe.base.units import counted

#: How a field can be used: as time, for statistics, or only for values.
Kind = Literal["time", "number", "keyword"]
#: Periods of a histogram, most frequent values, and documents of an answer.
PERIODS, VALUES, DOCUMENTS = 60, 20, 20


@dataclass(frozen=True)
class Question:
    """A selection of a collection's documents. Times are in s: since the epoch, or since a run began."""

    collection: str
    time: str | None = None  #: time field
    start: float | None = None
    end: float | None = None  #: exclusive
    field: str | None = None  #: field of the values and statistics
    filters: Sequence[tuple[str, str]] = ()  #: fields and values that a document must all have
    largest: bool = False  #: whether documents with the largest value of `field` come first, instead of the newest


@dataclass(frozen=True)
class Period:
    """Documents of one period: their number, and mean and maximum of a numeric field."""

    start: float
    count: int
    mean: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Series:
    """A numeric field of some rows over time, such as the rows of an operation.

    `points` are time (mean of the rows'), mean and maximum of a period; an empty period is a gap, with None for both.
    """

    name: str
    points: Sequence[tuple[float, float | None, float | None]]
    statistics: Mapping[str, float | None]
    of: int = 0  #: number of its subject; the series of a subject and of its warm-up have the same
    warmup: bool = False


@dataclass(frozen=True)
class Findings:
    """The answer to a question."""

    total: int
    width: float = 0.0  #: length of a period, s
    periods: Sequence[Period] = ()
    values: Sequence[tuple[Any, int]] = ()  #: most frequent values with their number of `unit`
    unit: str = "documents"
    #: `count`, `min`, `mean`, `max` and `sum` of a numeric field; empty for other fields.
    statistics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    documents: Sequence[Any] = ()
    series: Sequence[Series] = ()  #: a numeric field by the subject of the rows, such as the operation
    measure: str = ""  #: unit of the numeric field
    notes: Sequence[str] = ()  #: sentences about documents that counts leave out or repeat, and approximate counts


def notes_on_counts(question: Question, findings: Findings, *, timed: int, having: int, others: int) -> list[str]:
    """Return sentences about documents that the counts leave out or repeat; empty if there are none.

    `timed` documents have the field `question.time`, and `having` documents `question.field`. `others` is the number of
    documents, or of `findings.unit`, with values that are not listed.
    """
    total, noun = findings.total, findings.unit.removesuffix("s")
    subject = "row" if noun == "row" else "document"
    notes = []
    if question.time and timed < total:
        notes.append(f"In no period, without {question.time}: {counted(total - timed, subject)}.")
    if question.time and sum(period.count for period in findings.periods) > timed:
        notes.append(f"A {subject} with several values of {question.time} counts in each of their periods.")
    if question.field and having < total:
        notes.append(f"Without {question.field}: {counted(total - having, subject)}.")
    if noun == subject and (findings.statistics.get("count") or 0) > having:
        notes.append(f"Statistics count each value of {subject}s with several values of {question.field}.")
    if question.field and others > 0:
        notes.append(f"With values of {question.field} that are not listed: {counted(others, noun)}.")
    return notes


def period_width(start: float, end: float, least: float = 0.0) -> float:
    """Return a length of periods, s, of which fewer than 60 fit between `start` and `end`, s.

    It is the shortest in a list from 1 ms to 365 days that is at least `least` s, the interval between two rows. If 365
    days are too short, it is a multiple of them.
    """
    for width in _WIDTHS:
        if width >= least and (end - start) / width < PERIODS:
            return width
    return _WIDTHS[-1] * (1 + (end - start) // (_WIDTHS[-1] * PERIODS))


_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_WIDTHS = (
    *(0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
    *(_MINUTE * minutes for minutes in (1, 2, 5, 10, 30)),
    *(_HOUR * hours for hours in (1, 3, 12)),
    *(_DAY * days for days in (1, 7, 30, 365)),
)


def require_known(question: Question, fields: Mapping[str, Kind]) -> None:
    """Raise BadInput for a field that the collection lacks, a time field without times, or an empty time range."""
    for name in (question.time, question.field, *(name for name, _ in question.filters)):
        if name is not None and name not in fields:
            raise BadInput(f"{question.collection} lacks the field {name}", remedy="select one of its fields")
    if question.time is not None and fields[question.time] != "time":
        raise BadInput(f"{question.time} is not a time field", remedy="select a time field")
    if question.start is not None and question.end is not None and question.start >= question.end:
        raise BadInput("the time range is empty", remedy="select an end after the start")
