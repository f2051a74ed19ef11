"""The authority of a cluster whose connections are encrypted: it signs a certificate for each node that starts.

It is made here with the cluster's first start, kept in the cluster's folder, where only its owner can read it, and
deleted with it. Nodes get a new certificate at each start, for the address that they have then. So a cluster may be
started again elsewhere, and may grow.
"""

from pathlib import Path

from loadframe import folders, nofollow
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
