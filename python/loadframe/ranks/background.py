"""Work that takes a while, in a thread of its own, so that its rank hears others meanwhile."""

import threading
from collections.abc import Callable
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
