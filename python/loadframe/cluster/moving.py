"""Brings the data of a stopped cluster's nodes to the machines on which they are to be started.

Until the cluster is ready there, what it was made of stays where it was, untouched, and is what is written down: should
anything fail, that is still the cluster, and what was copied is removed, by the next command at the latest. Nothing is
ever started without its data.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from secrets import token_hex

import loadframe.store as stores
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_size
from loadframe.cluster import named
from loadframe.cluster.named import Copy, Saved
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import Roster
from loadframe.cluster.software import server_user
from loadframe.host import copying, files
from loadframe.host.base import Host, Machine
from loadframe.host.local import LocalHost
from loadframe.store import Store

#: Bytes that go at once, and nodes whose data goes at a time.
_PIECE, _AT_ONCE = 4 * 2**20, 4

Report = Callable[[str], None]


@dataclass(frozen=True)
class _Move:
    node: Node
    target: Machine
    place: Path  #: of its folder there
    copied: bool = True  #: otherwise the machine sees the folder where it is


class Moved:
    """What has gone elsewhere. It is either committed, and gone from where it was, or undone."""

    def __init__(self, roster: Roster, saved: Saved, moves: Sequence[_Move]) -> None:
        """Remember how it was before."""
        self._roster, self._saved, self._moves = roster, saved, moves

    def commit(self, report: Report) -> None:
        """Have the cluster be where it is now, and remove the copies that it was made of."""
        record = self._saved.spec.to_record()
        moves = [move for move in self._moves if move.copied]
        former = [Copy(move.node.name, str(move.node.on), str(move.node.folder), record) for move in moves]
        arrived = {(move.target.hostname, str(move.place)) for move in moves}
        self._roster.before = None
        self._roster.note(
            put=former, drop=[copy for copy in self._roster.copies if (copy.machine, copy.folder) in arrived]
        )
        self._moves = ()
        clear(self._roster, report)

    def undo(self, report: Report) -> None:
        """Remove what was copied, and have the cluster be where it was; nothing when it was committed."""
        if not self._moves:
            return
        marks = {node.name: node.mark for node in self._roster.nodes}
        same = [move.node for move in self._moves if not move.copied]
        self._moves = ()
        self._roster.restore(self._saved)
        self._roster.update(put=[replace(node, mark=marks.get(node.name, node.mark)) for node in same])
        clear(self._roster, report)


def clear(roster: Roster, report: Report) -> None:
    """Remove the copies that the cluster does not consist of. One that cannot be reached is named, and stays noted."""
    nodes, gone = {node.name: node for node in roster.nodes}, []
    for copy in roster.copies:
        try:
            _clear(copy, nodes.get(copy.node))
        except LoadframeError as error:
            report(f"warning: a copy of {copy.node} stays on {copy.machine} in {copy.folder} for now ({error.what})")
        else:
            gone.append(copy)
    if gone:
        roster.note(drop=gone)


def _clear(copy: Copy, node: Node | None) -> None:
    """Remove a copy, unless it is what the node goes on with: machines may see one folder under several names."""
    place, token = Path(copy.folder), token_hex(8)
    if node is None or node.machine is None or node.folder is None:
        copy.place().call(copying.discard, place)
        return
    node.machine.call(copying.sign, node.folder, token)
    try:
        if not copy.place().call(copying.signed, place, token):
            copy.place().call(copying.discard, place)
    finally:
        with contextlib.suppress(LoadframeError):
            node.machine.call(copying.unsign, node.folder)


def move(
    roster: Roster,
    saved: Saved,
    store: Store,
    host: Host,
    folder: Path,
    staying: int,
    user: Callable[[Machine], int | None],
    report: Report,
) -> Moved:
    """Have the data of all nodes on the machines of the host where they are to run, and note that in the roster.

    `folder` is the cluster's here. The first `staying` nodes get places that they keep; the others, whose data goes to
    those, are put where there is least. BadInput, with nothing changed, when data cannot be reached or has no place.
    """
    nodes = [node for node in roster.nodes if node.state != State.LEFT]
    targets = _targets(store, nodes, host, staying)
    _require_movable(store, roster, nodes, targets)
    wanted = [_Move(node, targets[node.name], targets[node.name].folder(folder) / node.name) for node in nodes]
    stop = threading.Event()
    jobs: list[Future[_Move]] = []
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            jobs = [pool.submit(_bring, one, user(one.target), folder, roster, report, stop) for one in wanted]
            try:
                moves = [job.result() for job in jobs]
            except BaseException:
                stop.set()
                raise
    except BaseException:
        roster.restore(saved)
        clear(roster, report)
        raise
    if not any(made.copied for made in moves):
        # Its folders are those that it had: what is written down has to keep up with them.
        roster.before = None
    roster.update(put=[replace(made.node, machine=made.target, folder=made.place, process=None) for made in moves])
    return Moved(roster, saved, moves)


def _require_movable(store: Store, roster: Roster, nodes: Sequence[Node], targets: Mapping[str, Machine]) -> None:
    """BadInput for nodes that keep their addresses and are to go to a machine that has others."""
    reason = store.keeps_addresses(roster.spec.settings if roster.spec else {})
    for node in nodes if reason else ():
        if targets[node.name].hostname != node.on:
            raise BadInput(
                f"nodes of {store.kind} keep their addresses ({reason}), and {node.name} has been at {node.address}",
                where=node.on,
                remedy="start the cluster on the machines that it was on, or fill a new one",
            )


def _targets(store: Store, nodes: Sequence[Node], host: Host, staying: int) -> Mapping[str, Machine]:
    """Return each node's machine: that on which its data is, if it is one of the host's, or another with room."""
    known = {machine.hostname: machine for machine in host.machines}
    numbers = sorted({node.number for node in nodes if node.number is not None})
    of_number: dict[int, Machine] = {
        node.number: known[node.on] for node in nodes if node.number is not None and node.on in known
    }
    for position, number in enumerate(numbers):
        if number not in of_number:
            taken = [machine.hostname for machine in of_number.values()]
            of_number[number] = host.place(taken) if position < staying else _for_a_while(store, host, taken)
    beside = list(of_number.values()) or list(host.machines)
    chosen = {}
    for position, node in enumerate(nodes):
        if node.number is not None:
            chosen[node.name] = of_number[node.number]
        else:
            chosen[node.name] = known.get(node.on or "") or beside[position % len(beside)]
    return chosen


def _for_a_while(store: Store, host: Host, taken: Sequence[str]) -> Machine:
    """Return a machine for a node that leaves once its data is with the others.

    If all are full it is the one with the fewest; BadInput where a machine cannot have two.
    """
    try:
        return host.place(taken)
    except BadInput as full:
        emptiest = min(host.machines, key=lambda machine: taken.count(machine.hostname))
        if store.own_address and not emptiest.here:
            raise BadInput(
                f"nodes of {store.kind} are all at the same port, so a machine takes one, and those that are to leave"
                " have to run until their data is with the others",
                where=full.where,
                remedy="name as many machines as it has nodes, or shrink it before it is stopped",
            ) from full
        return emptiest


def bring_home(name: str, report: Report) -> None:
    """Have the data of a stopped cluster on this machine, where it is started next unless that is told otherwise.

    BadInput, with nothing changed, when it runs, and as `move` says.
    """
    saved = named.existing(name)
    if saved.running or not saved.formed:
        raise BadInput(f"cluster {name} {'runs' if saved.running else 'was never ready'}", remedy="stop it first")
    store, folder = stores.find(saved.spec.store), named.folder_of(name)
    spec = saved.spec.at_home()
    roster = Roster(spec, saved.facts, saved.nodes, formed=True, copies=saved.copies)
    roster.changing = True
    roster.before = saved
    clear(roster, report)
    host, count = spec.place(), saved.spec.nodes
    move(roster, saved, store, host, folder, count, partial(server_user, store=store), report).commit(report)


def _bring(
    wanted: _Move, user: int | None, cluster: Path, roster: Roster, report: Report, stop: threading.Event
) -> _Move:
    """Have a node's folder on its machine, and return where it is; `cluster` is the cluster's folder here."""
    node, target = wanted.node, wanted.target
    source, folder = node.machine, node.folder
    assert source and folder
    token = token_hex(8)
    try:
        there = source.call(copying.sign, folder, token)
    except LoadframeError as error:
        if folder.parent != cluster or node.mark is None or not copying.marked(folder, node.mark):
            raise BadInput(
                f"the data of {node.name} cannot be reached: {error.what}",
                where=error.where,
                remedy=f"{error.remedy or 'make that machine reachable'}; nothing was changed. If it is gone for good,"
                " so is that data: delete the cluster with `loadframe cluster down NAME --delete-data`",
            ) from error
        # That machine and this one share the folder, so what it wrote last is here.
        source = LocalHost()
        there = source.call(copying.sign, folder, token)
    if not there:
        raise _missing(node)
    try:
        if target.call(copying.signed, wanted.place, token):
            return replace(wanted, copied=False)
        entries = source.call(copying.entries, folder)
        size = sum(entry.size for entry in entries)
        draft = target.call(copying.begin, wanted.place, size, f"the data of {node.name}")
        assert roster.spec
        roster.note(put=[Copy(node.name, target.hostname, str(wanted.place), roster.spec.to_record())])
        try:
            report(f"copying the data of {node.name} from {source.hostname} to {target.hostname}: {format_size(size)}")
            if target.call(copying.signed, folder, token):
                target.call(copying.copy, folder, draft)
            else:
                _send(source, folder, target, draft, entries, stop)
            target.call(copying.settle, draft, wanted.place, entries, user)
        except BaseException:
            with contextlib.suppress(LoadframeError):
                target.call(copying.discard, draft)
            raise
    finally:
        with contextlib.suppress(LoadframeError):
            source.call(copying.unsign, folder)
    return wanted


def require_there(node: Node) -> None:
    """BadInput for a node whose folder is gone: started without it, it would come back empty."""
    if node.machine and node.folder and not node.machine.call(files.exists, node.folder):
        raise _missing(node)


def _missing(node: Node) -> BadInput:
    return BadInput(
        f"the data of {node.name} is not where it was left",
        where=f"{node.on}: {node.folder}",
        remedy="bring it back there, or delete the cluster with `loadframe cluster down NAME --delete-data`",
    )


def _send(
    source: Machine, folder: Path, target: Machine, draft: Path, entries: Sequence[copying.Entry], stop: threading.Event
) -> None:
    """Send a folder's files to a machine that does not see them; LoadframeError as soon as `stop` is set."""
    for entry in entries:
        if entry.folder or entry.link is not None:
            continue
        for start in range(0, max(entry.size, 1), _PIECE):
            if stop.is_set():
                raise LoadframeError("the data of another node could not be copied")
            target.call(copying.append, draft, entry.path, source.call(copying.read, folder, entry.path, start, _PIECE))
