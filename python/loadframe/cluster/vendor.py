"""Download of a vendor's archive, and its installation in the cache.

The archive must match the checksum file next to it. That detects damaged downloads, but does not prove authenticity,
because both come from the same server.
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

#: Number of hexadecimal digits per checksum type.
_DIGITS = {"sha256": 64, "sha512": 128}
#: Disk space for unpacking, as a multiple of the archive's size.
_UNPACKED = 4


def mirror(store: str) -> str:
    """Return the environment variable with the URL of a mirror of the vendor's folder."""
    return f"LOADFRAME_MIRROR_{store.upper()}"


def install(offer: Offer, report: Callable[[str], None]) -> Path:
    """Download and unpack the archive if necessary, and return the folder of the installation.

    BadInput if the vendor lacks the version or is not reachable. LoadframeError if the checksum does not match or the
    archive is unsafe. A partial download is kept and resumed.
    """
    # Lazy: slow to import and rarely needed.
    from loadframe.base import download

    target = folders.cache() / "vendor" / f"{offer.store}-{offer.version}"
    name = f"{offer.store} {offer.version}"
    folders.make(target.parent)
    with folders.locked(
        target.with_name(f"{target.name}.lock"),
        lambda: report(f"another loadframe process is downloading {name}; waiting for it"),
    ):
        if target.exists():
            return target
        url = f"{os.environ.get(mirror(offer.store), offer.address).rstrip('/')}/{offer.name}"
        otherwise = f"set the URL of a mirror in {mirror(offer.store)}, or give an installation with --home"
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
    """Return the checksum from the file next to an archive."""
    from loadframe.base import download

    checksum_url = f"{url}.{offer.checksum}"
    # Not cached: a mirror may have corrected a wrong checksum.
    with tempfile.TemporaryDirectory() as scratch:
        try:
            path = download.fetch(checksum_url, Path(scratch), lambda _: None, otherwise=otherwise)
            text = path.read_text(errors="replace")
        except download.Missing as error:
            raise BadInput(
                f"{offer.store} {offer.version} is not available for download ({error.what.rpartition(': ')[2]})",
                where=checksum_url,
                remedy=f"check that this version exists, with three numbers; or {otherwise}",
            ) from error
    word = text.strip().partition(" ")[0]
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{_DIGITS[offer.checksum]}}}", word):
        raise LoadframeError(
            f"the checksum file is invalid: {word[:40]!r}",
            where=checksum_url,
            remedy=f"open the URL in a browser, as a proxy may have answered; or {otherwise}",
        )
    return word
