"""Watches the processes of nodes: CPU, memory, threads, storage, and the network where each has its own."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from loadframe.observe.sampler import Gap, Rates, Sample

#: Kernels without task accounting have no /proc/PID/io, and psutil then no method for it.
_HAS_IO = hasattr(psutil.Process, "io_counters")
#: Figures that are taken as they are; the others only grow.
_LEVELS = ("process.resident", "process.threads")


class ProcessSampler:
    """Looks at one process per node, or with `families` at all that descend from it, as if they were one.

    `pids` is asked every time, since nodes come and go: node -> process id.
    """

    name = "process"
    waits = False

    def __init__(self, pids: Callable[[], Mapping[str, int]], *, families: bool = False):
        self._pids = pids
        self._families = families
        self._processes: dict[str, psutil.Process] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node's process, or a gap for one that is gone."""
        children = _children() if self._families else {}
        for node, pid in self._pids().items():
            source = f"node:{node}"
            try:
                yield from self._look(source, self._process(source, pid), children, now)
            except psutil.Error:
                yield Gap(source, f"process {pid} is gone")

    def _process(self, source: str, pid: int) -> psutil.Process:
        known = self._processes.get(source)
        # A process that was restarted, even under the number of the old one, counts from zero again.
        if known is None or known.pid != pid or not known.is_running():
            self._rates.forget(source)
            known = self._processes[source] = psutil.Process(pid)
        return known

    def _look(
        self, source: str, process: psutil.Process, children: Mapping[int, list[int]], now: float
    ) -> Iterator[Sample]:
        found = [_figures(process)]
        for pid in _descendants(process.pid, children):
            # One that has ended meanwhile takes its totals along; then there are no rates this time.
            with contextlib.suppress(psutil.Error):
                found.append(_figures(psutil.Process(pid)))
        figures = {metric: sum(each.get(metric, 0.0) for each in found) for metric in found[0]}
        for metric in _LEVELS:
            yield Sample(source, metric, figures.pop(metric))
        yield from self._rates.of(source, now, figures | _network(process.pid))


def _figures(process: psutil.Process) -> dict[str, float]:
    """Return levels and totals of one process."""
    with process.oneshot():
        if process.status() == psutil.STATUS_ZOMBIE:
            raise psutil.ZombieProcess(process.pid)
        cpu = process.cpu_times()
        levels = {"process.resident": process.memory_info().rss, "process.threads": process.num_threads()}
        return {**levels, "process.cpu": cpu.user + cpu.system, **_storage(process)}


def _children() -> dict[int, list[int]]:
    """Return the children of every process of this machine (proc(5), /proc/PID/stat): one look for all nodes."""
    found = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # The name of the program comes before, in brackets, and may be anything.
                rest = (folder / "stat").read_text().rpartition(")")[2].split()
                found[int(rest[1])].append(int(folder.name))
    return found


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


def _storage(process: psutil.Process) -> dict[str, float]:
    if not _HAS_IO:
        return {}
    try:
        counters = process.io_counters()
    except psutil.AccessDenied:
        # Another user's process shows everything but this.
        return {}
    return {"process.read": counters.read_bytes, "process.written": counters.write_bytes}
