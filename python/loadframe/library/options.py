"""Checks and parsers of options, for the command line and for arguments. Errors use the given names.

Commands that only look at a cluster import this module, so it imports nothing heavy.
"""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from loadframe.base.errors import BadInput, before_start
from loadframe.base.units import parse_duration, parse_rate
from loadframe.report import PlotFormat, TableFormat

if TYPE_CHECKING:
    from loadframe.cluster import Cluster

Parsed = TypeVar("Parsed")
#: Formats of one run's requests, or of its nodes' statistics.
OfRun = Literal["query-results", "queries", "statistics"]
#: Formats of other tools; those of `RecordsOf` have metrics records, too.
RecordsOf = Literal["rally", "osb"]
OtherTool = Literal[RecordsOf, "ycsb", "k6", "otava", "hdr", "jsonl", "junit", "markdown"]
#: Formats of exported plots and tables, and the usual ones.
ExportFormat = Literal[PlotFormat, TableFormat]
USUAL_EXPORT: tuple[ExportFormat, ...] = ("svg", "csv", "latex")


def exclude(given: Mapping[str, object], one: Sequence[str], other: Sequence[str], why: str) -> None:
    """Raise BadInput if an option named in `one` and an option named in `other` are given; `why` is the reason.

    `given` has the values of all these options by name; None and False mean not given.
    """
    for first in (name for name in one if given[name] not in (None, False)):
        for second in (name for name in other if given[name] not in (None, False)):
            raise BadInput(f"{first} and {second} contradict each other: {why}", remedy="give one of them")


def require_writable(folder: Path, option: str = "--output") -> None:
    """Raise BadInput unless the folder is writable or can be created. Call it before starting anything.

    `option` is named in the message.
    """
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        problem = "is not writable" if nearest.is_dir() else "is not a folder"
        raise BadInput(
            f"results cannot be written to {folder}: {nearest} {problem}", remedy=f"choose another folder with {option}"
        )


def require_free(path: Path, option: str = "--output") -> None:
    """Raise BadInput, which names `option`, if the path exists, or if a run cannot be written there."""
    if path.exists():
        raise BadInput("it exists already", where=str(path), remedy=f"name another folder with {option}")
    require_writable(path.parent, option)


def require_measures(words: Sequence[str], option: str = "--measure") -> tuple[str, ...]:
    """Return distinct measures in their order, stripped; BadInput, which names `option`, for an unknown one or none.

    Empty words are ignored.
    """
    from loadframe.analyze.compare import KINDS
    from loadframe.yamlfile import did_you_mean

    kinds = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"unknown measure {kind!r}", where=option, remedy=did_you_mean(kind, KINDS))
    if not kinds:
        raise BadInput(f"{option} is empty", remedy=f"choose from {', '.join(KINDS)}")
    return kinds


def parsed_as(parse: Callable[[Any], Parsed], value: object, option: str) -> Parsed:
    """Return `parse(value)`; if it raises BadInput, the error names the option."""
    try:
        return parse(value)
    except BadInput as error:
        raise BadInput(error.what, where=option, remedy=error.remedy) from None


#: Shares given as options are below this.
_MOST_SHARE = 100
_SHARE = "write a percentage such as 5%"


def share(text: str | float, option: str) -> float:
    """Return a share such as `5%` or 0.05 as a number. BadInput unless it is above 0 and below 100 (10000 %).

    Numbers above 1 need a percent sign. `option` is named in the message.
    """
    number, percent, rest = str(text).strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if rest or math.isnan(value):
        raise BadInput(f"{option} {text!r} is not a share", remedy=_SHARE)
    if not 0 < value < _MOST_SHARE or (value > 1 and not percent):
        what = f"{option} must be above 0 and at most 1, or a percentage below {_MOST_SHARE:.0%}; got {text}"
        raise BadInput(what, remedy=_SHARE)
    return value


def require_level(level: float, option: str = "--level") -> None:
    """Raise BadInput, which names `option`, unless a significance level is above 0 and below 1."""
    if not 0 < level < 1:
        raise BadInput(
            f"{option} must be above 0 and below 1; got {level:g}", remedy="give a significance level such as 0.05"
        )


#: Arguments for a cluster to start; they contradict an existing one.
STARTING = (
    "version", "nodes", "cpus", "memory", "cores", "home", "host", "image", "container_runtime", "machines",
    "per_machine", "network", "scratch", "encryption", "store_set", "settings",
    "shards", "routers", "config_servers",
)  # fmt: skip


#: Arguments that contradict each other, with the reason.
_CONTRADICTIONS: tuple[tuple[Sequence[str], Sequence[str], str], ...] = (
    (["hosts"], ["cluster"], "both name a cluster"),
    (["replace"], ["reuse"], "one drops data, the other keeps it"),
    (["hosts"], ["at"], "Loadframe does not change clusters that it did not start"),
    (["clients"], ["rate"], "a load is a closed or an open loop"),
    (["clients"], ["arrivals"], "arrivals exist only in open loops"),
    (["hosts", "cluster"], STARTING, "the cluster exists already"),
)


def refuse_contradictions(given: Mapping[str, Any], written: Callable[[str], str] = str) -> None:
    """Raise BadInput for arguments of a load that contradict each other.

    In `given`, None, False and a missing name mean not given. `written` returns the name of an argument for messages,
    such as that of its option.
    """
    named = {written(name): value for name, value in given.items()}
    for one, other, why in _CONTRADICTIONS:
        first, second = ([written(name) for name in names if name in given] for names in (one, other))
        exclude(named, first, second, why)


def refuse_unused_data_options(given: Mapping[str, Any], written: Callable[[str], str] = str) -> None:
    """Raise BadInput for `replace` or `reuse` without an existing cluster (`hosts` or `cluster`).

    `given` must have these four names. `written` returns the name of an argument for messages.
    """
    for name in ("replace", "reuse"):
        if given[name] and not (given["hosts"] or given["cluster"]):
            raise BadInput(
                f"{written(name)} requires an existing cluster",
                remedy=f"name one with {written('hosts')} or {written('cluster')}, or leave it out",
            )


#: Value of the warm-up and the duration for automatic lengths.
_AUTO = "auto"


def levels(
    clients: int | None,
    rate: str | float | None,
    arrivals: str | None,
    warmup: str | float | None,
    duration: str | float | None,
    written: Callable[[str], str] = str,
    precision: str | float | None = None,
) -> dict[str, Any]:
    """Return the arguments that change the measured phases, by name; missing ones are None. Rate in 1/s, times in s.

    `auto` as `warmup` or `duration` becomes an AutoWarmup or an AutoDuration; `precision` is the relative half-width of
    the latter's intervals. BadInput for an invalid value, for rate or duration 0, and for `precision` without an
    automatic duration. `written` returns the name of an argument for messages.
    """
    parsed: dict[str, Any] = {
        "clients": clients,
        "rate": None if rate is None else parsed_as(parse_rate, rate, written("rate")),
        "arrivals": arrivals,
        "warmup": None if warmup in (None, _AUTO) else parsed_as(parse_duration, warmup, written("warmup")),
        "duration": None if duration in (None, _AUTO) else parsed_as(parse_duration, duration, written("duration")),
    }
    for name in ("rate", "duration"):
        if parsed[name] == 0:
            raise BadInput(f"{written(name)} 0 measures nothing", remedy="give more than 0")
    if precision is not None and duration != _AUTO:
        what = f"{written('precision')} requires {written('duration')} auto"
        raise BadInput(what, remedy="give both, or neither")
    if _AUTO in (warmup, duration):
        from loadframe.workload.pacing import AutoDuration, AutoWarmup

        if warmup == _AUTO:
            parsed["warmup"] = AutoWarmup()
        if duration == _AUTO:
            part = AutoDuration().precision if precision is None else share(precision, written("precision"))
            if not 0.001 <= part < 1:
                raise BadInput(
                    f"{written('precision')} must be at least 0.1% and below 100%; got {precision}",
                    remedy="give a share such as 5%",
                )
            parsed["duration"] = AutoDuration(precision=part)
    return parsed


def default_path(name: str) -> Path:
    """Return the default run folder of a workload: results/NAME-TIME."""
    return Path("results") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


class Access(TypedDict, total=False):
    """Credentials and TLS of an existing cluster: the options of `bench`."""

    user: str | None
    password_file: str | os.PathLike[str] | None
    api_key_file: str | os.PathLike[str] | None
    token_file: str | os.PathLike[str] | None
    aws_service: str | None
    aws_region: str | None
    aws_profile: str | None
    ca: str | os.PathLike[str] | None
    cert: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    insecure: bool
    compress: bool


#: Those that name files.
_FILES = ("password_file", "api_key_file", "token_file", "ca", "cert", "key")


def attachment(
    store: str,
    hosts: str | Sequence[str] | None,
    access: Mapping[str, Any],
    remark: Callable[[str], None],
    written: Callable[[str], str] = str,
    *,
    loads: bool = True,
) -> "Callable[[], Cluster] | None":
    """Return a function that attaches to the cluster at `hosts`, after reading the secrets, or None without hosts.

    BadInput for an empty list, which must not start a cluster, and for `access` without hosts. BadInput, too, if the
    command `loads` the cluster and an address cannot be reached without its proxy. `remark` receives messages for the
    user. `written` returns the name of an argument for messages, such as that of its option.
    """
    if hosts is None:
        for name in Access.__annotations__:
            if access.get(name):
                remedy = f"give its addresses with {written('hosts')}"
                raise BadInput(f"{written(name)} requires an existing cluster", remedy=remedy)
        return None
    from loadframe.cluster import Cluster, access_to, require_reachable

    if not hosts:
        name = written("hosts")
        raise BadInput(f"{name} is empty", remedy=f"give addresses such as 127.0.0.1:9200, or leave {name} out")
    given = {name: access.get(name) or None for name in Access.__annotations__}
    given |= {name: Path(file) for name in _FILES if (file := given[name]) is not None}
    given |= {name: bool(given[name]) for name in ("insecure", "compress")}
    joined = hosts if isinstance(hosts, str) else ",".join(hosts)
    addresses, reached = access_to(store, joined, given, remark)
    if loads and reached.proxied:
        require_reachable(addresses, reached)

    def attach() -> Cluster:
        """Return the cluster at the addresses; BadInput if it does not answer."""
        with before_start():
            cluster = Cluster.attach(addresses, store, reached)
            if loads and (unnamed := cluster.unnamed_nodes()):
                remark(unnamed)
            return cluster

    return attach
