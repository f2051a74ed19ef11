"""Certificates and passwords of clusters that loadframe starts.

The certificate authority is created at the first start, in the cluster's folder, readable only for its owner. Nodes get
a new certificate at each start, for their current address, so a cluster can move and grow.

Passwords are random. A named cluster's password is a file next to its record, readable only for its owner. The password
of an unnamed cluster exists only in this process and in the folders of its nodes.
"""

from collections.abc import Mapping
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput
from loadframe.store import Store
from loadframe.store.access import Certificates

#: Folder of the authority, in the cluster's folder on this machine.
FOLDER = "authority"
_CERTIFICATE, _KEY = "certificate.pem", "key.pem"
#: Validity in days: of the authority, and of a node's certificate, which is renewed at each start.
_DAYS, _NODE_DAYS = 3650, 825
_NAME = "loadframe cluster"


def certificate(folder: Path) -> Path:
    """Return the file of the cluster's CA certificate; create the authority in `folder` if it is missing.

    BadInput if it cannot be written.
    """
    place = folder / FOLDER
    if not (place / _CERTIFICATE).exists():
        from loadframe._engine import make_authority

        content, key = make_authority(_NAME, _DAYS)
        folders.make(place)
        with folders.writing("the cluster's certificates", place):
            # Atomic: after a kill, a file is complete or missing. Without the second, both are written again.
            nofollow.write_text(place, _KEY, key, durable=True)
            nofollow.write_text(place, _CERTIFICATE, content, durable=True)
    return place / _CERTIFICATE


def certify(folder: Path, name: str, address: str) -> Certificates:
    """Return a new certificate and key for a node and its IP address, signed by the cluster's authority.

    Valid for 825 days. Creates the authority in `folder` if it is missing; BadInput if it cannot be written.
    """
    from loadframe._engine import issue_certificate

    ours = certificate(folder)
    signed, key = issue_certificate(_NAME, (ours.parent / _KEY).read_text(), name, [address], _NODE_DAYS)
    return Certificates(ours.read_text(), signed, key)


def discard(folder: Path) -> None:
    """Remove the cluster's authority, if it has one."""
    nofollow.remove_tree(folder / FOLDER)


#: File in the folder of a named cluster.
FILE = "password"


def file_of(folder: Path) -> Path:
    """Return the path of the password file in the folder of a cluster. It may not exist."""
    return folder / FILE


def password(store: Store, settings: Mapping[str, Any], folder: Path | None, *, new: bool) -> str | None:
    """Return the password of the cluster in that folder, or a random one without a folder.

    Empty if neither the store nor a store behind an application has passwords. If the cluster is `new`, a missing
    password is created and written into the folder. None for an existing cluster without a password, made by an earlier
    version.
    """
    if not any(one.administrator for one in (store, *store.parts(settings).values())):
        return ""
    if folder is None:
        return token_urlsafe(24)
    file = file_of(folder)
    if new and not file.exists():
        folders.make(folder)
        with folders.writing("the cluster's password", file):
            # Atomic: after a kill, the file is complete or missing.
            nofollow.write_text(folder, FILE, token_urlsafe(24), durable=True)
    return file.read_text() if file.exists() else None


def require(password: str | None, folder: Path) -> str:
    """Return the password; BadInput for a cluster without one, which new nodes could not join."""
    if password is None:
        raise BadInput(
            f"cluster {folder.name} lacks a password: an earlier version of loadframe made it",
            where=str(file_of(folder)),
            remedy=f"delete it with `loadframe cluster down {folder.name} --delete-data`, and start it again",
        )
    return password
