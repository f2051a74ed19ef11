"""Changes of the target's hosts during a phase on a rank: in order, and a failure loses the rank."""

import threading
import time

from loadframe.ranks.phase_participant import Participant

ORDER = {"id": 0, "members": [0, 1], "boots": ["a", "b"], "cores": None}


class Above:
    """A world that keeps the messages to the rank above."""

    rank, size = 1, 2

    def __init__(self):
        self.sent = []

    def send(self, rank, header, payload=b""):
        self.sent.append(header)


class Load:
    """A load that takes until `go` for its first change of hosts, and cannot resolve the host `unknown:1`."""

    def __init__(self):
        self.began, self.go = threading.Event(), threading.Event()
        self.hosts, self.stopped = [], False

    def set_hosts(self, hosts):
        if not self.began.is_set():
            self.began.set()
            assert self.go.wait(30)
        if "unknown:1" in hosts:
            raise ValueError("cannot resolve unknown:1")
        self.hosts.append(hosts)

    def stop(self):
        self.stopped = True

    def wait(self, _seconds):
        return False

    def seconds(self):
        return []


def told(*lists):
    """Return a world, and the load of a participant after it has changed to these hosts one after the other."""
    world, load = Above(), Load()
    member = Participant(world, ORDER, {"target": {}})
    member._handle = load
    for hosts in lists:
        member.down({"kind": "hosts", "hosts": hosts})
    assert load.began.wait(30)
    load.go.set()
    end = time.monotonic() + 30
    while member._following is not None and time.monotonic() < end:
        member.tick()
        time.sleep(0.01)
    return world, load


def test_the_last_hosts_are_in_force():
    world, load = told(["a:1"], ["a:1", "b:1"], ["b:1"])
    assert load.hosts[-1] == ["b:1"]
    assert not load.stopped and "lost" not in [header["kind"] for header in world.sent]


def test_a_rank_that_cannot_follow_is_lost():
    world, load = told(["a:1"], ["a:1", "unknown:1"])
    (lost,) = (header for header in world.sent if header["kind"] == "lost")
    assert lost["rank"] == 1
    assert lost["why"] == "cannot send load to the changed cluster: cannot resolve unknown:1"
    assert load.stopped
