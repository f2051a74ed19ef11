"""Background work of a rank, and CPU affinity."""

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def background(work: Callable[[], T]) -> "Future[T]":
    """Run the function in a daemon thread; return the future of its result."""
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
