"""Node of a cluster: addresses and, if loadframe started it, folder, log and process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from loadframe.base.errors import LoadframeError
from loadframe.host import files
from loadframe.host.base import Machine, Process
from loadframe.store import Member
from loadframe.store.base import here


class State(StrEnum):
    """Current transition of a node. It is recorded before each step, so that an interrupted step can be recognized."""

    SETTLED = ""
    JOINING = "joining"  #: not yet a member
    BALANCING = "balancing"  #: member, possibly without its share of the data
    LEAVING = "leaving"  #: its data is being moved to other nodes
    LEFT = "left"  #: no longer a member, to be stopped
    KILLED = "killed"  #: killed by the user


@dataclass(frozen=True)
class Node:
    """Process of a cluster. If the cluster was only attached to, it has only a name and an address."""

    name: str
    address: str  #: host:port for clients
    peer_address: str | None = None  #: host:port for the other nodes
    folder: Path | None = None  #: on its machine
    process: Process | None = None
    number: int | None = None  #: number of its data node, or None for a companion, such as a router
    role: str = ""  #: role, in stores with different processes
    serves: bool = True  #: whether it serves clients
    state: State = State.SETTLED
    cut: bool = False  #: whether its link is cut
    shape: str = ""  #: description of its link's shape
    cores: tuple[int, ...] = ()  #: its cores; empty for all
    elects: bool = True  #: whether it can be elected as a leader, in stores that restrict this
    shares: str = ""  #: processes with the same value share limits and cores
    mark: str | None = None  #: random mark of its last start, also stored in its folder
    machine: Machine | None = field(default=None, compare=False)  #: machine on which loadframe started it

    @property
    def alive(self) -> bool:
        """Whether its process runs. True, without a check, for nodes that loadframe did not start."""
        return self.folder is None or (self.process is not None and self.process.alive())

    @property
    def companion(self) -> bool:
        """Whether loadframe started it as no part of a data node, such as a router or a configuration server."""
        return self.folder is not None and self.number is None

    @property
    def unknown(self) -> str | None:
        """Why its state is unknown, as a sentence, or None if its machine responds."""
        trouble = self.machine.trouble() if self.machine else None
        return trouble and f"the state of {self.name} is unknown: {trouble}"

    @property
    def paused(self) -> bool:
        """Whether it is suspended."""
        return self.process is not None and self.process.paused()

    def member(self, others: Sequence["Node"] = ()) -> Member:
        """Return its description for the store; `others` are the other processes of the same data node."""
        return Member(
            self.name,
            self.address,
            self.peer_address,
            self.folder,
            self.role,
            tuple(node.member() for node in others),
            self.process.inside if self.process else (),
            self.machine.call if self.machine else here,
        )

    @property
    def on(self) -> str | None:
        """Host name of the machine on which loadframe started it, or None if it did not start it."""
        return self.machine.hostname if self.machine else None

    @property
    def pid(self) -> int | None:
        """Process id of the server on its machine, or None without a process."""
        return self.process.pid if self.process else None

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """Controller (`cpu`, `memory`) -> folder of its control group; empty without limits."""
        return self.process.control_groups if self.process else {}

    @property
    def log(self) -> Path | None:
        """Path of its log file on its machine, or None if loadframe did not start it."""
        return log_of(self.folder) if self.folder else None

    def log_end(self, lines: int = 20) -> str:
        """Return the last `lines` lines of the log, without empty lines and Java stack frames that hide the cause.

        Empty without a log; a remark in parentheses if it cannot be read.
        """
        if self.log is None or self.machine is None:
            return ""
        try:
            text = self.machine.call(files.log_end, self.log)
        except LoadframeError as error:
            return f"(could not read it: {error.what})"
        shown = [line for line in text.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
        return "\n".join(shown[-lines:])


def log_of(folder: Path) -> Path:
    """Return the path of the log file in a node's folder."""
    return folder / "node.log"
