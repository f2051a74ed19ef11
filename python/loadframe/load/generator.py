"""The generator of a run's load, and how it spreads requests over hosts and connections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadframe.base.errors import BadInput
from loadframe.ranks.coordinator import Rank, present

#: Which host a request goes to: always the client's own (by turns, or near to its rank), each host in turn, or the one
#: with the fewest in flight.
Spread = Literal["fixed", "round_robin", "all", "nearest"]
#: Drivers of stores whose nodes all take any request, so that a client may have the one that is near.
_ANY_NODE = ("http", "search")


@dataclass(frozen=True)
class Generator:
    """Ranks and their worker threads, how requests are spread over hosts, and how many connections the clients share.

    `connections` is a limit over all ranks; with None each client has its own. `ranks` None: all that were started.
    """

    threads: int = 1
    spread: Spread = "fixed"
    connections: int | None = None
    ranks: int | None = None
    #: With the spread `nearest`: what a manifest recorded of it, by phase, to be done again.
    nearest_as: Mapping[str, Any] | None = None
    #: Whether each request is recorded individually, too.
    samples: bool = False

    def members(self) -> Sequence[Rank]:
        """Return the ranks that load; none where this process loads alone. BadInput if there are too few."""
        hub = present()
        if hub is not None:
            chosen = hub.choose(self.ranks)
            return chosen if len(chosen) > 1 else ()
        if self.ranks is not None and self.ranks > 1:
            raise BadInput(
                f"{self.ranks} ranks are asked for, and this command was started as one",
                remedy=f"start it with --ranks {self.ranks}, mpirun -n {self.ranks} or srun --ntasks={self.ranks}",
            )
        return ()

    def require(self, driver: str) -> None:
        """BadInput if clients of this driver cannot be spread so."""
        if self.spread == "nearest" and driver not in _ANY_NODE:
            raise BadInput(
                f"clients of the driver {driver} have no nearest node: it asks the one that has the data",
                remedy="leave --spread nearest out, or use a store whose nodes take any request, such as opensearch",
            )

    def target(self) -> dict[str, Any]:
        """Return the generator's part of the target in the engine's plan."""
        limit = {} if self.connections is None else {"connections": self.connections}
        return {"spread": "fixed" if self.spread == "nearest" else self.spread, **limit}

    def taking_part(self) -> dict[str, Any]:
        """Return who loads a phase, as its outcome has it."""
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
