"""What a process does first that is one of several ranks."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from loadframe.ranks import liveness
from loadframe.ranks.environment import STARTER, Place
from loadframe.ranks.workspace import hold


def run(place: Place, command: Callable[[], int], rescue: Callable[[Path], None] = print) -> int:
    """Be that rank: rank 0 runs the command with all ranks at hand, the others wait for what it says.

    `rescue` keeps what has been recorded in a folder if rank 0 is killed; by default the folder is said.

    Returns the exit status.
    """
    starter = os.environ.get(STARTER)
    if starter:
        liveness.stay_local()
        # For as long as this process runs.
        hold(Path(starter))
    if place.rank:
        from loadframe.ranks.rank_process import serve

        return serve(place)
    from loadframe.ranks.coordinator import Hub
    from loadframe.ranks.launch import adopt
    from loadframe.ranks.pipe_safe_stdout import outlive_readers
    from loadframe.ranks.protect import protect

    line = protect(place, rescue)
    tell = adopt(Path(starter)) if starter else None
    if tell is None:
        outlive_readers()
    status = 1
    try:
        with Hub(place.size, line):
            status = command()
    except Exception:
        # Said before the terminal is given back.
        traceback.print_exc()
    if tell:
        sys.stdout.flush()
        tell(status)
    return status
