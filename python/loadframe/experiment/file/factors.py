"""Factors of an experiment, with their names in the file and their levels."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loadframe.base.errors import BadInput
from loadframe.base.units import (
    MOST_NODES,
    MOST_RANKS,
    MOST_THREADS,
    parse_bandwidth,
    parse_cores,
    parse_duration,
    parse_rate,
    parse_share,
    parse_size,
    parse_throughput,
)
from loadframe.cluster import Encryption
from loadframe.experiment.file.expression import expression, is_expression, require_names
from loadframe.workload import Workload
from loadframe.yamlfile import Document, Place, did_you_mean, shown

Level = str | int | float | bool | None

#: Number of ranks per node of the store, each with one client. Each level gets a new cluster, so that filling it can be
#: measured, too.
RANKS_PER_NODE = "ranks_per_node"
#: Addresses of an existing cluster or service.
HOSTS = "store.hosts"
SETTINGS = "store.settings."
COLLECTIONS = "collections."
WITH = "with."


@dataclass(frozen=True)
class Factor:
    """A factor, named as in the file, with its levels in order."""

    name: str
    #: Integers for nodes and clients, 1/s for a rate, bytes for memory; settings and parameters as written.
    levels: tuple[Level, ...]
    #: Hard to change: whether another level needs a new cluster or new data.
    hard: bool
    #: Levels as written, if some are expressions of other factors. A treatment then has only levels that one yields.
    written: tuple[Level, ...] = ()

    def takes(self, treatment: Mapping[str, Level]) -> bool:
        """Return whether the expressions of this factor yield its level, given the other levels of the treatment."""
        level = treatment[self.name]
        return not self.written or level in [_evaluate(self.name, written, treatment) for written in self.written]


def read_factors(
    document: Document,
    written: Mapping[str, tuple[Level, ...]],
    workload: Workload,
    prepared: tuple[str, ...],
    where: Callable[[str, int | None], Place],
) -> tuple[Factor, ...]:
    """Return the factors of a file; BadInput with the position of an unknown factor or an invalid level.

    `prepared` names the phases that fill the store: workload parameters that affect them are hard to change. `where`
    returns the position of a factor, or of its level with an index.
    """
    shaping = workload.shaping(prepared)
    factors = []
    for name, levels in written.items():
        if name in ("clients", "rate") and any(map(is_expression, levels)):
            continue
        read = _reader(document, name, workload, where(name, None))
        known: list[tuple[bool, Level]] = []  # with the type, because true equals 1 in Python
        for index, level in enumerate(levels):
            place = where(name, index)
            try:
                value = _checked_expression(level) if name.startswith((SETTINGS, WITH)) else read(level)
            except BadInput as error:
                raise document.error(place, f"a level of {name}: {error.what}", error.remedy) from None
            if name.startswith(WITH) and not is_expression(value):
                _check_parameter(document, workload, name.removeprefix(WITH), value, place)
            if (isinstance(value, bool), value) in known:
                raise document.error(place, f"duplicate level {shown(level)} of {name}", "remove one")
            known.append((isinstance(value, bool), value))
        easy = name in EASY or (name.startswith(WITH) and name.removeprefix(WITH) not in shaping)
        factors.append(Factor(name, tuple(level for _, level in known), hard=not easy))
    plain = tuple(factors)
    for name, levels in written.items():
        if name not in [factor.name for factor in plain]:
            factors.append(_derived_factor(document, name, levels, plain, where))
    if {"clients", "rate"} <= written.keys():
        what = "clients and rate are both factors, but a load is either closed loop (clients) or open loop (rate)"
        raise document.error(where("rate", None), what, "remove one of them", key=True)
    for other in {"ranks", "clients"} & written.keys() if RANKS_PER_NODE in written else ():
        what = f"{RANKS_PER_NODE} and {other} are both factors, but {RANKS_PER_NODE} determines {other}"
        raise document.error(where(other, None), what, "remove one of them", key=True)
    return tuple(factors)


def _derived_factor(
    document: Document,
    name: str,
    levels: tuple[Level, ...],
    others: tuple[Factor, ...],
    where: Callable[[str, int | None], Place],
) -> Factor:
    """Return a factor with expressions as levels; its levels are all values that they yield."""
    numbers: set[Level] = set()
    for index, level in enumerate(levels):
        try:
            if is_expression(level):
                require_names(expression(str(level)), [factor.name for factor in others])
            for combination in itertools.product(*(factor.levels for factor in others)):
                names = (factor.name for factor in others)
                numbers.add(_evaluate(name, level, dict(zip(names, combination, strict=True))))
        except BadInput as error:
            raise document.error(where(name, index), f"a level of {name}: {error.what}", error.remedy) from None
    return Factor(name, tuple(sorted(numbers, key=lambda level: float(level or 0))), hard=False, written=levels)


def _evaluate(name: str, level: Level, treatment: Mapping[str, Level]) -> Level:
    """Return a level of `clients` or `rate` as a number."""
    if not is_expression(level):
        return READERS[name](level)
    written = expression(str(level))
    return written.whole(treatment) if name == "clients" else written.positive(treatment)


def _checked_expression(level: Level) -> Level:
    """Return the level unchanged; BadInput for an invalid expression."""
    if is_expression(level):
        expression(str(level))
    return level


def _reader(document: Document, name: str, workload: Workload, place: Place) -> Callable[[Level], Level]:
    """Return the parser of a factor's levels; BadInput, with the position, for an unknown factor."""
    if name in READERS:
        return READERS[name]
    if name.startswith(SETTINGS) and name != SETTINGS:
        return lambda level: level
    if name.startswith(COLLECTIONS):
        _check_collection(document, name, workload, place)
        return lambda level: level
    parameters = list(workload.defaults)
    if name.startswith(WITH) and name.removeprefix(WITH) in parameters:
        return lambda level: level
    known = [*READERS, *(WITH + parameter for parameter in parameters), SETTINGS + "NAME", COLLECTIONS + "NAME.KEY"]
    remedy = did_you_mean(name, known)
    if name in parameters:
        remedy = f"for the parameter of the workload, write {WITH}{name}"
    raise document.error(place, f"unknown factor {name!r}", remedy, key=True)


def _check_collection(document: Document, name: str, workload: Workload, place: Place) -> None:
    """Refuse an unknown collection or a missing key; the key itself is checked when the store is known."""
    collection, _, key = name.removeprefix(COLLECTIONS).partition(".")
    known = workload.file.collections
    if collection not in known:
        what = f"unknown collection {collection!r} of the workload"
        raise document.error(place, what, did_you_mean(collection, known), key=True)
    if not key:
        remedy = f"write {COLLECTIONS}{collection}.settings.NAME, or another key of its definition"
        raise document.error(place, "the factor must name a key of the collection", remedy, key=True)


def _check_parameter(
    document: Document, workload: Workload, parameter: str, value: Level, place: tuple[str | int, ...]
) -> None:
    """Refuse a level that is invalid for the parameter of the workload."""
    folder = document.path.parent
    workload.with_parameters({parameter: value}, folder=folder, where=lambda _: document.where(place))


def _count(level: Level) -> int:
    if isinstance(level, bool) or not isinstance(level, int) or level < 1:
        raise BadInput(f"expected a whole number of at least 1, not {shown(level)}")
    return level


def _at_most(most: int, what: str) -> Callable[[Level], int]:
    def read(level: Level) -> int:
        count = _count(level)
        if count > most:
            raise BadInput(f"expected at most {most} {what}, not {shown(level)}")
        return count

    return read


def _text(level: Level) -> str:
    if not isinstance(level, str) or not level:
        raise BadInput(f"expected a word, not {shown(level)}", remedy="quote numbers such as versions")
    return level


def _cores(level: Level) -> str:
    if isinstance(level, bool) or not isinstance(level, str | int):
        raise BadInput(f"expected cores, not {shown(level)}", remedy="write numbers such as 0-3, or `1 each`")
    parse_cores(level)
    return str(level)


def _encryption(level: Level) -> str:
    known = [word.value for word in Encryption]
    if level not in known:
        raise BadInput(f"expected {', '.join(known)}, not {shown(level)}")
    return str(level)


def _positive(level: Level) -> float:
    if isinstance(level, bool) or not isinstance(level, int | float) or level <= 0:
        raise BadInput(f"expected a number above 0, not {shown(level)}")
    return float(level)


def _rate(level: Level) -> float:
    rate = parse_rate(_quantity(level))
    if not 0 < rate <= 1e9:
        raise BadInput(f"expected a rate above 0 and of at most 1e9/s, not {shown(level)}")
    return rate


def _size(level: Level) -> int:
    quantity = _quantity(level)
    size = parse_size(quantity if isinstance(quantity, str) else int(quantity))
    if not 0 < size < 2**63:
        raise BadInput(f"expected a size above 0, not {shown(level)}")
    return size


def _quantity(level: Level) -> str | float:
    if isinstance(level, bool) or level is None:
        raise BadInput(f"expected a number with its unit, not {shown(level)}")
    return level


READERS: dict[str, Callable[[Level], Level]] = {
    "store.kind": _text,
    HOSTS: _text,
    "store.version": _text,
    "nodes": _at_most(MOST_NODES, "nodes"),
    "ranks": _at_most(MOST_RANKS, "ranks"),
    RANKS_PER_NODE: _at_most(MOST_RANKS, "ranks"),
    "threads": _at_most(MOST_THREADS, "threads"),
    "clients": _count,
    "rate": _rate,
    "users": _at_most(2**31, "users"),
    "store.limits.cpus": _positive,
    "store.limits.memory": _size,
    "store.limits.cores": _cores,
    "store.limits.disk.read": lambda level: parse_throughput(_quantity(level)),
    "store.limits.disk.write": lambda level: parse_throughput(_quantity(level)),
    "store.limits.disk.read_operations": _rate,
    "store.limits.disk.write_operations": _rate,
    "store.encryption": _encryption,
    "store.link.delay": lambda level: parse_duration(_quantity(level)),
    "store.link.loss": lambda level: parse_share(_quantity(level)),
    "store.link.rate": lambda level: parse_bandwidth(_quantity(level)),
}
#: Factors that can change between runs on one cluster.
EASY = ("ranks", "threads", "clients", "rate", "users")
