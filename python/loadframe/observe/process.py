"""Samplers of nodes' processes and of their JVMs.

Two files of proc(5) tell all of a process. A library that reads several files for the same figures took about twice the
CPU time for it.

HotSpot keeps its performance counters in a file that other processes of its user may read (`hsperfdata`, version 2; see
`jdk.internal.perf` and `perfMemory.hpp` of OpenJDK). No command is run and the server is not asked. Where the file is
not there (another virtual machine, `-XX:+PerfDisableSharedMem`) nothing is said.
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
from loadframe.base.process_stat import stat_fields
from loadframe.observe.sampler import Gap, Rates, Sample

#: Figures that are taken as they are; the others only grow.
_LEVELS = ("process.resident", "process.threads")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessSampler:
    """Looks at one process per node, or with `families` at all that descend from it, as if they were one.

    `pids` is asked every time, since nodes come and go: node -> process id.
    """

    name = "process"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]], *, families: bool = False):
        self._pids = pids
        self._families = families
        #: Each node's process: its number, and when it was started, by which a later one of that number differs.
        self._known: dict[str, tuple[int, str]] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node's process, or a gap for one that is gone."""
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
        # A process that was restarted counts from zero again.
        if self._known.get(source) != known:
            self._rates.forget(source)
            self._known[source] = known
        figures = _figures(pid, stat)
        for child in _descendants(pid, children):
            # One that has ended meanwhile takes its totals along; then there are no rates this time.
            with contextlib.suppress(OSError):
                more = _figures(child, stat_fields(child))
                figures = {metric: figure + more.get(metric, 0.0) for metric, figure in figures.items()}
        for metric in _LEVELS:
            yield Sample(source, metric, figures.pop(metric))
        yield from self._rates.of(source, now, figures | _network(pid))


def _figures(pid: int, stat: list[str]) -> dict[str, float]:
    """Return levels and totals of one process."""
    return {
        "process.resident": int(stat[21]) * _PAGE,
        "process.threads": int(stat[17]),
        "process.cpu": (int(stat[11]) + int(stat[12])) / _TICKS,
        **_storage(pid),
    }


def _children() -> dict[int, list[int]]:
    """Return the children of every process of this machine: one look for all nodes."""
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
    """Return the bytes that went over a process's own link (proc(5), /proc/PID/net/dev); nothing if it has none."""
    try:
        if Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            return {}
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        # Another user's process does not show in which network it is.
        return {}
    rows = [line.partition(":") for line in lines]
    links = [figures.split() for name, _, figures in rows if name.strip() != "lo"]
    return {
        "network.received": sum(float(figures[0]) for figures in links),
        "network.sent": sum(float(figures[8]) for figures in links),
    }


def _storage(pid: int) -> dict[str, float]:
    """Return the bytes that went to and from storage; nothing where the kernel does not count them."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        # Another user's process shows everything but this.
        return {}
    counted = dict(line.split(": ") for line in lines)
    return {"process.read": int(counted["read_bytes"]), "process.written": int(counted["write_bytes"])}


#: The beginning of such a file, and of each entry in it.
_PROLOGUE, _ENTRY = struct.Struct("=IBBBBiiqii"), struct.Struct("=iiiBBBBi")
#: Bytes of such a file that are read at most.
_MOST = 2**20
_MAGIC = 0xC0C0FECA  # as a little-endian machine reads it
_LONG = ord("J")
_COLLECTED = re.compile(rb"sun\.gc\.collector\.\d+\.time")
_FREQUENCY = b"sun.os.hrt.frequency"


class JvmSampler:
    """Looks at the process of each node; `pids` is asked every time, since nodes come and go: node -> process id."""

    name = "jvm"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]]):
        self._pids = pids
        #: Each process's file; None of one that has none.
        self._files: dict[int, Path | None] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield the share of time that each server stood still for its collector."""
        for node, pid in self._pids().items():
            if pid not in self._files:
                self._files[pid] = published_by(pid)
            file = self._files[pid]
            if file is None:
                continue
            stopped = None
            # Everybody may write to the folder of these files.
            with contextlib.suppress(OSError, BadInput, struct.error, ValueError):
                stopped = seconds_stopped(_content(file))
            if stopped is not None:
                yield from self._rates.of(f"node:{node}", now, {"jvm.gc": stopped})


def _content(file: Path) -> bytes:
    # The process's own root is a link that the kernel makes; below it, none is followed.
    top = os.open(file.parents[1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with nofollow.below(top, PurePosixPath(file.parent.name), where=file.parents[1]) as above:
            opened = nofollow.open_file(above, file.name, os.O_RDONLY, file)
        with os.fdopen(opened, "rb") as content:
            return content.read(_MOST)
    finally:
        os.close(top)


def published_by(pid: int) -> Path | None:
    """Return the file of a process's counters, as the process sees its own files; None where there is none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        numbers = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
        number = numbers[1].split()[-1] if numbers else str(pid)
        return next(Path(f"/proc/{pid}/root/tmp").glob(f"hsperfdata_*/{number}"), None)
    except OSError:
        return None


def seconds_stopped(content: bytes) -> float | None:
    """Return how long all collectors of a virtual machine have stopped it since it began, s; None if it is not told."""
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
