"""Software on other machines: found there where the file system is shared or it was brought before, or brought.

What is brought is verified there by its checksums before it is used, and stays in the cache for the next time.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

import loadframe.store as stores
from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_size
from loadframe.host.base import Machine
from loadframe.store import Found, Store

#: Bytes that are sent at once, and machines that are sent to at once.
_PIECE, _AT_ONCE = 2**20, 8
#: Seconds after which what a broken transport has left is removed.
_STALE = 86_400


@dataclass(frozen=True)
class File:
    """One file of a folder, or a link or a folder in it."""

    path: str
    size: int
    sha256: str
    executable: bool
    link: str | None  #: where it points to, if it is a link
    folder: bool
    signs: tuple[int, int]  #: inode and time of change in ns, by which the same file of a shared file system is known


@cache
def listing(folder: Path) -> tuple[File, ...]:
    """Return all that is in a folder here; folders count, since some software wants empty ones to be there."""
    with nofollow.folder(folder) as top:
        entries = nofollow.walk(top)
        return tuple(_file(entry, folder) for entry in entries if entry.is_link or entry.is_file or entry.is_folder)


def system(kind: str) -> Found | None:
    """Return what this machine's system has of a kind of store."""
    return stores.find(kind).installation(None)


def require_machines(
    store: Store, settings: Mapping[str, Any], memory: int | None, machines: Sequence[Machine]
) -> None:
    """BadInput where a machine would refuse a node: said before anything is copied there."""
    for machine in machines:
        if store.refuses_root:
            machine.server_user(named=store.needs_account)
        try:
            machine.call(_require_here, store.kind, dict(settings), memory)
        except BadInput as error:
            raise BadInput(error.what, where=error.where or machine.hostname, remedy=error.remedy) from None


def _require_here(kind: str, settings: Mapping[str, Any], memory: int | None) -> None:
    stores.find(kind).require_machine(settings, memory)


def system_everywhere(kind: str, version: str, machines: Sequence[Machine]) -> dict[str, Path]:
    """Return where each machine's system has a store, by the machines' names; BadInput where it is another version."""
    places = {}
    for machine in machines:
        there = machine.call(system, kind)
        if there is None or there.version != version:
            raise BadInput(
                f"its system has {kind} {there.version if there else 'in no version'}, and others have {version}",
                where=machine.hostname,
                remedy="install the same version everywhere, or give an installation with --home, which is copied",
            )
        places[machine.hostname] = there.home
    return places


def bring(
    machines: Sequence[Machine], place: Path, name: str, user: Mapping[str, int | None], report: Callable[[str], None]
) -> dict[str, Path]:
    """Have a folder of ours on each machine, and return where, by the machines' names.

    `name` says for people what it is, `user` who is to enter it there. BadInput without room.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = {m.hostname: pool.submit(_brought, m, place, name, user[m.hostname], report) for m in machines}
        return {hostname: job.result() for hostname, job in jobs.items()}


def _brought(machine: Machine, place: Path, name: str, user: int | None, report: Callable[[str], None]) -> Path:
    files = listing(place)
    if machine.call(_is_there, place, list(files), user):
        return place
    digest = hashlib.sha256(
        json.dumps([[file.path, file.sha256, file.link, file.folder] for file in files]).encode()
    ).hexdigest()
    target, draft = machine.call(_begin, digest[:16], sum(file.size for file in files), name)
    if draft is None:
        return target
    report(f"copying {name} to {machine.hostname}: {format_size(sum(file.size for file in files))}")
    for file in files:
        if file.link is None and not file.folder:
            with nofollow.reading(place, file.path) as source:
                first = True
                while (piece := source.read(_PIECE)) or first:
                    machine.call(_append, draft, file.path, piece)
                    first = False
    machine.call(_settle, draft, target, list(files))
    return target


def _file(entry: nofollow.TreeEntry, folder: Path) -> File:
    name, status = entry.path, entry.status
    signs = (status.st_ino, status.st_mtime_ns)
    if entry.is_link:
        return File(name, 0, "", False, os.readlink(entry.name, dir_fd=entry.descriptor), False, signs)
    if entry.is_folder:
        return File(name, 0, "", False, None, True, signs)
    return File(name, status.st_size, _sha256(folder, name), bool(status.st_mode & 0o100), None, False, signs)


def _sha256(folder: Path, name: str) -> str:
    with nofollow.reading(folder, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_there(place: Path, files: Sequence[File], user: int | None) -> bool:
    """Whether this machine has the very same folder in the same place, where the user can enter it."""
    if not place.is_dir() or (user is not None and not folders.reachable(place, user)):
        return False
    return all(_same(place, file) for file in files)


def _same(place: Path, file: File) -> bool:
    path = place / file.path
    try:
        status = path.lstat()
        if file.folder:
            return path.is_dir()
        if file.link is not None:
            return path.is_symlink() and str(path.readlink()) == file.link
        if status.st_size != file.size:
            return False
        return (status.st_ino, status.st_mtime_ns) == file.signs or _sha256(place, file.path) == file.sha256
    except (OSError, BadInput):
        return False


def _begin(digest: str, size: int, name: str) -> tuple[Path, Path | None]:
    """Return the place of what has that digest, and where to write it first; None for that when it is there."""
    parent = folders.make(folders.cache() / "brought")
    for left in parent.glob(".*"):
        if left.lstat().st_mtime < time.time() - _STALE:
            nofollow.remove_tree(left)
    target = parent / digest
    if target.is_dir():
        return target, None
    folders.require_room(parent, size, f"a copy of {name}")
    return target, folders.make(parent / f".{digest}-{token_hex(4)}")


def _append(draft: Path, name: str, piece: bytes) -> None:
    with folders.writing("a copy of the store's software", draft / name):
        nofollow.append(draft, name, piece)


def _settle(draft: Path, target: Path, files: Sequence[File]) -> None:
    """Verify what has arrived, and put it in its place; LoadframeError, with nothing left, when it is not the same."""
    for file in files:
        if file.folder:
            with nofollow.making(draft, file.path):
                continue
        name = PurePosixPath(file.path)
        with nofollow.making(draft, str(name.parent)) as above:
            if file.link is not None:
                os.symlink(file.link, name.name, dir_fd=above)
            elif _sha256(draft, file.path) != file.sha256:
                nofollow.remove_tree(draft)
                raise LoadframeError(f"{file.path} has arrived with another checksum", where=str(target))
            else:
                opened = nofollow.open_file(above, name.name, os.O_RDONLY, draft / name)
                os.fchmod(opened, 0o755 if file.executable else 0o644)
                os.close(opened)
    folders.open_to_all(draft)
    try:
        draft.rename(target)
    except OSError:
        # Another command was faster with the same.
        nofollow.remove_tree(draft)
