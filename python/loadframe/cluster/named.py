"""Folders and records of clusters: named ones, which can outlive a command, and temporary ones without a name."""

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
from loadframe.cluster.reach import share_a_node
from loadframe.cluster.spec import ClusterSpec, require_name
from loadframe.host import copying, files, identity
from loadframe.host.base import Host, Machine, Process

_RECORD = "cluster.json"
#: Machines that are contacted concurrently.
_AT_ONCE = 32


@dataclass(frozen=True)
class Copy:
    """Obsolete copy of a node's data: of an interrupted transfer, or the original after a completed one."""

    node: str
    machine: str
    folder: str  #: on the machine
    host: Mapping[str, Any]  #: record of the spec whose host includes the machine

    def place(self) -> Machine:
        """Return its machine; BadInput if that is no longer available."""
        return ClusterSpec.from_record(self.host).place().machine(self.machine)


@dataclass(frozen=True)
class SavedCluster:
    """Named cluster from its record. The process of an ended node is None."""

    spec: ClusterSpec
    facts: Mapping[str, Any]
    nodes: Sequence[Node]
    formed: bool  #: whether it was ready once; otherwise its folders hold no user data
    copies: Sequence[Copy] = ()  #: copies that must be removed

    @property
    def running(self) -> bool:
        """Whether at least one node runs, ignoring unreachable machines."""
        return any(node.process and node.process.alive() for node in self.nodes)

    @property
    def unknown(self) -> list[str]:
        """One sentence for each node in an unknown state."""
        return [node.unknown for node in self.nodes if node.unknown]


def folder_of(name: str) -> Path:
    """Return the folder of a named cluster, which may not exist; BadInput for an invalid name."""
    require_name(name)
    return identity.cluster_folder(name)


def names() -> list[str]:
    """Return the sorted names of all clusters, except clusters on another machine that shares the state folder."""
    records = (folders.state() / "clusters").glob(f"*/{_RECORD}")
    return sorted(path.parent.name for path in records if _elsewhere(path) is None)


def _elsewhere(path: Path) -> str | None:
    """Return the host name of another machine on which the nodes run, by the record at `path`.

    None if they run on this machine or not at all, or if the record cannot be read.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        runs = json.loads(path.read_text())["runs_on"]
        if runs and runs["identity"] != identity.machine():
            return str(runs["hostname"])
    return None


@contextlib.contextmanager
def locked(name: str, report: Callable[[str], None]) -> Iterator[Path]:
    """Lock a named cluster for one command and yield its folder, which may not exist.

    Waits while another command has the lock; `report` is called with a message before that. BadInput for an invalid
    name.
    """
    parent = folders.make(folder_of(name).parent)
    folders.shut(parent)
    folder = parent / name
    lock = folder.with_name(f".{name}.lock")
    with folders.locked(lock, lambda: report(f"another command is changing cluster {name}; waiting for it")):
        yield folder


@contextlib.contextmanager
def record_locked(name: str) -> Iterator[None]:
    """Lock a cluster's record for one read, edit and write; wait while another command has the lock.

    Unlike `locked`, it is held only for milliseconds, so that a node can be killed while the cluster grows. BadInput
    for an invalid name.
    """
    lock = folders.make(folder_of(name).parent) / f".{name}.record.lock"
    with folders.locked(lock, lambda: None):
        yield


def record_of(name: str) -> Path:
    """Return the path of the record file of a named cluster, which may not exist; BadInput for an invalid name."""
    return folder_of(name) / _RECORD


def save(saved: SavedCluster) -> None:
    """Write a cluster's record atomically; BadInput if it cannot be written. The spec must have a name.

    Only for NodeTable, while it holds the record's lock.
    """
    spec, nodes = saved.spec, saved.nodes
    assert spec.name
    ours = [node.machine for node in nodes if node.machine and node.machine.here and node.alive]
    record = {
        # Other machines that share this folder cannot see these processes, and must not consider them ended.
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
class OutsideChange:
    """The fields of a node's record entry that other commands may change while one command changes the cluster."""

    process: Mapping[str, Any] | None  #: process of the entry
    state: State
    cut: bool
    shape: str


def amendments(name: str) -> dict[str, OutsideChange]:
    """Return the fields that other commands may change, by node name, from the record; empty without a readable one."""
    try:
        entries = json.loads(record_of(name).read_text())["nodes"]
        return {
            entry["name"]: OutsideChange(
                entry["process"], State(entry["state"]), bool(entry.get("cut")), entry.get("shape", "")
            )
            for entry in entries
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def load(name: str, known: Sequence[Node] = ()) -> SavedCluster | None:
    """Return a cluster from its record, or None if there is none, BadInput if the record is damaged.

    BadInput also if the cluster runs on another machine that shares the folder. Connects to the nodes' machines; for
    unreachable machines see `SavedCluster.unknown`. Machines and processes of `known` nodes are reused.
    """
    path = record_of(name)
    if other := _elsewhere(path):
        raise BadInput(
            f"cluster {name} runs on machine {other}, which shares this folder",
            where=str(path),
            remedy=f"use it on that machine, or stop it there with `loadframe cluster down {name}`; if that machine no "
            "longer exists, set runs_on to null in the record",
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
        return SavedCluster(spec, record["facts"], nodes, record["formed"], copies)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"the record of cluster {name} is damaged ({type(error).__name__}: {error})",
            where=str(path),
            remedy=f"delete {path.parent}, including its data",
        ) from error


def _same(node: Node | None, entry: Mapping[str, Any]) -> Node | None:
    """Return the node if its process and machine match the record entry, or None otherwise."""
    if node and node.process and node.on == entry.get("machine") and node.process.record() == entry["process"]:
        return node
    return None


def _reach(machines: Collection[Machine]) -> None:
    """Connect to the remote machines among these, concurrently. Failures are available from Machine.trouble."""
    remote = {machine.hostname: machine for machine in machines if not machine.here}
    if remote:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for machine in remote.values():
                pool.submit(getattr, machine, "facts")


def _process(machine: Machine, record: Mapping[str, Any]) -> Process | None:
    """Return a node's process, or None if it has ended or its machine is unreachable."""
    try:
        return None if machine.trouble() else machine.find(record)
    except LoadframeError:
        if machine.trouble() is None:
            raise
        return None


def existing(name: str) -> SavedCluster:
    """Return a cluster from its record; BadInput, with a suggestion or the known names, if there is none.

    BadInput also if the record is damaged, or the cluster runs on another machine that shares the folder.
    """
    saved = load(name)
    if saved is None:
        known = names()
        near = difflib.get_close_matches(name, known, n=1)
        available = f"existing clusters: {', '.join(known)}" if known else "no cluster exists yet"
        raise BadInput(
            f"cluster {name!r} does not exist",
            remedy=f"did you mean {near[0]}?" if near else f"{available}; start one with `loadframe cluster up NAME`",
        )
    return saved


def at(addresses: Collection[str]) -> str | None:
    """Return the name of the cluster that serves one of these addresses now; None if there is none.

    Names of hosts are resolved. A cluster in an unknown state counts as serving; one with a damaged record does not.
    """
    for name in names():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, BadInput):
            nodes = json.loads(record_of(name).read_text())["nodes"]
            if share_a_node(addresses, [node["address"] for node in nodes]):
                saved = load(name)
                if saved and (saved.running or saved.unknown):
                    return name
    return None


def delete(name: str) -> list[str]:
    """Delete the folders of a cluster, with its data, on all its machines; do nothing if it does not exist.

    Does not check that it is stopped. Returns one sentence for each node folder that is unreachable and so stays.
    BadInput if the record is damaged or the name invalid.
    """
    saved = load(name)
    if saved is None:
        return []
    with record_locked(name):
        return remove(saved.spec.place(), folder_of(name), saved.nodes, saved.copies)


def remove(host: Host, folder: Path, nodes: Sequence[Node] = (), copies: Sequence[Copy] = ()) -> list[str]:
    """Remove a cluster's `folder` here, and the folders of these nodes and copies on their machines.

    Removes the folder of the cluster on each reachable machine of the host, too. Returns one sentence for each folder
    of a node or copy that is unreachable and so stays.
    """
    left = []
    for node in nodes:
        assert node.machine and node.folder
        left += _removed(node.name, node.machine, node.folder)
    for copy in copies:
        try:
            left += _removed(copy.node, copy.place(), Path(copy.folder))
        except BadInput as error:
            left.append(f"a copy of the data of {copy.node} remains on {copy.machine} in {copy.folder}: {error.what}")
    for machine in host.machines:
        if not machine.trouble():
            with contextlib.suppress(LoadframeError):
                machine.call(files.remove, machine.folder(folder))
    nofollow.remove_tree(folder)
    return left


def _removed(node: str, machine: Machine, folder: Path) -> list[str]:
    """Remove a node's folder; return one sentence if its machine is unreachable, else an empty list.

    Empty also if the machine is unreachable and the path exists here, as on a shared file system.
    """
    trouble = machine.trouble()
    if trouble is None:
        try:
            machine.call(copying.discard, folder)
        except LoadframeError as error:
            trouble = error.what
    # On a shared file system, the folder may already be removed.
    if trouble is None or folder.exists():
        return []
    return [f"the data of {node} remains on {machine.hostname} in {folder}: {trouble}"]


def passing_folder() -> Path:
    """Create and return a new folder for a cluster without a name.

    Side effect: removes such folders that survived a crash of this machine, but not folders of other machines.
    """
    folder = identity.passing(token_hex(4))
    folders.make(folder.parent)
    folders.shut(folder.parent)
    return folders.make(folder)
