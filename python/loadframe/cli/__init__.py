"""The command line: one module for each command, imported on use. Errors become one message and an exit code.

This module imports nothing slow, so that interrupts are handled early.
"""

import contextlib
import errno
import io
import os
import select
import signal
import sys
import traceback
from pathlib import Path

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, ExitCode, LoadframeError
from loadframe.base.untrusted import outlet, printable
from loadframe.ranks import place

_TOO_DEEP = "the input is nested too deeply"
#: Errors of a path that a user gave.
_PATHS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with a code of `ExitCode`.

    With `arguments`, run one command inside a program, and restore its signal handlers. Otherwise, among several ranks
    that MPI or Slurm started, only rank 0 runs the command.
    """
    if arguments is not None:
        sys.exit(_main(arguments))
    _open_missing()
    # A closed terminal or a full disk behind the messages must not end a run.
    sys.stderr = outlet(sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Results may have characters that the encoding of standard output lacks. A stream that was opened on another
        # file refuses the change.
        with contextlib.suppress(OSError):
            sys.stdout.reconfigure(errors="backslashreplace")
    sys.meta_path.insert(0, _WithoutPandas)
    here = place()
    if here is None:
        sys.exit(_main(None))
    from loadframe.ranks.launch import run

    sys.exit(run(here, lambda: _main(None), _rescue))


def _open_missing() -> None:
    """Open /dev/null for each standard descriptor that is closed, so that no other file gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


class _WithoutPandas:
    """Hides pandas from pyarrow, which would import it if installed: a fifth of a short command's CPU time."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Refuse to import pandas, with ModuleNotFoundError; return None for other modules."""
        if name == "pandas":
            raise ModuleNotFoundError("no command uses pandas", name=name)


def _rescue(folder: Path) -> None:
    """Recover all killed runs in the parent of `folder`, in which a killed rank 0 was recording; print their paths.

    A run of an experiment is not recovered: repeating the command repeats the run.
    """
    from loadframe.analyze.experiment import EXPERIMENT_FILE
    from loadframe.experiment.runner.recover_run import recover_runs

    if (folder.parent.parent / EXPERIMENT_FILE).exists():
        _say("rank 0 was killed; repeat the command to repeat the current run")
        return
    for kept in recover_runs(folder.parent, why="rank 0 was killed"):
        _say(f"rank 0 was killed; recovered its records: {kept}")


def _main(arguments: list[str] | None) -> int:
    """Run the command line and return its exit code.

    Interrupts during the command end it with `ExitCode.INTERRUPTED`. Afterwards, signals are ignored until Python
    exits, or get their previous handlers if `arguments` are given.
    """
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    code: int = ExitCode.INTERRUPTED
    try:
        try:
            interrupts.listen()
            code = _run(arguments)
        finally:
            # The records are complete, and the exit code is known.
            interrupts.close()
    except KeyboardInterrupt:
        interrupts.close()
        code = ExitCode.INTERRUPTED
    # Python restores default handlers before it exits, and an interrupt would then kill it.
    for number, handler in before.items():
        signal.signal(number, signal.SIG_IGN if arguments is None else handler)
    if interrupts.pending():
        code = ExitCode.INTERRUPTED
    if code == ExitCode.INTERRUPTED:
        _say("interrupted")
    interrupts.answer()
    return code


def _run(arguments: list[str] | None) -> int:
    """Run a command and return its exit code; print a full disk or an unusable path as a message.

    Their codes are that of `_unable` for a full disk, 2 for a path.
    Other errors are printed as `_attempt` does. An unexpected error is printed as a traceback for `gate`, and raised
    for other commands. `arguments` None means the arguments of the process.
    """
    try:
        return _attempt(arguments)
    except OSError as error:
        if error.filename and error.errno in _PATHS:
            _say(f"{error.filename}: {error.strerror}")
            print("  check the path and its permissions", file=sys.stderr)
            return ExitCode.BAD_INPUT
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _say(": ".join(filter(None, (error.filename and str(error.filename), error.strerror))))
        # The disk may hold standard error, too.
        with contextlib.suppress(OSError):
            print("  free some space, or write to another disk", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return _unable(arguments)
    except Exception:
        code = _unable(arguments)
        if code == ExitCode.FAILED:
            raise
        # Python would end with 1.
        traceback.print_exc()
        return code


def _unable(arguments: list[str] | None) -> ExitCode:
    """Return the exit code of a command that the machine stopped: 1, but 2 for `gate`, where 1 is a regression."""
    words = sys.argv[1:] if arguments is None else arguments
    return ExitCode.BAD_INPUT if words[:1] == ["gate"] else ExitCode.FAILED


def _attempt(arguments: list[str] | None) -> int:
    """Run a command and return its exit code; print expected errors (LoadframeError, out of memory) as messages.

    `arguments` None means the arguments of the process. Returns OUTPUT_CLOSED if the reader of standard output has
    closed it. Other exceptions are raised, unless an interrupt is pending, which may have caused them.
    """
    try:
        with interrupts.deferred():
            from loadframe.cli.app import app

        app(args=arguments, standalone_mode=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        # typer exits with 1 where the reader of the output left, and replaces standard output by this class.
        closed = code == ExitCode.FAILED and type(sys.stdout).__name__ == "PacifyFlushWrapper"
        return ExitCode.OUTPUT_CLOSED if closed or not _flushed() else code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except (LoadframeError, RecursionError) as error:
        shown = error if isinstance(error, LoadframeError) else BadInput(_TOO_DEEP, remedy="name another file")
        if not interrupts.pending():
            _say(str(shown))
        return shown.exit_status
    except MemoryError as error:
        # The memory is free again by now.
        detail = f": {error}" if str(error) else ""
        _say(f"out of memory{detail}")
        print("  free some memory, raise the limit, or use fewer runs, clients or documents", file=sys.stderr)
        return _unable(arguments)
    except BrokenPipeError:
        if not _output_is_closed():
            raise
        # The reader closed the pipe (`| head`), perhaps before the work was done.
        _discard_output()
        return ExitCode.OUTPUT_CLOSED
    except Exception:
        # A library may have replaced KeyboardInterrupt by another exception.
        if not interrupts.pending():
            raise
    return ExitCode.OK


def _flushed() -> bool:
    """Flush standard output; if its reader has closed it, discard all further output and return False."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return False
    return True


def _discard_output() -> None:
    """Redirect standard output to /dev/null, because Python flushes it once more on exit."""
    # Python flushes once more when it exits, and would report the same error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_is_closed() -> bool:
    """Whether standard output is a pipe or a socket without a reader."""
    watch = select.poll()
    watch.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def _say(words: str) -> None:
    """Print a message with the prefix `loadframe:` to standard error, if that is open."""
    # Without a terminal, the exit code remains.
    with contextlib.suppress(OSError):
        print(f"loadframe: {printable(words)}", file=sys.stderr)
