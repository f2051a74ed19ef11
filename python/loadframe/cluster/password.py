"""The password of a cluster that loadframe starts, of a kind of store that requires one.

It is made here and known to nobody else. Of a cluster with a name it is kept beside its record, for its owner's eyes.
"""

from pathlib import Path
from secrets import token_urlsafe

from loadframe import folders
from loadframe.store import OPEN, Access, Store
from loadframe.store.access import Auth

_FILE = "password"


def access(store: Store, folder: Path | None) -> Access:
    """Return the access to the cluster in that folder, or to a new one without a name; OPEN where none is needed."""
    if not store.administrator:
        return OPEN
    return Access(auth=Auth("basic", _password(folder), user=store.administrator))


def _password(folder: Path | None) -> str:
    new = token_urlsafe(24)
    if folder is None:
        return new
    file = folder / _FILE
    if not file.exists():
        folders.make(folder)
        with folders.writing("the cluster's password", file), open(file, "x", opener=folders.ours_alone) as handle:
            handle.write(new)
    return file.read_text()
