"""Transfer of a stopped cluster's data to the machines on which its nodes will start.

Until the cluster is ready there, the original data stays unchanged and in the record. If the transfer fails, the next
command at the latest removes the copies. A node never starts without its data.
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
from loadframe.cluster.named import Copy, SavedCluster
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.software import server_user
from loadframe.host import copying, files
from loadframe.host.base import Host, Machine
from loadframe.host.local import LocalHost
from loadframe.store import Store

#: Size of a piece in bytes, and number of nodes that are transferred concurrently.
_PIECE, _AT_ONCE = 4 * 2**20, 4

Report = Callable[[str], None]


@dataclass(frozen=True)
class _Move:
    """Transfer of one node's folder to a machine."""

    node: Node
    target: Machine
    place: Path  #: folder on the target
    copied: bool = True  #: False if the target already sees the folder


class Moved:
    """Completed transfer, to be committed or undone."""

    def __init__(self, node_table: NodeTable, saved: SavedCluster, moves: Sequence[_Move]) -> None:
        """`saved` is the state before the transfer, `moves` are the transfers of its nodes."""
        self._node_table, self._saved, self._moves = node_table, saved, moves

    def commit(self, report: Report) -> None:
        """Make the new location permanent in the record, and remove the original data.

        Originals on unreachable machines are reported, and stay in the record as copies to remove.
        """
        record = self._saved.spec.to_record()
        moves = [move for move in self._moves if move.copied]
        former = [Copy(move.node.name, str(move.node.on), str(move.node.folder), record) for move in moves]
        arrived = {(move.target.hostname, str(move.place)) for move in moves}
        self._node_table.before = None
        self._node_table.note(
            put=former, drop=[copy for copy in self._node_table.copies if (copy.machine, copy.folder) in arrived]
        )
        self._moves = ()
        clear(self._node_table, report)

    def undo(self, report: Report) -> None:
        """Restore the record and remove the copies. Does nothing after `commit`."""
        if not self._moves:
            return
        marks = {node.name: node.mark for node in self._node_table.nodes}
        same = [move.node for move in self._moves if not move.copied]
        self._moves = ()
        self._node_table.restore(self._saved)
        self._node_table.update(put=[replace(node, mark=marks.get(node.name, node.mark)) for node in same])
        clear(self._node_table, report)


def clear(node_table: NodeTable, report: Report) -> None:
    """Remove obsolete copies of nodes' data. Copies on unreachable machines are reported and stay in the record."""
    nodes, gone = {node.name: node for node in node_table.nodes}, []
    for copy in node_table.copies:
        try:
            _clear(copy, nodes.get(copy.node))
        except LoadframeError as error:
            report(f"warning: could not remove a copy of {copy.node} on {copy.machine} in {copy.folder} ({error.what})")
        else:
            gone.append(copy)
    if gone:
        node_table.note(drop=gone)


def _clear(copy: Copy, node: Node | None) -> None:
    """Remove a copy, unless it is the node's current folder under another name; LoadframeError if unreachable."""
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
    node_table: NodeTable,
    saved: SavedCluster,
    store: Store,
    host: Host,
    folder: Path,
    staying: int,
    user: Callable[[Machine], int | None],
    report: Report,
) -> Moved:
    """Copy the data of all nodes to machines of the host that lack it, and store the new places in the node table.

    The originals stay until `Moved.commit`. `saved` is the state to restore after an error. `folder` is the cluster's
    folder on this machine, `user` returns the servers' user on a machine. The first `staying` nodes get regular places.
    The others will hand over their data and leave, so they go to the least loaded machines. BadInput, with nothing
    changed, if data is not reachable or has no place.
    """
    nodes = [node for node in node_table.nodes if node.state != State.LEFT]
    targets = _targets(store, nodes, host, staying)
    _require_movable(store, node_table, nodes, targets)
    planned = [_Move(node, targets[node.name], targets[node.name].folder(folder) / node.name) for node in nodes]
    stop = threading.Event()
    jobs: list[Future[_Move]] = []
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            jobs = [pool.submit(_bring, one, user(one.target), folder, node_table, report, stop) for one in planned]
            try:
                moves = [job.result() for job in jobs]
            except BaseException:
                stop.set()
                raise
    except BaseException:
        node_table.restore(saved)
        clear(node_table, report)
        raise
    if not any(made.copied for made in moves):
        # Nothing was copied, so the record can follow the node table at once.
        node_table.before = None
    node_table.update(put=[replace(made.node, machine=made.target, folder=made.place, process=None) for made in moves])
    return Moved(node_table, saved, moves)


def _require_movable(
    store: Store, node_table: NodeTable, nodes: Sequence[Node], targets: Mapping[str, Machine]
) -> None:
    """Raise BadInput for nodes that must keep their addresses, and whose `targets` (by name) are other machines."""
    reason = store.keeps_addresses(node_table.spec.settings if node_table.spec else {})
    for node in nodes if reason else ():
        if targets[node.name].hostname != node.on:
            raise BadInput(
                f"nodes of {store.kind} keep their addresses ({reason}), and {node.name} has {node.address}",
                where=node.on,
                remedy="start the cluster on its previous machines, or create and fill a new one",
            )


def _targets(store: Store, nodes: Sequence[Node], host: Host, staying: int) -> Mapping[str, Machine]:
    """Return node name -> machine: the one with its data, if it belongs to the host, or another with a free slot.

    The first `staying` numbers get regular places, see `move`. BadInput if there is no place.
    """
    known = {machine.hostname: machine for machine in host.machines}
    numbers = sorted({node.number for node in nodes if node.number is not None})
    of_number: dict[int, Machine] = {
        node.number: known[node.on] for node in nodes if node.number is not None and node.on in known
    }
    for position, number in enumerate(numbers):
        if number not in of_number:
            taken = [machine.hostname for machine in of_number.values()]
            of_number[number] = host.place(taken) if position < staying else _temporary(store, host, taken)
    beside = list(of_number.values()) or list(host.machines)
    chosen = {}
    for position, node in enumerate(nodes):
        if node.number is not None:
            chosen[node.name] = of_number[node.number]
        else:
            chosen[node.name] = known.get(node.on or "") or beside[position % len(beside)]
    return chosen


def _temporary(store: Store, host: Host, taken: Sequence[str]) -> Machine:
    """Return a machine for a node that will leave after it has handed over its data.

    If all are full, it is the one with the fewest nodes; BadInput if a machine cannot run two nodes.
    """
    try:
        return host.place(taken)
    except BadInput as full:
        emptiest = min(host.machines, key=lambda machine: taken.count(machine.hostname))
        if store.own_address and not emptiest.here:
            raise BadInput(
                f"nodes of {store.kind} all use the same port, so each machine runs only one. Nodes that will be"
                " removed must also run until the others have their data",
                where=full.where,
                remedy="name a machine for each stored node, or shrink the cluster before you stop it",
            ) from full
        return emptiest


def bring_home(name: str, report: Report) -> None:
    """Transfer the data of a stopped cluster to this machine, which then becomes its default host.

    Also removes obsolete copies. BadInput, with nothing else changed, if it does not exist, runs, was never ready, or
    `move` refuses.
    """
    saved = named.existing(name)
    if saved.running or not saved.formed:
        raise BadInput(f"cluster {name} {'runs' if saved.running else 'was never ready'}", remedy="stop it first")
    store, folder = stores.find(saved.spec.store), named.folder_of(name)
    spec = saved.spec.at_home()
    node_table = NodeTable(spec, saved.facts, saved.nodes, formed=True, copies=saved.copies)
    node_table.changing = True
    node_table.before = saved
    clear(node_table, report)
    host, count = spec.place(), saved.spec.nodes
    move(node_table, saved, store, host, folder, count, partial(server_user, store=store), report).commit(report)


def _bring(
    move: _Move, user: int | None, cluster: Path, node_table: NodeTable, report: Report, stop: threading.Event
) -> _Move:
    """Copy one node's folder to its target; the original stays. Return the move.

    If the target already sees the folder at its place, nothing is copied, and `copied` of the result is False.
    `cluster` is the local cluster folder, `user` the id of the copy's owner. Records the copy first.
    BadInput if the data is missing or not reachable, or the target has an older copy or too little space.
    LoadframeError once `stop` is set.
    """
    node, target = move.node, move.target
    source, folder = node.machine, node.folder
    assert source and folder
    token = token_hex(8)
    try:
        exists = source.call(copying.sign, folder, token)
    except LoadframeError as error:
        if folder.parent != cluster or node.mark is None or not copying.marked(folder, node.mark):
            raise BadInput(
                f"could not reach the data of {node.name}: {error.what}",
                where=error.where,
                remedy=f"{error.remedy or 'make that machine reachable'}; nothing was changed. If the machine no"
                " longer exists, its data is lost: delete the cluster with `loadframe cluster down NAME --delete-data`",
            ) from error
        # The folder is on a shared file system: its last mark is visible here.
        source = LocalHost()
        exists = source.call(copying.sign, folder, token)
    if not exists:
        raise _missing(node)
    try:
        if target.call(copying.signed, move.place, token):
            return replace(move, copied=False)
        entries = source.call(copying.entries, folder)
        size = sum(entry.size for entry in entries)
        draft = target.call(copying.begin, move.place, size, f"the data of {node.name}")
        assert node_table.spec
        node_table.note(put=[Copy(node.name, target.hostname, str(move.place), node_table.spec.to_record())])
        try:
            report(f"copying the data of {node.name} from {source.hostname} to {target.hostname}: {format_size(size)}")
            if target.call(copying.signed, folder, token):
                target.call(copying.copy, folder, draft)
            else:
                _send(source, folder, target, draft, entries, stop)
            target.call(copying.settle, draft, move.place, entries, user)
        except BaseException:
            with contextlib.suppress(LoadframeError):
                target.call(copying.discard, draft)
            raise
    finally:
        with contextlib.suppress(LoadframeError):
            source.call(copying.unsign, folder)
    return move


def require_there(node: Node) -> None:
    """Raise BadInput if the folder of the node is missing: the node would start empty."""
    if node.machine and node.folder and not node.machine.call(files.exists, node.folder):
        raise _missing(node)


def _missing(node: Node) -> BadInput:
    """Return the BadInput for a node whose folder is missing."""
    return BadInput(
        f"the folder with the data of {node.name} is missing",
        where=f"{node.on}: {node.folder}",
        remedy="restore the folder, or delete the cluster with `loadframe cluster down NAME --delete-data`",
    )


def _send(
    source: Machine, folder: Path, target: Machine, draft: Path, entries: Sequence[copying.Entry], stop: threading.Event
) -> None:
    """Send a folder's files in pieces to a machine that does not see them; LoadframeError if `stop` is set.

    Folders and links are left out.
    """
    for entry in entries:
        if entry.folder or entry.link is not None:
            continue
        for start in range(0, max(entry.size, 1), _PIECE):
            if stop.is_set():
                raise LoadframeError("the data of another node could not be copied")
            target.call(
                copying.append, draft, entry.path, source.call(copying.read_part, folder, entry.path, start, _PIECE)
            )
