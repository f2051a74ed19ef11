"""Tiers of an application: addresses and environment, the files that start processes, and the user's files."""

import hashlib
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.base import Balancing, Member, Watch

#: File that a process waits for, in its folder.
TOLD = "config/told"
#: File with all tiers in the load balancer's folder, for instances added later.
TIERS = "config/tiers.json"
#: Time limit for a tier to answer, and poll interval, s.
_READY_WITHIN = 180.0
_POLL = 0.1


@dataclass(frozen=True)
class Tiers:
    """Addresses of an application's tiers, the environment of its instances, and the settings of its balancer."""

    stores: Mapping[str, Sequence[str]]  #: kind -> host:port of each of its nodes, for clients
    balancer: str  #: host:port for clients
    commands: str  #: host:port for the balancer's commands
    environment: Mapping[str, str]  #: of the instances
    balance: str = "roundrobin"  #: algorithm of HAProxy
    threads: int = 1  #: of HAProxy

    @property
    def exports(self) -> str:
        """Shell commands that export the variables of an instance's environment, one per line, with passwords.

        Adds STORE_KIND (the address of a store's first node), STORE_KIND_NODES (all, separated by blanks) and STORES
        (kinds).
        """
        stores = {f"STORE_{kind.upper()}": nodes[0] for kind, nodes in self.stores.items()}
        stores |= {f"STORE_{kind.upper()}_NODES": " ".join(nodes) for kind, nodes in self.stores.items()}
        variables = {**self.environment, **stores, "STORES": " ".join(self.stores)}
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())

    def keep(self, balancer: Member) -> None:
        """Write these tiers, which include passwords, into a file in the balancer's folder, for `kept`."""
        assert balancer.folder
        balancer.call(replace_file, balancer.folder, TIERS, json.dumps(asdict(self)))

    @classmethod
    def kept(cls, balancer: Path) -> Self:
        """Read the tiers that `keep` stored in the folder `balancer`; BadInput if missing or malformed.

        A file of version 0.3, with one address per store as a text and without the balancer's settings, is accepted;
        the settings get their defaults.
        """
        try:
            tiers = json.loads(nofollow.read_text(balancer, TIERS) or "")
            stores = {kind: [nodes] if isinstance(nodes, str) else nodes for kind, nodes in tiers["stores"].items()}
            return cls(**{**tiers, "stores": stores})
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(
                f"cannot read the addresses of this application's tiers: {error}",
                where=str(balancer / TIERS),
                remedy="start the cluster again",
            ) from error


def process_names(kind: str, nodes: int) -> list[str]:
    """Return the names of a store's processes: its kind, or `KIND-1` and so on for several nodes."""
    return [kind] if nodes == 1 else [f"{kind}-{number}" for number in range(1, nodes + 1)]


def waiting(folder: Path, command: Sequence[str], *, inside: str = ".", sourced: bool = False) -> tuple[str, ...]:
    """Return a command line for a shell that waits until the file TOLD in `folder` has content, then runs `command`.

    `command` runs in the subfolder `inside` of `folder`. With `sourced`, the content is shell commands, which the shell
    runs first to set the environment.
    """
    told = shlex.quote(str(folder / TOLD))
    variables = f". {told}; " if sourced else ""
    script = f"while [ ! -s {told} ]; do sleep 0.05; done; {variables}cd {shlex.quote(str(folder / inside))}; "
    return ("/bin/sh", "-c", f"{script}exec {shlex.join(command)}")


def tell(member: Member, text: str) -> None:
    """Write `text` into the file TOLD of a process that waits for it (`waiting`), which starts the process.

    Replaces an earlier text, which does not start it again.
    """
    assert member.folder
    member.call(replace_file, member.folder, TOLD, text)


def replace_file(folder: Path, name: str, text: str) -> None:
    """Replace the file `name` below `folder` atomically; everybody may read it. The file's folder must exist."""
    nofollow.write_text(folder, name, text, 0o644)


def until(true: Callable[[], bool], watch: Watch, what: str, where: Sequence[Member], remedy: str) -> None:
    """Call `true` every 0.1 s until it returns True. LoadframeError counts as False.

    Between the calls `watch` gets `what`, the text of the current step, and may end the wait by an error. StoreFailed
    after 180 s, with `what`, the members in `where`, and `remedy`.
    """
    deadline = time.monotonic() + _READY_WITHIN
    while not _holds(true):
        watch(Balancing(1, "tiers", what))
        if time.monotonic() > deadline:
            raise StoreFailed(
                f"{what}: this took longer than {_READY_WITHIN:.0f} s",
                where=", ".join(f"{member.name} at {member.address}" for member in where),
                remedy=remedy,
            )
        time.sleep(_POLL)


def _holds(true: Callable[[], bool]) -> bool:
    """Return the result of `true`, or False if it raises LoadframeError."""
    try:
        return true()
    except LoadframeError:
        return False


#: Size limit of an application's files together, bytes, to catch data matched by mistake.
_MAX_SIZE = 16 * 2**20


def read(folder: Path, patterns: Sequence[str], without: Sequence[str]) -> Mapping[str, str]:
    """Return the text files below a folder that match a glob pattern in `patterns`, by relative path, in path order.

    Hidden files and folders, `__pycache__`, and files that match one of `without` (as in `PurePath.match`: `test_*` is
    a file's name) are skipped. BadInput for a file that is unreadable or not UTF-8, for no files, and for more than 16
    Mi characters in total.
    """
    texts: dict[str, str] = {}
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    for path in paths:
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        if hidden or any(name.match(pattern) for pattern in without):
            continue
        try:
            texts[str(name)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"cannot read this file of the application as text: {error}",
                where=str(path),
                remedy="leave it out of `files`, or make it readable",
            ) from error
    size = sum(map(len, texts.values()))
    if not texts or size > _MAX_SIZE:
        problem = f"has files of {size:,} characters, more than {_MAX_SIZE:,}" if texts else "has no files"
        raise BadInput(f"the application {problem}", where=str(folder), remedy=f"change `files`: {', '.join(patterns)}")
    return texts


def digest(texts: Mapping[str, str], *further: str) -> str:
    """Return an identifier of 8 hexadecimal digits for file contents by name, and for `further` texts.

    The order of `further` matters, the order of the files does not.
    """
    whole = hashlib.sha256(repr((sorted(texts.items()), further)).encode())
    return whole.hexdigest()[:8]
