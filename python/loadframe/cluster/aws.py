"""AWS keys that sign requests (Signature Version 4), from the places that AWS's own tools use.

A key in the environment stays the same; the file with a key is read again when it changes. A program, the container
service (ECS, EKS) or the metadata of an EC2 instance (IMDSv2) issues other keys. A thread fetches each of them again
before it expires, and writes it to a private file, which generators read again.
"""

import atexit
import configparser
import contextlib
import json
import re
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput
from loadframe.base.untrusted import read_input
from loadframe.store.access import Auth, Aws

#: Section of the key in the private file.
_PROFILE = "issued"
#: Timeouts of metadata services and of programs, s.
_ANSWER, _PROGRAM = 2.0, 60.0
#: A key is renewed this long before it expires, s, or after half of its life.
_BEFORE = 600.0
#: Shortest wait for a renewal, and wait after a failed one, s.
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
    """Return a function that runs `command`, the `credential_process` of a profile in the file `where`, for a key.

    The function raises BadInput if the command fails, takes more than 60 s, or prints no key.
    """

    def fetch() -> Key:
        """Run the command, and return the key in its output; BadInput if it fails or takes more than 60 s."""
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
    """Return a function that asks the container service for a key, or None outside of a container with a role.

    BadInput if the container's token would be sent unencrypted. The function raises BadInput if the service refuses or
    does not answer.
    """
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
        """Ask the container service for a key; BadInput if it refuses or does not answer."""
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
    """Return a function that asks the instance metadata (IMDSv2) for a key, and the address of the metadata.

    The function raises NoMetadata if they are disabled or do not answer, BadInput if they refuse.
    """
    endpoint = (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _ENDPOINT).rstrip("/")

    def fetch() -> Key:
        """Ask the instance metadata for a key; NoMetadata if disabled or without an answer, BadInput if refused."""
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
    """Whether the host is a loopback IP address; False for a name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_WEB = ("AccessKeyId", "SecretAccessKey", "Token")


def _request(method: str, url: str, headers: Mapping[str, str]) -> bytes:
    """Return the body of the answer of a metadata service. NoMetadata if it does not answer within 2 s.

    BadInput if the status is not 200.
    """
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
    """Return the key in a JSON document, which is not quoted in messages; BadInput if it holds none.

    `names` are the fields of access key, secret and token; `what` and `where` describe the document in messages. An
    `Expiration` without a time zone is UTC; without it, the key does not expire.
    """
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
    """Return a key and the private file that holds the newest one while this process runs.

    The first call for a `source`, which identifies it, fetches the key, writes the file, and starts a thread that
    renews a key that expires. Errors of `fetch` are raised. The file is deleted at exit.
    """
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
    """Delete key files in `folder` that are older than two days, which killed processes left.

    Running processes write theirs again with each renewed key.
    """
    for file in folder.glob("*.credentials"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _LEFT_OVER:
                file.unlink()


def _renew(source: str, fetch: Fetch) -> None:
    """Fetch the key of a source again and again before it expires, and replace its file; run in a thread.

    It fetches 600 s before that, or after half of the remaining time if that is later. After a failure, it tries again
    in 5 s.
    """
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
    """Replace the file with a key by a new one, in the format of AWS's credentials file."""
    token = f"aws_session_token = {key.token}\n" if key.token else ""
    text = f"[{_PROFILE}]\naws_access_key_id = {key.access_key}\naws_secret_access_key = {key.secret}\n{token}"
    nofollow.write_text(file.parent, file.name, text)


#: Hosts of AWS's search services: REGION.es.amazonaws.com, REGION.aoss.amazonaws.com, aos.REGION.on.aws.
_HOSTS = (
    re.compile(r"\.(?P<region>[a-z0-9-]+)\.(?P<service>es|aoss)\.amazonaws\.com(\.cn)?$"),
    re.compile(r"\.(?P<service>aos)\.(?P<region>[a-z0-9-]+)\.on\.aws$"),
)
#: Name in signatures by name in hosts.
_SIGNED_AS = {"es": "es", "aos": "es", "aoss": "aoss"}
_NAME = re.compile(r"[a-z0-9-]+")
_MAX_SIZE = 1 << 20
#: Keys of profiles with AWS keys from other programs or services.
_ISSUED = ("role_arn", "sso_session", "sso_start_url", "web_identity_token_file", "login_session")


@dataclass(frozen=True)
class AwsOptions:
    """The options for signatures, and the `host:port`s of the cluster."""

    service: str | None
    region: str | None
    profile: str | None
    addresses: Sequence[str] = ()

    @property
    def given(self) -> str | None:
        """Name of the first of the options service, region and profile that is set, such as `--aws-region`, or None."""
        options = {"service": self.service, "region": self.region, "profile": self.profile}
        return next((f"--aws-{name}" for name, value in options.items() if value is not None), None)


def sign(options: AwsOptions, check: Callable[[Path], None], environment: Mapping[str, str]) -> Auth:
    """Return the credentials that sign requests; BadInput if service, region, a named profile or key are unknown.

    The key is in the environment, the credentials file, or issued by a program, container or instance, in this order.
    The option `profile` excludes the environment. `check` is called with the credentials file that holds the key, and
    may refuse it.
    """
    named = options.profile or ("AWS_ACCESS_KEY_ID" not in environment and environment.get("AWS_PROFILE")) or None
    if named:
        _require_profile(named, environment)
    profile = options.profile or environment.get("AWS_PROFILE") or "default"
    service, region = _scope(options, profile, environment)
    if options.profile is None and "AWS_ACCESS_KEY_ID" in environment:
        secret = environment.get("AWS_SECRET_ACCESS_KEY")
        if not secret:
            raise BadInput("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY", remedy="set both, or neither")
        token = environment.get("AWS_SESSION_TOKEN") or None
        return Auth("aws", secret, environment["AWS_ACCESS_KEY_ID"], aws=Aws(service, region, "", token))
    file = _key_file(environment)
    section = _sections(file).get(profile)
    if section is None or "aws_access_key_id" not in section or "aws_secret_access_key" not in section:
        key, place = _issued(profile, named is not None, file, section, environment)
        return Auth("aws", key.secret, key.access_key, file=place, aws=Aws(service, region, _PROFILE, key.token))
    check(file)
    aws = Aws(service, region, profile, section.get("aws_session_token"))
    return Auth("aws", section["aws_secret_access_key"], section["aws_access_key_id"], file=file, aws=aws)


def _issued(
    profile: str, named: bool, file: Path, section: Mapping[str, str] | None, environment: Mapping[str, str]
) -> tuple[Key, Path]:
    """Return a key that a program or service issues, and its file; BadInput without one.

    `section` is the profile's part of the credentials file `file`. `named`: the user has named the profile. First the
    `credential_process` of the profile is run. The container service, and without one the instance metadata, is asked
    only if the profile is not `named` and configures no other way, as by AWS's tools.
    """
    configured = {**_configured(profile, environment), **(section or {})}
    if command := configured.get("credential_process"):
        where = str(_config_file(environment) if command not in (section or {}).values() else file)
        return issued(f"program {profile} {where}", of_program(command, where))
    if named or any(key in configured for key in _ISSUED):
        raise _no_key(profile, file, section, environment)
    if fetch := of_container(environment):
        return issued("container", fetch)
    fetch, endpoint = of_instance(environment)
    try:
        return issued(f"instance {endpoint}", fetch)
    except NoMetadata:
        error = _no_key(profile, file, section, environment)
        what = f"{error.what}; there is no EC2 instance metadata at {endpoint}"
        raise BadInput(what, where=error.where, remedy=error.remedy) from None


def _scope(options: AwsOptions, profile: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return service (`es` or `aoss`, as in signatures) and region; BadInput if they are unknown or invalid.

    The options come first, then the addresses, and for the region also the environment and the profile.
    """
    names = [address.rpartition(":")[0] for address in options.addresses]
    host = next((match for name in names for known in _HOSTS if (match := known.search(name))), None)
    service = options.service or (host and _SIGNED_AS[host["service"]])
    region = (
        options.region
        or (host and host["region"])
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or _configured(profile, environment).get("region")
    )
    if not service:
        raise BadInput(
            "requests cannot be signed without the service's name",
            where=", ".join(options.addresses),
            remedy="give --aws-service: es for OpenSearch Service, aoss for OpenSearch Serverless",
        )
    if not region:
        raise BadInput(
            "requests cannot be signed without a region",
            where=", ".join(options.addresses),
            remedy="give --aws-region, or set AWS_REGION",
        )
    for option, value in (("--aws-service", service), ("--aws-region", region)):
        if not _NAME.fullmatch(value):
            raise BadInput(
                f"{option} must consist of a to z, 0 to 9 and -; got {value!r}",
                remedy="for example es, and eu-central-1",
            )
    return service, region


def _no_key(profile: str, file: Path, section: Mapping[str, str] | None, environment: Mapping[str, str]) -> BadInput:
    """Return the BadInput for a profile without a key, with the reason."""
    issued = {**_configured(profile, environment), **(section or {})}
    if any(key in issued for key in _ISSUED):
        return BadInput(
            f"the key of the AWS profile {profile} is issued by another service, which Loadframe does not ask",
            where=str(file),
            remedy=f'export it: eval "$(aws configure export-credentials --profile {profile} --format env)", and leave '
            "--aws-profile out; or make the command, with --format process, the credential_process of another profile",
        )
    lacking = "lacks a key" if section is not None else "is not in the file"
    return BadInput(
        "no AWS key: the environment lacks AWS_ACCESS_KEY_ID, and the"
        + (f" profile {profile} {lacking}" if file.exists() else f" file of the profile {profile} does not exist"),
        where=str(file),
        remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --aws-profile",
    )


def _key_file(environment: Mapping[str, str]) -> Path:
    """Return the path of AWS's credentials file: AWS_SHARED_CREDENTIALS_FILE or the default. It may not exist."""
    return Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser().absolute()


def _config_file(environment: Mapping[str, str]) -> Path:
    """Return the path of AWS's config file: AWS_CONFIG_FILE or the default. It may not exist."""
    return Path(environment.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser().absolute()


def _require_profile(profile: str, environment: Mapping[str, str]) -> None:
    """Raise BadInput for a profile that is neither in the credentials file nor in the config file."""
    file, config = _key_file(environment), _config_file(environment)
    known = {*_sections(file), *(name.removeprefix("profile ") for name in _sections(config))}
    if profile in known:
        return
    missing = "" if file.exists() else ", which does not exist"
    there = f"choose one of: {', '.join(sorted(known))}" if known else f"neither {file} nor {config} has a profile"
    raise BadInput(
        f"unknown AWS profile {profile}",
        where=f"{file}{missing}",
        remedy=f"{there}; or leave --aws-profile and AWS_PROFILE out, and set AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY",
    )


def _configured(profile: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of a profile in AWS's config file; empty if it has none."""
    return _sections(_config_file(environment)).get("default" if profile == "default" else f"profile {profile}", {})


def _sections(file: Path) -> dict[str, dict[str, str]]:
    """Return section -> key -> value of an INI file; empty if it does not exist. BadInput if it cannot be read."""
    if not file.exists():
        return {}
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(read_input(file, _MAX_SIZE).decode())
    except (configparser.Error, UnicodeDecodeError):
        # The parser's message quotes lines, which may be secrets.
        raise BadInput("the file is not an AWS profile file", where=str(file), remedy="see `aws configure`") from None
    return {name: dict(parser[name]) for name in parser.sections()}
