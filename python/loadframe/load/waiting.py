"""Waits for the engine and handles interrupts meanwhile: Python handles none while the engine connects or reads."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from loadframe import interrupts

#: Interval between checks for an interrupt, s.
_LOOK = 0.1

T = TypeVar("T")


def interruptible(call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise what it raises; KeyboardInterrupt as soon as an interrupt arrives.

    The call runs in another thread, on the cores of this one. Its result after an interrupt is discarded.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="engine-call", daemon=True).start()
    while not wait([future], _LOOK).done:
        interrupts.check()
    return future.result()
