"""The command line: one module per command, imported when it is asked for; errors leave as one message and a status.

Nothing is imported here that takes time: an interrupt is to be heard before.
"""

import contextlib
import os
import select
import signal
import sys
from pathlib import Path

from loadframe import interrupts
from loadframe.errors import BadInput, LoadframeError
from loadframe.printable import printable
from loadframe.ranks.environment import place

#: Exit status of a command that was interrupted.
INTERRUPTED = 130
_TOO_DEEP = "an input is nested too deep to be read"
#: Exit status of a command whose output nobody reads any more: that of a program that SIGPIPE ends.
UNREAD = 141


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a run failed, 2 bad input, 130 interrupted, 141 output not read.

    `gate` has its own statuses.

    With `arguments` it is a command inside a program that goes on, which gets its handling of interrupts back. Without,
    and as one of several ranks that MPI or Slurm has started, only rank 0 runs the command.
    """
    here = place() if arguments is None else None
    if here is None:
        sys.exit(_main(arguments))
    from loadframe.ranks.entry import run

    sys.exit(run(here, lambda: _main(None), _rescue))


def _rescue(folder: Path) -> None:
    """Keep what rank 0 recorded in this folder until it was killed, and say where.

    A run of an experiment is not kept: the same command makes it again, as without ranks.
    """
    from loadframe.analyze.experiment import EXPERIMENT_FILE
    from loadframe.experiment.rescue import rescue

    if (folder.parent.parent / EXPERIMENT_FILE).exists():
        _say("rank 0 was killed; the same command makes the run in flight again")
        return
    for kept in rescue(folder.parent, why="rank 0 was killed"):
        _say(f"rank 0 was killed; what was recorded until then is in {kept}")


def _main(arguments: list[str] | None) -> int:
    """Run the command line; return its exit status."""
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
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
    for number, handler in before.items():
        signal.signal(number, signal.SIG_IGN if arguments is None else handler)
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
    except (LoadframeError, RecursionError) as error:
        told = error if isinstance(error, LoadframeError) else BadInput(_TOO_DEEP, remedy="name another file")
        if not interrupts.asked():
            _say(str(told))
        return told.exit_status
    except MemoryError as error:
        # Whatever held so much has been let go of by now.
        asked = f": {error}" if str(error) else ""
        _say(f"memory has run out{asked}")
        print("  free some, give the process more, or ask for less: fewer runs, clients or documents", file=sys.stderr)
        return 1
    except BrokenPipeError:
        if not _output_is_closed():
            raise
        # The reader of our output left (`| head`), perhaps before the work was done; nothing can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except Exception:
        # An interrupt that a library has turned into something else is an interrupt.
        if not interrupts.asked():
            raise
    return 0


def _output_is_closed() -> bool:
    """Whether standard output is a pipe or a socket without a reader."""
    watch = select.poll()
    watch.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def _say(words: str) -> None:
    # Where nobody listens, as when the terminal is gone, the status says it.
    with contextlib.suppress(OSError):
        print(f"loadframe: {printable(words)}", file=sys.stderr)
