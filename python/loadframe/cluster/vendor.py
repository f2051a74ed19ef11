"""Fetches what a store's vendor has for download, and unpacks it into the cache beside other versions of itself.

The archive has to have the checksum that stands beside it: that tells a file that was damaged on its way, and no more
about who made it than the address does that both are from.
"""

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster.archive import unpack_tar
from loadframe.store.vendors import Offer

#: Hexadecimal digits of a checksum.
_DIGITS = {"sha256": 64, "sha512": 128}
#: How many times its own size an archive needs while it is unpacked beside itself.
_UNPACKED = 4


def mirror(store: str) -> str:
    """Return the name of the variable with the address that is asked instead of the vendor's folder."""
    return f"LOADFRAME_MIRROR_{store.upper()}"


def install(offer: Offer, report: Callable[[str], None]) -> Path:
    """Return the folder of the installation.

    BadInput if the vendor has no such version or cannot be reached, LoadframeError if what arrives is not what the
    checksum says, or no archive that is safe to unpack; nothing half-written is left then, but what has arrived of a
    download that goes on where it was.
    """
    # A fetch is rare, and its library takes long to import.
    from loadframe.base import download

    target = folders.cache() / "vendor" / f"{offer.store}-{offer.version}"
    name = f"{offer.store} {offer.version}"
    folders.make(target.parent)
    with folders.locked(
        target.with_name(f"{target.name}.lock"), lambda: report(f"another loadframe fetches {name}; waiting for it")
    ):
        if target.exists():
            return target
        url = f"{os.environ.get(mirror(offer.store), offer.address).rstrip('/')}/{offer.name}"
        otherwise = f"name the address of a mirror in {mirror(offer.store)}, or give an installation with --home"
        checksum = _published(offer, url, otherwise)
        path = download.fetch(url, target.parent / "downloads", report, otherwise=otherwise, checksum=checksum)
        report(f"unpacking {name}")
        folders.require_room(target.parent, _UNPACKED * path.stat().st_size, f"unpacking {name}")
        draft = target.with_name(f"{target.name}.part")
        try:
            with folders.writing("the store's files", draft):
                unpack_tar(path, draft)
                folders.open_to_all(draft)
        finally:
            path.unlink()
        draft.rename(target)
    return target


def _published(offer: Offer, url: str, otherwise: str) -> str:
    """Return the checksum that stands beside an archive."""
    from loadframe.base import download

    beside = f"{url}.{offer.checksum}"
    # Never from the cache: a mirror's that was wrong may be right by now.
    with tempfile.TemporaryDirectory() as scratch:
        try:
            path = download.fetch(beside, Path(scratch), lambda _: None, otherwise=otherwise)
            text = path.read_text(errors="replace")
        except download.Missing as error:
            raise BadInput(
                f"there is no {offer.store} {offer.version} for download ({error.what.rpartition(': ')[2]})",
                where=beside,
                remedy=f"check that there is such a version, with these three numbers; or {otherwise}",
            ) from error
    word = text.strip().partition(" ")[0]
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{_DIGITS[offer.checksum]}}}", word):
        raise LoadframeError(
            f"this is not a checksum: {word[:40]!r}",
            where=beside,
            remedy=f"see in a browser what answers there, perhaps a proxy; or {otherwise}",
        )
    return word
