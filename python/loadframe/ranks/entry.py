"""What a process does first that is one of several ranks."""

import os
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

    lifeline = protect()
    starter = os.environ.get(STARTER)
    tell = adopt(starter) if starter else None
    with Hub(place, lifeline):
        status = command()
    if tell:
        tell(status)
    return status
