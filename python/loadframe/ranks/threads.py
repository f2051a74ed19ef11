"""Background work of a rank, and the cores of its threads."""

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def background(work: Callable[[], T]) -> "Future[T]":
    """Start the work; what it returns or raises is in the future. Its thread ends with the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="rank-work", daemon=True).start()
    return future


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
