"""Extraction of verified archives. Entries cannot be written outside the target folder."""

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
    """Extract the entries below the root of a zip file into `target`, except `archive.without`; delete the file."""
    with zipfile.ZipFile(path) as content:
        for entry in content.infolist():
            name = entry.filename.removeprefix(f"{archive.root}/")
            if name == entry.filename or entry.is_dir() or name.startswith(archive.without):
                continue
            resolved = _resolve_inside(target, name, path, entry.filename)
            folders.make(resolved.parent)
            with content.open(entry) as source, resolved.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            # Zip files keep a Unix mode in the upper half of the attributes.
            resolved.chmod(0o755 if entry.external_attr >> 16 & 0o100 else 0o644)
    path.unlink()


def unpack_tar(path: Path, target: Path) -> None:
    """Extract the contents of the top folder of a gzip tar archive into `target`; replace `target` if it exists.

    LoadframeError, with `target` removed, if the archive is damaged, empty, or has entries outside the folder.
    """
    shutil.rmtree(target, ignore_errors=True)
    try:
        # tarfile accepts truncated archives; gzip does not.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as content:
            for entry in content:
                _extract(content, entry, path, target)
        if not target.exists():
            raise LoadframeError("the archive has no files", where=str(path))
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise LoadframeError(f"the archive is damaged: {error}", where=str(path), remedy="download it again") from error
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _extract(content: tarfile.TarFile, entry: tarfile.TarInfo, path: Path, target: Path) -> None:
    _, *parts = PurePosixPath(entry.name).parts
    if not parts:
        return
    if entry.name.startswith("/") or ".." in parts:
        raise _outside(path, entry.name)
    resolved = _resolve_inside(target, "/".join(parts), path, entry.name)
    folders.make(resolved if entry.isdir() else resolved.parent)
    if entry.issym():
        _resolve_inside(resolved.parent, entry.linkname, path, f"{entry.name} -> {entry.linkname}", within=target)
        resolved.symlink_to(entry.linkname)
    elif entry.isfile():
        source = content.extractfile(entry)
        assert source is not None
        with source, resolved.open("wb") as sink:
            shutil.copyfileobj(source, sink)
        resolved.chmod(0o755 if entry.mode & 0o100 else 0o644)
    elif not entry.isdir():
        raise LoadframeError(
            f"the archive has an entry that is not a file, folder or link: {entry.name}", where=str(path)
        )


def _resolve_inside(folder: Path, name: str, archive: Path, shown: str, within: Path | None = None) -> Path:
    """Resolve a name below a folder, following links; LoadframeError if the result is outside."""
    resolved = (folder / name).resolve()
    if not resolved.is_relative_to((within or folder).resolve()):
        raise _outside(archive, shown)
    return resolved


def _outside(archive: Path, name: str) -> LoadframeError:
    return LoadframeError(f"the archive has a file outside its folder: {name}", where=str(archive))
