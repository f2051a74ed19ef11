"""Unpacks a zip file that was verified into its installation, readable by everybody, and removes it."""

import shutil
import zipfile
from pathlib import Path

from loadframe import folders
from loadframe.errors import LoadframeError
from loadframe.store.distribution import Archive


def unpack(path: Path, archive: Archive, target: Path) -> None:
    """Put what is below the archive's root into `target`, without the folders that it leaves out."""
    with zipfile.ZipFile(path) as content:
        for entry in content.infolist():
            name = entry.filename.removeprefix(f"{archive.root}/")
            if name == entry.filename or entry.is_dir() or name.startswith(archive.without):
                continue
            place = (target / name).resolve()
            if not place.is_relative_to(target.resolve()):
                raise LoadframeError(f"the archive has a file outside of its folder: {entry.filename}", where=str(path))
            folders.make(place.parent)
            with content.open(entry) as source, place.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            # Zip files keep a Unix mode in the upper half of the attributes.
            place.chmod(0o755 if entry.external_attr >> 16 & 0o100 else 0o644)
    path.unlink()
