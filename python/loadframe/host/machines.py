"""Several machines as the host of a cluster, each with an agent, and which of them takes the next node."""

import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.host import identity
from loadframe.host.connection import Connection
from loadframe.host.placement import Placement
from loadframe.host.remote import RemoteMachine, RemoteProcess

#: Machines that are connected to at once.
_AT_ONCE = 32


class MachinesHost:
    """The machines that a cluster's nodes are placed on: each where the fewest are, in the machines' order."""

    def __init__(self, name: str, machines: Sequence[RemoteMachine], placement: Placement) -> None:
        """Connect to nothing yet; BadInput for a machine that is named twice."""
        self.name = name
        self._machines = tuple(machines)
        self._placement = placement
        names = [machine.hostname for machine in machines]
        for hostname in names:
            if names.count(hostname) > 1:
                raise BadInput(
                    f"machine {hostname} is named twice",
                    remedy=f"name it once, with the number of nodes that it takes: {hostname}:{names.count(hostname)}",
                )

    @property
    def machines(self) -> Sequence[RemoteMachine]:
        """All of them."""
        return self._machines

    @property
    def lost(self) -> bool:
        """Whether the connection to one of them has ended."""
        return any(machine.lost for machine in self._machines)

    def require(self) -> None:
        """BadInput for the first machine that cannot be reached or lacks something, all being tried at once."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for tried in [pool.submit(machine.require) for machine in self._machines]:
                tried.result()
        self._require_alike()
        self.require_apart()

    def require_apart(self) -> None:
        """BadInput where machines that the generator's ranks run on are to have no nodes, and one is one of these."""
        for machine in () if self._placement.share else self._machines:
            if loads := _loading(machine):
                raise BadInput(
                    f"{loads}, and its machine is to have no nodes",
                    where=machine.hostname,
                    remedy="leave that machine out, or let them share it (share: true)",
                )

    def machine(self, hostname: str) -> RemoteMachine:
        """Return the machine of that name."""
        for machine in self._machines:
            if machine.hostname == hostname:
                return machine
        raise BadInput(
            f"a node has its data on machine {hostname or 'of another host'}, which is none of this cluster's",
            where=", ".join(machine.hostname for machine in self._machines),
            remedy="name that machine as well",
        )

    def place(self, taken: Sequence[str]) -> RemoteMachine:
        """Return the machine with the fewest nodes that has room for another."""
        free = [machine for machine in self._machines if taken.count(machine.hostname) < machine.slots]
        if not free:
            slots = sum(machine.slots for machine in self._machines)
            raise BadInput(
                f"more nodes are asked for than the machines take, which is {slots}:"
                f" {', '.join(f'{machine.hostname} {machine.slots}' for machine in self._machines)}",
                remedy="name more machines (or start a job that has more), say how many nodes one takes (name:2), or"
                " take more on each (--per-machine 2)",
            )
        return min(free, key=lambda machine: taken.count(machine.hostname))

    def close(self) -> None:
        """End the agents, and with them the nodes that are not kept."""
        # All at once, and without threads, which there are no more when the interpreter ends.
        for machine in self._machines:
            machine.hang_up()
        for machine in self._machines:
            machine.close()

    def _require_alike(self) -> None:
        """BadInput for machines that cannot run the same software, or that are one and the same."""
        first, *others = self._machines
        for machine in others:
            if machine.facts.architecture != first.facts.architecture:
                raise BadInput(
                    f"the machine is of another kind ({machine.facts.architecture}) than {first.hostname}"
                    f" ({first.facts.architecture})",
                    where=machine.hostname,
                    remedy="take machines of one kind",
                )


def _loading(machine: RemoteMachine) -> str | None:
    """Return what part of the generator runs on a machine, in words; None if none does."""
    from loadframe.ranks.coordinator import present

    facts, hub = machine.facts, present()
    for rank in hub.ranks() if hub else ():
        # The names that ranks and ssh have for a machine may differ.
        if rank.boot.startswith(facts.boot):
            return f"rank {rank.rank} of the generator runs on {rank.machine}"
    return f"the generator runs on {platform.node()}" if facts.identity == identity.machine() else None


class LentMachinesHost(MachinesHost):
    """Machines that somebody else has given for a while, who ends what runs there when that is over."""

    def __init__(
        self,
        name: str,
        machines: Sequence[RemoteMachine],
        placement: Placement,
        *,
        lent: str,
        remedy: str,
        trouble: BadInput | None = None,
    ) -> None:
        """Connect to nothing yet. `trouble` is why there are no machines, which is said when one is wanted.

        `lent` says what machines are part of, and `remedy` how to get one that is not.
        """
        super().__init__(name, machines, placement)
        self._lent, self._remedy, self._trouble = lent, remedy, trouble

    def require(self) -> None:
        """BadInput where there are no machines, and for the first one that cannot be used."""
        if self._trouble:
            raise self._trouble
        super().require()

    def require_apart(self) -> None:
        """Do nothing: whom the ranks share a machine with was decided when the machines were chosen."""

    def place(self, taken: Sequence[str]) -> RemoteMachine:
        """Return the machine with the fewest nodes that has room for another."""
        if self._trouble:
            raise self._trouble
        return super().place(taken)

    def machine(self, hostname: str) -> RemoteMachine:
        """Return the machine of that name; one that was lent before keeps no node running."""
        known = {machine.hostname: machine for machine in self.machines}
        return known.get(hostname) or _Returned(hostname, self._lent, self._remedy)


class _Returned(RemoteMachine):
    """A machine that this command was not given: what ran there has ended with the one that was."""

    def __init__(self, hostname: str, lent: str, remedy: str) -> None:
        self._lent, self._remedy = lent, remedy
        super().__init__(hostname, self._refuse)

    def find(self, record: Mapping[str, Any]) -> RemoteProcess | None:
        """Return nothing, which is what is left."""
        return None

    def _refuse(self) -> Connection:
        raise BadInput(f"the machine is not part of {self._lent}", where=self.hostname, remedy=self._remedy)
