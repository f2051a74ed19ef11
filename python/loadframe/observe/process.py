"""Samplers of nodes' processes and of their JVMs.

Processes are sampled from proc(5). JVM figures come from HotSpot's performance counters, a file that other processes
may read (`hsperfdata`, version 2; see `jdk.internal.perf` and `perfMemory.hpp` of OpenJDK). Other virtual machines, and
HotSpot with `-XX:+PerfDisableSharedMem`, have no such file and therefore no figures.
"""

import contextlib
import os
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.base.procfs import stat_fields
from loadframe.observe.observer import Gap, Rates, Sample

#: Figures that are levels; the others are counters.
_LEVELS = ("process.resident", "process.threads")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessSampler:
    """Sampler of a process per node; with `families`, of the process and its descendants together.

    `pids` is called for each sample: node -> process id.
    """

    name = "process"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]], *, families: bool = False):
        self._pids = pids
        self._families = families
        #: Process id and start time of each source; the start time detects reused ids.
        self._known: dict[str, tuple[int, str]] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node's process, or a gap for an ended process."""
        children = _children() if self._families else {}
        for node, pid in self._pids().items():
            source = f"node:{node}"
            try:
                yield from self._look(source, pid, children, now)
            except OSError:
                yield Gap(source, f"process {pid} is gone")

    def _look(self, source: str, pid: int, children: Mapping[int, list[int]], now: float) -> Iterator[Sample]:
        stat = stat_fields(pid)
        known = (pid, stat[19])
        # The counters of a restarted process begin at zero.
        if self._known.get(source) != known:
            self._rates.forget(source)
            self._known[source] = known
        figures = _figures(pid, stat)
        for child in _descendants(pid, children):
            # If a child has ended, its counters are missing, and this sample has no rates.
            with contextlib.suppress(OSError):
                more = _figures(child, stat_fields(child))
                figures = {metric: figure + more.get(metric, 0.0) for metric, figure in figures.items()}
        for metric in _LEVELS:
            yield Sample(source, metric, figures.pop(metric))
        yield from self._rates.of(source, now, figures | _network(pid))


def _figures(pid: int, stat: list[str]) -> dict[str, float]:
    """Return the levels and counters of one process."""
    return {
        "process.resident": int(stat[21]) * _PAGE,
        "process.threads": int(stat[17]),
        "process.cpu": (int(stat[11]) + int(stat[12])) / _TICKS,
        "process.cpu_user": int(stat[11]) / _TICKS,
        "process.cpu_system": int(stat[12]) / _TICKS,
        **_storage(pid),
    }


def _children() -> dict[int, list[int]]:
    """Return the children of all processes of this machine."""
    children = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                children[int(stat_fields(int(folder.name))[1])].append(int(folder.name))
    return children


def _descendants(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        yield child
        yield from _descendants(child, children)


def _network(pid: int) -> dict[str, float]:
    """Return the traffic of a process's network namespace (proc(5), /proc/PID/net/dev); empty for this namespace."""
    try:
        if Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            return {}
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        # The namespace of another user's process may be unreadable.
        return {}
    rows = [line.partition(":") for line in lines]
    links = [figures.split() for name, _, figures in rows if name.strip() != "lo"]
    return {
        "network.received": sum(float(figures[0]) for figures in links),
        "network.sent": sum(float(figures[8]) for figures in links),
    }


def _storage(pid: int) -> dict[str, float]:
    """Return the bytes read from and written to storage; empty if unknown."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        # This file of another user's process may be unreadable.
        return {}
    counted = dict(line.split(": ") for line in lines)
    return {"process.read": int(counted["read_bytes"]), "process.written": int(counted["write_bytes"])}


#: Headers of an hsperfdata file and of its entries.
_PROLOGUE, _ENTRY = struct.Struct("=IBBBBiiqii"), struct.Struct("=iiiBBBBi")
#: Maximum bytes read of an hsperfdata file.
_MOST = 2**20
_MAGIC = 0xC0C0FECA  # as a little-endian machine reads it
_LONG = ord("J")
_COLLECTED = re.compile(rb"sun\.gc\.collector\.\d+\.time")
_FREQUENCY = b"sun.os.hrt.frequency"


class JvmSampler:
    """Sampler of nodes' JVMs; `pids` is called for each sample: node -> process id."""

    name = "jvm"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]]):
        self._pids = pids
        #: The hsperfdata file of each process, or None.
        self._files: dict[int, Path | None] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield the share of time that each node spent in garbage-collection pauses."""
        for node, pid in self._pids().items():
            if pid not in self._files:
                self._files[pid] = published_by(pid)
            file = self._files[pid]
            if file is None:
                continue
            stopped = None
            # All users may write to the folder of these files, so their content is untrusted.
            with contextlib.suppress(OSError, BadInput, struct.error, ValueError):
                stopped = seconds_stopped(_content(file))
            if stopped is not None:
                yield from self._rates.of(f"node:{node}", now, {"jvm.gc": stopped})


def _content(file: Path) -> bytes:
    # The kernel's link to the process's root is followed, links below it are not.
    top = os.open(file.parents[1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with nofollow.below(top, PurePosixPath(file.parent.name), where=file.parents[1]) as above:
            opened = nofollow.open_file(above, file.name, os.O_RDONLY, file)
        with os.fdopen(opened, "rb") as content:
            return content.read(_MOST)
    finally:
        os.close(top)


def published_by(pid: int) -> Path | None:
    """Return the hsperfdata file of a process, within its root directory; None if it has none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        numbers = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
        number = numbers[1].split()[-1] if numbers else str(pid)
        return next(Path(f"/proc/{pid}/root/tmp").glob(f"hsperfdata_*/{number}"), None)
    except OSError:
        return None


def seconds_stopped(content: bytes) -> float | None:
    """Return the total garbage-collection time in an hsperfdata file, s; None if unknown."""
    magic, *_, offset, entries = _PROLOGUE.unpack_from(content)
    if magic != _MAGIC:
        return None
    ticks, frequency = 0, 0
    for _ in range(entries):
        length, name_at, count, kind, *_, data_at = _ENTRY.unpack_from(content, offset)
        name = content[offset + name_at : content.index(b"\0", offset + name_at)]
        if kind == _LONG and not count:
            (value,) = struct.unpack_from("=q", content, offset + data_at)
            if name == _FREQUENCY:
                frequency = value
            elif _COLLECTED.fullmatch(name):
                ticks += value
        offset += length
    return ticks / frequency if frequency else None
