"""One node of a cluster: its addresses and, if loadframe started it, its folder, log and process."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loadframe.host.base import Process


@dataclass(frozen=True)
class Node:
    """A node. One of a cluster that was only attached to has an address and a name, and nothing else."""

    name: str
    address: str  #: host:port for clients
    peer_address: str | None = None  #: host:port for the other nodes
    folder: Path | None = None
    process: Process | None = None

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
        """What the server printed."""
        return log_of(self.folder) if self.folder else None

    def log_end(self, lines: int = 20) -> str:
        """Return the last lines of the log, stack frames left out: they hide the cause."""
        if self.log is None or not self.log.exists():
            return ""
        with self.log.open("rb") as handle:
            handle.seek(max(self.log.stat().st_size - 2**16, 0))
            text = handle.read().decode(errors="replace")
        told = [line for line in text.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
        return "\n".join(told[-lines:])


def log_of(folder: Path) -> Path:
    """Return where a node's output goes."""
    return folder / "node.log"
