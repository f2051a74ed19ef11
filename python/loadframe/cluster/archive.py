"""Unpacks archives that were verified: what they hold stays below one folder, whatever names it has."""

import gzip
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from loadframe.base import folders
from loadframe.base.errors import LoadframeError
from loadframe.store.distribution import Archive


def unpack(path: Path, archive: Archive, target: Path) -> None:
    """Put what is below a zip file's root into `target`, without the folders that it leaves out; remove the file."""
    with zipfile.ZipFile(path) as content:
        for entry in content.infolist():
            name = entry.filename.removeprefix(f"{archive.root}/")
            if name == entry.filename or entry.is_dir() or name.startswith(archive.without):
                continue
            place = _below(target, name, path, entry.filename)
            folders.make(place.parent)
            with content.open(entry) as source, place.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            # Zip files keep a Unix mode in the upper half of the attributes.
            place.chmod(0o755 if entry.external_attr >> 16 & 0o100 else 0o644)
    path.unlink()


def unpack_tar(path: Path, target: Path) -> None:
    """Put what is below the one folder of a tar archive, compressed by gzip, into `target`, which is new then.

    LoadframeError, and no folder, for an archive that is broken, or that reaches out of the folder.
    """
    shutil.rmtree(target, ignore_errors=True)
    try:
        # An archive that ends too early passes for a whole one with tarfile, and not with gzip.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as content:
            for entry in content:
                _place(content, entry, path, target)
        if not target.exists():
            raise LoadframeError("there is no file in the archive", where=str(path))
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise LoadframeError(f"the archive is broken: {error}", where=str(path), remedy="fetch it again") from error
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _place(content: tarfile.TarFile, entry: tarfile.TarInfo, path: Path, target: Path) -> None:
    _, *parts = PurePosixPath(entry.name).parts
    if not parts:
        return
    if entry.name.startswith("/") or ".." in parts:
        raise _outside(path, entry.name)
    place = _below(target, "/".join(parts), path, entry.name)
    folders.make(place if entry.isdir() else place.parent)
    if entry.issym():
        _below(place.parent, entry.linkname, path, f"{entry.name} -> {entry.linkname}", within=target)
        place.symlink_to(entry.linkname)
    elif entry.isfile():
        source = content.extractfile(entry)
        assert source is not None, "it is a file"
        with source, place.open("wb") as sink:
            shutil.copyfileobj(source, sink)
        place.chmod(0o755 if entry.mode & 0o100 else 0o644)
    elif not entry.isdir():
        raise LoadframeError(
            f"the archive has an entry that is not a file, folder or link: {entry.name}", where=str(path)
        )


def _below(folder: Path, name: str, archive: Path, shown: str, within: Path | None = None) -> Path:
    """Return the place of that name, links followed; LoadframeError if it is not within the folder."""
    place = (folder / name).resolve()
    if not place.is_relative_to((within or folder).resolve()):
        raise _outside(archive, shown)
    return place


def _outside(archive: Path, name: str) -> LoadframeError:
    return LoadframeError(f"the archive has a file outside of its folder: {name}", where=str(archive))
