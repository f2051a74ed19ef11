"""Sources of software: files of the Maven repository, and vendors' archives with their extraction and installation.

The archive must match the checksum file next to it. That detects damaged downloads, but does not prove authenticity,
because both come from the same server.
"""

import contextlib
import gzip
import os
import re
import shutil
import tarfile
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store.distribution import Archive, Jar, Offer


def unpack(path: Path, archive: Archive, target: Path) -> None:
    """Extract the files in the folder `archive.root` of the zip file `path` into `target`; then delete `path`.

    Skips paths, below that folder, that begin with one of `archive.without`. LoadframeError for an entry outside
    `target`.
    """
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
    """Extract an entry without the first folder of its path; refuse paths and links that leave `target`.

    They raise LoadframeError, as do hard links, devices and other special files.
    """
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
    """Return the path of a name below a folder, following links; LoadframeError if it leaves `within`.

    `within` is by default the folder. `archive` and `shown`, the entry, appear in the message.
    """
    resolved = (folder / name).resolve()
    if not resolved.is_relative_to((within or folder).resolve()):
        raise _outside(archive, shown)
    return resolved


def _outside(archive: Path, name: str) -> LoadframeError:
    """Return the error for an archive's entry outside its folder."""
    return LoadframeError(f"the archive has a file outside its folder: {name}", where=str(archive))


#: Number of hexadecimal digits per checksum type.
_DIGITS = {"sha256": 64, "sha512": 128}
#: Disk space for unpacking, as a multiple of the archive's size.
_UNPACKED = 4


def mirror(store: str) -> str:
    """Return the name of the environment variable for the URL of a mirror of the vendor's folder.

    It ends with the store's name in capital letters.
    """
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
    """Return the hexadecimal checksum from the file next to the archive at `url`.

    BadInput if it does not exist, LoadframeError if it is invalid. `otherwise` is a further remedy in messages.
    """
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


#: Timeout in seconds for a connection, and between two reads.
_TIMEOUT = 30


class RegistryError(BadInput):
    """The registry is not reachable, or the connection broke."""


class StoppedError(Exception):
    """Another download failed, or the user interrupted, so this one is aborted."""


def download_jar(jar: Jar, staging: Path, count: Callable[[int], None], stop: threading.Event) -> Path:
    """Download a file into the staging folder, without verifying its checksum, and return its path.

    A file of another size than `jar.size` is deleted; its path is returned without an error. `count` receives the bytes
    as they arrive, negative if discarded. LOADFRAME_MAVEN is the URL of a mirror. RegistryError if the download fails,
    StoppedError once `stop` is set.
    """
    # Imported here because the client of the registry takes 0.3 s to import.
    import requests
    from jgo.maven import MavenContext, PythonResolver

    arrived = 0

    @contextlib.contextmanager
    def counting(_name: str, _size: int) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts arrived bytes, and raises StoppedError once `stop` is set."""

        def add(amount: int) -> None:
            """Count `amount` more bytes; StoppedError once `stop` is set."""
            nonlocal arrived
            if stop.is_set():
                raise StoppedError
            arrived += amount
            count(amount)

        yield add

    group, artifact, version, *rest = jar.coordinates.split(":")
    classifier = "".join(rest)
    mirror = os.environ.get("LOADFRAME_MAVEN")
    context = MavenContext(
        repo_cache=staging,
        remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
        resolver=PythonResolver(progress_callback=counting),
        timeout=_TIMEOUT,
    )
    package = context.project(group, artifact).at_version(version).artifact(classifier, jar.packaging)
    path = Path(package.cached_path or "")
    try:
        context.resolver.download(package)
    except (requests.RequestException, RuntimeError) as error:
        raise RegistryError(
            f"could not reach the package registry ({_cause(error)})",
            remedy="the first start of a store needs network access; complete files are kept. Behind a proxy, set "
            "HTTPS_PROXY; for a mirror of the Maven repository, set LOADFRAME_MAVEN to its URL",
        ) from error
    finally:
        # The client writes into its cache directly, where it would take a partial file for a complete one.
        if path.exists() and path.stat().st_size != jar.size:
            path.unlink()
            count(-arrived)
    return path


def _cause(error: BaseException) -> str:
    """Return the innermost error message; outer ones repeat addresses and class names."""
    inner = error.__cause__ or error.__context__
    return _cause(inner) if inner else str(error) or type(error).__name__
