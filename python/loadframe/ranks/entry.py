"""Entry point of a process that is one of several ranks."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from loadframe.ranks import liveness
from loadframe.ranks.environment import STARTER, Place
from loadframe.ranks.launch import hold


def run(place: Place, command: Callable[[], int], rescue: Callable[[Path], None] = print) -> int:
    """Run as a rank and return the exit status: rank 0 runs the command, the others serve rank 0.

    If rank 0 is killed, `rescue` is called with the folder of the current run; by default it is printed.
    """
    starter = os.environ.get(STARTER)
    if starter:
        liveness.stay_local()
        # The lock is held until this process ends.
        hold(Path(starter))
    if place.rank:
        from loadframe.ranks.rank_process import serve

        return serve(place)
    from loadframe.ranks.coordinator import Coordinator
    from loadframe.ranks.launch import adopt, outlive_readers
    from loadframe.ranks.protect import protect

    line = protect(place, rescue)
    tell = adopt(Path(starter)) if starter else None
    if tell is None:
        outlive_readers()
    status = 1
    try:
        with Coordinator(place.size, line):
            status = command()
    except Exception:
        # Print it while the terminal is still ours.
        traceback.print_exc()
    if tell:
        sys.stdout.flush()
        tell(status)
    return status
