"""The password of a cluster that loadframe starts, of a kind of store that authenticates its clients.

It is random. That of a cluster with a name is kept beside its record, where only its owner can read it; that of another
cluster is in this process alone, and in the folders of its nodes.
"""

from collections.abc import Mapping
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from loadframe import folders, nofollow
from loadframe.errors import BadInput
from loadframe.store import Store

#: In the folder of a cluster with a name.
FILE = "password"


def file_of(folder: Path) -> Path:
    """Return the file with the password of the cluster in that folder."""
    return folder / FILE


def password(store: Store, settings: Mapping[str, Any], folder: Path | None, *, new: bool) -> str | None:
    """Return the password of the cluster in that folder, or of one without a name.

    Empty if neither the store nor any behind an application has one. A `new` cluster gets a password unless it has one;
    None for a cluster that is not new and has none, since an earlier version of loadframe made it.
    """
    if not any(one.administrator for one in (store, *store.parts(settings).values())):
        return ""
    if folder is None:
        return token_urlsafe(24)
    file = file_of(folder)
    if new and not file.exists():
        folders.make(folder)
        with folders.writing("the cluster's password", file):
            # In one step: a kill leaves a whole password or none.
            nofollow.write_text(folder, FILE, token_urlsafe(24), durable=True)
    return file.read_text() if file.exists() else None


def require(password: str | None, folder: Path) -> str:
    """Return the password; BadInput for a cluster that has none: its new nodes would need one, and its others not."""
    if password is None:
        raise BadInput(
            f"cluster {folder.name} has no password: an earlier version of loadframe made it",
            where=str(file_of(folder)),
            remedy=f"delete it with `loadframe cluster down {folder.name} --delete-data`, and start it again",
        )
    return password
