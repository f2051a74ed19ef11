"""Interfaces of machines and hosts.

A machine provides addresses and runs commands under limits. A host is a set of machines for the nodes of a cluster.
"""

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from loadframe.host.identity import Facts
from loadframe.host.limits import Difference, Limits
from loadframe.host.link import Link


@dataclass(frozen=True)
class Command:
    """Command to run. Its folder must exist; the `scratch` folders are deleted after it ends."""

    name: str  #: unique on the host; also the name of the control group
    argv: tuple[str, ...]
    environment: Mapping[str, str]  #: the complete environment; nothing is inherited
    folder: Path  #: the working directory
    log: Path  #: standard output and standard error are appended here
    user: int | None = None  #: user to run as, or None for the current user
    scratch: tuple[Path, ...] = ()
    mark: str = ""  #: text of `copying.MARK` in the scratch folders; folders with another text are not deleted
    #: siblings of the scratch folders, deleted when nothing else is left in the parent folder
    shared: tuple[Path, ...] = ()
    software: tuple[Path, ...] = ()  #: other folders that it reads; container hosts mount them
    undo: tuple[tuple[str, ...], ...] = ()  #: commands to run after it ends
    stop_signal: int = signal.SIGTERM  #: signal that asks it to stop
    address: str | None = None  #: IP address that it binds, for hosts that create the address
    shares: str = ""  #: commands with the same name share their limits


class Process(Protocol):
    """A running command."""

    @property
    def pid(self) -> int:
        """The process id on its host."""

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """Controller (`cpu`, `memory`) -> folder of the process's control group; empty without limits."""

    @property
    def link(self) -> Link | None:
        """The process's own network link, which can be shaped and cut, or None if it has none."""

    @property
    def inside(self) -> tuple[str, ...]:
        """Command prefix that runs a command in the process's network namespace; empty for the machine's network."""

    def alive(self) -> bool:
        """Whether the process still runs."""

    def exit_status(self) -> int | None:
        """Exit status (128 + signal if killed), or None while it runs, or if the status is unknown."""

    def throttle(self, on: bool) -> None:
        """Apply (`on`) or lift the requested CPU quota and disk limits. LoadframeError if that fails."""

    def limit_differences(self, throttled: bool) -> Sequence[Difference]:
        """Read the limits in force, and return their differences from the requested ones; empty after its end.

        `throttled`: the CPU quota and the disk limits should be in force.
        """

    def kill(self) -> None:
        """Kill it and its descendants with SIGKILL, and wait up to 10 s for their end."""

    def pause(self) -> None:
        """Suspend it until `resume`; its connections stay open and it keeps its memory."""

    def resume(self) -> None:
        """Continue it after `pause`."""

    def paused(self) -> bool:
        """Whether it is suspended."""

    def record(self) -> dict[str, Any]:
        """Return the record, for JSON, from which `Machine.find` finds the process again."""

    def keep(self) -> None:
        """Let the process run on after the end of the process that started it."""

    def request_stop(self) -> None:
        """Ask it to stop without waiting, so that several nodes can stop in parallel."""

    def stop(self) -> None:
        """Ask it to stop, kill it if it does not, and wait until the process and its control groups are gone.

        It has 10 s to stop.
        """


_P = ParamSpec("_P")
_T = TypeVar("_T")


class Machine(Protocol):
    """Machine that runs processes. All paths in its interface are paths on that machine."""

    @property
    def hostname(self) -> str:
        """Name in messages and records."""

    @property
    def here(self) -> bool:
        """Whether this process runs on it."""

    @property
    def address(self) -> str:
        """IP address that processes bind."""

    @property
    def own_addresses(self) -> bool:
        """Whether the machine gives each process its own address."""

    @property
    def facts(self) -> Facts:
        """Hardware and system facts."""

    def trouble(self) -> str | None:
        """Return why the state of the machine is unknown, or None if it responds."""

    def require(self) -> None:
        """Raise BadInput if the machine lacks something that it needs to run nodes."""

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function of the package on the machine, and return its result.

        For remote machines, the function must be at the top of a module that imports only the standard library. `wire`
        lists the supported values. A LoadframeError is raised here with its type, another exception of a remote machine
        as LoadframeError. MachineLost if the machine stops responding.
        """

    def call_within(self, patience: float, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Same as `call`, but raise MachineLost after `patience` s of silence. This machine ignores `patience`."""

    def folder(self, cluster: Path) -> Path:
        """Return the folder on the machine for a cluster's nodes; `cluster` is the cluster's folder on this machine."""

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return the address for the node with that number, from 0; a remote machine has one address for all.

        The address is in the network of the addresses in `beside`. If `beside` is empty, it can be in a new network.
        BadInput if the network is full.
        """

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return `count` ports that are free at all of the addresses, by default at the machine's address.

        They are random, or the ports from `first` on if given. BadInput if too few are free, or if a port from `first`
        on is in use. The ports are not reserved.
        """

    def limited_by(self, limits: Limits, folder: Path) -> tuple[str, str | None]:
        """Return the name of the limiter (`cgroup v1`, ..., `none`), and why limits cannot be enforced, or None.

        `folder` is the nodes' data folder; limits apply to its disk.
        """

    def server_user(self, named: bool = False) -> int | None:
        """Return the numeric user for servers that refuse to run as root, or None if loadframe is not root there.

        With `named`, the user is one whose name can be looked up in the system's user database. BadInput in a container
        without another user.
        """

    def start(self, command: Command, limits: Limits) -> Process:
        """Start a command and return its process; LoadframeError if it cannot be executed.

        Its memory limit applies at once. Its CPU quota and disk limits apply after `throttle(True)`.
        """

    def find(self, record: Mapping[str, Any]) -> Process | None:
        """Return the process of a record, whichever loadframe process started it, or None if it has ended."""


class Host(Protocol):
    """Set of machines that nodes are placed on."""

    name: str

    @property
    def machines(self) -> Sequence[Machine]:
        """All machines, in the order in which they were named."""

    def require(self) -> None:
        """Raise BadInput if a machine is not available or lacks something."""

    def machine(self, hostname: str) -> Machine:
        """Return the machine of that name; BadInput if it is not part of the host."""

    def place(self, taken: Sequence[str]) -> Machine:
        """Return the machine for the next node; BadInput if all are full.

        `taken` holds the hostname of each existing node's machine.
        """
