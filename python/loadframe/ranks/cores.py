"""The cores that the calling thread, and the threads that it starts, run on."""

import contextlib
import os
from collections.abc import Collection, Iterator


@contextlib.contextmanager
def on(cores: Collection[int] | None) -> Iterator[None]:
    """Run this thread, and the threads that it starts, on these cores; those threads keep them. None: on all it may."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
