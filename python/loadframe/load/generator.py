"""Settings of the load generator: ranks, threads, node selection and connections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadframe.base.errors import BadInput
from loadframe.ranks.coordinator import Rank, present

#: Node selection. `fixed`: each client has one host, assigned round robin; `nearest`: one host near its rank;
#: `round_robin`: all hosts in turn; `all`: the host with the fewest requests in flight.
Spread = Literal["fixed", "round_robin", "all", "nearest"]
#: Drivers of stores whose nodes all accept any request, as `nearest` requires.
_ANY_NODE = ("http", "search")


@dataclass(frozen=True)
class Generator:
    """Settings of the load generator.

    `connections` limits the connections of all ranks together; with None each client has its own. `ranks` None means
    all started ranks.
    """

    threads: int = 1
    spread: Spread = "fixed"
    connections: int | None = None
    ranks: int | None = None
    #: For `nearest`: a recorded assignment by phase, from a manifest, to repeat.
    nearest_as: Mapping[str, Any] | None = None
    #: Whether to record each request.
    samples: bool = False

    def members(self) -> Sequence[Rank]:
        """Return the ranks that generate load; empty for a single process. BadInput if too few ranks were started."""
        hub = present()
        if hub is not None:
            chosen = hub.choose(self.ranks)
            return chosen if len(chosen) > 1 else ()
        if self.ranks is not None and self.ranks > 1:
            raise BadInput(
                f"{self.ranks} ranks are required, but this command was started as one process",
                remedy=f"start it with --ranks {self.ranks}, mpirun -n {self.ranks} or srun --ntasks={self.ranks}",
            )
        return ()

    def require(self, driver: str) -> None:
        """Raise BadInput if this driver does not support the node selection."""
        if self.spread == "nearest" and driver not in _ANY_NODE:
            raise BadInput(
                f"--spread nearest does not support the driver {driver}, which selects the node with the data",
                remedy="remove --spread nearest, or use a store whose nodes accept any request, such as opensearch",
            )

    def target(self) -> dict[str, Any]:
        """Return the generator's part of the target in the engine's plan."""
        limit = {} if self.connections is None else {"connections": self.connections}
        return {"spread": "fixed" if self.spread == "nearest" else self.spread, **limit}

    def taking_part(self) -> dict[str, Any]:
        """Return the threads and ranks of a phase, in the form of its outcome."""
        members = [rank.rank for rank in self.members()]
        named = {"members": members} if members else {}
        return {"threads": self.threads, "ranks": max(len(members), 1), **named}

    def describe(self) -> dict[str, Any]:
        """Return the generator's part of a manifest."""
        members = self.members()
        return {
            "ranks": max(len(members), 1),
            "threads": self.threads,
            "spread": self.spread,
            "connections": self.connections,
            "samples": self.samples,
            **({"members": [{"rank": rank.rank, "machine": rank.machine} for rank in members]} if members else {}),
        }
