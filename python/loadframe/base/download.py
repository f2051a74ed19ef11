"""One file from a web address into the cache: resumed where an earlier attempt stopped, verified, whole or not there.

What comes from a package registry is not fetched here but by the registry's own client; see cluster/artefacts.py.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.progress import Download

#: Seconds for a connection, and between two pieces of an answer.
_TIMEOUT = 30.0
_ATTEMPTS = 3
#: Seconds before the second attempt; the third waits twice as long.
_PAUSE = 1.0
#: Hexadecimal digits of a SHA-512.
_SHA512 = 128
#: What a server says that cannot do it now, and perhaps can soon.
_MAY_PASS = (429, 500, 502, 503, 504)
#: What a server says that has no such file; stores of objects say 403 to those who may not list them.
_MISSING = (403, 404, 410)


class Missing(BadInput):
    """The server has no such file."""


def place(url: str, folder: Path, checksum: str | None = None) -> Path:
    """Return where a file is kept once it has been fetched: under its own name, behind a mark of where it is from."""
    mark = hashlib.sha256(f"{url}\n{checksum or ''}".encode()).hexdigest()[:16]
    name = unquote(urlsplit(url).path).rsplit("/", 1)[-1]
    return folder / f"{mark}-{name[-150:] or 'file'}"


def fetch(
    url: str, folder: Path, report: Callable[[str], None], *, otherwise: str, checksum: str | None = None
) -> Path:
    """Return the file of a web address, fetched into the folder unless it is there.

    `checksum` is its SHA-256 or, as its length tells, its SHA-512, if that is known. `report` takes lines on how far it
    is where there is no terminal. Missing if the server has no such file, BadInput if it cannot be reached, which ends
    with what the user can do `otherwise`; what has arrived is kept, and the next call goes on there. LoadframeError if
    the file is another one than the checksum says.
    """
    target = place(url, folder, checksum)
    if target.exists():
        return target
    folders.make(folder)
    with folders.locked(target.with_name(f"{target.name}.lock"), lambda: report(f"another loadframe fetches {url}")):
        if not target.exists():
            partial = target.with_name(f"{target.name}.part")
            _fetch(url, partial, report, otherwise)
            _verify(url, partial, checksum)
            partial.replace(target)
            _stamp(partial).unlink(missing_ok=True)
    return target


def _fetch(url: str, partial: Path, report: Callable[[str], None], otherwise: str) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _continue(url, partial, report)
        except httpx.InvalidURL as error:
            raise BadInput(f"it is not the address of a file: {error}", where=url, remedy="check it") from error
        except httpx.HTTPError as error:
            refused = isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in _MAY_PASS
            if refused or attempt == _ATTEMPTS:
                raise _unreached(url, error, partial, otherwise) from error
            report(f"{url}: {_words(error)}; trying again")
            time.sleep(attempt * _PAUSE)
        else:
            return


def _continue(url: str, partial: Path, report: Callable[[str], None]) -> None:
    """Fetch what the partial file lacks; the whole file if the server has another one now, or knows no ranges."""
    with _writable(partial):
        there = partial.stat().st_size if partial.exists() else 0
        version = _stamp(partial).read_text() if there and _stamp(partial).exists() else ""
    # A range of a file that has changed would be glued to the start of another one.
    head = {"Range": f"bytes={there}-", "If-Range": version} if version else {}
    head["Accept-Encoding"] = "identity"
    with httpx.stream("GET", url, headers=head, timeout=_TIMEOUT, follow_redirects=True) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if answer.headers.get("content-range") == f"bytes */{there}":
                return
            partial.unlink()
            raise httpx.RemoteProtocolError("the file has changed since it was begun")
        answer.raise_for_status()
        begun = there if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0
        length = answer.headers.get("content-length")
        rest = int(length) if length and length.isdigit() else None
        with _writable(partial):
            folders.require_room(partial.parent, rest or 0, f"fetching {url}")
            _stamp(partial).write_text(_version(answer))
            name = f"Fetching {urlsplit(url).path.rsplit('/', 1)[-1]}"
            with (
                partial.open("r+b" if begun else "wb") as file,
                Download(name, None if rest is None else begun + rest, report) as progress,
            ):
                file.seek(begun)
                progress.advance(begun)
                for piece in answer.iter_raw():
                    file.write(piece)
                    progress.advance(len(piece))


def _stamp(partial: Path) -> Path:
    """Return where the server's mark of the version is kept that a partial file is the beginning of."""
    return partial.with_name(f"{partial.name}.version")


def _version(answer: httpx.Response) -> str:
    """Return what tells this version of a file from others for certain, which weak tags do not; empty if nothing."""
    tag: str = answer.headers.get("etag", "")
    return tag if tag.startswith('"') else str(answer.headers.get("last-modified", ""))


def _verify(url: str, partial: Path, checksum: str | None) -> None:
    if checksum is None:
        return
    with partial.open("rb") as file:
        actual = hashlib.file_digest(file, "sha512" if len(checksum) == _SHA512 else "sha256").hexdigest()
    if actual != checksum.lower():
        partial.unlink()
        raise LoadframeError(
            f"the file has another checksum than {checksum}, which it should have: {actual}",
            where=url,
            remedy="the file at this address has changed, or a proxy changes it on the way",
        )


def _unreached(url: str, error: httpx.HTTPError, partial: Path, otherwise: str) -> BadInput:
    missing = isinstance(error, httpx.HTTPStatusError) and error.response.status_code in _MISSING
    kept = " What has arrived is kept." if partial.exists() and partial.stat().st_size else ""
    return (Missing if missing else BadInput)(
        f"the file cannot be fetched: {_words(error)}",
        where=url,
        remedy=f"check the address and the network, behind a proxy set HTTPS_PROXY; or {otherwise}.{kept}",
    )


def _words(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server says {error.response.status_code} {error.response.reason_phrase}"
    return str(error) or type(error).__name__


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"the cache cannot be written: {error.strerror}",
            where=str(error.filename or path),
            remedy="free some space or make it writable, or set LOADFRAME_CACHE to another folder",
        ) from error
