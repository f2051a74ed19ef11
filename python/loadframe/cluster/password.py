"""The password of a cluster that loadframe starts, of a kind of store that authenticates its clients.

It is random. That of a cluster with a name is kept beside its record, where only its owner can read it; that of another
cluster is in this process alone, and in the folders of its nodes.
"""

from pathlib import Path
from secrets import token_urlsafe

from loadframe import folders
from loadframe.errors import BadInput
from loadframe.store import OPEN, Access, Store
from loadframe.store.access import Auth

_FILE = "password"


def file_of(folder: Path) -> Path:
    """Return the file with the password of the cluster in that folder."""
    return folder / _FILE


def access(store: Store, folder: Path | None, *, new: bool) -> Access:
    """Return the access to the cluster in that folder, or to one without a name; OPEN if the store has no password.

    A `new` cluster gets a password unless it has one. BadInput for one that is not new and has none.
    """
    if not store.administrator:
        return OPEN
    return Access(auth=Auth("basic", _password(folder, new=new), user=store.administrator))


def _password(folder: Path | None, *, new: bool) -> str:
    if folder is None:
        return token_urlsafe(24)
    file = file_of(folder)
    if new and not file.exists():
        folders.make(folder)
        with folders.writing("the cluster's password", file), open(file, "x", opener=folders.ours_alone) as handle:
            handle.write(token_urlsafe(24))
    try:
        return file.read_text()
    except FileNotFoundError:
        raise BadInput(
            f"cluster {folder.name} has no password: an earlier version of loadframe made it",
            where=str(file),
            remedy=f"delete it with `loadframe cluster down {folder.name} --delete-data`, and start it again",
        ) from None
