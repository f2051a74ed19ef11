"""Machines and processes that are controlled through an agent, with the interfaces of `base`."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import agent, identity
from loadframe.host.agent import BEAT, HostKind, ProcessState, StartedProcess
from loadframe.host.agent_client import NO_PYTHON, PYTHON, AgentClient, MachineLost
from loadframe.host.base import Command
from loadframe.host.identity import Facts, has_address, resolved
from loadframe.host.limits import Difference, Limits
from loadframe.host.wire import Connection

#: Seconds of silence after which a call fails: for most calls, and for calls about a node that ends with its agent.
_SILENT, _ENDING = 45.0, 15.0
#: Seconds before another attempt to connect to an unreachable machine.
_AGAIN = 20.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class RemoteMachine:
    """Machine behind a connection, which is opened on first use.

    `connect` opens it and may raise BadInput. `explain` maps the exit status and error output of a failed launcher to
    BadInput.
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
        kind: HostKind | None = None,
    ) -> None:
        """Store the arguments without connecting.

        `slots` is the number of nodes that it takes. `reached` is the machine's address, if the launcher knows it.
        `network` selects one of its addresses. `scratch` replaces its state folder. `kind` is the type of host there,
        by default for processes without containers.
        """
        self.hostname = hostname
        self.slots = slots
        self._connect, self._explain = connect, explain
        self._network, self._scratch = network, Path(scratch) if scratch else None
        self._reached = reached
        self._kind = kind or HostKind()
        self._line: AgentClient | None = None
        self._connecting = threading.Lock()
        self._address: str | None = None
        self._failure: str | None = None
        self._failed: tuple[float, LoadframeError] | None = None
        self._folders: dict[Path, Path] = {}

    @property
    def facts(self) -> Facts:
        """Facts of the machine. Connects if necessary; BadInput if that fails."""
        return self._connected().facts

    @property
    def lost(self) -> bool:
        """Whether the connection has ended; False before it is opened. The object cannot be used after that."""
        return self._line is not None and self._line.ended

    def silence(self) -> float:
        """Return the seconds since the last received data; 0 if not connected. Heartbeats arrive every second."""
        return self._line.silence() if self._line else 0.0

    def trouble(self) -> str | None:
        """Return why the state of its processes is unknown, such as 5 s of silence; None if it responds.

        None also if no connection was tried.
        """
        if self._line is None:
            return self._failure and f"could not connect to {self.hostname}: {self._failure}"
        if self.lost:
            return f"the connection to {self.hostname} has ended"
        silent = self.silence()
        return f"{self.hostname} has not answered for {silent:.0f} s" if silent > 5 * BEAT else None

    @property
    def address(self) -> str:
        """Address that nodes bind: in the selected network, or else the one at which the machine was reached.

        Connects if necessary. BadInput if the machine has no such address.
        """
        if self._address is None:
            self._address = self._found()
        return self._address

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return the function's result through the agent, or raise its error; MachineLost after 45 s of silence."""
        return self._connected().ask(_SILENT, function, *args, **kwargs)

    def call_within(self, patience: float, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Same as `call`, but raise MachineLost after `patience` s of silence."""
        return self._connected().ask(patience, function, *args, **kwargs)

    def folder(self, cluster: Path) -> Path:
        """Return the folder on the machine for a cluster's nodes, below its state folder or the scratch folder.

        `cluster` is the cluster's folder on this machine.
        """
        if cluster not in self._folders:
            passing = cluster.parent.name == identity.PASSING
            name = cluster.name.rpartition("-")[2] if passing else cluster.name
            self._folders[cluster] = self.call(
                identity.passing if passing else identity.cluster_folder, name, self._scratch
            )
        return self._folders[cluster]

    def require(self) -> None:
        """Raise BadInput if the machine is unreachable, or lacks something that its type of host needs."""
        self.call(agent.require, self._kind)

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return the machine's address; all nodes on it share it, so the arguments are ignored."""
        return self.address

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return `count` ports that are free at the addresses, by default the machine's; see `Machine.free_ports`."""
        return self.call(agent.free_ports, count, first, list(addresses or (self.address,)))

    def limited_by(self, limits: Limits, folder: Path) -> tuple[str, str | None]:
        """Return the machine's limiter, and the reason if limits cannot be enforced, else None.

        `folder` is on the machine; its disk is the limited one.
        """
        return self.call(agent.limited_by, self._kind, limits, folder)

    def server_user(self, named: bool = False) -> int | None:
        """Return the id of the machine's user for servers that refuse to run as root; None if the agent is not root.

        See `Machine.server_user`.
        """
        return self.call(agent.server_user, named)

    def start(self, command: Command, limits: Limits) -> "RemoteProcess":
        """Start a command on the machine, and return its process; LoadframeError if it cannot be executed.

        BadInput if its limits must be shared and cannot be, MachineLost if the machine is silent.
        """
        return self._process(self.call(agent.start, self._kind, command, limits))

    def find(self, record: Mapping[str, Any]) -> "RemoteProcess | None":
        """Return a process that was kept there, or None if it has ended."""
        started = self.call(agent.find, self._kind, record)
        return self._process(started, kept=True) if started else None

    def hang_up(self) -> None:
        """Close the agent's input without waiting."""
        if self._line:
            self._line.hang_up()

    def close(self) -> None:
        """Stop the agent and wait until it has ended, 30 s at most. Does nothing if it was never started."""
        if self._line:
            self._line.close()

    def _process(self, started: StartedProcess, *, kept: bool = False) -> "RemoteProcess":
        """Return a process of the agent as an object here, and store its state. A `kept` one outlives the agent."""
        line = self._connected()
        line.learn(started.number, started.state)
        return RemoteProcess(line, started, kept=kept)

    def _connected(self) -> AgentClient:
        """Return the agent, started on first use; BadInput or another error of `connect` if that fails.

        If the agent did not start, the same error is raised without another attempt for 20 s.
        """
        with self._connecting:
            if self._line is None:
                if self._failed and time.monotonic() - self._failed[0] < _AGAIN:
                    raise self._failed[1]
                line = AgentClient(self.hostname, self._connect())
                try:
                    line.begin()
                except MachineLost as error:
                    line.close()
                    failure = self._unreachable(line, error)
                    self._failure = failure.what
                    self._failed = time.monotonic(), failure
                    raise failure from error
                self._line = line
            return self._line

    def _unreachable(self, line: AgentClient, error: MachineLost) -> LoadframeError:
        """Return the error for an agent that did not start.

        It names a missing Python, or contains the explanation of the host, or the last line of output.
        """
        status, words = line.connection.status(), line.connection.words()
        if status == NO_PYTHON:
            wanted = ".".join(map(str, PYTHON))
            return BadInput(
                f"Python {wanted} or newer is not installed on the machine",
                where=self.hostname,
                remedy=f"install it there, or add it to the PATH of non-interactive shells (`ssh "
                f"{self.hostname} python3 --version` shows the current one)",
            )
        if self._explain:
            return self._explain(status, words)
        said = words.splitlines()[-1] if words else error.what
        return BadInput(
            f"could not connect to the machine: {said}", where=self.hostname, remedy="check that it is running"
        )

    def _found(self) -> str:
        """Return the machine's address for nodes; BadInput if it has none.

        Without --network: the address over which it was reached, or the first that is not loopback; in both cases one
        that a process there can bind. With it: the address of that interface, in that network, or of the host name
        with that suffix.
        """
        facts, wanted = self.facts, self._network
        if wanted is None and self._reached and self._has(self._reached):
            return self._reached
        if wanted is None:
            # A machine's own name often resolves to its loopback address. The other names and addresses are in its
            # networks.
            candidates = [resolved(self.hostname.rpartition("@")[2]), *facts.addresses.values()]
            for address in (facts.reached, *(named for named in candidates if named and not named.startswith("127."))):
                if address and self._has(address):
                    return address
            raise self._no_address("it has only loopback addresses", "name an interface with --network")
        if wanted in facts.addresses:
            return facts.addresses[wanted]
        with contextlib.suppress(AddressValueError, NetmaskValueError, ValueError):
            network = IPv4Network(wanted, strict=False)
            within = [address for address in facts.addresses.values() if IPv4Address(address) in network]
            if within:
                return within[0]
            raise self._no_address(
                f"its addresses are outside {wanted}",
                f"give a network of its addresses: {_address_list(facts.addresses)}",
            )
        name = f"{self.hostname.rpartition('@')[2]}{wanted}"
        address = resolved(name) or self.call(resolved, name)
        if address and self._has(address):
            return address
        what = f"{wanted!r} is neither an interface nor a network, and {name} is not one of the machine's host names"
        raise self._no_address(what, f"name one of its interfaces: {_address_list(facts.addresses)}")

    def _has(self, address: str) -> bool:
        """Return whether a process on the machine can bind the address."""
        return self.call(has_address, address)

    def _no_address(self, what: str, remedy: str) -> BadInput:
        """Return the error for a machine without an address for nodes; `what` is the cause."""
        return BadInput(f"cannot choose an address for nodes: {what}", where=self.hostname, remedy=remedy)


class RemoteProcess:
    """Process on another machine. The agent reports state changes, so that queries are local."""

    link = None
    inside: tuple[str, ...] = ()

    def __init__(self, line: AgentClient, started: StartedProcess, *, kept: bool) -> None:
        """Wrap a process that an agent has started or found. A `kept` process does not end with its agent."""
        self._kept = kept
        self.pid = started.pid
        self.control_groups = started.control_groups
        self._line, self._number, self._record = line, started.number, started.record

    @property
    def state(self) -> ProcessState:
        """State that the agent reported last."""
        return self._line.states[self._number]

    def alive(self) -> bool:
        """Whether the process runs, by its last reported state. False once the connection has ended."""
        return self.state.alive and not self._line.ended

    def exit_status(self) -> int | None:
        """Return the exit status (128 + signal if killed), or None while it runs or if unknown."""
        return self.state.status

    def paused(self) -> bool:
        """Whether it is suspended, by its last reported state. False once the connection has ended."""
        return self.alive() and self.state.paused

    def throttle(self, on: bool) -> None:
        """Apply (`on`) or lift the CPU quota and the disk limits; MachineLost if the machine is silent."""
        self._act("throttle" if on else "unthrottle")

    def limit_differences(self, throttled: bool) -> list[Difference]:
        """Ask its machine for the differences from its limits; empty if the machine is lost."""
        with contextlib.suppress(MachineLost):
            differences: list[Difference] = self._line.ask(
                self._patience, agent.limit_differences, self._number, throttled
            )
            return differences
        return []

    def kill(self) -> None:
        """Kill it and wait for its end; MachineLost if the machine is silent."""
        self._act("kill")

    def pause(self) -> None:
        """Suspend it; MachineLost if the machine is silent."""
        self._act("pause")

    def resume(self) -> None:
        """Continue it. Does nothing if its machine is lost."""
        with contextlib.suppress(MachineLost):
            self._act("resume")

    def record(self) -> dict[str, Any]:
        """Return the record from which `find` finds the process again."""
        return dict(self._record)

    def keep(self) -> None:
        """Let it outlive the agent; MachineLost if the machine is silent."""
        self._act("keep")
        self._kept = True

    def request_stop(self) -> None:
        """Ask it to stop. If its machine is lost, its supervisor stops it."""
        with contextlib.suppress(MachineLost):
            self._act("request_stop")

    def stop(self) -> None:
        """Stop it and wait until it is gone. Returns early if its machine is lost."""
        with contextlib.suppress(MachineLost):
            self._act("stop")

    @property
    def _patience(self) -> float:
        """Seconds of silence after which a call about the process fails: 45 if it is kept, otherwise 15."""
        return _SILENT if self._kept else _ENDING

    def _act(self, action: str) -> None:
        """Apply an action, a word of `agent.act`, and store the new state; MachineLost if the machine is silent."""
        self._line.learn(self._number, self._line.ask(self._patience, agent.act, self._number, action))


def _address_list(addresses: Mapping[str, str]) -> str:
    """Return addresses with their interfaces as text, such as `eth0 10.0.0.1, ib0 10.1.0.1`."""
    return ", ".join(f"{name} {address}" for name, address in addresses.items())
