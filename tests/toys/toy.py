"""A minimal store for tests of cluster operations: each node is a real process that only listens.

The nodes' shared state is kept in this module, and `TOY` lets a test make any step fail.
"""

import socket
import sys
import time
from collections.abc import Callable

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store.base import Balancing, Figure, Health, NodePlan, ProcessSpec, Store, Unreachable
from loadframe.store.distribution import Distribution

_SERVE = """
import pathlib, socket, sys
pathlib.Path("data").write_text("kept")
print("I listen", flush=True)
if sys.argv[3] == "dies":
    sys.exit("I was built to die")
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    server.accept()[0].close()
"""


class Toy(Store):
    kind = "toy"
    family = "toy"
    driver = "null"
    versions = ("1",)
    watched = (Figure("pieces", "pieces"), Figure("served/s", "served", total=True))

    def __init__(self):
        self.reset()

    def reset(self):
        self.members: list[str] = []
        self.told: list[tuple[str, ...]] = []
        self.copies = 1
        self.dying: set[str] = set()
        #: Called in the middle of a step, by its name.
        self.during: dict[str, Callable[[], None]] = {}
        self.own_address = False
        self.knows_racks = False
        self.joins_without_all = False
        self.extra_ports = 0
        self.routers = 0
        #: Whether routers share the limits and the cores of the node of their number.
        self.together = False
        #: Number of nodes that may be voters, as a function of the number of nodes, or None for all.
        self.elected: Callable[[int], int] | None = None
        #: Why nodes keep their addresses, if they do.
        self.keeps: str | None = None
        self.planned = []

    def distribution(self, version):
        return Distribution("toy", version, 0, (), ())

    def check_settings(self, settings):
        pass

    def companions(self, settings):
        numbers = range(self.routers)
        return tuple(ProcessSpec(f"router-{index}", "router", shares=self._shared(index)) for index in numbers)

    def _shared(self, number):
        return f"node-{number}" if self.together else ""

    def keeps_addresses(self, settings):
        return self.keeps

    def electors(self, nodes):
        return self.elected(nodes) if self.elected else None

    def resign(self, addresses, member):
        self.told.append(("resign", member.name))

    def node_processes(self, number, settings):
        return (ProcessSpec(f"node-{number}", "data", serves=not self.routers, shares=self._shared(number)),)

    def plan(self, node, installation):
        self.planned.append(node)
        fate = "dies" if node.name in self.dying else "lives"
        argv = (sys.executable, "-S", "-c", _SERVE, node.address, str(node.port), fate)
        return NodePlan(files={}, folders=("logs",), argv=argv, environment={}, facts={})

    def version(self, addresses):
        return "1"

    def health(self, addresses):
        for address in addresses:
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host, int(port)), timeout=2).close()
            except OSError:
                continue
            return Health(True, "fine", len(self.members), 0, 0)
        raise Unreachable("nobody is there", where=", ".join(addresses))

    def form(self, members, settings, watch):
        self._step("form", *(member.name for member in members), watch=watch)
        self.members = [member.name for member in members if member.role == "data"]

    def join(self, addresses, member, watch):
        self._step("join", member.name, watch=watch)
        self.members.append(member.name)

    def balance(self, addresses, watch):
        self._step("balance", watch=watch)

    def leave(self, addresses, member, watch):
        if len(self.members) <= self.copies:
            raise BadInput("there would be too few for the copies", remedy="lower the copies")
        self._step("leave", member.name, watch=watch)

    def forget(self, addresses, member):
        self.told.append(("forget", member.name))
        if member.name in self.members:
            self.members.remove(member.name)

    def stay(self, addresses, member):
        self.told.append(("stay", member.name))

    def _step(self, name, *what, watch):
        self.told.append((name, *what))
        for left in (2, 1):
            watch(Balancing(left, "pieces", "busy"))
            time.sleep(0.05)
        self.during.get(name, lambda: None)()
        watch(Balancing(0, "pieces", "calm"))

    def create_collection(self, addresses, name, definition, nodes):
        raise LoadframeError("a toy keeps nothing")

    def has_collection(self, addresses, name):
        return False

    def drop_collection(self, addresses, name):
        pass

    def count(self, addresses, name):
        return 0

    def statistics(self, addresses):
        return {name: {"pieces": 3.0, "served": time.monotonic() * 100} for name in self.members}


STORE = TOY = Toy()
