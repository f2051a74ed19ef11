"""Which core does what, and servers that stay on theirs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from loadframe import _engine


def cores() -> tuple[int, int]:
    """Return one core for the server and one for the generator; says so when they are the same."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) == 1:
        print("  only one core: the server and the generators share it")
    return usable[0], usable[-1]


@contextmanager
def null_server(core: int | None) -> Iterator[str]:
    """Serve the search protocol from a thread on one core, or on whichever is free; yield `host:port`."""
    before = os.sched_getaffinity(0)
    # A thread inherits the cores of the one that starts it.
    os.sched_setaffinity(0, before if core is None else {core})
    server = _engine.NullServer("search")
    os.sched_setaffinity(0, before)
    with closing(server):
        yield server.address


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Have another process compute on one core without a pause."""
    with subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    ) as it:
        try:
            yield
        finally:
            it.kill()


def used(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk, with all that is in it."""
    return sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*")))
