"""Reliable handling of interrupts (Ctrl-C, SIGTERM, SIGHUP), and calls in threads that do not delay them.

Python raises KeyboardInterrupt at any place of the main thread. In a destructor or callback the exception is lost,
during an import it may change its type, and during the end of a run it may cost the run. The handler here therefore
records each interrupt before it raises, and within `deferred` it only records.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

#: Signals that end a command: from Ctrl-C, schedulers, service managers and closed terminals.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Interval between checks for an interrupt, s.
_CHECK = 0.1

_asked = False
_depth = 0
#: Signals that arrived since `listen`, except repeated ones.
_received = set[int]()


def pending() -> bool:
    """Return whether an interrupt is pending, even if its exception was lost."""
    return _asked


def hung_up() -> bool:
    """Return whether SIGHUP was the first signal since `listen`, even if it was answered."""
    return signal.SIGHUP in _received


def answer() -> None:
    """Clear a pending interrupt, for a caller that handles it without ending the command."""
    global _asked  # noqa: PLW0603 - the handler of a signal has no other place to write to
    _asked = False


def finish() -> None:
    """Clear the interrupt that normally ends a command, as Ctrl-C in a terminal; KeyboardInterrupt after SIGHUP."""
    answer()
    if hung_up():
        raise KeyboardInterrupt


def check() -> None:
    """Raise KeyboardInterrupt if an interrupt is pending, even if its exception was lost; it stays pending."""
    if _asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Defer interrupts to the end of the outermost `deferred` block, which then raises KeyboardInterrupt for them.

    Use it for work of some seconds, or work that checks `pending`. The interrupt stays pending after `listen`, and is
    cleared without it. No effect outside the main thread, or if the process ignores all `SIGNALS`.
    """
    global _depth  # noqa: PLW0603
    before = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread() or not before:
        yield
        return
    for number in before:
        signal.signal(number, _record)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        for number, handler in before.items():
            signal.signal(number, handler)
        if not _depth:
            if _raise not in before.values():
                _received.clear()
                if _asked:
                    # Without `listen`, raise the interrupt once.
                    answer()
                    raise KeyboardInterrupt
            check()


def listen() -> None:
    """Clear a pending interrupt, and record and raise interrupts from now on; call in the main thread.

    Signals that the process ignores stay ignored.
    """
    answer()
    _received.clear()
    _handle(_raise)


def close() -> None:
    """Only record interrupts from now on, without raising them, for the end of the command; call in the main thread."""
    _handle(_record)


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    """Set the handler of all `SIGNALS` that this process does not ignore."""
    for number in SIGNALS:
        # `nohup` and background jobs of a shell ignore some of them.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _is_repeated(number: int) -> bool:
    """Return whether a signal repeats an earlier request to end: SIGTERM after SIGTERM, or SIGHUP after any signal."""
    # Schedulers send SIGTERM to a process and to its launcher, which passes it on; kernel and shell both send SIGHUP.
    # A terminal may close, and a service manager may send SIGHUP, while the command still ends cleanly.
    return bool(_received) if number == signal.SIGHUP else number == signal.SIGTERM and number in _received


def _record(number: int, frame: FrameType | None) -> None:
    """Handle a signal: record the interrupt, without raising it. Repeated SIGTERM or SIGHUP has no effect."""
    global _asked  # noqa: PLW0603
    if not _is_repeated(number):
        _asked = True
        _received.add(number)


def _raise(number: int, frame: FrameType | None) -> None:
    """Handle a signal: record the interrupt and raise KeyboardInterrupt, but not for repeated SIGTERM or SIGHUP."""
    again = _asked or _is_repeated(number)
    _record(number, frame)
    if number == signal.SIGINT or not again:
        raise KeyboardInterrupt


def fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    """Call `work` in this thread, and give its result or its exception to `future`; raise nothing."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def background(work: Callable[[], T]) -> "Future[T]":
    """Start a daemon thread that calls `work`; return the future of its result or exception, without waiting."""
    future: Future[T] = Future()
    threading.Thread(target=fulfil, args=(future, work), name="background", daemon=True).start()
    return future


def interruptible(work: Callable[[], T]) -> T:
    """Call `work` and return its result or raise its exception; KeyboardInterrupt within 0.1 s of an interrupt.

    `work` runs in another thread, with the CPU affinity of this one. After an interrupt it runs on, and its result is
    discarded.
    """
    future = background(work)
    while not wait([future], _CHECK).done:
        check()
    return future.result()
