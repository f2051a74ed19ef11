"""Distributions of sampled values: numbers, dates, keywords and text; and formats of dates."""

import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

from loadframe.workload.sampling.pseudonyms import (
    LONG_NUMBER,
    WORD,
    Growth,
    Parts,
    Pseudonyms,
    Run,
    local,
    rearranged,
    shared_pairs,
)

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
        """Whether it lacks the time of day."""
        return "%H" not in self.pattern

    @property
    def is_iso(self) -> bool:
        """Whether it is ISO 8601 with the letter T, or a plain date."""
        return self.pattern.startswith("%Y-%m-%d") and " " not in self.pattern

    def write(self, microseconds: int) -> str:
        """Return the text of an instant in microseconds since 1970; the zone is appended without a conversion."""
        instant = _EPOCH + timedelta(microseconds=microseconds)
        fraction = "." + f"{instant.microsecond:06}000"[: self.fraction] if self.fraction else ""
        return f"{instant.strftime(self.pattern)}{fraction}{self.zone}"


def read(text: str) -> tuple[DateFormat, int] | None:
    """Return the format of an ISO date or a time of day, and its microseconds since 1970, or None for other texts.

    The zone is kept in the format, but not applied to the microseconds. A time counts as a time of 1970-01-01.
    """
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
    """Return the most frequent format of dates, and the instant of each text, or None unless all texts are dates.

    Instants are in microseconds since 1970, without the zone. `texts` must not be empty. If none is an ISO date or
    time, five formats such as 20150131 and 31/01/2015 are tried in turn, with years from 1900 to 2100; day before
    month. Times mixed with dates give None.
    """
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
    """Return the granularity of instants, in microseconds: the longest unit that divides all of them.

    Units are a day, hour, minute, second, millisecond and microsecond. The instants are microseconds since 1970.
    """
    return next(
        unit for unit in (_DAY, _DAY // 24, 60_000_000, 1_000_000, 1_000, 1) if all(i % unit == 0 for i in instants)
    )


def _instant(text: str, pattern: str, known: DateFormat, fraction: str | None) -> tuple[DateFormat, int] | None:
    """Return the format `known` and microseconds since 1970 of a text; None if it is not a valid date.

    `fraction` are the decimals of the seconds, which `pattern` does not read.
    """
    try:
        instant = datetime.strptime(text, pattern).replace(tzinfo=UTC)
    except ValueError:
        return None
    whole = (instant - _EPOCH) // timedelta(microseconds=1)
    return known, whole + int((fraction or "0").ljust(6, "0")[:6])


def _year(microseconds: int) -> int:
    """Return the year of an instant in microseconds since 1970."""
    return (_EPOCH + timedelta(microseconds=microseconds)).year


#: The most quantiles of a distribution, and the fewest sampled values behind each.
_QUANTILES, _VALUES_PER_QUANTILE = 500, 5
#: The most distinct numbers that are all drawn by frequency rather than by quantiles.
_FEW = 100
#: A number that occurs at least this often stays as it is.
_SHARED = 5
#: Attempts to draw a number that was not sampled.
_ATTEMPTS = 20
#: The largest number: sums and differences of such numbers are finite.
_LARGEST = 1e300
#: A number that is sampled too often to draw another is reduced to between this share of it and itself.
_REDUCED = 0.9
#: A text has this many words on average, and this share of its values occur once.
_WORDS_OF_TEXT, _UNIQUE_TEXTS = 1.5, 0.5
#: Words and keywords up to this length have few pseudonyms, so that these are never renewed.
_SHORT = 2
_Value = TypeVar("_Value", bound=Hashable)


class Distribution(Protocol):
    """A distribution of the values of a field."""

    def like(self, values: Sequence[Any], place: int, run: Run) -> Any:
        """Return a random value that resembles `values[place]`; `values` come from a run of sampled documents."""


class Weighted(Generic[_Value]):
    """Values by their frequency in the sample."""

    def __init__(self, counts: Counter[_Value]) -> None:
        """Prepare draws of the values in `counts`, which must not be empty, by their frequency."""
        self.counts = counts
        self.values = list(counts)
        self._up_to = list(accumulate(counts.values()))

    def draw(self, rng: random.Random) -> _Value:
        """Return a random value; its probability is its frequency in the sample."""
        return rng.choices(self.values, cum_weights=self._up_to)[0]

    def like(self, values: Sequence[_Value], place: int, run: Run) -> _Value:
        """Return the value at `place`, or a random one if it is not among the counted values."""
        return values[place] if values[place] in self.counts else self.draw(run.rng)


class OriginalValues:
    """Original values of a field that the user keeps."""

    def __init__(self, values: Sequence[Any]) -> None:
        """Keep `values`, which must not be empty."""
        self.values = values

    def like(self, values: Sequence[Any], place: int, run: Run) -> Any:
        """Return the value at `place`."""
        return values[place]


class Quantiles:
    """Numbers by their quantiles, each an average of several values, so that no extreme value is repeated.

    Numbers with LONG_NUMBER or more digits never equal a sampled one, unless `exact`. Shorter numbers that several
    documents share stay.
    """

    def __init__(self, numbers: Sequence[float], *, exact: bool = False, near: bool = False) -> None:
        """Compute the quantiles of `numbers`, which must not be empty.

        `exact` accepts drawn numbers that equal sampled ones; `near` replaces these by the next number.
        """
        ordered = sorted(numbers)
        self.is_whole = all(isinstance(number, int) for number in ordered)
        self._decimals = 0 if self.is_whole else max(_decimals(number) for number in ordered)
        count = min(_QUANTILES, max(1, len(ordered) // _VALUES_PER_QUANTILE))
        ends = [len(ordered) * place // count for place in range(count + 1)]
        bins = [ordered[begin:end] for begin, end in pairwise(ends)]
        self._near = near
        self._ordered = ordered
        self._knots = [bin_[0] if bin_[0] == bin_[-1] else sum(bin_) / len(bin_) for bin_ in bins]
        self._lowest, self._highest = ordered[0], ordered[-1]
        self._long = frozenset() if exact else frozenset(n for n in ordered if digits(n) >= LONG_NUMBER)
        self._shared = frozenset(n for n, count in Counter(ordered).items() if count >= _SHARED) - self._long

    def like(self, values: Sequence[float], place: int, run: Run) -> float:
        """Return a random number of about the same rank as the one at `place`; see the method `near`."""
        return self.near(values[place], run.rng)

    def near(self, number: float, rng: random.Random) -> float:
        """Return a random number of about the same rank as a sampled one, rounded to the decimals of the sample.

        A sampled number of 7 digits or more is never returned, unless `exact`. A shorter number that occurs at least 5
        times in the sample is returned unchanged.
        """
        number = _bounded(number)
        if number in self._shared:
            return number
        first, last = bisect_left(self._ordered, number), bisect_right(self._ordered, number)
        bins = len(self._knots) / len(self._ordered)

        def drawn() -> float:
            """Return a number between the quantiles around the rank; equal numbers share their ranks."""
            return self._between(rng.uniform(first, last) * bins + rng.uniform(-1, 1))

        return self.unlike_sampled(drawn, rng)

    def unlike_sampled(self, drawn: Callable[[], float], rng: random.Random) -> float:
        """Return a rounded number from `drawn` that is not a sampled one of 7 digits or more.

        If 20 further draws are sampled ones, the last is reduced by up to 10 %, at random, in up to 20 attempts; not
        with `near=True`. If these fail, it moves in growing steps to a free number nearby.
        """
        number = self.rounded(drawn())
        for _ in range(_ATTEMPTS):
            if number not in self._long:
                return number
            number = self.rounded(drawn())
        for _ in range(0 if self._near else _ATTEMPTS):
            # The next number would reveal most digits of a number that many documents share.
            reduced = self.rounded(number * rng.uniform(_REDUCED, 1))
            if reduced not in self._long:
                return reduced
        step = 1 if self.is_whole else 10.0**-self._decimals
        while number in self._long:
            # Away from zero only if that stays within the sampled range.
            number = number + step if number < self._highest or number <= 0 else number - step
            number = self.rounded(number)
            step *= 2
        return number

    def _between(self, bins: float) -> float:
        """Return the number at a place in the bins, interpolated between two neighbouring quantiles.

        `bins` counts bins from the lowest end; places beyond an end are reflected.
        """
        # Places beyond an end are reflected: the ends would be drawn too often.
        place = min(abs(bins), 2 * len(self._knots) - bins) - 0.5
        low = min(max(int(place), 0), len(self._knots) - 1)
        high = min(low + 1, len(self._knots) - 1)
        share = min(max(place - low, 0.0), 1.0)
        first, second = self._knots[low], self._knots[high]
        return first if first == second else first + (second - first) * share

    def rounded(self, number: float) -> float:
        """Return a number with the decimals of the sample; an integer if all sampled numbers are integers."""
        return round(number) if self.is_whole else round(float(number), self._decimals)


class Dates:
    """Dates by quantiles, in the most frequent format and granularity of the sample."""

    def __init__(self, format_: DateFormat, texts: Sequence[str], instants: Sequence[int]) -> None:
        """Prepare draws of dates in a format; `instants` of the `texts`, in order, are in microseconds since 1970."""
        self.format = format_
        self._unit = unit(instants)
        self._units = {text: instant // self._unit for text, instant in zip(texts, instants, strict=True)}
        # A day is shared by many; an instant identifies.
        units = [self._units[text] for text in texts]
        self._quantiles = Quantiles(units, exact=format_.is_day, near=True)

    def like(self, values: Sequence[str], place: int, run: Run) -> str:
        """Return the text of a random date near the one at `place`, which must be a sampled text."""
        return self.format.write(int(self._quantiles.near(self._units[values[place]], run.rng)) * self._unit)


class Identifiers:
    """Long whole numbers that repeat, such as references, as pseudonyms."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        """Draw the pseudonyms from `pseudonyms`."""
        self._pseudonyms = pseudonyms

    def like(self, values: Sequence[int], place: int, run: Run) -> int:
        """Return the pseudonym of the number at `place`."""
        return self._pseudonyms.number(values[place])


class Keywords:
    """Keywords. Values from several places of the collection have stable pseudonyms, others one per run."""

    def __init__(self, texts: Sequence[str], pseudonyms: Pseudonyms, span: int) -> None:
        """Prepare pseudonyms of `texts`, which must not be empty, in the order of the collection.

        `span` is the number of texts in a run of documents. Repeated keywords get their pseudonyms now, because queries
        need them before documents are drawn.
        """
        counts = Counter(texts)
        self._pseudonyms = pseudonyms
        self.values = list(counts)
        self._parts = Parts(texts, span)
        self._growth = Growth(counts, local(enumerate(texts), span))
        for value, count in counts.items():
            if count > 1:
                pseudonyms.of(value, self._parts)

    def like(self, values: Sequence[str], place: int, run: Run) -> str:
        """Return the pseudonym of the keyword at `place`, a sampled one.

        A local keyword (of one run of the sample) of 3 characters or more gets a new one in some runs, the same for the
        run.
        """
        value = values[place]
        if value not in self._growth.local:
            return self._pseudonyms.of(value, self._parts)
        if (key := (self, value)) not in run.pseudonyms:
            is_new = len(value) > _SHORT and self._growth.is_new(value, run)
            renewed = self._pseudonyms.unused(value, self._parts, run.words) if is_new else None
            run.pseudonyms[key] = self._pseudonyms.of(value, self._parts) if renewed is None else renewed
        return run.pseudonyms[key]


class Text:
    """Text by its number of words, common phrases, the frequency of words, and separators. All words are generated.

    Two words stay neighbours if several sampled texts share the pair. Other words change places within a run of
    documents with words that are as frequent there.
    """

    def __init__(self, texts: Sequence[str], pseudonyms: Pseudonyms, span: int) -> None:
        """Count words and pairs of `texts`, which must not be empty, in the order of the collection.

        `span` is the number of texts in a run of documents.
        """
        self._pseudonyms = pseudonyms
        words = [WORD.findall(text) for text in texts]
        counts = Counter(word for text in words for word in text)
        placed = ((number, word) for number, text in enumerate(words) for word in text)
        self._growth = Growth(counts, local(placed, span))
        self._pairs = shared_pairs(words)
        between = (separator for text in texts for separator in _BETWEEN.findall(text) if len(separator) <= 4)
        self._separators = Weighted(Counter(separator.replace("@", "-") for separator in between) or Counter({" ": 1}))

    def like(self, values: Sequence[str], place: int, run: Run) -> str:
        """Return a text of pseudonyms with as many words as the text at `place`; empty if it has none."""
        words: list[list[str]] = run.once(
            (self, id(values)), lambda: rearranged([*map(WORD.findall, values)], self._pairs, run.rng)
        )
        parts: list[str] = []
        for word in words[place]:
            parts += [self._word(word, run), self._separators.draw(run.rng)]
        return "".join(parts[:-1])

    def _word(self, word: str, run: Run) -> str:
        """Return the pseudonym of a word.

        A local word (of one run of the sample) of 3 letters or more gets a new one in some runs, so that the vocabulary
        grows.
        """
        if word not in self._growth.local or len(word) <= _SHORT:
            return self._pseudonyms.word(word)
        if word not in run.words:
            is_new = self._growth.is_new(word, run)
            run.words[word] = self._pseudonyms.fresh(word) if is_new else self._pseudonyms.word(word)
        return run.words[word]


class Pairs:
    """Pairs of numbers, such as coordinates: each in the rectangle around a few sampled pairs that are close."""

    def __init__(self, pairs: Sequence[tuple[float, float]]) -> None:
        """Divide `pairs`, which must not be empty, into rectangles of a few pairs."""
        bounded = [(_bounded(first), _bounded(second)) for first, second in pairs]
        self._parts = [Quantiles([pair[part] for pair in bounded]) for part in range(2)]
        self._rectangles: dict[tuple[float, float], list[tuple[float, float]]] = {}
        self._divide(sorted(bounded), 0)

    def _divide(self, pairs: list[tuple[float, float]], part: int) -> None:
        """Divide sorted pairs at the median of the first (`part` 0) and second (1) numbers in turn, to 5 to 9 pairs.

        Stores the rectangle (low and high of both numbers) of each pair. Equal pairs are not divided. Sorts `pairs` in
        place.
        """
        if len(pairs) >= 2 * _VALUES_PER_QUANTILE and pairs[0] != pairs[-1]:
            pairs.sort(key=itemgetter(part))
            self._divide(pairs[: len(pairs) // 2], 1 - part)
            self._divide(pairs[len(pairs) // 2 :], 1 - part)
            return
        ends = [(min(numbers), max(numbers)) for numbers in zip(*pairs, strict=True)]
        self._rectangles.update(dict.fromkeys(pairs, ends))

    def near(self, pair: tuple[float, float], rng: random.Random) -> tuple[float, float]:
        """Return a random pair in the rectangle of a sampled one; long numbers of it were not sampled.

        KeyError for a pair that was not sampled.
        """
        ends = self._rectangles[_bounded(pair[0]), _bounded(pair[1])]
        first, second = (
            part.unlike_sampled(partial(rng.uniform, low, high), rng)
            for part, (low, high) in zip(self._parts, ends, strict=True)
        )
        return first, second


class Points:
    """Geographic points as texts `latitude,longitude`."""

    def __init__(self, texts: Sequence[str]) -> None:
        """`texts` must not be empty; each must be a pair of decimal numbers with a comma between them."""
        self._pairs = Pairs([_point(text) for text in texts])

    def like(self, values: Sequence[str], place: int, run: Run) -> str:
        """Return the text of a point near the one at `place`."""
        return ",".join(map(str, self._pairs.near(_point(values[place]), run.rng)))


def _point(text: str) -> tuple[float, float]:
    """Return the numbers of a text `latitude,longitude`."""
    latitude, _, longitude = text.partition(",")
    return float(latitude), float(longitude)


_BETWEEN = re.compile(r"(?<=\w)\W+(?=\w)")
_POINT = re.compile(r"\s*-?\d{1,2}\.\d+\s*,\s*-?\d{1,3}\.\d+\s*", re.ASCII)


def of_texts(texts: Sequence[str], pseudonyms: Pseudonyms, span: int) -> Distribution:
    """Return the distribution that fits texts, which must not be empty: dates, points, text or keywords, in this order.

    Text has 1.5 words or more on average (texts without a space count as 0), and at least half of the texts occur once.
    `span` is the number of texts in a run of documents.
    """
    parsed = read_all(texts)
    if parsed is not None:
        return Dates(parsed[0], texts, parsed[1])
    if all(_POINT.fullmatch(text) for text in texts):
        return Points(texts)
    counts = Counter(texts)
    words = sum(len(WORD.findall(text)) for text in texts if " " in text) / len(texts)
    once = sum(1 for count in counts.values() if count == 1)
    if words >= _WORDS_OF_TEXT and once >= _UNIQUE_TEXTS * len(texts):
        return Text(texts, pseudonyms, span)
    return Keywords(texts, pseudonyms, span)


def of_numbers(numbers: Sequence[float], pseudonyms: Pseudonyms) -> Distribution:
    """Return the distribution that fits numbers: by frequency, pseudonyms for long references, else quantiles.

    Short numbers with at most 100 distinct values, each twice on average, are drawn by frequency. Long whole numbers
    that repeat as often are references.
    """
    numbers = [_bounded(number) for number in numbers]
    counts = Counter(numbers)
    if len(counts) <= min(_FEW, len(numbers) / 2) and all(digits(number) < LONG_NUMBER for number in counts):
        return Weighted(counts)
    whole = Counter(number for number in numbers if isinstance(number, int) and digits(number) >= LONG_NUMBER)
    if whole.total() == len(numbers) and len(whole) <= len(numbers) / 2:
        return Identifiers(pseudonyms)
    return Quantiles(numbers)


def digits(number: float) -> int:
    """Return the number of digits of a number: all of a whole one; of a float, those without zeros at both ends."""
    text = repr(abs(number)).partition("e")[0].replace(".", "")
    return len(text.strip("0")) if isinstance(number, float) else len(text)


def _bounded(number: float) -> float:
    """Return a number that generated documents can hold: unchanged from -2^63 to below 2^63, else a float.

    Floats are limited to between -1e300 and 1e300.
    """
    if -(2**63) <= number < 2**63:
        return number
    return float(min(max(number, -_LARGEST), _LARGEST))


def _decimals(number: float) -> int:
    """Return the number of decimals of a number, also with an exponent, such as 7 for 1e-7."""
    text = repr(number)
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        return max(0, len(mantissa.partition(".")[2]) - int(exponent))
    return 0 if text.endswith(".0") else len(text.partition(".")[2])
