"""Reads how long a Java server's collector of garbage stopped it, from the figures that its virtual machine publishes.

HotSpot keeps its performance counters in a file that other processes of its user may read (`hsperfdata`, version 2; see
`jdk.internal.perf` and `perfMemory.hpp` of OpenJDK). No command is run and the server is not asked. Where the file is
not there (another virtual machine, `-XX:+PerfDisableSharedMem`) nothing is said.
"""

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from loadframe import nofollow
from loadframe.errors import BadInput
from loadframe.observe.sampler import Rates, Sample

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
