"""What a process does first that is one of several ranks."""

import os
import sys
import traceback
from collections.abc import Callable

from loadframe.ranks.environment import STARTER, Place


def run(place: Place, command: Callable[[], int]) -> int:
    """Be that rank: rank 0 runs the command with all ranks at hand, the others wait for what it says.

    Returns the exit status.
    """
    if place.rank:
        from loadframe.ranks.serve import serve

        return serve(place)
    from loadframe.ranks.hub import Hub
    from loadframe.ranks.launch import adopt
    from loadframe.ranks.protect import protect

    starter = os.environ.get(STARTER)
    line = protect(place)
    tell = adopt(starter) if starter else None
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
