"""Dates in texts: formats, granularity, and conversion to whole units since 1970."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
#: Date, separator, time to the minute, second, fraction and zone.
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:([T ])(\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII)
_OTHERS = (
    (re.compile(r"\d{8}", re.ASCII), "%Y%m%d"),
    (re.compile(r"\d\d/\d\d/\d{4}", re.ASCII), "%d/%m/%Y"),
    (re.compile(r"\d\d/\d\d/\d{4}", re.ASCII), "%m/%d/%Y"),
    (re.compile(r"\d{4}/\d\d/\d\d", re.ASCII), "%Y/%m/%d"),
    (re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", re.ASCII), "%Y/%m/%d %H:%M:%S"),
)


@dataclass(frozen=True)
class DateFormat:
    """A way to write instants. `pattern` is a strftime pattern; `fraction` is the number of its decimals."""

    pattern: str
    fraction: int = 0
    zone: str = ""

    @property
    def is_day(self) -> bool:
        """Whether it has no time of day."""
        return "%H" not in self.pattern

    @property
    def is_iso(self) -> bool:
        """Whether it is ISO 8601 with the letter T, or a plain date."""
        return self.pattern.startswith("%Y-%m-%d") and " " not in self.pattern

    def write(self, microseconds: int) -> str:
        """Return the text of an instant in microseconds since 1970."""
        instant = _EPOCH + timedelta(microseconds=microseconds)
        fraction = "." + f"{instant.microsecond:06}000"[: self.fraction] if self.fraction else ""
        return f"{instant.strftime(self.pattern)}{fraction}{self.zone}"


def read(text: str) -> tuple[DateFormat, int] | None:
    """Return the format of a date and its microseconds since 1970; None if the text is not an ISO date or a time."""
    if match := _ISO.fullmatch(text):
        day, separator, minute, second, fraction, zone = match.groups()
        pattern = "%Y-%m-%d" + (f"{separator}%H:%M" if separator else "") + (":%S" if second else "")
        clock = f"T{minute}{second or ':00'}" if separator else "T00:00:00"
        known = DateFormat(pattern, len(fraction or ""), zone or "")
        return _instant(f"{day}{clock}", "%Y-%m-%dT%H:%M:%S", known, fraction)
    if match := _TIME.fullmatch(text):
        known = DateFormat("%H:%M:%S", len(match[4] or ""))
        return _instant(f"1970-01-01T{text[:8]}", "%Y-%m-%dT%H:%M:%S", known, match[4])
    return None


def read_all(texts: Sequence[str]) -> tuple[DateFormat, list[int]] | None:
    """Return the most frequent format and all instants; None unless all texts are dates."""
    parsed = [read(text) for text in texts]
    dates = [date for date in parsed if date is not None]
    if len(dates) == len(texts):
        formats = [date[0] for date in dates]
        patterns = {format_.pattern for format_ in formats}
        if len(patterns) > 1 and any(pattern == "%H:%M:%S" for pattern in patterns):
            return None
        return max(set(formats), key=lambda known: (formats.count(known), str(known))), [date[1] for date in dates]
    if dates:
        return None
    for shape, pattern in _OTHERS:
        if all(shape.fullmatch(text) for text in texts):
            parsed_all = [_instant(text, pattern, DateFormat(pattern), None) for text in texts]
            if all(date is not None and 1900 <= _year(date[1]) <= 2100 for date in parsed_all):
                return DateFormat(pattern), [date[1] for date in parsed_all if date is not None]
    return None


def unit(instants: Sequence[int]) -> int:
    """Return the granularity of instants: a day, minute, second, millisecond or microsecond, in microseconds."""
    return next(unit for unit in (_DAY, 60_000_000, 1_000_000, 1_000, 1) if all(i % unit == 0 for i in instants))


def _instant(text: str, pattern: str, known: DateFormat, fraction: str | None) -> tuple[DateFormat, int] | None:
    try:
        instant = datetime.strptime(text, pattern).replace(tzinfo=UTC)
    except ValueError:
        return None
    whole = (instant - _EPOCH) // timedelta(microseconds=1)
    return known, whole + int((fraction or "0").ljust(6, "0")[:6])


def _year(microseconds: int) -> int:
    return (_EPOCH + timedelta(microseconds=microseconds)).year
