"""The folders of clusters: those with a name, which can outlive a command, and the passing ones without."""

import contextlib
import difflib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster.node import Node, State
from loadframe.cluster.spec import ClusterSpec, require_name
from loadframe.host import copying, files, identity
from loadframe.host.base import Host, Machine, Process

_RECORD = "cluster.json"
#: Machines that are asked at once whether they answer.
_AT_ONCE = 32


@dataclass(frozen=True)
class Copy:
    """A copy of a node's data that the cluster does not consist of: one that was cut off, or the one before a move."""

    node: str
    machine: str
    folder: str  #: there
    host: Mapping[str, Any]  #: that the machine is one of, as the record of the spec which names it

    def place(self) -> Machine:
        """Return its machine; BadInput when that is none any more."""
        return ClusterSpec.from_record(self.host).place().machine(self.machine)


@dataclass(frozen=True)
class Saved:
    """A named cluster as it was written down. A node whose process is gone has none."""

    spec: ClusterSpec
    facts: Mapping[str, Any]
    nodes: Sequence[Node]
    formed: bool  #: it was ready once; what is there of one that never was holds nobody's data
    copies: Sequence[Copy] = ()  #: to be removed

    @property
    def running(self) -> bool:
        """Whether any of its nodes runs, as far as its machines can be asked."""
        return any(node.process and node.process.alive() for node in self.nodes)

    @property
    def unknown(self) -> list[str]:
        """Of which nodes nothing is known, and why, one sentence each."""
        return [node.unknown for node in self.nodes if node.unknown]


def folder_of(name: str) -> Path:
    """Return where a named cluster is kept, or will be; BadInput for what cannot be a name."""
    require_name(name)
    return identity.named(name)


def names() -> list[str]:
    """Return the names of all clusters, running or stopped, but those that run on another machine with this folder."""
    records = (folders.state() / "clusters").glob(f"*/{_RECORD}")
    return sorted(path.parent.name for path in records if _elsewhere(path) is None)


def _elsewhere(path: Path) -> str | None:
    """Return the name of the other machine on which the nodes run locally, by the record that machines share."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        runs = json.loads(path.read_text())["runs_on"]
        if runs and runs["identity"] != identity.machine():
            return str(runs["hostname"])
    return None


@contextlib.contextmanager
def locked(name: str, report: Callable[[str], None]) -> Iterator[Path]:
    """Hold a named cluster for one command and give its folder; `report` is told when another has to be awaited."""
    parent = folders.make(folder_of(name).parent)
    folders.shut(parent)
    folder = parent / name
    lock = folder.with_name(f".{name}.lock")
    with folders.locked(lock, lambda: report(f"another command works on cluster {name}; waiting for it")):
        yield folder


@contextlib.contextmanager
def record_locked(name: str) -> Iterator[None]:
    """Hold the lock of a cluster's record for one change of it: read, edit, write.

    Unlike `locked`, it is held for milliseconds only, so that a node can be killed while the cluster grows.
    """
    lock = folders.make(folder_of(name).parent) / f".{name}.record.lock"
    with folders.locked(lock, lambda: None):
        yield


def record_of(name: str) -> Path:
    """Return the file in which a named cluster is written down."""
    return folder_of(name) / _RECORD


def save(saved: Saved) -> None:
    """Write a cluster's record, whole or not at all. Only Roster calls this, with the record's lock held."""
    spec, nodes = saved.spec, saved.nodes
    assert spec.name
    ours = [node.machine for node in nodes if node.machine and node.machine.here and node.alive]
    record = {
        # Another machine that shares this folder sees none of these processes, and must not take them for gone.
        "runs_on": {"identity": identity.machine(), "hostname": ours[0].hostname} if ours else None,
        "formed": saved.formed,
        "spec": spec.to_record(),
        "facts": dict(saved.facts),
        "copies": [asdict(copy) for copy in saved.copies],
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "peer_address": node.peer_address,
                "folder": str(node.folder),
                "number": node.number,
                "role": node.role,
                "serves": node.serves,
                "state": node.state,
                "cut": node.cut,
                "shape": node.shape,
                "cores": node.cores,
                "elects": node.elects,
                "shares": node.shares,
                "mark": node.mark,
                "machine": node.on,
                "process": node.process.record() if node.process else None,
            }
            for node in nodes
        ],
    }
    target = record_of(spec.name)
    with (
        folders.writing(f"the record of cluster {spec.name}", target),
        tempfile.NamedTemporaryFile("w", prefix=f".{_RECORD}.", dir=target.parent, delete=False) as file,
    ):
        draft = Path(file.name)
        try:
            file.write(json.dumps(record, indent=2) + "\n")
            file.flush()
            draft.replace(target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


@dataclass(frozen=True)
class Amendment:
    """The fields of a node's record entry that other commands may change while one command changes the cluster."""

    process: Mapping[str, Any] | None  #: that the entry is about
    state: State
    cut: bool
    shape: str


def amendments(name: str) -> dict[str, Amendment]:
    """Return each node's amendable fields from the record, by node name; empty without a readable record."""
    try:
        entries = json.loads(record_of(name).read_text())["nodes"]
        return {
            entry["name"]: Amendment(
                entry["process"], State(entry["state"]), bool(entry.get("cut")), entry.get("shape", "")
            )
            for entry in entries
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def load(name: str, known: Sequence[Node] = ()) -> Saved | None:
    """Return what is written of a cluster, or None if there is none; BadInput when the record cannot be read.

    Of machines that cannot be reached nothing is known; see `Saved.unknown`. The machines and processes of `known`
    nodes are used again.
    """
    path = record_of(name)
    if away := _elsewhere(path):
        raise BadInput(
            f"cluster {name} runs on machine {away}, which shares this folder",
            where=str(path),
            remedy=f"use it there, or stop it there with `loadframe cluster down {name}`; if that machine is gone for "
            "good, put null for runs_on into the record",
        )
    try:
        record = json.loads(path.read_text())
        spec = ClusterSpec.from_record(record["spec"])
        same = {node.name: node for node in known if node.machine and node.process}
        reused = [_same(same.get(entry["name"]), entry) for entry in record["nodes"]]
        host = spec.place()
        machines = [
            node.machine if node and node.machine else host.machine(entry.get("machine") or "")
            for node, entry in zip(reused, record["nodes"], strict=True)
        ]
        _reach([machine for machine, node in zip(machines, reused, strict=True) if node is None])
        nodes = [
            Node(
                entry["name"],
                entry["address"],
                entry["peer_address"],
                Path(entry["folder"]),
                node.process if node else _process(machine, entry["process"]) if entry["process"] else None,
                entry["number"],
                entry["role"],
                entry["serves"],
                State(entry["state"]),
                bool(entry.get("cut")),
                entry.get("shape", ""),
                tuple(entry.get("cores", ())),
                bool(entry.get("elects", True)),
                entry.get("shares", ""),
                entry.get("mark"),
                machine,
            )
            for entry, machine, node in zip(record["nodes"], machines, reused, strict=True)
        ]
        copies = [Copy(**entry) for entry in record.get("copies", ())]
        return Saved(spec, record["facts"], nodes, record["formed"], copies)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"the record of cluster {name} is damaged ({type(error).__name__}: {error})",
            where=str(path),
            remedy=f"delete {path.parent}, with its data",
        ) from error


def _same(node: Node | None, entry: Mapping[str, Any]) -> Node | None:
    """Return the node if its process and machine are those of the record entry."""
    if node and node.process and node.on == entry.get("machine") and node.process.record() == entry["process"]:
        return node
    return None


def _reach(machines: Collection[Machine]) -> None:
    """Connect to machines, all at once. Those that cannot be reached say so themselves; see Machine.trouble."""
    away = {machine.hostname: machine for machine in machines if not machine.here}
    if away:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for machine in away.values():
                pool.submit(getattr, machine, "facts")


def _process(machine: Machine, record: Mapping[str, Any]) -> Process | None:
    """Return a node's process if it is there; None also on a machine that cannot be reached."""
    try:
        return None if machine.trouble() else machine.find(record)
    except LoadframeError:
        if machine.trouble() is None:
            raise
        return None


def existing(name: str) -> Saved:
    """Return what is written of a cluster; BadInput with the names that there are when it is not one of them."""
    saved = load(name)
    if saved is None:
        known = names()
        near = difflib.get_close_matches(name, known, n=1)
        there = f"there is {', '.join(known)}" if known else "there is none yet"
        raise BadInput(
            f"there is no cluster {name!r}",
            remedy=f"did you mean {near[0]}?" if near else f"{there}; start one with `loadframe cluster up NAME`",
        )
    return saved


def delete(name: str) -> list[str]:
    """Delete a cluster's folders with its data, on all its machines; it must be stopped.

    Return what could not be reached, and so stays: one sentence for each folder of a node.
    """
    saved = load(name)
    if saved is None:
        return []
    with record_locked(name):
        return remove(saved.spec.place(), folder_of(name), saved.nodes, saved.copies)


def remove(host: Host, folder: Path, nodes: Sequence[Node] = (), copies: Sequence[Copy] = ()) -> list[str]:
    """Remove a cluster's folder here, and those of its nodes on each machine; return as `delete` does."""
    left = []
    for node in nodes:
        assert node.machine and node.folder
        left += _removed(node.name, node.machine, node.folder)
    for copy in copies:
        try:
            left += _removed(copy.node, copy.place(), Path(copy.folder))
        except BadInput as error:
            left.append(f"a copy of the data of {copy.node} stays on {copy.machine} in {copy.folder}: {error.what}")
    for machine in host.machines:
        if not machine.trouble():
            with contextlib.suppress(LoadframeError):
                machine.call(files.remove, machine.folder(folder))
    nofollow.remove_tree(folder)
    return left


def _removed(node: str, machine: Machine, folder: Path) -> list[str]:
    """Remove a node's folder; return what to say when its machine cannot be reached."""
    trouble = machine.trouble()
    if trouble is None:
        try:
            machine.call(copying.discard, folder)
        except LoadframeError as error:
            trouble = error.what
    # Where machines share a folder, it is gone from there when it is from here.
    if trouble is None or folder.exists():
        return []
    return [f"the data of {node} stays on {machine.hostname} in {folder}: {trouble}"]


def passing_folder() -> Path:
    """Return a new folder for a cluster without a name, and remove those that a crash of this machine has left behind.

    What other machines have in the same place stays.
    """
    folder = identity.passing(token_hex(4))
    folders.make(folder.parent)
    folders.shut(folder.parent)
    return folders.make(folder)
