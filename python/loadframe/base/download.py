"""Downloads of files into the cache: resumable, verified and atomic.

Packages are downloaded by the clients of their registries; see cluster/artefacts.py.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError

if TYPE_CHECKING:
    import httpx  # slow to import, and few commands need it

#: Timeout of a connection, and between two pieces of an answer, s.
_TIMEOUT = 30.0
_ATTEMPTS = 3
#: Pause before the second attempt, s; twice as long before the third.
_PAUSE = 1.0
#: Hexadecimal digits of a SHA-512.
_SHA512 = 128
#: HTTP statuses of temporary errors.
_MAY_PASS = (429, 500, 502, 503, 504)
#: HTTP statuses for a missing file; object stores answer 403 to clients without permission to list files.
_MISSING = (403, 404, 410)


class Missing(BadInput):
    """The server has no such file."""


def place(url: str, folder: Path, checksum: str | None = None) -> Path:
    """Return the path in `folder` for a download: the URL's file name, after a hash of the URL and the checksum."""
    mark = hashlib.sha256(f"{url}\n{checksum or ''}".encode()).hexdigest()[:16]
    name = unquote(urlsplit(url).path).rsplit("/", 1)[-1]
    return folder / f"{mark}-{name[-150:] or 'file'}"


def fetch(
    url: str, folder: Path, report: Callable[[str], None], *, otherwise: str, checksum: str | None = None
) -> Path:
    """Download a file into the folder, unless it is there, and return its path.

    Waits if another process downloads it. `checksum` is its SHA-256 or SHA-512, distinguished by length; a present file
    is not verified. `report` gets lines on the progress if standard error is not a terminal. Missing if the server does
    not have the file; BadInput, with the remedy `otherwise`, if the download fails. Received data are kept, and the
    next call resumes. LoadframeError if the checksum differs; the received data are then deleted.
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
    """Download a URL into the file `partial`, with up to three attempts; BadInput or Missing if the download fails.

    Only temporary errors are tried again, after 1 and 2 s. `report` gets a line for each; `otherwise` is part of the
    error's remedy.
    """
    import httpx

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _continue(url, partial, report)
        except httpx.InvalidURL as error:
            raise BadInput(f"invalid address: {error}", where=url, remedy="check the address") from error
        except httpx.HTTPError as error:
            refused = isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in _MAY_PASS
            if refused or attempt == _ATTEMPTS:
                raise _unreached(url, error, partial, otherwise) from error
            report(f"{url}: {_words(error)}; trying again")
            time.sleep(attempt * _PAUSE)
        else:
            return


def _continue(url: str, partial: Path, report: Callable[[str], None]) -> None:
    """Download the rest of the partial file; the whole file if it has changed or the server does not support ranges.

    If the file became shorter, deletes the partial file and raises RemoteProtocolError, so that the caller tries again.
    Other HTTPErrors for failed requests; BadInput if the disk lacks space or the cache cannot be written.
    """
    import httpx

    from loadframe.base.terminal import Download

    with _writable(partial):
        there = partial.stat().st_size if partial.exists() else 0
        version = _stamp(partial).read_text() if there and _stamp(partial).exists() else ""
    # If-Range prevents joining pieces of different versions.
    head = {"Range": f"bytes={there}-", "If-Range": version} if version else {}
    head["Accept-Encoding"] = "identity"
    with httpx.stream("GET", url, headers=head, timeout=_TIMEOUT, follow_redirects=True) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if answer.headers.get("content-range") == f"bytes */{there}":
                return
            partial.unlink()
            raise httpx.RemoteProtocolError("the file changed during the download")
        answer.raise_for_status()
        begun = there if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0
        length = answer.headers.get("content-length")
        rest = int(length) if length and length.isdigit() else None
        with _writable(partial):
            folders.require_room(partial.parent, rest or 0, f"downloading {url}")
            _stamp(partial).write_text(_version(answer))
            name = f"Downloading {urlsplit(url).path.rsplit('/', 1)[-1]}"
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
    """Return the path of the file that records the ETag or date (see `_version`) of a partial file."""
    return partial.with_name(f"{partial.name}.version")


def _version(answer: "httpx.Response") -> str:
    """Return the strong ETag of an answer, else its date of modification; empty without both."""
    tag: str = answer.headers.get("etag", "")
    return tag if tag.startswith('"') else str(answer.headers.get("last-modified", ""))


def _verify(url: str, partial: Path, checksum: str | None) -> None:
    """Delete a partial file without this SHA-256 or, by its length, SHA-512, and raise LoadframeError; ignore None."""
    if checksum is None:
        return
    with partial.open("rb") as file:
        actual = hashlib.file_digest(file, "sha512" if len(checksum) == _SHA512 else "sha256").hexdigest()
    if actual != checksum.lower():
        partial.unlink()
        raise LoadframeError(
            f"wrong checksum {actual}; expected {checksum}",
            where=url,
            remedy="the file at this address has changed, or a proxy modifies it",
        )


def _unreached(url: str, error: "httpx.HTTPError", partial: Path, otherwise: str) -> BadInput:
    """Return the error for a failed download: Missing if the server lacks the file, else BadInput.

    The remedy contains `otherwise`, and says so if the partial file holds data for the next attempt.
    """
    import httpx

    missing = isinstance(error, httpx.HTTPStatusError) and error.response.status_code in _MISSING
    kept = " The next attempt resumes the download." if partial.exists() and partial.stat().st_size else ""
    return (Missing if missing else BadInput)(
        f"could not download the file: {_words(error)}",
        where=url,
        remedy=f"check the address and the network; behind a proxy set HTTPS_PROXY; or {otherwise}.{kept}",
    )


def _words(error: "httpx.HTTPError") -> str:
    """Return an HTTP error in words: the status of the answer, or the text of the exception."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return f"the server answered {error.response.status_code} {error.response.reason_phrase}"
    return str(error) or type(error).__name__


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Convert an OSError in the block to BadInput, which says that the cache cannot be written.

    The error names `path` if the exception has no file name.
    """
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot write to the cache: {error.strerror}",
            where=str(error.filename or path),
            remedy="free space or make the folder writable, or set LOADFRAME_CACHE to another folder",
        ) from error
