"""The faces of machines and hosts.

A machine finds addresses, and runs a command under limits until it is told to stop. A host is the machines that a
cluster's nodes are placed on; this machine, as whatever kind of host, is a host of one.
"""

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from loadframe.host.identity import Facts
from loadframe.host.limits import Limits
from loadframe.host.link import Link


@dataclass(frozen=True)
class Command:
    """What to run. Its folder must exist; `scratch` is deleted with everything in it once the process is over."""

    name: str  #: names the control group too, so it is unique on the host
    argv: tuple[str, ...]
    environment: Mapping[str, str]  #: all of it; nothing is inherited
    folder: Path  #: the working directory
    log: Path  #: standard output and standard error are appended here
    user: int | None = None  #: the numeric user and group to run as, when not our own
    scratch: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = ()  #: beside the scratch folders, and deleted when only such are left there
    software: tuple[Path, ...] = ()  #: folders that it reads besides, for hosts that have to bring them
    undo: tuple[tuple[str, ...], ...] = ()  #: commands to run once it is over
    stop_signal: int = signal.SIGTERM  #: asks it to stop
    address: str | None = None  #: the IP address that it binds, where hosts have to make it
    shares: str = ""  #: a name on the host; commands with the same one share their limits


class Process(Protocol):
    """A running command."""

    @property
    def pid(self) -> int:
        """The process id on its host."""

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """The folder of each controller (`cpu`, `memory`) that holds the process; empty when there is no limit."""

    @property
    def link(self) -> Link | None:
        """Its link to the others, where it has one of its own that can be shaped and cut."""

    @property
    def inside(self) -> tuple[str, ...]:
        """What to put before a command line that is to see the network as the process does."""

    def alive(self) -> bool:
        """Whether the process still runs."""

    def exit_status(self) -> int | None:
        """What it left with (128 + signal when killed), or None while it runs or when nobody knows."""

    def throttle(self, on: bool) -> None:
        """Apply the CPU quota that was asked for, or lift it."""

    def kill(self) -> None:
        """End it at once, as a loss of power would."""

    def pause(self) -> None:
        """Have it stand still, with its connections open and its memory kept, until `resume`."""

    def resume(self) -> None:
        """Let it go on."""

    def paused(self) -> bool:
        """Whether it stands still."""

    def record(self) -> dict[str, Any]:
        """Return what `Host.find` needs to get hold of it again."""

    def keep(self) -> None:
        """Let the process outlive this one."""

    def request_stop(self) -> None:
        """Ask it to stop without waiting, so that several nodes stop at the same time."""

    def stop(self) -> None:
        """Ask it to stop, kill it if it does not, and return when it is gone with its control groups."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


class Machine(Protocol):
    """A place for processes. Paths that it is given, or gives, are on it."""

    @property
    def hostname(self) -> str:
        """What people and records call it."""

    @property
    def here(self) -> bool:
        """Whether it is the machine that this process runs on."""

    @property
    def address(self) -> str:
        """The IP address that processes are to bind."""

    @property
    def own_addresses(self) -> bool:
        """Whether each process has an address of its own here, whatever the store."""

    @property
    def facts(self) -> Facts:
        """What it tells of itself."""

    def trouble(self) -> str | None:
        """Return why nothing can be known of the machine at the moment; None while it answers."""

    def require(self) -> None:
        """BadInput when this machine has not what it takes."""

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function of the package on the machine, and return what it returns.

        Elsewhere than here it must be at the top of a module that imports the standard library alone, and values are as
        in `wire`. What it raises is raised here; MachineLost when the machine does not answer any more.
        """

    def call_within(self, patience: float, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The same, given up when the machine is silent for `patience` s."""

    def folder(self, cluster: Path) -> Path:
        """Return the folder on the machine for the nodes of the cluster that has that folder here."""

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return the address of the node of that number, where each node has one of its own.

        It is one of the network that the addresses `beside` it are of; without any it may be of a new one.
        """

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return ports that nobody listens on at any of the addresses, or at the host's one.

        They are `first` and those after it, BadInput if one is in use; or any.
        """

    def limited_by(self, limits: Limits, folder: Path) -> tuple[str, str | None]:
        """Return how limits are enforced here (`cgroup v1`, ..., `none`), and why not if they cannot be.

        `folder` is where nodes write, on the disk that may be limited.
        """

    def server_user(self, named: bool = False) -> int | None:
        """Return the numeric user for servers that refuse root, or None when we are not root ourselves.

        One that is `named` can get a name among the system's users.
        """

    def start(self, command: Command, limits: Limits) -> Process:
        """Start a command, with its memory limit in force, and its CPU quota and the limits of its disk not yet."""

    def find(self, record: Mapping[str, Any]) -> Process | None:
        """Return a process that any loadframe started, by its record, or None if it is gone."""


class Host(Protocol):
    """The machines that nodes are placed on."""

    name: str

    @property
    def machines(self) -> Sequence[Machine]:
        """All of them, in the order in which they were named."""

    def require(self) -> None:
        """BadInput when a machine is missing, or has not what it takes."""

    def machine(self, hostname: str) -> Machine:
        """Return the machine of that name; BadInput when it is none of these."""

    def place(self, taken: Sequence[str]) -> Machine:
        """Return the machine of the next node, `taken` being those of the others; BadInput when all are full."""
