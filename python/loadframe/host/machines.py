"""Hosts of several machines, each with an agent, and the placement of nodes on them."""

import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import format_nodes
from loadframe.host import identity
from loadframe.host.placement import Placement
from loadframe.host.remote import RemoteMachine, RemoteProcess
from loadframe.host.wire import Connection

#: Machines that are connected concurrently.
_AT_ONCE = 32


class MachinesHost:
    """Machines for the nodes of a cluster. The next node goes to the machine with the fewest, in their order."""

    def __init__(self, name: str, machines: Sequence[RemoteMachine], placement: Placement) -> None:
        """Store the machines without connecting; BadInput if one is named twice."""
        self.name = name
        self._machines = tuple(machines)
        self._placement = placement
        names = [machine.hostname for machine in machines]
        for hostname in names:
            if names.count(hostname) > 1:
                raise BadInput(
                    f"machine {hostname} is named twice",
                    remedy=f"name it once, with its number of nodes: {hostname}:{names.count(hostname)}",
                )

    @property
    def machines(self) -> Sequence[RemoteMachine]:
        """All machines, in the order in which they were named."""
        return self._machines

    @property
    def lost(self) -> bool:
        """Whether the connection to one of the machines has ended."""
        return any(machine.lost for machine in self._machines)

    def require(self) -> None:
        """Connect to all machines concurrently; BadInput for the first that is unreachable or unsuitable."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for tried in [pool.submit(machine.require) for machine in self._machines]:
                tried.result()
        self._require_alike()
        self.require_apart()

    def require_apart(self) -> None:
        """Raise BadInput if nodes must not share machines with the generator, and one machine runs a rank."""
        for machine in () if self._placement.share else self._machines:
            if loads := _loading(machine):
                raise BadInput(
                    f"{loads}, and nodes must not share a machine with it",
                    where=machine.hostname,
                    remedy="remove this machine from the list, or allow sharing (share: true)",
                )

    def machine(self, hostname: str) -> RemoteMachine:
        """Return the machine of that name; BadInput if it is unknown."""
        for machine in self._machines:
            if machine.hostname == hostname:
                return machine
        raise BadInput(
            f"the data of a node are on {f'machine {hostname}' if hostname else 'another host'}, which is not listed",
            where=", ".join(machine.hostname for machine in self._machines),
            remedy="name that machine too",
        )

    def place(self, taken: Sequence[str]) -> RemoteMachine:
        """Return the machine with the fewest nodes among those with a free slot; BadInput if all are full."""
        free = [machine for machine in self._machines if taken.count(machine.hostname) < machine.slots]
        if not free:
            slots = sum(machine.slots for machine in self._machines)
            raise BadInput(
                f"the machines have slots for only {format_nodes(slots)}:"
                f" {', '.join(f'{machine.hostname} {machine.slots}' for machine in self._machines)}",
                remedy="name more machines (or start a job with more), give a machine more slots (name:2), or"
                " give all more slots (--per-machine 2)",
            )
        return min(free, key=lambda machine: taken.count(machine.hostname))

    def close(self) -> None:
        """Stop the agents, and with them all nodes that were not kept."""
        # In parallel, but without threads: the interpreter starts none while it exits.
        for machine in self._machines:
            machine.hang_up()
        for machine in self._machines:
            machine.close()

    def _require_alike(self) -> None:
        """Raise BadInput if the machines differ in architecture, because they run the same software."""
        first, *others = self._machines
        for machine in others:
            if machine.facts.architecture != first.facts.architecture:
                raise BadInput(
                    f"the machine's architecture ({machine.facts.architecture}) differs from that of {first.hostname}"
                    f" ({first.facts.architecture})",
                    where=machine.hostname,
                    remedy="use machines of one architecture",
                )


def _loading(machine: RemoteMachine) -> str | None:
    """Describe the part of the generator that runs on a machine, or None if it runs none."""
    from loadframe.ranks.coordinator import present

    facts, hub = machine.facts, present()
    for rank in hub.ranks() if hub else ():
        # Ranks and ssh may use different names for a machine, so compare boot ids.
        if rank.boot.startswith(facts.boot):
            return f"rank {rank.rank} of the generator runs on {rank.machine}"
    return f"the generator runs on {platform.node()}" if facts.identity == identity.machine() else None


class LentMachinesHost(MachinesHost):
    """Machines of a job. Its scheduler ends all processes there when the job ends."""

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
        """Store the machines without connecting.

        `lent` names the owner of the machines in messages, and `remedy` says how to get others. `trouble` is the error
        to raise if there are no machines; `require` and `place` raise it.
        """
        super().__init__(name, machines, placement)
        self._lent, self._remedy, self._trouble = lent, remedy, trouble

    def require(self) -> None:
        """Raise BadInput for missing machines, and for the first that is unusable."""
        if self._trouble:
            raise self._trouble
        super().require()

    def require_apart(self) -> None:
        """Do nothing: the machines were selected with regard to the ranks."""

    def place(self, taken: Sequence[str]) -> RemoteMachine:
        """Return the machine with the fewest nodes among those with a free slot; BadInput if there is none."""
        if self._trouble:
            raise self._trouble
        return super().place(taken)

    def machine(self, hostname: str) -> RemoteMachine:
        """Return the machine of that name. A machine of an earlier job has no running nodes, and refuses to connect."""
        known = {machine.hostname: machine for machine in self.machines}
        return known.get(hostname) or _Returned(hostname, self._lent, self._remedy)


class _Returned(RemoteMachine):
    """Machine of an earlier job: its processes ended with that job."""

    def __init__(self, hostname: str, lent: str, remedy: str) -> None:
        self._lent, self._remedy = lent, remedy
        super().__init__(hostname, self._refuse)

    def find(self, record: Mapping[str, Any]) -> RemoteProcess | None:
        """Return None: no process is left."""
        return None

    def _refuse(self) -> Connection:
        raise BadInput(f"the machine is not part of {self._lent}", where=self.hostname, remedy=self._remedy)
