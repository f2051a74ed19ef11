"""A rank above 0: it waits for phases, runs the engine, and knows no store and no file of an experiment."""

import contextlib
import os
import signal
import sys
import time

from loadframe.errors import BadInput, ExitCode
from loadframe.printable import printable
from loadframe.ranks.environment import Place
from loadframe.ranks.station import Station
from loadframe.ranks.world import World, machine

#: How long a rank that is told to end stays to say so, s: shorter than launchers wait before they kill.
_FAREWELL = 0.5


def serve(place: Place) -> int:
    """Do what rank 0 says until it says that all is over; return the exit status."""
    ordered: list[int] = []
    # Whether an interrupt ends anything is rank 0's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: ordered.append(number))
    try:
        world = World(place)
    except BadInput as error:
        # Rank 0 says it.
        return error.exit_status
    station = Station(world)
    while not station.over:
        station.step()
        if ordered:
            _say_farewell(world)
        if why := station.alone():
            words = f"rank {world.rank} on {machine()} ends: the rank above it {why}"
            with contextlib.suppress(OSError):
                print(f"loadframe: {printable(words)}", file=sys.stderr)
            # Without the others MPI cannot be left.
            os._exit(ExitCode.FAILED)
        if station.pause:
            time.sleep(station.pause)
    # Where rank 0 was killed, its phase is not over.
    for phase in station.phases.values():
        phase.stop()
    station.children.end()
    world.close()
    return ExitCode.OK


def _say_farewell(world: World) -> None:
    """Tell rank 0 that this rank was told to end: the one that says nothing died by itself."""
    world.send(0, {"kind": "farewell"})
    until = time.monotonic() + _FAREWELL
    # A rank that ends at once looks to MPI like one that died.
    while time.monotonic() < until:
        world.receive()
        time.sleep(0.005)
    os._exit(ExitCode.TERMINATED)
