"""The machines of the ranks that were started, whatever has started them: PBS, LSF, Slurm or mpirun alone.

On each machine a rank starts the agent and passes on what it says; on that of rank 0 the command does so. Where the
generator is to share no machine, the ranks are split: those beside nodes keep agents, and the others load.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadframe.base.errors import BadInput
from loadframe.host.agent import Kind
from loadframe.host.bundle import agent_command
from loadframe.host.connection import Connection, PipeConnection
from loadframe.host.machines import LentMachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine

if TYPE_CHECKING:
    from loadframe.ranks.coordinator import Hub


class MpiHost(LentMachinesHost):
    """The machines of the ranks, or those of them that are named."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: Kind | None = None
    ) -> None:
        """BadInput for a machine that has no rank. Without ranks there is none, which `require` says."""
        # A rank above 0 and a command without ranks import none of it.
        from loadframe.ranks.coordinator import present

        remedy = "start the command with mpirun or srun, one rank or more on each machine"
        trouble: BadInput | None = None
        slots: dict[str, int | None] = {}
        hub = present()
        if hub is None:
            trouble = BadInput(
                "the machines of --host mpi are those of the ranks, and none were started", remedy=remedy
            )
        else:
            slots = _chosen(hub, machines, placement)
        super().__init__(
            "mpi",
            [
                RemoteMachine(
                    name,
                    _Connect(hub, name),
                    slots=number or placement.per_machine or 1,
                    network=placement.network,
                    scratch=scratch,
                    kind=kind,
                )
                for name, number in slots.items()
                if hub
            ],
            placement,
            lent="those of the ranks",
            remedy=remedy,
            trouble=trouble,
        )
        if hub and not placement.share:
            hub.spare(slots)


def _chosen(hub: "Hub", asked: Sequence[str], placement: Placement) -> dict[str, int | None]:
    """Return the machines for nodes, each with the number of nodes that it takes if it says one."""
    ranks = hub.ranks()
    known = list(dict.fromkeys(rank.machine for rank in ranks))
    chosen = dict(parse(text) for text in asked) if asked else dict.fromkeys(known)
    for name in chosen:
        if name not in known:
            raise BadInput(
                f"machine {name} has none of the ranks", where=", ".join(known), remedy="name machines of the ranks"
            )
    if placement.share:
        return chosen
    apart = {name: slots for name, slots in chosen.items() if name != ranks[0].machine}
    if not apart:
        raise BadInput(
            f"the ranks are all on {ranks[0].machine}, and are not to share it with nodes",
            remedy="start ranks on further machines, or let them share (placement: {share: true})",
        )
    return apart


class _Connect:
    def __init__(self, hub: "Hub", name: str) -> None:
        self._hub, self._name = hub, name

    def __call__(self) -> Connection:
        ranks = self._hub.ranks()
        there = next((rank.rank for rank in ranks if rank.machine == self._name and rank.rank), None)
        return PipeConnection(agent_command()) if there is None else self._hub.start(there, agent_command())
