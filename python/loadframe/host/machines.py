"""Hosts of several machines, each with an agent; the placement of nodes on them; and the machines of MPI ranks.

On each machine, a rank starts the agent and forwards its messages; on the machine of rank 0, the command does. If the
generator must not share machines, ranks on machines with nodes only forward, and the other ranks generate load.
"""

import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_nodes
from loadframe.host import identity
from loadframe.host.agent import HostKind
from loadframe.host.agent_client import agent_command
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine, RemoteProcess
from loadframe.host.wire import Connection, PipeConnection

if TYPE_CHECKING:
    from loadframe.ranks.coordinator import Coordinator


#: Machines that are connected concurrently.
_AT_ONCE = 32


class MachinesHost:
    """Machines for the nodes of a cluster. The next node goes to the machine with the fewest, in their order."""

    def __init__(self, name: str, machines: Sequence[RemoteMachine], placement: Placement) -> None:
        """Store the machines without connecting; BadInput if one is named twice. `name` is the host's (`ssh`, ...)."""
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
        """Connect to all machines concurrently; BadInput for the first, in order, that is unreachable or unsuitable.

        BadInput also if their architectures differ, or if `require_apart` refuses them.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for tried in [pool.submit(machine.require) for machine in self._machines]:
                tried.result()
        self._require_alike()
        self.require_apart()

    def require_apart(self) -> None:
        """Raise BadInput if nodes must not share machines with the generator, and it runs on one of these machines."""
        for machine in () if self._placement.share else self._machines:
            if loads := _loading(machine):
                raise BadInput(
                    f"{loads}, and nodes must not share a machine with it",
                    where=machine.hostname,
                    remedy="remove this machine from the list, or allow sharing (share: true)",
                )

    def machine(self, hostname: str) -> RemoteMachine:
        """Return the machine of that name, connected or not; BadInput if it is not one of these."""
        for machine in self._machines:
            if machine.hostname == hostname:
                return machine
        raise BadInput(
            f"the data of a node are on {f'machine {hostname}' if hostname else 'another host'}, which is not listed",
            where=", ".join(machine.hostname for machine in self._machines),
            remedy="name that machine too",
        )

    def place(self, taken: Sequence[str]) -> RemoteMachine:
        """Return the first machine with the fewest nodes among those with a free slot; BadInput if all are full.

        `taken` holds the hostname of each existing node's machine.
        """
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
        """Stop the agents, and with them all nodes that were not kept; wait until they have ended."""
        # In parallel, but without threads: the interpreter starts none while it exits.
        for machine in self._machines:
            machine.hang_up()
        for machine in self._machines:
            machine.close()

    def _require_alike(self) -> None:
        """Connect to the machines; BadInput if one differs in architecture from the first. There must be a machine."""
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
    """Return a sentence that names the rank, or else this process, if it generates load on a machine; otherwise None.

    Connects to the machine, to compare it with the ranks and this machine.
    """
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
        trouble: LoadframeError | None = None,
    ) -> None:
        """Store the machines without connecting.

        `lent` names the owner of the machines in messages, and `remedy` says how to get others. `require` and `place`
        raise `trouble`, if given: BadInput if the job has no machines, another LoadframeError if its machines are
        unknown.
        """
        super().__init__(name, machines, placement)
        self._lent, self._remedy, self._trouble = lent, remedy, trouble

    def require(self) -> None:
        """Raise `trouble`, if given; otherwise connect to all machines.

        BadInput if one is unreachable or unsuitable, or if their architectures differ. Sharing is not checked.
        """
        if self._trouble:
            raise self._trouble
        super().require()

    def require_apart(self) -> None:
        """Do nothing: the machines were selected with regard to the ranks."""

    def place(self, taken: Sequence[str]) -> RemoteMachine:
        """Return the first machine with the fewest nodes among those with a free slot; BadInput if all are full.

        `taken` holds the hostname of each existing node's machine. Raises `trouble` instead, if given.
        """
        if self._trouble:
            raise self._trouble
        return super().place(taken)

    def machine(self, hostname: str) -> RemoteMachine:
        """Return the machine of that name; LoadframeError if the machines of the job are unknown.

        Another name is taken for a machine of an earlier job. Of its object, `find` returns None, and methods that
        connect raise BadInput.
        """
        # The scheduler did not answer, so nodes may still run.
        if self._trouble and not isinstance(self._trouble, BadInput):
            raise self._trouble
        known = {machine.hostname: machine for machine in self.machines}
        return known.get(hostname) or _Returned(hostname, self._lent, self._remedy)


class _Returned(RemoteMachine):
    """Machine of an earlier job: its processes ended with that job."""

    def __init__(self, hostname: str, lent: str, remedy: str) -> None:
        """Take the machine's name; `lent` names the owner of this job's machines, `remedy` says how to get others."""
        self._lent, self._remedy = lent, remedy
        super().__init__(hostname, self._refuse)

    def find(self, record: Mapping[str, Any]) -> RemoteProcess | None:
        """Return None without connecting: no process is left."""
        return None

    def _refuse(self) -> Connection:
        """Raise BadInput, because the machine does not belong to the job."""
        raise BadInput(f"the machine is not part of {self._lent}", where=self.hostname, remedy=self._remedy)


class MpiHost(LentMachinesHost):
    """Machines of the ranks, or a named selection of them."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: HostKind | None = None
    ) -> None:
        """Select the machines (`name`, `name:slots`; none for all); BadInput for a machine without a rank.

        BadInput also if nodes must not share machines and only the machine of rank 0 is selected. Without ranks,
        `require` and `place` raise BadInput. See `RemoteMachine` for `scratch` and `kind`. Side effect: without
        sharing, tells ranks on the selected machines not to generate load.
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
            slots = _selected_machines(hub, machines, placement)
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


def _selected_machines(hub: "Coordinator", requested: Sequence[str], placement: Placement) -> dict[str, int | None]:
    """Return the `requested` machines, or all with ranks, each with its number of slots, or None if not given.

    If nodes must not share machines, the machine of rank 0 is left out. BadInput if none is left, and for a machine
    without ranks.
    """
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
    """Function that connects to the agent on a machine of the ranks."""

    def __init__(self, hub: "Coordinator", name: str) -> None:
        """Take the ranks' coordinator, and the name of the machine."""
        self._hub, self._name = hub, name

    def __call__(self) -> Connection:
        """Start the agent through a rank above 0 on the machine, or else as a child process; return the connection."""
        ranks = self._hub.ranks()
        there = next((rank.rank for rank in ranks if rank.machine == self._name and rank.rank), None)
        return PipeConnection(agent_command()) if there is None else self._hub.start(there, agent_command())
