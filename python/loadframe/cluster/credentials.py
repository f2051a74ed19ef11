"""Certificates and passwords of clusters that Loadframe starts.

It is made here with the cluster's first start, kept in the cluster's folder, where only its owner can read it, and
deleted with it. Nodes get a new certificate at each start, for the address that they have then. So a cluster may be
started again elsewhere, and may grow.

It is random. That of a cluster with a name is kept beside its record, where only its owner can read it; that of another
cluster is in this process alone, and in the folders of its nodes.
"""

from collections.abc import Mapping
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput
from loadframe.store import Store
from loadframe.store.encryption import Certificates

#: In the cluster's folder, here.
FOLDER = "authority"
_CERTIFICATE, _KEY = "certificate.pem", "key.pem"
#: Of the authority, and of a node, which gets a new one whenever it starts.
_DAYS, _NODE_DAYS = 3650, 825
_NAME = "loadframe cluster"


def certificate(folder: Path) -> Path:
    """Return the file by which clients of the cluster in that folder verify its nodes; it is made if it is missing."""
    place = folder / FOLDER
    if not (place / _CERTIFICATE).exists():
        from loadframe._engine import make_authority

        told, key = make_authority(_NAME, _DAYS)
        folders.make(place)
        _write(place / _KEY, key)
        _write(place / _CERTIFICATE, told)
    return place / _CERTIFICATE


def certify(folder: Path, name: str, address: str) -> Certificates:
    """Return a certificate for the node of that name at that IP address, by the authority in the cluster's folder."""
    from loadframe._engine import issue_certificate

    ours = certificate(folder)
    signed, key = issue_certificate(_NAME, (ours.parent / _KEY).read_text(), name, [address], _NODE_DAYS)
    return Certificates(ours.read_text(), signed, key)


def discard(folder: Path) -> None:
    """Remove the authority of the cluster in that folder, if it has one."""
    nofollow.remove_tree(folder / FOLDER)


def _write(file: Path, text: str) -> None:
    with folders.writing("the cluster's certificates", file), open(file, "w", opener=folders.ours_alone) as handle:
        handle.write(text)


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
