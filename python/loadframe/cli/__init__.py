"""The command line: one module per command, imported when it is asked for; errors leave as one message and a status.

Nothing is imported here that takes time: an interrupt is to be heard before.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

from loadframe import interrupts
from loadframe.errors import LoadframeError
from loadframe.ranks.environment import place

#: Exit status of a command that was interrupted.
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a run failed, 2 bad input, 130 interrupted; `gate` has its own.

    With `arguments` it is a command inside a program that goes on, which gets its handling of interrupts back. Without,
    and as one of several ranks that MPI or Slurm has started, only rank 0 runs the command.
    """
    here = place() if arguments is None else None
    if here is None:
        sys.exit(_main(arguments))
    from loadframe.ranks.entry import run

    sys.exit(run(here, lambda: _main(None), _rescue))


def _rescue(folder: Path) -> None:
    """Keep what rank 0 recorded in this folder until it was killed, and say where."""
    from loadframe.experiment.rescue import rescue

    for kept in rescue(folder.parent, why="rank 0 was killed"):
        _say(f"rank 0 was killed; what was recorded until then is in {kept}")


def _main(arguments: list[str] | None) -> int:
    """Run the command line; return its exit status."""
    before = signal.getsignal(signal.SIGINT)
    status = INTERRUPTED
    try:
        try:
            interrupts.listen()
            status = _run(arguments)
        finally:
            # What there is to be kept is kept by now, and how it ended is known.
            interrupts.close()
    except KeyboardInterrupt:
        interrupts.close()
        status = INTERRUPTED
    # Python gives a handler up before it has taken itself down, and an interrupt would kill it then.
    signal.signal(signal.SIGINT, signal.SIG_IGN if arguments is None else before)
    if interrupts.asked():
        status = INTERRUPTED
    if status == INTERRUPTED:
        _say("interrupted")
    interrupts.answer()
    return status


def _run(arguments: list[str] | None) -> int:
    """Run a command; return its exit status."""
    try:
        with interrupts.deferred():
            from loadframe.cli.app import app

        app(args=arguments, standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except LoadframeError as error:
        if not interrupts.asked():
            _say(str(error))
        return error.exit_status
    except MemoryError as error:
        # Whatever held so much has been let go of by now.
        asked = f": {error}" if str(error) else ""
        _say(f"memory has run out{asked}")
        print("  free some, give the process more, or ask for less: fewer runs, clients or documents", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output left (`| head`): nothing is wrong, and nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        # An interrupt that a library has turned into something else is an interrupt.
        if not interrupts.asked():
            raise
    return 0


def _say(words: str) -> None:
    # Where nobody listens, as when the terminal is gone, the status says it.
    with contextlib.suppress(OSError):
        print(f"loadframe: {words}", file=sys.stderr)
