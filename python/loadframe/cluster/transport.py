"""Distribution of software to other machines: reused if already there or on a shared file system, else copied.

Copies are verified by checksums before use and stay in the machine's cache.
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
from loadframe.store import FoundInstallation, Store

#: Size of a piece in bytes, and number of machines that are copied to concurrently.
_PIECE, _AT_ONCE = 2**20, 8
#: Seconds after which remains of an interrupted transfer are removed.
_STALE = 86_400


@dataclass(frozen=True)
class File:
    """File, link or folder below the copied folder."""

    path: str
    size: int
    sha256: str
    executable: bool
    link: str | None  #: target, if it is a link
    folder: bool
    signs: tuple[int, int]  #: inode and modification time in ns, to recognize the same file on a shared file system


@cache
def listing(folder: Path) -> tuple[File, ...]:
    """Return all files, links and folders below a folder, by name, parents first, with the checksums of files.

    Other entries are skipped. The result is cached in this process, even if the folder changes.
    """
    with nofollow.folder(folder) as top:
        entries = nofollow.walk(top)
        return tuple(_file(entry, folder) for entry in entries if entry.is_link or entry.is_file or entry.is_folder)


def system(kind: str) -> FoundInstallation | None:
    """Return the installation that a kind of store finds on this machine without a given home, or None."""
    return stores.find(kind).installation(None)


def require_machines(
    store: Store, settings: Mapping[str, Any], memory: int | None, machines: Sequence[Machine]
) -> None:
    """Raise BadInput, with the machine's name, if a machine would refuse a node of this store.

    `memory` is the memory limit of a node in bytes, or None.
    """
    for machine in machines:
        if store.refuses_root:
            machine.server_user(named=store.needs_account)
        try:
            machine.call(_require_here, store.kind, dict(settings), memory, machine.address)
        except BadInput as error:
            raise BadInput(error.what, where=error.where or machine.hostname, remedy=error.remedy) from None


def _require_here(kind: str, settings: Mapping[str, Any], memory: int | None, address: str) -> None:
    """Raise BadInput if this machine cannot run a node of a kind of store; see Store.require_machine."""
    stores.find(kind).require_machine(settings, memory, address)


def system_everywhere(kind: str, version: str, machines: Sequence[Machine]) -> dict[str, Path]:
    """Return host name -> folder of the store in the machine's system.

    `kind` is the kind of store. BadInput if a machine lacks it or has another version than `version`.
    """
    places = {}
    for machine in machines:
        present = machine.call(system, kind)
        if present is None or present.version != version:
            raise BadInput(
                f"its system has {f'{kind} {present.version}' if present else f'no {kind}'}, but others have {version}",
                where=machine.hostname,
                remedy="install the same version on all machines, or give an installation with --home, which is copied",
            )
        places[machine.hostname] = present.home
    return places


def bring(
    machines: Sequence[Machine], place: Path, name: str, user: Mapping[str, int | None], report: Callable[[str], None]
) -> dict[str, Path]:
    """Copy the folder `place` to each machine that lacks it, and return host name -> folder there.

    `name` is the software in messages. `user` maps host names to the id of the user who must be able to access it, or
    None. BadInput if disk space is lacking.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = {m.hostname: pool.submit(_copy_to, m, place, name, user[m.hostname], report) for m in machines}
        return {hostname: job.result() for hostname, job in jobs.items()}


def _copy_to(machine: Machine, place: Path, name: str, user: int | None, report: Callable[[str], None]) -> Path:
    """Return the folder on a machine with the content of `place`: the same path, a cached copy, or a new copy.

    A new copy is verified before it is used; LoadframeError if a checksum differs. BadInput if the disk is too small.
    `name` is the software, for messages; `user` must be able to access the folder (None: not checked).
    """
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
    machine.call(_verify_and_place, draft, target, list(files))
    return target


def _file(entry: nofollow.TreeEntry, folder: Path) -> File:
    """Return the description of an entry below the folder, with the checksum of a file."""
    name, status = entry.path, entry.status
    signs = (status.st_ino, status.st_mtime_ns)
    if entry.is_link:
        return File(name, 0, "", False, os.readlink(entry.name, dir_fd=entry.descriptor), False, signs)
    if entry.is_folder:
        return File(name, 0, "", False, None, True, signs)
    return File(name, status.st_size, _sha256(folder, name), bool(status.st_mode & 0o100), None, False, signs)


def _sha256(folder: Path, name: str) -> str:
    """Return the SHA-256 of a file below a folder, in hexadecimal digits."""
    with nofollow.reading(folder, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_there(place: Path, files: Sequence[File], user: int | None) -> bool:
    """Whether this machine has the same files at the same path, accessible for the user (None: not checked).

    Further files do not matter.
    """
    if not place.is_dir() or (user is not None and not folders.reachable(place, user)):
        return False
    return all(_same(place, file) for file in files)


def _same(place: Path, file: File) -> bool:
    """Whether an entry agrees with its description; unchanged inode and modification time replace the checksum."""
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
    """Return this machine's cache folder for a digest, and a new temporary folder to fill; None if it is cached.

    Side effect: removes remains that are older than a day. BadInput if the disk lacks `size` bytes; `name` is the
    software in the message.
    """
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
    """Append bytes to a file below the draft of a copy, created if missing; BadInput if the disk is full."""
    with folders.writing("a copy of the store's software", draft / name):
        nofollow.append(draft, name, piece)


def _verify_and_place(draft: Path, target: Path, files: Sequence[File]) -> None:
    """Verify the copied files, set their modes, and move them to `target`; keep an existing `target`.

    Creates links and empty folders; all users can read the result. LoadframeError, with the copy removed, if a file
    differs.
    """
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
                raise LoadframeError(f"{file.path} has a wrong checksum after the transfer", where=str(target))
            else:
                opened = nofollow.open_file(above, name.name, os.O_RDONLY, draft / name)
                os.fchmod(opened, 0o755 if file.executable else 0o644)
                os.close(opened)
    folders.open_to_all(draft)
    try:
        draft.rename(target)
    except OSError:
        # Another command has copied the same folder in the meantime.
        nofollow.remove_tree(draft)
