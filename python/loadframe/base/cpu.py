"""CPU affinity, and a reference benchmark of the machine's current speed."""

import contextlib
import os
import random
import time
import zlib
from collections.abc import Collection, Iterator

#: Compression uses branches, arithmetic and a table of some hundred KiB, like the work of a store.
_BYTES = 1 << 16
_PIECES = 15


def yardstick() -> float:
    """Measure the CPU time of a fixed computation, s: the median of 15 pieces, about 25 ms in total.

    It shows slowdowns that other metrics do not, such as a hot or shared processor without stolen time.
    Results are comparable only on the same machine with the same Python.
    """
    data = bytes(random.Random(7).choices(range(64), k=_BYTES))
    return sorted(_piece(data) for _ in range(_PIECES))[_PIECES // 2]


def _piece(data: bytes) -> float:
    before = time.thread_time()
    zlib.compress(data)
    return time.thread_time() - before


@contextlib.contextmanager
def on(cores: Collection[int] | None) -> Iterator[None]:
    """Run this thread and threads that it starts on these cores; without cores, change nothing.

    Threads that were started inside keep their cores.
    """
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
