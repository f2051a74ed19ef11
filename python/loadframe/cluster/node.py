"""One node of a cluster: its addresses and, if loadframe started it, its folder, log and process."""

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
    """What a node is in the middle of. It is written down before each step, so that one that was cut off is seen."""

    SETTLED = ""
    JOINING = "joining"  #: not a member yet
    BALANCING = "balancing"  #: a member, perhaps without its share of the data
    LEAVING = "leaving"  #: its data is on the way to the others
    LEFT = "left"  #: no member any more, to be stopped
    KILLED = "killed"  #: ended on purpose


@dataclass(frozen=True)
class Node:
    """A process of a cluster. One of a cluster that was only attached to has an address and a name, nothing else."""

    name: str
    address: str  #: host:port for clients
    peer_address: str | None = None  #: host:port for the other nodes
    folder: Path | None = None  #: on its machine
    process: Process | None = None
    number: int | None = None  #: of the data-bearing node that it belongs to; None for a companion, such as a router
    role: str = ""  #: what it is for, where processes differ
    serves: bool = True  #: clients may ask it
    state: State = State.SETTLED
    cut: bool = False  #: its link was cut
    shape: str = ""  #: what its link does to packets, in words
    cores: tuple[int, ...] = ()  #: the numbers of the cores that it keeps to; empty for all there are
    elects: bool = True  #: it may be elected to lead the others, in stores where that is not for all
    shares: str = ""  #: the name that it has in common with those whose limits and cores it shares
    mark: str | None = None  #: of its last start, which is written in its folder, too
    machine: Machine | None = field(default=None, compare=False)  #: that loadframe has started it on

    @property
    def alive(self) -> bool:
        """Whether loadframe's own process of it runs; unknown, and so not False, for one that it did not start."""
        return self.folder is None or (self.process is not None and self.process.alive())

    @property
    def companion(self) -> bool:
        """Whether it stands beside those that keep data, as a router or a server of the configuration does."""
        return self.folder is not None and self.number is None

    @property
    def unknown(self) -> str | None:
        """Why nothing is known of it now, as a sentence; None while its machine answers."""
        trouble = self.machine.trouble() if self.machine else None
        return trouble and f"nothing is known of {self.name}: {trouble}"

    @property
    def paused(self) -> bool:
        """Whether it was made to stand still."""
        return self.process is not None and self.process.paused()

    def member(self, others: Sequence["Node"] = ()) -> Member:
        """Return what a store is told of it; `others` are the other processes of the same node."""
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
        """The name of its machine, where loadframe has started it."""
        return self.machine.hostname if self.machine else None

    @property
    def pid(self) -> int | None:
        """The id of the server process on its host."""
        return self.process.pid if self.process else None

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """The folders of the controllers (`cpu`, `memory`) that limit it; empty without limits."""
        return self.process.control_groups if self.process else {}

    @property
    def log(self) -> Path | None:
        """What the server printed, on its machine."""
        return log_of(self.folder) if self.folder else None

    def log_end(self, lines: int = 20) -> str:
        """Return the last lines of the log, stack frames left out: they hide the cause."""
        if self.log is None or self.machine is None:
            return ""
        try:
            text = self.machine.call(files.log_end, self.log)
        except LoadframeError as error:
            return f"(it cannot be read: {error.what})"
        told = [line for line in text.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
        return "\n".join(told[-lines:])


def log_of(folder: Path) -> Path:
    """Return where a node's output goes."""
    return folder / "node.log"
