"""Waits for the engine, and hears interrupts meanwhile: while it connects or reads a corpus, Python hears nothing."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from loadframe import interrupts

#: How often an interrupt is looked for, s.
_LOOK = 0.1

T = TypeVar("T")


def interruptible(call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise what it raises; KeyboardInterrupt as soon as an interrupt has come.

    The call runs in another thread, on the cores of this one. What it returns after an interrupt is dropped.
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
