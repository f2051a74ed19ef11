"""Ctrl-C: no interrupt is lost, and none breaks what must be whole.

Python raises KeyboardInterrupt wherever the main thread happens to be. In a destructor or a callback it is printed and
forgotten; while a module is imported it can leave as another exception; between the end of a load and the name of its
record it costs the record. So the handler here takes each interrupt down before it raises, and where work must not be
cut short it only takes it down.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_asked = False
_depth = 0


def asked() -> bool:
    """Whether an interrupt has come that nobody has answered: the command is to end, whatever became of it."""
    return _asked


def answer() -> None:
    """Forget the interrupt that has come, where it means something else than the end."""
    global _asked  # noqa: PLW0603 - the handler of a signal has no other place to write to
    _asked = False


def check() -> None:
    """Raise KeyboardInterrupt if an interrupt has come, even if that was raised and got lost."""
    if _asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let nothing inside be cut short; an interrupt that comes meanwhile is raised at the end, of the outermost one.

    For what takes seconds at most, or looks at `asked` itself. In a thread other than the main one, and where the
    process ignores interrupts, it changes nothing.
    """
    global _depth  # noqa: PLW0603
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, signal.SIG_DFL, None):
        yield
        return
    signal.signal(signal.SIGINT, _take_down)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        signal.signal(signal.SIGINT, before)
        if not _depth:
            if _asked and before is not _raise:
                # Whoever does not listen here hears of it once.
                answer()
                raise KeyboardInterrupt
            check()


@contextlib.contextmanager
def also(number: signal.Signals) -> Iterator[None]:
    """Have another signal be an interrupt, such as that by which service managers end a command; in the main thread."""
    before = signal.signal(number, _as_interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


def listen() -> None:
    """Have interrupts taken down before they are raised, from now on; for the main thread of a command."""
    answer()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _raise)


def close() -> None:
    """Have interrupts only taken down from now on: the command is over, and leaves its status."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _take_down)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    # Where interrupts are ignored, this signal is not.
    (handler if callable(handler) else _take_down)(number, frame)


def _take_down(number: int, frame: FrameType | None) -> None:
    global _asked  # noqa: PLW0603
    _asked = True


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    _take_down(number, frame)
    raise KeyboardInterrupt
