"""A machine that an agent works on, and a process there: the same faces as those of this machine."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import agent, identity
from loadframe.host.agent import BEAT, Kind, Started, State
from loadframe.host.base import Command
from loadframe.host.bundle import NO_PYTHON, PYTHON
from loadframe.host.connection import Connection
from loadframe.host.identity import Facts, has_address, resolved
from loadframe.host.limits import Limits
from loadframe.host.line import Line, MachineLost

#: Seconds that an agent may be silent before a call is given up, and before one about a node is that ends with it.
_SILENT, _ENDING = 45.0, 15.0
#: Seconds for which a machine that could not be reached is not tried again.
_AGAIN = 20.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class RemoteMachine:
    """A machine that is reached by a connection, which is made when it is first needed.

    `connect` may raise BadInput; `explain` turns the status and the words of a launcher that has failed into BadInput.
    """

    here = False
    own_addresses = False

    def __init__(
        self,
        hostname: str,
        connect: Callable[[], Connection],
        *,
        explain: Callable[[int | None, str], BadInput] | None = None,
        slots: int = 1,
        network: str | None = None,
        reached: str | None = None,
        scratch: str | None = None,
        kind: Kind | None = None,
    ) -> None:
        """Connect to nothing yet. `reached` is the address that others reach it at, where its launcher knows one."""
        self.hostname = hostname
        self.slots = slots
        self._connect, self._explain = connect, explain
        self._network, self._scratch = network, Path(scratch) if scratch else None
        self._reached = reached
        self._kind = kind or Kind()
        self._line: Line | None = None
        self._connecting = threading.Lock()
        self._address: str | None = None
        self._failure: str | None = None
        self._failed: tuple[float, LoadframeError] | None = None
        self._folders: dict[Path, Path] = {}

    @property
    def facts(self) -> Facts:
        """What the machine has told of itself."""
        return self._connected().facts

    @property
    def lost(self) -> bool:
        """Whether the connection has ended, so that this object is of no more use."""
        return self._line is not None and self._line.ended

    def silence(self) -> float:
        """Return for how many seconds nothing was heard from it, while it should say something every second."""
        return self._line.silence() if self._line else 0.0

    def trouble(self) -> str | None:
        """Return why nothing can be known of its processes now; None while it answers."""
        if self._line is None:
            return self._failure and f"{self.hostname} cannot be reached ({self._failure})"
        if self.lost:
            return f"the connection to {self.hostname} has ended"
        silent = self.silence()
        return f"{self.hostname} has not answered for {silent:.0f} s" if silent > 5 * BEAT else None

    @property
    def address(self) -> str:
        """The address that nodes bind there: of the network asked for, or the one that the machine is reached at."""
        if self._address is None:
            self._address = self._found()
        return self._address

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Have the agent call it."""
        return self._connected().ask(_SILENT, function, *args, **kwargs)

    def call_within(self, patience: float, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The same, given up when the machine is silent for `patience` s."""
        return self._connected().ask(patience, function, *args, **kwargs)

    def folder(self, cluster: Path) -> Path:
        """Return the folder there for the nodes of the cluster with that folder here, in the state there or scratch."""
        if cluster not in self._folders:
            passing = cluster.parent.name == identity.PASSING
            name = cluster.name.rpartition("-")[2] if passing else cluster.name
            self._folders[cluster] = self.call(identity.passing if passing else identity.named, name, self._scratch)
        return self._folders[cluster]

    def require(self) -> None:
        """BadInput when it cannot be reached, or has not what nodes take."""
        self.call(agent.require, self._kind)

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return its one address."""
        return self.address

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return ports that can be bound there now."""
        return self.call(agent.free_ports, count, first, list(addresses or (self.address,)))

    def limited_by(self, limits: Limits, folder: Path) -> tuple[str, str | None]:
        """Return how limits are enforced there."""
        return self.call(agent.limited_by, self._kind, limits, folder)

    def server_user(self, named: bool = False) -> int | None:
        """Return the user there for servers that refuse root."""
        return self.call(agent.server_user, named)

    def start(self, command: Command, limits: Limits) -> "RemoteProcess":
        """Start a command there."""
        return self._taken(self.call(agent.start, self._kind, command, limits))

    def find(self, record: Mapping[str, Any]) -> "RemoteProcess | None":
        """Return a process there that was kept."""
        started = self.call(agent.find, self._kind, record)
        return self._taken(started, kept=True) if started else None

    def hang_up(self) -> None:
        """Let the agent end."""
        if self._line:
            self._line.hang_up()

    def close(self) -> None:
        """End the agent, and return when it is gone."""
        if self._line:
            self._line.close()

    def _taken(self, started: Started, *, kept: bool = False) -> "RemoteProcess":
        line = self._connected()
        line.states.setdefault(started.number, started.state)
        return RemoteProcess(line, started, kept=kept)

    def _connected(self) -> Line:
        with self._connecting:
            if self._line is None:
                if self._failed and time.monotonic() - self._failed[0] < _AGAIN:
                    raise self._failed[1]
                line = Line(self.hostname, self._connect())
                try:
                    line.begin()
                except MachineLost as error:
                    line.close()
                    told = self._unreachable(line, error)
                    self._failure = told.what
                    self._failed = time.monotonic(), told
                    raise told from error
                self._line = line
            return self._line

    def _unreachable(self, line: Line, error: MachineLost) -> LoadframeError:
        status, words = line.connection.status(), line.connection.words()
        if status == NO_PYTHON:
            wanted = ".".join(map(str, PYTHON))
            return BadInput(
                f"there is no Python {wanted} or newer on the machine",
                where=self.hostname,
                remedy=f"install it there, or have it in the PATH of shells that are not interactive (`ssh "
                f"{self.hostname} python3 --version` shows what is there)",
            )
        if self._explain:
            return self._explain(status, words)
        said = words.splitlines()[-1] if words else error.what
        return BadInput(f"the machine cannot be reached: {said}", where=self.hostname, remedy="see that it is up")

    def _found(self) -> str:
        facts, wanted = self.facts, self._network
        if wanted is None and self._reached and self._has(self._reached):
            return self._reached
        if wanted is None:
            # A name is often its machine's own loopback; who was reached there is on this machine's network.
            candidates = [resolved(self.hostname.rpartition("@")[2]), *facts.addresses.values()]
            for address in (facts.reached, *(named for named in candidates if named and not named.startswith("127."))):
                if address and self._has(address):
                    return address
            raise self._no_address("it has none that is not loopback", "name an interface with --network")
        if wanted in facts.addresses:
            return facts.addresses[wanted]
        with contextlib.suppress(AddressValueError, NetmaskValueError, ValueError):
            network = IPv4Network(wanted, strict=False)
            within = [address for address in facts.addresses.values() if IPv4Address(address) in network]
            if within:
                return within[0]
            raise self._no_address(f"it has none of {wanted}", f"its addresses are {_listed(facts.addresses)}")
        name = f"{self.hostname.rpartition('@')[2]}{wanted}"
        address = resolved(name) or self.call(resolved, name)
        if address and self._has(address):
            return address
        what = f"it has no interface {wanted!r}, nor an address of the name {name}"
        raise self._no_address(what, f"its interfaces are {_listed(facts.addresses)}")

    def _has(self, address: str) -> bool:
        return self.call(has_address, address)

    def _no_address(self, what: str, remedy: str) -> BadInput:
        return BadInput(f"there is no address for nodes: {what}", where=self.hostname, remedy=remedy)


class RemoteProcess:
    """A process on another machine. Its state is told as it changes, so that asking costs nothing."""

    link = None
    inside: tuple[str, ...] = ()

    def __init__(self, line: Line, started: Started, *, kept: bool) -> None:
        """Take note of what was started. What is `kept` does not end with its agent."""
        self._kept = kept
        self.pid = started.pid
        self.control_groups = started.control_groups
        self._line, self._number, self._record = line, started.number, started.record

    @property
    def state(self) -> State:
        """What the agent has told last."""
        return self._line.states[self._number]

    def alive(self) -> bool:
        """Whether it runs as far as is known: it is taken to while its machine is silent, for a while."""
        return self.state.alive and not self._line.ended

    def exit_status(self) -> int | None:
        """Return what it left with."""
        return self.state.status

    def paused(self) -> bool:
        """Whether it stands still."""
        return self.alive() and self.state.paused

    def throttle(self, on: bool) -> None:
        """Apply the CPU quota, or lift it."""
        self._act("throttle" if on else "unthrottle")

    def kill(self) -> None:
        """End it at once."""
        self._act("kill")

    def pause(self) -> None:
        """Have it stand still."""
        self._act("pause")

    def resume(self) -> None:
        """Let it go on, if its machine can be told so."""
        with contextlib.suppress(MachineLost):
            self._act("resume")

    def record(self) -> dict[str, Any]:
        """Return what `find` needs."""
        return dict(self._record)

    def keep(self) -> None:
        """Let it outlive the agent."""
        self._act("keep")
        self._kept = True

    def request_stop(self) -> None:
        """Ask it to stop. On a machine that is lost it ends by itself, as its guard's lifeline has ended."""
        with contextlib.suppress(MachineLost):
            self._act("request_stop")

    def stop(self) -> None:
        """Have it stopped, and return when it is gone, or when its machine is lost."""
        with contextlib.suppress(MachineLost):
            self._act("stop")

    def _act(self, what: str) -> None:
        patience = _SILENT if self._kept else _ENDING
        self._line.states[self._number] = self._line.ask(patience, agent.act, self._number, what)


def _listed(addresses: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {address}" for name, address in addresses.items())
