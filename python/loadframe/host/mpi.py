"""The machines of the ranks, for any launcher: PBS, LSF, Slurm or plain mpirun.

On each machine, a rank starts the agent and forwards its messages; on the machine of rank 0, the command does. If the
generator must not share machines, ranks on machines with nodes only forward, and the other ranks generate load.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadframe.base.errors import BadInput
from loadframe.host.agent import HostKind
from loadframe.host.agent_client import agent_command
from loadframe.host.machines import LentMachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine
from loadframe.host.wire import Connection, PipeConnection

if TYPE_CHECKING:
    from loadframe.ranks.coordinator import Coordinator


class MpiHost(LentMachinesHost):
    """Machines of the ranks, or a named selection of them."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: HostKind | None = None
    ) -> None:
        """Select the machines; BadInput for a machine without a rank. Without ranks, only `require` raises.

        Side effect: without sharing, tells ranks on the selected machines not to generate load.
        """
        # Lazy: ranks above 0 and commands without ranks do not need it.
        from loadframe.ranks.coordinator import present

        remedy = "start the command with mpirun or srun, with at least one rank on each machine"
        trouble: BadInput | None = None
        slots: dict[str, int | None] = {}
        hub = present()
        if hub is None:
            trouble = BadInput("--host mpi uses the machines of the ranks, but no ranks were started", remedy=remedy)
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
            lent="the machines of the ranks",
            remedy=remedy,
            trouble=trouble,
        )
        if hub and not placement.share:
            hub.spare(slots)


def _chosen(hub: "Coordinator", requested: Sequence[str], placement: Placement) -> dict[str, int | None]:
    """Return the selected machines, each with its number of slots, or None if not given."""
    ranks = hub.ranks()
    known = list(dict.fromkeys(rank.machine for rank in ranks))
    chosen = dict(parse(text) for text in requested) if requested else dict.fromkeys(known)
    for name in chosen:
        if name not in known:
            raise BadInput(
                f"no rank runs on machine {name}", where=", ".join(known), remedy="name machines that have ranks"
            )
    if placement.share:
        return chosen
    apart = {name: slots for name, slots in chosen.items() if name != ranks[0].machine}
    if not apart:
        raise BadInput(
            f"all ranks run on {ranks[0].machine}, and nodes must not share a machine with them",
            remedy="start ranks on more machines, or allow sharing (placement: {share: true})",
        )
    return apart


class _Connect:
    def __init__(self, hub: "Coordinator", name: str) -> None:
        self._hub, self._name = hub, name

    def __call__(self) -> Connection:
        ranks = self._hub.ranks()
        there = next((rank.rank for rank in ranks if rank.machine == self._name and rank.rank), None)
        return PipeConnection(agent_command()) if there is None else self._hub.start(there, agent_command())
