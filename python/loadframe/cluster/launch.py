"""Start of nodes: folders, processes, and the wait until the cluster is complete. Stops nothing."""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_nodes
from loadframe.cluster import credentials, placement
from loadframe.cluster.change import node_ended, not_up
from loadframe.cluster.node import Node, State, log_of
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.placement import Planned, assign_endpoints, deal, electors, plan, previous_endpoints
from loadframe.cluster.software import Report, Software, server_user
from loadframe.cluster.spec import ClusterSpec
from loadframe.host import choice, copying, files
from loadframe.host.base import Command, Host
from loadframe.host.limits import Limits
from loadframe.store import Installation, NodeSpec, Store

#: Timeout in seconds. Three nodes need a minute on two slow, busy cores.
_READY_WITHIN = 240.0
_POLL = 0.2
#: Disk space of a new node in bytes, including some first data.
_ROOM_PER_NODE = 256 * 2**20
#: Remedy for the folder of nodes on another machine, where variables of this machine do not apply.
_OTHER_FOLDER = "correct this, or name another folder on the machines with --scratch"


def start(
    spec: ClusterSpec,
    software: Software,
    host: Host,
    folder: Path,
    planned: Sequence[Planned],
    node_table: NodeTable,
    *,
    founding: bool,
    password: str,
    state: State = State.SETTLED,
    size: int | None = None,
) -> None:
    """Start further processes; add each to the node table, with `state`, as soon as it runs.

    `folder` is the cluster's folder on this machine. `founding`: the processes form a new cluster; otherwise they join.
    `password` is that of the store's administrator, or empty. `size` is the number of nodes after this start, by
    default the spec's. Side effect: plans' facts go into the node table. BadInput if a machine lacks disk space or
    cannot hold the layout. After an error, the caller must stop the processes that are in the node table.
    """
    folders.make(folder)
    machines = placement.places(host, planned, node_table.nodes)
    if any(process.spec.shares for process in planned) and any(machine.own_addresses for machine in machines):
        raise BadInput(
            f"the layout puts several processes on one machine, but the host {spec.host} gives each its own machine",
            remedy="omit the setting layout, or use another host",
        )
    users = {machine.hostname: server_user(machine, software.store) for machine in machines}
    for hostname, count in Counter(machine.hostname for machine in machines).items():
        machine, nodes = host.machine(hostname), format_nodes(count)
        remedy = _OTHER_FOLDER if spec.host in choice.SEVERAL else None
        room = (machine.folder(folder), users[hostname], count * _ROOM_PER_NODE, f"starting {nodes}", remedy)
        machine.call(files.make_room, *room)
    present = [node for node in node_table.nodes if node.alive]
    before = [node for process in planned for node in node_table.nodes if node.name == process.spec.name]
    if before and (reason := software.store.keeps_addresses(spec.settings)):
        places = previous_endpoints(software.store.kind, reason, machines, before, spec.port)
    else:
        numbers = [process.number for process in planned]
        places = assign_endpoints(software.store, spec, machines, numbers, present, before)
    # Processes of other roles belong to other clusters, or get their addresses from the store.
    founders, peers = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for running in present:
        if running.peer_address:
            peers[running.role].append(running.peer_address)
    for to_start, seat in zip(planned, places, strict=True):
        founders[to_start.spec.role].append(to_start.spec.name)
        peers[to_start.spec.role].append(f"{seat.address}:{seat.peer_port}")
    voting = electors(software.store, size or spec.nodes, node_table.nodes, planned)
    dealt = deal(spec, planned, machines, node_table.nodes)
    token = token_hex(4)
    name = node_table.facts.setdefault("cluster", f"loadframe-{spec.name or token}")
    for to_start, machine, seat, kept in zip(planned, machines, places, dealt, strict=True):
        user, above = users[machine.hostname], machine.folder(folder)
        node = NodeSpec(
            cluster=name,
            name=to_start.spec.name,
            address=seat.address,
            port=seat.port,
            peer_port=seat.peer_port,
            folder=above / to_start.spec.name,
            peers=tuple(peers[to_start.spec.role]),
            founders=tuple(founders[to_start.spec.role]) if founding else (),
            memory=spec.limits.memory,
            cpus=spec.limits.cpus,
            settings=spec.settings,
            rack=spec.rack_of(to_start.number),
            role=to_start.spec.role,
            extra_ports=seat.extra_ports,
            electors=voting,
            encryption=spec.encryption,
            certificates=credentials.certify(folder, to_start.spec.name, seat.address) if spec.encryption.any else None,
            password=password,
        )
        made = plan(machine, software.store, node, software.on(machine))
        node_table.facts |= made.facts
        mark = token_hex(8)
        machine.call(files.write_node, node.folder, made.folders, {**made.files, copying.MARK: mark}, user)
        command = Command(
            name=f"loadframe-{token}-{node.name}",
            argv=made.argv,
            environment=made.environment,
            folder=node.folder,
            log=log_of(node.folder),
            user=user,
            scratch=() if spec.name else (node.folder,),
            mark=mark,
            shared=() if spec.name else tuple(above / name for name in (*made.shared, credentials.FOLDER)),
            stop_signal=made.stop_signal,
            address=node.address,
            shares=to_start.spec.shares and f"{name}-{to_start.spec.shares}",
            software=_software(spec, software.on(machine)),
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
            elects=node.elects,
            shares=to_start.spec.shares,
            mark=mark,
            machine=machine,
        )
        node_table.update(put=[started])
        if spec.link and process.link:
            process.link.shape(spec.link)


def _software(spec: ClusterSpec, installation: Installation) -> tuple[Path, ...]:
    """Return the folders of software and Java that a node reads. Programs in PATH belong to the system or image."""
    user = Path(spec.home).expanduser().absolute() if spec.home else None
    parts = (installation, *installation.parts.values())
    homes = [place for part in parts for place in (part.home if part.home.is_dir() else None, part.java)]
    return tuple(dict.fromkeys(place for place in (*homes, user) if place))


def wait_until_ready(store: Store, nodes: Sequence[Node], size: int, more: int = 0) -> None:
    """Wait until each of the nodes that serve clients sees the cluster ready with `size` data nodes.

    Declared copies that do not fit on `size` nodes may be missing. `more` further nodes may or may not be members.
    StoreFailed, with the end of its log, if one of `nodes` ends, or one is not ready 240 s after the call.
    """
    deadline = time.monotonic() + _READY_WITHIN
    waiting = [node for node in nodes if node.serves]
    while waiting:
        for node in nodes:
            if not node.alive:
                raise node_ended(node, "while it started")
        with contextlib.suppress(LoadframeError):
            health = store.health([waiting[0].address])
            if health.serves_all(size) and size <= health.nodes <= size + more:
                del waiting[0]
                continue
        if time.monotonic() > deadline:
            raise not_up(waiting[0], f"was not ready within {_READY_WITHIN:.0f} s")
        time.sleep(_POLL)


def limits_in_force(host: Host, limits: Limits, folder: Path, report: Report) -> tuple[str, str | None]:
    """Return the names of the limiters, joined by `, `, and the reason if limits cannot be enforced, else None.

    In that case, report a warning. `folder` is the cluster's folder on this machine.
    """
    results = {machine.hostname: machine.limited_by(limits, machine.folder(folder)) for machine in host.machines}
    how = ", ".join(sorted({how for how, _ in results.values()}))
    reasons = {name: reason for name, (_, reason) in results.items() if reason}
    alone = len(results) == 1
    reason = "; ".join(why if alone else f"{name}: {why}" for name, why in reasons.items()) or None
    if reason:
        report(f"warning: nodes run without the requested limits, because this machine cannot enforce them ({reason})")
    return how, reason
