"""Assignment of cores, servers pinned to a core, and use of memory and disk."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from loadframe import _engine


def cores() -> tuple[int, int]:
    """Return one core for the server and one for the generator; print a note if they are the same."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) == 1:
        print("  only one core: the server and the generators share it")
    return usable[0], usable[-1]


@contextmanager
def null_server(core: int | None) -> Iterator[str]:
    """Serve the search protocol from a thread, pinned to `core` if given; yield `host:port`."""
    before = os.sched_getaffinity(0)
    # A thread inherits the affinity of its parent.
    os.sched_setaffinity(0, before if core is None else {core})
    server = _engine.NullServer("search")
    os.sched_setaffinity(0, before)
    with closing(server):
        yield server.address


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Keep one core busy with another process."""
    with subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    ) as it:
        try:
            yield
        finally:
            it.kill()


def used(folder: Path) -> int:
    """Return the bytes that a folder with its content occupies on disk."""
    return sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*")))


def peak_memory() -> int:
    """Return the peak resident memory of this process, B.

    Linux initializes `ru_maxrss` with the memory of the program that started the process, so it can be too large.
    """
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
