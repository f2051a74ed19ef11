"""AWS keys that a program, the container service (ECS, EKS) or the metadata of an EC2 instance (IMDSv2) issues.

A thread fetches each key again before it expires, and writes it to a private file, which generators read again.
"""

import atexit
import contextlib
import json
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput

#: Section of the key in the private file.
PROFILE = "issued"
#: Timeouts of metadata services and of programs, s.
_ANSWER, _PROGRAM = 2.0, 60.0
#: A key is renewed this long before it expires, s, or after half of its life.
_BEFORE = 600.0
#: Shortest wait for a renewal, and wait after one that failed, s.
_LEAST, _AGAIN = 0.5, 5.0
#: Age from which a key's file was left by a killed process, s: no key of a role lives longer.
_LEFT_OVER = 2 * 86_400
_ENDPOINT = "http://169.254.169.254"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_CONTAINER = "http://169.254.170.2"
#: Hosts that receive the token of a container without TLS, besides loopback addresses.
_CONTAINERS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost")


@dataclass(frozen=True)
class Key:
    """A key with the time at which it expires, if it does."""

    access_key: str
    secret: str
    token: str | None
    expires: datetime | None


Fetch = Callable[[], Key]


class NoMetadata(Exception):
    """The metadata service does not answer, as on machines other than EC2 instances."""


def of_program(command: str, where: str) -> Fetch:
    """Return a function that runs the `credential_process` of a profile in the file `where`."""

    def fetch() -> Key:
        remedy = "run the command by hand, and correct it"
        try:
            done = subprocess.run(
                shlex.split(command), capture_output=True, timeout=_PROGRAM, check=True, stdin=subprocess.DEVNULL
            )
        except subprocess.CalledProcessError as error:
            what = f"credential_process failed with exit status {error.returncode}"
            raise BadInput(what, where=where, remedy=remedy) from None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            # The command may hold secrets.
            raise BadInput(
                f"cannot run credential_process: {type(error).__name__}", where=where, remedy=remedy
            ) from None
        return _read(done.stdout, ("AccessKeyId", "SecretAccessKey", "SessionToken"), where, "credential_process")

    return fetch


def of_container(environment: Mapping[str, str]) -> Fetch | None:
    """Return a function that asks the container service; None outside of a container with a role."""
    relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = f"{_CONTAINER}{relative}" if relative else environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not url:
        return None
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and host not in _CONTAINERS and not _is_loopback(host):
        what = "AWS_CONTAINER_CREDENTIALS_FULL_URI would send the container's token unencrypted"
        raise BadInput(what, where=f"{parts.scheme}://{host}", remedy="use https://, or an address of this machine")

    def fetch() -> Key:
        # The file is renewed, too.
        file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if file:
            try:
                token = Path(file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                what = "cannot read the file in AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
                raise BadInput(what, where=file, remedy="check the path and its permissions") from None
        try:
            answer = _request("GET", url, {"Authorization": token} if token else {})
        except NoMetadata:
            remedy = "check the AWS_CONTAINER_ variables, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise BadInput("the container's credentials do not answer", where=url, remedy=remedy) from None
        return _read(answer, _WEB, url, "the answer")

    return fetch


def of_instance(environment: Mapping[str, str]) -> tuple[Fetch, str]:
    """Return a function that asks the instance metadata (IMDSv2), and its address. The function raises NoMetadata."""
    endpoint = (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _ENDPOINT).rstrip("/")

    def fetch() -> Key:
        if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise NoMetadata
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
        token = _request("PUT", f"{endpoint}/latest/api/token", lifetime).decode("latin-1").strip()
        headers = {"X-aws-ec2-metadata-token": token}
        role = _request("GET", f"{endpoint}{_ROLES}", headers).decode("latin-1").split("\n")[0].strip()
        url = f"{endpoint}{_ROLES}{role}"
        return _read(_request("GET", url, headers), _WEB, url, "the answer")

    return fetch, endpoint


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_WEB = ("AccessKeyId", "SecretAccessKey", "Token")


def _request(method: str, url: str, headers: Mapping[str, str]) -> bytes:
    """Return the answer of a metadata service. NoMetadata if it does not answer, BadInput if it refuses."""
    # Every command with a cluster imports this module, and only a container or an instance needs httpx.
    import httpx

    try:
        with httpx.Client(trust_env=False, timeout=_ANSWER) as client:
            answer = client.request(method, url, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        raise NoMetadata from None
    if answer.status_code != 200:
        raise BadInput(
            f"the request for an AWS key was refused: status {answer.status_code}",
            where=url,
            remedy="attach a role that this machine may use, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    return answer.content


def _read(content: bytes, names: tuple[str, str, str], where: str, what: str) -> Key:
    """Return the key in a JSON document, which is not quoted in messages."""
    try:
        document: dict[str, Any] = json.loads(content)
        access_key, secret, token = (document.get(name) for name in names)
        written = document.get("Expiration")
        expires = datetime.fromisoformat(written) if written else None
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=UTC)
    except (ValueError, TypeError, AttributeError, RecursionError):
        access_key = secret = token = expires = None
    texts = (access_key, secret, token or "-")
    if not all(isinstance(text, str) and text and text.isprintable() for text in texts):
        raise BadInput(
            f"{what} holds no AWS key", where=where, remedy="it must be JSON with AccessKeyId and SecretAccessKey"
        )
    return Key(str(access_key), str(secret), token, expires)


_files: dict[str, tuple[Key, Path]] = {}


def issued(source: str, fetch: Fetch) -> tuple[Key, Path]:
    """Return a key and the private file that holds the newest one while this process runs; `source` identifies it."""
    if source not in _files:
        key = fetch()
        folder = folders.make(folders.state() / "aws")
        _remove_left_over(folder)
        file = folder / f"{secrets.token_hex(8)}.credentials"
        with folders.writing("the AWS key", file):
            _write(file, key)
        atexit.register(file.unlink, missing_ok=True)
        _files[source] = key, file
        if key.expires:
            threading.Thread(target=_renew, args=(source, fetch), name="aws-key", daemon=True).start()
    return _files[source]


def _remove_left_over(folder: Path) -> None:
    """Delete the files of killed processes. Running ones write theirs again with each renewed key."""
    for file in folder.glob("*.credentials"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _LEFT_OVER:
                file.unlink()


def _renew(source: str, fetch: Fetch) -> None:
    """Fetch the key again before it expires, as long as this process runs."""
    key, file = _files[source]
    leaving = threading.Event()
    while key.expires:
        left = (key.expires - datetime.now(UTC)).total_seconds()
        leaving.wait(max(left - min(_BEFORE, left / 2), _LEAST))
        try:
            key = fetch()
            _write(file, key)
            _files[source] = key, file
        except (BadInput, NoMetadata, OSError):
            # The old key stays. Requests report that it has expired.
            leaving.wait(_AGAIN)


def _write(file: Path, key: Key) -> None:
    token = f"aws_session_token = {key.token}\n" if key.token else ""
    text = f"[{PROFILE}]\naws_access_key_id = {key.access_key}\naws_secret_access_key = {key.secret}\n{token}"
    nofollow.write_text(file.parent, file.name, text)
