"""Silent ranks: the others wait while its process lives, and stop when it has ended or is cut off."""

import os
import signal
import subprocess
import sys
import time

import pytest

from loadframe.ranks import liveness

BOOT = "this machine"
DOOR = f"""\
import time
from loadframe.ranks import liveness
print(*liveness.door({BOOT!r})[:2], sep="|", flush=True)
time.sleep(600)
"""


@pytest.fixture
def neighbour():
    """A process with a probe endpoint, and its last known state."""
    with subprocess.Popen([sys.executable, "-c", DOOR], stdout=subprocess.PIPE, text=True) as process:
        seen = liveness.Silence(BOOT)
        seen.door = process.stdout.readline().strip().split("|")
        yield process, seen
        process.kill()


def lost(silence, silent):
    """Poll until the silent ranks have been checked."""
    until = time.monotonic() + 60
    while not silence._result and time.monotonic() < until:
        silence.lost(silent)
        time.sleep(0.01)
    return silence.lost(silent)


def test_a_short_silence_is_nothing(neighbour):
    assert neighbour[1].lost(liveness.DOUBT / 2) is None


def test_a_process_that_gets_no_core_is_waited_for_but_not_for_ever(neighbour):
    process, silence = neighbour
    os.kill(process.pid, signal.SIGSTOP)
    assert lost(silence, liveness.SILENCE + 1) is None
    assert "although its process is running" in silence.lost(liveness.HUNG + 1)


def test_a_process_that_has_ended_is_lost_at_the_first_look(neighbour):
    process, silence = neighbour
    process.kill()
    process.wait()
    assert lost(silence, liveness.DOUBT + 1) == "died"


def test_one_that_cannot_be_looked_for_is_lost_when_it_was_silent_for_long():
    assert lost(liveness.Silence(BOOT), liveness.DOUBT + 1) is None
    assert "has been silent for 16 s" in lost(liveness.Silence(BOOT), liveness.SILENCE + 1)
