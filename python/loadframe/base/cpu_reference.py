"""Reference benchmark of the machine's current speed: the CPU time of a fixed computation.

It shows slowdowns that other metrics do not, such as a hot or shared processor without stolen time.
"""

import random
import time
import zlib

#: Compression uses branches, arithmetic and a table of some hundred KiB, like the work of a store.
_BYTES = 1 << 16
_PIECES = 15


def yardstick() -> float:
    """Measure the CPU time of a fixed computation, s: the median of 15 pieces, about 25 ms in total.

    Results are comparable only on the same machine with the same Python.
    """
    data = bytes(random.Random(7).choices(range(64), k=_BYTES))
    return sorted(_piece(data) for _ in range(_PIECES))[_PIECES // 2]


def _piece(data: bytes) -> float:
    before = time.thread_time()
    zlib.compress(data)
    return time.thread_time() - before
