"""Starting nodes: software, folders, processes, and the wait until the cluster is complete. Stops nothing."""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from loadframe import folders
from loadframe.cluster import placing
from loadframe.cluster.dealing import deal
from loadframe.cluster.node import Node, State, log_of
from loadframe.cluster.patience import gone, not_up
from loadframe.cluster.planned import Planned, plan
from loadframe.cluster.roster import Roster
from loadframe.cluster.seats import seats, seats_again
from loadframe.cluster.spec import ClusterSpec
from loadframe.errors import BadInput, LoadframeError
from loadframe.host import files
from loadframe.host.base import Command, Host, Machine
from loadframe.host.limits import Limits
from loadframe.host.local import LocalHost
from loadframe.store import Found, Installation, NodeSpec, Store

#: Seconds. Three nodes on two slow cores that others use as well need a minute; more than this is a failure.
_READY_WITHIN = 240.0
_POLL = 0.2
#: Bytes that a node's files take before it holds any data, with room for a first bit.
_ROOM_PER_NODE = 256 * 2**20

Report = Callable[[str], None]


@dataclass(frozen=True)
class Software:
    """What the nodes run."""

    store: Store
    version: str
    installation: Installation
    java_version: str | None  #: of stores that need Java
    user: int | None
    origin: str = "embedded"  #: or `vendor`, which has had it for download, or `installed`, when it was there already


def version(store: Store, spec: ClusterSpec) -> str:
    """Return the version that the spec asks for, without looking at what the PATH has."""
    if spec.home and (installation := _installed(store, spec)):
        return installation.version
    return spec.version or next(iter(store.versions), "")


def _installed(store: Store, spec: ClusterSpec) -> Found | None:
    """Return the installation to be started, if it is one; BadInput if it is of another version than asked for.

    One that the system has is not meant when another version was asked for that can be fetched.
    """
    installation = store.installation(Path(spec.home).expanduser().absolute() if spec.home else None)
    if installation and spec.version:
        number = installation.version.rpartition(" ")[2]
        if not f"{number}.".startswith(f"{spec.version.rpartition(' ')[2]}."):
            if not spec.home and (spec.version in store.versions or store.offer(spec.version)):
                return None
            raise BadInput(
                f"this is {store.kind} {installation.version}, and not {spec.version}",
                where=str(installation.home),
                remedy="give the installation of that version with --home, or leave --version out",
            )
    return installation


def prepare(store: Store, spec: ClusterSpec, host: Host, report: Report) -> Software:
    """Return the software that the spec asks for, installed and within reach of the user that will run it."""
    # Here and not above: commands that start nothing do not need what fetches and installs.
    from loadframe.cluster import artefacts, java, vendor

    host.require()
    placing.require(host, spec.limits, spec.nodes, report)
    store.check_settings(spec.settings)
    user = server_user(LocalHost(), store)
    present, origin = _installed(store, spec), "installed"
    wanted = version(store, spec)
    if present is None and wanted not in store.versions and (offer := store.offer(wanted)):
        present, origin = store.installation(vendor.install(offer, report)), "vendor"
    if present:
        folders.require_reachable(present.home if present.home.is_dir() else present.home.parent, user)
        if present.java is None:
            return Software(store, present.version, Installation(present.home), None, user, origin)
        runtime = java.find(present.java, user, present.java_most, report, bundled=present.jdk)
        place = Installation(present.home, runtime.home, present.version)
        return Software(store, present.version, place, runtime.version, user, origin)
    distribution = store.distribution(wanted)
    least, most = distribution.java, distribution.java_most
    needed = None if least is None else java.find(least, user, most, report)
    home = artefacts.install(distribution, report)
    folders.require_reachable(home, user)
    installation = Installation(home, needed.home if needed else None)
    return Software(store, distribution.version, installation, needed.version if needed else None, user)


def require_reads(software: Software, before: str, folder: Path) -> None:
    """BadInput for software that is older than what wrote the cluster's data: no store reads newer data reliably."""
    if _parts(software.version) < _parts(before):
        raise BadInput(
            f"the data was written by {software.store.kind} {before}, and {software.version} is older",
            where=str(folder),
            remedy="start it with that version or a newer one (--version or --home), or take another name",
        )


def _parts(version: str) -> list[int]:
    """Return the numbers of a version, by which versions are ordered; its name and its suffix do not count."""
    return [int(part) for part in re.findall(r"\d+", version.rpartition(" ")[2].partition("-")[0])]


def start(
    spec: ClusterSpec,
    software: Software,
    host: Host,
    folder: Path,
    planned: Sequence[Planned],
    roster: Roster,
    *,
    founding: bool,
    state: State = State.SETTLED,
) -> None:
    """Start processes at once, below `folder`, beside those of the roster, into which each goes as soon as it runs.

    Whoever catches an error here finds there what to stop. The plan's facts go to the roster's.
    """
    folders.make(folder)
    machines = placing.places(host, planned, roster.nodes)
    users = {machine.hostname: server_user(machine, software.store) for machine in machines}
    for hostname, count in Counter(machine.hostname for machine in machines).items():
        machine, nodes = host.machine(hostname), "1 node" if count == 1 else f"{count} nodes"
        room = (machine.folder(folder), users[hostname], count * _ROOM_PER_NODE, f"starting {nodes}")
        machine.call(files.make_room, *room)
    present = [node for node in roster.nodes if node.alive]
    before = [node for process in planned for node in roster.nodes if node.name == process.spec.name]
    if before and software.store.keeps_address:
        places = seats_again(software.store.kind, machines, before, spec.port)
    else:
        numbers = [process.number for process in planned]
        places = seats(software.store, spec, machines, numbers, present, before)
    founders = tuple(process.spec.name for process in planned)
    peers = tuple(node.peer_address for node in present if node.peer_address)
    peers += tuple(f"{seat.address}:{seat.peer_port}" for seat in places)
    dealt = deal(spec, planned, machines, roster.nodes)
    token = token_hex(4)
    name = roster.facts.setdefault("cluster", f"loadframe-{spec.name or token}")
    for to_start, machine, seat, kept in zip(planned, machines, places, dealt, strict=True):
        user, above = users[machine.hostname], machine.folder(folder)
        node = NodeSpec(
            cluster=name,
            name=to_start.spec.name,
            address=seat.address,
            port=seat.port,
            peer_port=seat.peer_port,
            folder=above / to_start.spec.name,
            peers=peers,
            founders=founders if founding else (),
            memory=spec.limits.memory,
            cpus=spec.limits.cpus,
            settings=spec.settings,
            role=to_start.spec.role,
            extra_ports=seat.extra_ports,
        )
        made = plan(machine, software.store, node, software.installation)
        roster.facts |= made.facts
        machine.call(files.write_node, node.folder, made.folders, made.files, user)
        command = Command(
            name=f"loadframe-{token}-{node.name}",
            argv=made.argv,
            environment=made.environment,
            folder=node.folder,
            log=log_of(node.folder),
            user=user,
            scratch=() if spec.name else (node.folder,),
            shared=() if spec.name else tuple(above / name for name in made.shared),
            stop_signal=made.stop_signal,
            address=node.address,
            software=_software(spec, software.installation),
        )
        process = machine.start(command, replace(spec.limits, cores=kept or None, cores_each=None))
        started = Node(
            name=node.name,
            address=f"{node.address}:{node.port}",
            peer_address=f"{node.address}:{node.peer_port}",
            folder=node.folder,
            process=process,
            number=to_start.number,
            role=node.role,
            serves=to_start.spec.serves,
            state=state,
            shape=str(spec.link),
            cores=kept,
            machine=machine,
        )
        roster.update(put=[started])
        if spec.link and process.link:
            process.link.shape(spec.link)


def server_user(machine: Machine, store: Store) -> int | None:
    """Return the numeric user of the store's nodes on a machine, if it is not our own there."""
    return machine.server_user(named=store.needs_account) if store.refuses_root else None


def _software(spec: ClusterSpec, installation: Installation) -> tuple[Path, ...]:
    """Return the folders that a node reads; a program of the PATH is the system's, and a container has its own."""
    user = Path(spec.home).expanduser().absolute() if spec.home else None
    places = (installation.home if installation.home.is_dir() else None, installation.java, user)
    return tuple(dict.fromkeys(place for place in places if place))


def wait_until_ready(store: Store, nodes: Sequence[Node], size: int, more: int = 0) -> None:
    """Return when each of the nodes that clients ask sees the cluster ready, with `size` data-bearing nodes.

    There may be as many `more` of which it is not known whether they are members. LoadframeError with the log's end
    when one never does, or when one ends.
    """
    deadline = time.monotonic() + _READY_WITHIN
    waiting = [node for node in nodes if node.serves]
    while waiting:
        for node in nodes:
            if not node.alive:
                raise gone(node, "while it started")
        with contextlib.suppress(LoadframeError):
            health = store.health([waiting[0].address])
            if health.ready and size <= health.nodes <= size + more:
                del waiting[0]
                continue
        if time.monotonic() > deadline:
            raise not_up(waiting[0], f"was not ready within {_READY_WITHIN:.0f} s")
        time.sleep(_POLL)


def limits_in_force(host: Host, limits: Limits, report: Report) -> tuple[str, str | None]:
    """Return how the limits are enforced and why they are not, having warned in that case."""
    told = {machine.hostname: machine.limited_by(limits) for machine in host.machines}
    how = ", ".join(sorted({how for how, _ in told.values()}))
    reasons = {name: reason for name, (_, reason) in told.items() if reason}
    alone = len(told) == 1
    reason = "; ".join(why if alone else f"{name}: {why}" for name, why in reasons.items()) or None
    if reason:
        report(f"warning: nodes run without the limits asked for, which cannot be enforced here ({reason})")
    return how, reason
