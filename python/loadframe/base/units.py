"""Durations, sizes, rates and counts: parsing, formatting and accepted ranges. Short names of factors, and order."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loadframe.base.errors import BadInput

_DURATION = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = {"": 1, "b": 1} | {
    f"{prefix}{suffix}": 2 ** (10 * power) for power, prefix in enumerate("kmgt", start=1) for suffix in ("", "b", "ib")
}
_RATE = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_NUMBER = r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*"


def parse_duration(text: str | float) -> float:
    """Return seconds for `10s`, `250ms`, `1h` or a bare number of seconds; BadInput for others and negative ones."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _not_negative(text, text)
    match = re.fullmatch(_NUMBER + r"([a-z]*)\s*", str(text))
    if not match or (match[2] or "s") not in _DURATION:
        raise BadInput(f"{text!r} is not a duration", remedy="write a number with us, ms, s, m, h or d, such as 250ms")
    return _not_negative(float(match[1]) * _DURATION[match[2] or "s"], text)


def parse_size(text: str | int) -> int:
    """Return bytes for `512m`, `1g` or a bare number of bytes (powers of 1024); BadInput for anything else."""
    if isinstance(text, int) and not isinstance(text, bool):
        return int(_not_negative(text, text))
    match = re.fullmatch(_NUMBER + r"([a-zA-Z]*)\s*", str(text))
    if not match or match[2].lower() not in _SIZE:
        raise BadInput(f"{text!r} is not a size", remedy="write a number with k, m, g or t, such as 512m")
    return round(_not_negative(float(match[1]) * _SIZE[match[2].lower()], text))


@dataclass(frozen=True)
class Cores:
    """Cores for nodes: all nodes share `numbers`, or each node gets `per_node` dedicated cores of them."""

    numbers: tuple[int, ...] | None  #: from 0, ascending, or None for all cores of this machine
    per_node: int | None = None


def parse_cores(text: str | int) -> Cores:
    """Read `2`, `0-3` or `0,2-3` (a set to share), `1 each` or `2 each of 0-5`; BadInput for anything else."""
    match = re.fullmatch(r"\s*(\d{1,4})\s+each(?:\s+of\s+(.*))?\s*", str(text))
    if not match:
        return Cores(_core_numbers(str(text), text))
    if int(match[1]) < 1:
        raise BadInput(f"{text!r} gives 0 cores to a node", remedy="give each node at least one: 1 each")
    return Cores(None if match[2] is None else _core_numbers(match[2], text), int(match[1]))


def _core_numbers(numbers: str, text: object) -> tuple[int, ...]:
    """Return the core numbers in a list such as `0,2-3`, ascending; BadInput, which quotes `text`, if malformed."""
    cores: set[int] = set()
    for part in numbers.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise BadInput(
                f"{text!r} does not name cores",
                remedy="write their numbers, from 0, such as 0-3 or 0,2; or how many each node gets, such as 1 each",
            )
        cores.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(cores))


def parse_rate(text: str | float) -> float:
    """Return events per second for `1000/s`, `30/min` or a bare number per second; BadInput for anything else."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _not_negative(text, text)
    match = re.fullmatch(_NUMBER + r"(?:/\s*([a-z]+))?\s*", str(text))
    if not match or (match[2] or "s") not in _RATE:
        raise BadInput(f"{text!r} is not a rate", remedy="write a number per s, m or h, such as 1000/s")
    return _not_negative(float(match[1]) / _RATE[match[2] or "s"], text)


def parse_bandwidth(text: str | float) -> float:
    """Return bytes per second for the text `100mbit` or `1gbit/s` (powers of 1000); a number stays. Else BadInput."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _not_negative(text, text)
    match = re.fullmatch(_NUMBER + r"([kmg]?)bit(?:/s)?\s*", str(text), re.IGNORECASE)
    if not match:
        raise BadInput(f"{text!r} is not a bandwidth", remedy="write a number with kbit, mbit or gbit, such as 100mbit")
    return _not_negative(float(match[1]) * _BITS[match[2].lower()] / 8, text)


def parse_throughput(text: str | float) -> int:
    """Return bytes per second for `20m/s` (powers of 1024) or a bare number of them; BadInput for anything else."""
    try:
        return parse_size(str(text).strip().removesuffix("/s"))
    except BadInput:
        raise BadInput(f"{text!r} is not bytes per second", remedy="write a size per second, such as 20m/s") from None


def parse_share(text: str | float) -> float:
    """Return a share from 0 to 1 for a percentage such as `1%` or a bare number from 0 to 1; BadInput for others."""
    match = re.fullmatch(_NUMBER + r"(%?)\s*", str(text)) if not isinstance(text, bool) else None
    share = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not 0 <= share <= 1:
        raise BadInput(f"{text!r} is not a share", remedy="write a percentage from 0% to 100%, or a number from 0 to 1")
    return share


#: Significant digits of quantities.
_DIGITS = 3


def format_duration(seconds: float, digits: int = _DIGITS) -> str:
    """Write a duration with the unit that suits it: `350 us`, `12.3 ms`, `4.56 s`, `3 min 20 s`, `2 h 05 min`.

    `digits` limits the significant digits below a minute. With more than three, longer durations are in seconds.
    """
    if not math.isfinite(seconds):
        return f"{seconds} s"
    # The bounds lie where three digits would round up to the next unit's first value.
    for bound, unit, per_second in ((0.9995e-3, "us", 1e6), (0.9995, "ms", 1e3), (59.95, "s", 1)):
        if abs(seconds) < bound:
            return f"{_significant(seconds * per_second, digits)} {unit}"
    if digits > _DIGITS:
        return f"{format_count(seconds, digits)} s"
    sign, whole = "-" if seconds < 0 else "", round(abs(seconds))
    if whole < 3600:
        return f"{sign}{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{sign}{minutes // 60} h {minutes % 60:02d} min"


def format_size(count: float) -> str:
    """Write bytes with a binary unit up to TiB and three significant digits: `512 B`, `1.5 MiB`."""
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1023.5:
            break
        count, unit = count / 1024, larger
    return f"{_significant(count)} {unit}"


def format_bandwidth(rate: float) -> str:
    """Write `rate`, bytes per second, in bits with a decimal unit and three significant digits: `100 Mbit/s`."""
    bits, prefix = rate * 8, ""
    for larger in ("k", "M", "G"):
        if bits < 999.5:
            break
        bits, prefix = bits / 1000, larger
    return f"{_significant(bits)} {prefix}bit/s"


def format_count(count: float, digits: int = 3) -> str:
    """Write a number, without unit, with `digits` significant digits: `0.42`; large numbers as integers: `12,345`.

    Integers are whole numbers, and numbers with at least `digits` digits before the point.
    """
    whole = abs(count) >= 10 ** (digits - 1) - 0.05 or float(count).is_integer()
    return f"{count:,.0f}" if whole else _significant(count, digits)


def counted(count: float, noun: str, plural: str | None = None) -> str:
    """Write a count (see `format_count`) with its noun: `1 request`, `1,200 requests`, `2 retries`.

    The noun is singular for exactly 1. Its plural has an s unless `plural` is given.
    """
    return f"{format_count(count)} {noun if count == 1 else plural or noun + 's'}"


def format_share(share: float, digits: int = 0) -> str:
    """Write a share of one as percentage with `digits` decimals: `12 %`, with one `12.3 %`."""
    return f"{100 * share:,.{digits}f} %"


def format_rare(share: float, more: int = 0) -> str:
    """Write a share of failures, of one, as percentage: two decimals, or below 0.1 % two significant digits.

    These are at most ten decimals; `more` adds further ones.
    """
    percent = 100 * abs(share)
    decimals = min(1 - math.floor(math.log10(percent)), 10) if 0 < percent < 0.1 else 2
    return format_share(share, decimals + more)


def format_shares(least: float, most: float, limits: tuple[float, float] | None = None) -> str:
    """Write the ends of a range of shares of one, without decimals: `9 to 23 %`, or `20 %` if both are written alike.

    `limits` has a limit for each end. An end that differs from its limit but would read like it gets more digits.
    """
    ends = (least, most)
    beside = zip(ends, limits or ends, strict=True)
    low, high = (share_beside(end, limit).removesuffix(" %") for end, limit in beside)
    return f"{high} %" if low == high else f"{low} to {high} %"


def format_limit(share: float) -> str:
    """Write a chosen share of one as percentage, with up to ten significant digits: `20 %`, `2.5 %`."""
    return f"{100 * share:,.10g} %"


def format_change(change: float, more: int = 0) -> str:
    """Write a relative change (0.1 for +10 %) with its sign: `+3.1 %`, `-12 %`, `+1,240 %`.

    Changes below 10 % have one decimal, others none; `more` adds decimals.
    """
    decimals = more + (abs(change) < 0.1)
    return f"{100 * change:+,.{decimals}f} %"


def format_changes(low: float, high: float) -> str:
    """Write the interval of a relative change: `[-1.2 %, +3.1 %]`. An end that is not 0 does not read 0."""
    return f"[{written_apart(low, 0, format_change)}, {written_apart(high, 0, format_change)}]"


#: Maximum number of digits that `written_apart` adds.
_MOST_MORE = 6


def written_apart(value: float, limit: float, write: Callable[[float, int], str]) -> str:
    """Write a value, with up to five more digits if it would otherwise read like a limit that it differs from.

    `write(number, more)` formats a number with `more` digits more than usual. If five do not suffice, none are added.
    """
    for more in range(_MOST_MORE):
        text = write(value, more)
        if value == limit or _number(text) != _number(write(limit, more)):
            return text
    return write(value, 0)


def share_beside(share: float, limit: float, digits: int = 0) -> str:
    """Write a share of one, with `digits` decimals or more, beside a limit: see `format_share` and `written_apart`."""
    return written_apart(share, limit, lambda value, more: format_share(value, digits + more))


def duration_beside(seconds: float, limit: float) -> str:
    """Write a duration beside a limit, both in s: see `format_duration` and `written_apart`."""
    return written_apart(seconds, limit, lambda value, more: format_duration(value, _DIGITS + more))


def _number(text: str) -> tuple[float, str]:
    """Split a written quantity into its first number and the rest, so that `+10.0 %` and `+10 %` are equal."""
    number, _, rest = text.replace(",", "").partition(" ")
    return float(number.removesuffix("/s")), rest


def format_nodes(*counts: float) -> str:
    """Write numbers of nodes: `1 node`, `1, 2 and 4 nodes`."""
    *first, last = [format_count(count) for count in counts]
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"{listed} node{'s' * (counts != (1,))}"


def _significant(value: float, digits: int = 3) -> str:
    """Write a number with thousands separators and `digits` significant digits; large numbers without an exponent."""
    text = f"{value:,.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text


def _not_negative(value: float, text: object) -> float:
    """Return a number as float; BadInput, which quotes `text`, if it is negative or not finite."""
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not 0 <= value < math.inf:
        raise BadInput(f"{text!r} is negative or no finite number", remedy="write a finite number of 0 or more")
    return value


#: Rates are below this, 1/s.
MOST_RATE = 1e9
#: Shortest and longest response time that histograms hold, s.
_LEAST_RESPONSE, _MOST_RESPONSE = 1e-9, 3600.0


def reachable_rate(rate: float, text: object) -> float:
    """Return a rate to reach, 1/s; BadInput, which quotes `text`, from 1e9/s on, which no store reaches."""
    if rate >= MOST_RATE:
        raise BadInput(f"{text} can never hold: rates are below 1e9/s", remedy="write a lower rate, such as 1000/s")
    return rate


def reachable_response(seconds: float, text: object) -> float:
    """Return an upper bound on response times, s; BadInput, which quotes `text`, below 1 ns, the shortest recorded."""
    if seconds < _LEAST_RESPONSE:
        raise BadInput(
            f"{text} can never hold: response times are at least 1 ns", remedy="write a longer time, such as 50ms"
        )
    return seconds


def exceeds_responses(seconds: float) -> bool:
    """Return whether every recorded response time is within a bound, s: times above 1 h are recorded as 1 h."""
    return seconds >= _MOST_RESPONSE


#: Seeds are unsigned 64-bit numbers.
MOST_SEED = 2**64 - 1
#: Experiments count up from the first seed, one for each block and trial.
MOST_FIRST_SEED = 2**63 - 1
#: Worker threads of a load generator.
MOST_THREADS = 1024
#: Ranks of a load generator.
MOST_RANKS = 100_000
#: Nodes on one machine.
MOST_NODES = 1000
#: Ports of nodes; lower ports are reserved for system services.
FIRST_PORT, LAST_PORT = 1024, 65_535


def short_names(factors: Iterable[str]) -> dict[str, str]:
    """Map each dotted name to its last parts: as many as distinguish it from the other names and from `nodes`.

    A name that cannot be shortened stays whole.
    """
    names = list(factors)
    short = {}
    for name in names:
        parts = name.split(".")
        endings = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        others = {"nodes", *names} - {name}
        short[name] = next(
            (end for end in endings if not any(other == end or other.endswith(f".{end}") for other in others)), name
        )
    return short


def format_level(factor: str, level: object) -> str:
    """Write the level of a factor: a rate as `50/s`, a memory limit as a size, other floats without trailing zeros."""
    if factor == "store.limits.memory" and isinstance(level, int):
        return format_size(level)
    unit = "/s" if factor == "rate" and isinstance(level, int | float) else ""
    return f"{level:.15g}{unit}" if isinstance(level, float) else f"{level}{unit}"


def by_number(name: str) -> list[str | int]:
    """Return the sort key of a name such as `node-2`: its numbers count as numbers, and the rest as text."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"([0-9]+)", name))]
