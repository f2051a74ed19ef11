"""Brings the data of a stopped cluster's nodes to the machines on which they are to be started.

Until the cluster is ready there, what it was made of stays where it was, untouched: should anything fail, that is still
the cluster. Nothing is ever started without its data.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from loadframe.cluster.named import Saved
from loadframe.cluster.node import Node, State
from loadframe.cluster.roster import Roster
from loadframe.errors import BadInput, LoadframeError
from loadframe.host import copying, files
from loadframe.host.base import Host, Machine
from loadframe.host.local import LocalHost
from loadframe.store import Store
from loadframe.units import format_size

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
        """Remove the copies that the cluster was made of, as it is ready where it is now."""
        for move in self._moves:
            node = move.node
            assert node.machine and node.folder
            if move.copied:
                try:
                    node.machine.call(copying.discard, node.folder)
                except LoadframeError as error:
                    report(f"warning: the former copy of {node.name} stays at {node.on}:{node.folder} ({error.what})")
        self._moves = ()

    def undo(self) -> None:
        """Remove what was copied, and have the cluster be where it was; nothing when it was committed."""
        if not self._moves:
            return
        _discard(self._moves)
        self._roster.spec, self._roster.facts = self._saved.spec, dict(self._saved.facts)
        self._roster.update(put=[move.node for move in self._moves])
        self._moves = ()


def _discard(moves: Sequence[_Move]) -> None:
    for made in moves:
        if made.copied:
            with contextlib.suppress(LoadframeError):
                made.target.call(copying.discard, made.place)


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
            jobs = [pool.submit(_bring, one, user(one.target), folder, report, stop) for one in wanted]
            try:
                moves = [job.result() for job in jobs]
            except BaseException:
                stop.set()
                raise
    except BaseException:
        _discard([job.result() for job in jobs if job.exception() is None])
        raise
    roster.update(put=[replace(made.node, machine=made.target, folder=made.place) for made in moves])
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


def _bring(wanted: _Move, user: int | None, cluster: Path, report: Report, stop: threading.Event) -> _Move:
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
                remedy="make that machine reachable: without it the data cannot be brought elsewhere; nothing was"
                " changed",
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
            target.call(
                copying.append, draft / entry.path, source.call(copying.read, folder / entry.path, start, _PIECE)
            )
