"""Samplers of nodes' processes and of their JVMs, and of other programs on the machine.

Processes are sampled from proc(5). JVM figures come from HotSpot's performance counters, a file that other processes
may read (`hsperfdata`, version 2; see `jdk.internal.perf` and `perfMemory.hpp` of OpenJDK). Other virtual machines, and
HotSpot with `-XX:+PerfDisableSharedMem`, have no such file and therefore no figures.

`now` is the time of a sample, s, of which only differences count.
"""

import contextlib
import math
import os
import re
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.base.procfs import named_stat, stat_fields
from loadframe.base.untrusted import printable
from loadframe.observe.observer import Gap, Rates, Sample

#: Figures that are levels; the others are counters.
_LEVELS = ("process.resident", "process.threads")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


#: Samples in a row in which the counters of a process that has ended may be missing, until its parent counts them.
_DIPS = 3


class ProcessSampler:
    """Sampler of a process per node; with `families`, of the process and its descendants, also ended ones, together.

    `pids` is called for each sample: node -> process id.
    """

    name = "process"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]], *, families: bool = False):
        """`pids` returns node name -> process id; with `families`, figures include a process's descendants."""
        self._pids = pids
        self._families = families
        #: Process id and start time of each source; the start time detects reused ids.
        self._known: dict[str, tuple[int, str]] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield each node's memory, threads, and rates of CPU, storage and network, or a gap for an ended process.

        Memory is in bytes, CPU in cores, storage and network in bytes/s. Rates need two samples of a process. Network
        is only of a process with its own network namespace. With `families`, memory that several processes share counts
        once: that of the process with the most.
        """
        children = _children() if self._families else {}
        for node, pid in self._pids().items():
            source = f"node:{node}"
            try:
                yield from self._look(source, pid, children, now)
            except OSError:
                yield Gap(source, f"process {pid} is gone")

    def _look(self, source: str, pid: int, children: Mapping[int, list[int]], now: float) -> Iterator[Sample]:
        """Yield the figures of a process, in total with its descendants in `children` (id -> children).

        OSError if the process has ended; ended descendants are skipped. Without families, `children` is empty.
        """
        stat = stat_fields(pid)
        known = (pid, stat[19])
        # The counters of a restarted process begin at zero.
        if self._known.get(source) != known:
            self._rates.forget(source)
            self._known[source] = known
        figures = _figures(pid, stat, ended=self._families)
        shared = [_shared(pid)] if self._families else []
        for child in _descendants(pid, children):
            # A child that has ended counts for its parent.
            with contextlib.suppress(OSError):
                more, of_child = _figures(child, stat_fields(child), ended=True), _shared(child)
                shared.append(of_child)
                figures = {metric: figure + more.get(metric, 0.0) for metric, figure in figures.items()}
        # Processes of a node map the same memory, such as the buffers of PostgreSQL.
        figures["process.resident"] -= sum(shared) - max(shared, default=0)
        for metric in _LEVELS:
            yield Sample(source, metric, figures.pop(metric))
        yield from self._rates.of(source, now, figures | _network(pid), dips=_DIPS if self._families else 0)


def _figures(pid: int, stat: list[str], *, ended: bool) -> dict[str, float]:
    """Return the levels and counters of a process by metric; `stat` are its fields of /proc/PID/stat.

    Memory and storage are in bytes, CPU times in s. `ended`: CPU times include those of ended children, such as closed
    connections of PostgreSQL, that the process has waited for. The bytes of storage always include theirs.
    """
    # Times of the process in user and kernel mode, then those of its ended children.
    user, system, user_ended, system_ended = (int(ticks) / _TICKS for ticks in stat[11:15])
    if ended:
        user, system = user + user_ended, system + system_ended
    return {
        "process.resident": int(stat[21]) * _PAGE,
        "process.threads": int(stat[17]),
        "process.cpu": user + system,
        "process.cpu_user": user,
        "process.cpu_system": system,
        **_storage(pid),
    }


def _shared(pid: int) -> int:
    """Return the resident bytes of a process that others may map, too: files and shared memory (proc(5), statm)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[2]) * _PAGE


def _children() -> dict[int, list[int]]:
    """Return process id -> ids of its children, for all processes that this one can see."""
    return _by_parent((pid, stat) for pid, (_, stat) in _all_processes())


#: Number of the machine's own PID namespace (PROC_PID_INIT_INO in the kernel's proc_ns.h).
_FIRST_NAMESPACE = 0xEFFFFFFC


def _all_processes(without: Collection[int] = ()) -> Iterator[tuple[int, tuple[str, list[str]]]]:
    """Yield (process id, (name, stat fields)) of each process that this one can see, except the ids in `without`."""
    for pid in _process_ids().difference(without):
        with contextlib.suppress(OSError):
            yield pid, named_stat(pid)


def _process_ids() -> set[int]:
    """Return the ids of all processes that this one can see, zombies included."""
    return {int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()}


def hidden_processes() -> str | None:
    """Return why this process cannot see all processes of the machine, or None if it can."""
    with contextlib.suppress(OSError):
        if Path("/proc/self/ns/pid").stat().st_ino != _FIRST_NAMESPACE:
            return "Loadframe runs in a container or another PID namespace"
    try:
        Path("/proc/1/stat").read_text()
    except OSError:
        return "/proc hides the processes of other users (hidepid)"
    return None


def _by_parent(stats: Iterable[tuple[int, list[str]]]) -> dict[int, list[int]]:
    """Return process id -> ids of its children, from pairs of process id and stat fields."""
    children = defaultdict(list)
    for pid, stat in stats:
        children[int(stat[1])].append(pid)
    return children


def _descendants(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """Yield the ids of all descendants of a process, parents first; `children` maps parents to children."""
    for child in children.get(pid, ()):
        yield child
        yield from _descendants(child, children)


#: Metric of all other programs together, and prefix of a program's metric, before its name.
PROGRAMS, PROGRAM = "cpu.programs", "cpu.program:"
#: Flag of kernel threads in /proc/PID/stat (PF_KTHREAD in the kernel's sched.h).
_KERNEL_THREAD = 0x00200000
#: Name of this command's processes.
_COMMAND = "loadframe"


@dataclass
class _Program:
    """A process that Loadframe did not start, with its CPU time at the last sample."""

    name: str
    parent: int
    start: int  #: start time, clock ticks since the system started, which detects reused process ids
    time: float  #: time of the last sample, s
    spent: float  #: its own CPU time, s
    waited: float  #: CPU time of ended children that it has waited for, s
    cores: float = 0.0  #: CPU use before the last sample


class ProgramSampler:
    """Sampler of the CPU use of programs that Loadframe did not start, by name, on a machine with nodes.

    Reading all processes costs more than the other samplers, so it is rare: at first, after 1, 3, 7 and 15 s, and then
    every 10 s. Between these searches, only the busy processes are read. A process that ends between two searches, such
    as a short-lived compiler, counts for its parent, such as make, once the parent has waited for it.

    `pids` is called for each sample: node -> process id. Without nodes on this machine, it samples nothing.
    """

    name = "programs"
    waits = False
    #: Longest time between two searches, s.
    PAUSE = 10.0
    #: Names that a sample has at most, and their least share of all cores.
    MOST, LEAST = 5, 0.01

    def __init__(self, pids: Callable[[], Mapping[str, int]]):
        """`pids` returns node name -> process id of the nodes."""
        self._pids = pids
        self._programs: dict[int, _Program] = {}
        self._kernel: set[int] = set()
        #: Processes to read between two searches.
        self._busy: list[int] = []
        #: CPU time of ended processes, s, by parent: counted once, and included in the parent's `waited` next.
        self._inherited: dict[int, float] = defaultdict(float)
        self._searched: float | None = None
        #: Time of the last search, clock ticks since the system started.
        self._searched_ticks = 0.0
        self._due, self._pause = -math.inf, 1.0

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield the use of all cores (share, 0 to 1) by programs that Loadframe did not start: in total, and by name.

        By name only the busiest, at most 5 with 0.01 or more each. The source is `host`. Shares cover the time since
        the previous sample, so the first sample yields nothing. Nothing without nodes.
        """
        nodes = [*self._pids().values()]
        if not nodes:
            return
        first = self._searched is None
        if now >= self._due:
            self._search(nodes, now)
        else:
            self._read_busy(now)
        if first:
            return
        cores = os.cpu_count() or 1
        used: dict[str, float] = defaultdict(float)
        for program in self._programs.values():
            used[program.name] += program.cores / cores
        # A parent may wait now for a short-lived child that used its time before the previous sample.
        if (total := sum(used.values())) > 1.0:
            used = {name: share / total for name, share in used.items()}
        yield Sample("host", PROGRAMS, sum(used.values()))
        for name in sorted(used, key=lambda name: -used[name])[: self.MOST]:
            if used[name] >= self.LEAST:
                yield Sample("host", f"{PROGRAM}{' '.join(printable(name).split())}", used[name])

    def _search(self, nodes: Iterable[int], now: float) -> None:
        """Read all processes, and update the CPU use of the programs that Loadframe did not start.

        `nodes` are the nodes' process ids; they, Loadframe and kernel threads are excluded. Also sets which programs
        are busy, and the time of the next search.
        """
        present = dict(_all_processes(self._kernel))
        # They may be more than the processes, and rarely end.
        self._kernel.update(pid for pid, (_, stat) in present.items() if int(stat[6]) & _KERNEL_THREAD)
        ours = _ours(nodes, present) | self._kernel
        known, self._programs = self._programs, {}
        others = {pid: _program(name, stat, now) for pid, (name, stat) in present.items() if pid not in ours}
        running = _process_ids()
        others = {pid: program for pid, program in others.items() if pid in running}
        same = {pid for pid, last in known.items() if pid in others and others[pid].start == last.start}
        self._hand_over({pid: last for pid, last in known.items() if pid not in same})
        for pid, program in others.items():
            if pid in same:
                self._keep(pid, program, known[pid])
            elif self._searched is not None and program.start > self._searched_ticks:
                self._keep(pid, program, replace(program, time=self._searched, spent=0.0, waited=0.0))
            else:
                self._programs[pid] = program
        self._searched_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS
        self._inherited = defaultdict(float, {pid: self._inherited[pid] for pid in self._inherited.keys() & others})
        least = self.LEAST * (os.cpu_count() or 1)
        self._busy = [pid for pid, program in self._programs.items() if program.cores >= least]
        # Samples are a second apart, and not exactly.
        self._searched, self._due = now, now + self._pause - 0.5
        self._pause = min(2 * self._pause, self.PAUSE)

    def _read_busy(self, now: float) -> None:
        """Update the CPU use of the programs that were busy at the last search, and drop all programs that have ended.

        `now` is in s. Other programs keep their figures. The CPU time of ended ones is noted for their parents
        (`_hand_over`).
        """
        read: dict[int, _Program] = {}
        for pid in self._busy:
            if pid in self._programs:
                with contextlib.suppress(OSError):
                    read[pid] = _program(*named_stat(pid), now)
        running = _process_ids()
        ended = {
            pid: last
            for pid, last in self._programs.items()
            if pid not in running or (pid in self._busy and (pid not in read or read[pid].start != last.start))
        }
        self._hand_over(ended)
        for pid in ended:
            del self._programs[pid]
        for pid in read.keys() - ended.keys():
            self._keep(pid, read[pid], self._programs[pid])

    def _hand_over(self, ended: Mapping[int, _Program]) -> None:
        """Note the CPU time of ended programs, already counted, for their nearest running ancestor.

        The ancestor's time for ended children will include it once it has waited for them, and `_keep` subtracts it
        then. Parents that ended had waited for their ended children, so notes for those move on to the ancestor, too.
        """
        for pid, last in ended.items():
            heir = last.parent
            while heir in ended:
                heir = ended[heir].parent
            self._inherited[heir] += last.spent + last.waited + self._inherited.pop(pid, 0.0)

    def _keep(self, pid: int, program: _Program, before: _Program) -> None:
        """Store a program and its CPU use in cores since the sample `before` of the same process.

        Its `cores` are set. CPU time of ended children that was already counted for them is subtracted.
        """
        waited = max(program.waited - before.waited, 0.0)
        known = min(waited, self._inherited.get(pid, 0.0))
        if known:
            self._inherited[pid] -= known
        if program.time > before.time:
            spent = max(program.spent - before.spent, 0.0) + waited - known
            program.cores = spent / (program.time - before.time)
        self._programs[pid] = program


def _program(name: str, stat: Sequence[str], now: float) -> _Program:
    """Return a process as a program sampled at `now`, s, from its name and its fields of /proc/PID/stat."""
    waited = (int(stat[13]) + int(stat[14])) / _TICKS
    return _Program(name, int(stat[1]), int(stat[19]), now, _cpu_seconds(stat), waited)


def _ours(nodes: Iterable[int], present: Mapping[int, tuple[str, list[str]]]) -> set[int]:
    """Return the ids of the nodes' processes, this process and its ranks, with all their descendants and ancestors.

    `nodes` are process ids; `present` is process id -> name and stat fields. Ancestors are included because they
    inherit the CPU time of children that they wait for.
    """
    children = _by_parent((pid, stat) for pid, (_, stat) in present.items())
    this = os.getpid()
    roots, ancestors = {*nodes, this}, set[int]()
    for root in [*roots]:
        pid = root
        while pid in present:
            name, parent = present[pid][0], int(present[pid][1][1])
            # A launcher of MPI or Slurm has started the ranks of a command.
            if name in (present[this][0] if this in present else None, _COMMAND):
                roots.update(sibling for sibling in children[parent] if present[sibling][0] == name)
            ancestors.add(pid := parent)
    return roots.union(ancestors, *(_descendants(pid, children) for pid in roots))


def _cpu_seconds(stat: Sequence[str]) -> float:
    """Return the CPU time of a process, user and system, s, from its stat fields."""
    return (int(stat[11]) + int(stat[12])) / _TICKS


def _network(pid: int) -> dict[str, float]:
    """Return the total bytes received and sent in a process's network namespace, without loopback, by metric.

    From /proc/PID/net/dev, proc(5). Empty for this process's own namespace, and for an unreadable one.
    """
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
    """Return the total bytes that a process has read from and written to storage, by metric; empty if unreadable."""
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


#: Maximum interval between searches for the file of a process that has none, s.
_SEARCH_WITHIN = 60.0


@dataclass
class _Jvm:
    """A node's process, identified by id and start time, and its hsperfdata file, if one was found."""

    process: tuple[int, str]
    file: Path | None = None
    search_at: float = 0.0  #: time of the next search for the file, s
    interval: float = 0.5  #: since the last search, s


class JvmSampler:
    """Sampler of nodes' JVMs; `pids` is called for each sample: node -> process id."""

    name = "jvm"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]]):
        """`pids` returns node name -> process id, for each sample."""
        self._pids = pids
        self._known: dict[str, _Jvm] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield `jvm.gc` of each node: seconds of garbage collection per second since the node's previous sample.

        The first sample of a process yields nothing, and neither does a process whose JVM counters cannot be read.
        """
        for node, pid in self._pids().items():
            source = f"node:{node}"
            stopped = None
            # All users may write to the folder of these files, so their content is untrusted.
            with contextlib.suppress(OSError, BadInput, struct.error, ValueError):
                file = self._file(source, pid, now)
                stopped = None if file is None else seconds_stopped(_content(file))
            if stopped is not None:
                yield from self._rates.of(source, now, {"jvm.gc": stopped})

    def _file(self, source: str, pid: int, now: float) -> Path | None:
        """Return the hsperfdata file of a node's process, or None; OSError if the process has ended.

        A JVM creates the file after its start, so a missing file is searched for again, at doubling intervals up to
        60 s. `source` names the node in samples, `now` is in s.
        """
        process = (pid, stat_fields(pid)[19])
        jvm = self._known.get(source)
        if jvm is None or jvm.process != process:
            # The counters of a new process begin at zero.
            self._rates.forget(source)
            jvm = self._known[source] = _Jvm(process, search_at=now)
        if jvm.file is None and now >= jvm.search_at:
            jvm.file = published_by(pid)
            jvm.interval = min(2 * jvm.interval, _SEARCH_WITHIN)
            jvm.search_at = now + jvm.interval
        return jvm.file


def _content(file: Path) -> bytes:
    """Return the first MiB of an hsperfdata file.

    BadInput if a link lies below the process's root directory, where other users may place one; OSError if
    unreadable.
    """
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
    """Return the hsperfdata file of a process, as a path below /proc/PID/root/tmp.

    None if it has none or has ended, or if this user may not look.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        numbers = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
        number = numbers[1].split()[-1] if numbers else str(pid)
        return next(Path(f"/proc/{pid}/root/tmp").glob(f"hsperfdata_*/{number}"), None)
    except OSError:
        return None


def seconds_stopped(content: bytes) -> float | None:
    """Return the time of garbage collection since the JVM's start, summed over its collectors, s.

    `content` is the content of an hsperfdata file. None for another magic number, or without the clock's frequency;
    struct.error or ValueError if the content is malformed.
    """
    magic, *_, offset, entries = _PROLOGUE.unpack_from(content)
    if magic != _MAGIC:
        return None
    ticks, frequency = 0, 0
    for _ in range(entries):
        length, name_at, count, kind, *_, data_at = _ENTRY.unpack_from(content, offset)
        # An entry without a length would be read up to two thousand million times.
        if length < _ENTRY.size:
            raise ValueError("an entry is shorter than its header")
        name = content[offset + name_at : content.index(b"\0", offset + name_at)]
        if kind == _LONG and not count:
            (value,) = struct.unpack_from("=q", content, offset + data_at)
            if name == _FREQUENCY:
                frequency = value
            elif _COLLECTED.fullmatch(name):
                ticks += value
        offset += length
    return ticks / frequency if frequency else None
