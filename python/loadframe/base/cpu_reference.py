"""How fast this machine is just now: the CPU time of one and the same computation.

A processor that is shared with others, or that is hot, does less in a second of CPU time, and nothing else says so: the
model is the same, and the hypervisor need not have taken anything.
"""

import random
import time
import zlib

#: Compressing takes branches, arithmetic and a table of a few hundred KiB, as a store's work does.
_BYTES = 1 << 16
_PIECES = 15


def yardstick() -> float:
    """Return the CPU time of a fixed computation in s: the median of 15 pieces, some 25 ms in all.

    Figures of one machine and one Python can be held against each other; nothing else is to be read from them.
    """
    data = bytes(random.Random(7).choices(range(64), k=_BYTES))
    return sorted(_piece(data) for _ in range(_PIECES))[_PIECES // 2]


def _piece(data: bytes) -> float:
    before = time.thread_time()
    zlib.compress(data)
    return time.thread_time() - before
