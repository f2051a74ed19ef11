"""Waiting for a busy engine: an interrupt is handled, and its exception is raised."""

import _thread
import threading
import time

import pytest

from loadframe.base import interrupts
from loadframe.base.interrupts import interruptible


def test_an_interrupt_is_raised_though_the_engine_has_not_answered():
    over = threading.Event()
    began = time.monotonic()
    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        interruptible(lambda: over.wait(30))
    over.set()
    assert time.monotonic() - began < 10


def test_results_and_errors_of_the_engine_are_passed_on():
    assert interruptible(lambda: 7) == 7
    with pytest.raises(TimeoutError, match="its own"):
        interruptible(lambda: (_ for _ in ()).throw(TimeoutError("its own")))
