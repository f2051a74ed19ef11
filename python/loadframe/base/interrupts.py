"""Interrupts (Ctrl-C, SIGTERM, SIGHUP): none is lost, and none breaks what must be whole.

Python raises KeyboardInterrupt wherever the main thread happens to be. In a destructor or a callback it is printed and
forgotten; while a module is imported it can leave as another exception; between the end of a load and the name of its
record it costs the record. So the handler here takes each interrupt down before it raises, and where work must not be
cut short it only takes it down.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

#: The signals that end a command as Ctrl-C does: schedulers, service managers and closed terminals send the others.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

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
    before = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread() or not before:
        yield
        return
    for number in before:
        signal.signal(number, _take_down)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        for number, handler in before.items():
            signal.signal(number, handler)
        if not _depth:
            if _asked and _raise not in before.values():
                # Whoever does not listen here hears of it once.
                answer()
                raise KeyboardInterrupt
            check()


def listen() -> None:
    """Have interrupts taken down before they are raised, from now on; for the main thread of a command."""
    answer()
    _handle(_raise)


def close() -> None:
    """Have interrupts only taken down from now on: the command is over, and leaves its status."""
    _handle(_take_down)


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        # `nohup` and background jobs of a shell ignore some of them.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _take_down(number: int, frame: FrameType | None) -> None:
    global _asked  # noqa: PLW0603
    _asked = True


def _raise(number: int, frame: FrameType | None) -> None:
    again = _asked
    _take_down(number, frame)
    # Schedulers send SIGTERM to a process and to its launcher, which passes it on: that is one request.
    if number == signal.SIGINT or not again:
        raise KeyboardInterrupt
