"""Access to a cluster: addresses, TLS, credentials, and requests to its nodes in turn. Secrets appear in no message."""

import base64
import contextlib
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from loadframe.base.errors import BadInput
from loadframe.base.units import LAST_PORT

if TYPE_CHECKING:
    from loadframe._engine import Signer
from enum import StrEnum

#: Connect timeout for checking a certificate, s.
_CONNECT_TIMEOUT = 5.0

#: Schemes that all stores accept, with their default ports.
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Tls:
    """PEM files: trusted authorities (default: the system's), and the client's certificate and key."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True


@dataclass(frozen=True)
class Aws:
    """Parameters of AWS signatures besides the key."""

    service: str
    region: str
    profile: str = ""  #: section of the key in the credentials file; empty for a key from the environment
    session_token: str | None = field(default=None, repr=False)


Scheme = Literal["basic", "api_key", "bearer", "aws"]


@dataclass(frozen=True)
class Auth:
    """Credentials: a user with a password, an API key, a token, or an AWS key that signs requests.

    `user` is the name of the user, or the ID of the AWS key. HTTP stores read the secret in `file` again when it
    changes.
    """

    scheme: Scheme
    secret: str = field(repr=False)
    user: str | None = None
    file: Path | None = None
    aws: Aws | None = None

    @property
    def plan(self) -> dict[str, Any]:
        """The credentials, with the secret, in the form of the engine's plan: a dict whose only key is the scheme."""
        match self.scheme:
            case "basic":
                return {"basic": {"user": self.user, "password": self.secret}}
            case "api_key":
                return {"api_key": self._key}
            case "bearer":
                return {"bearer": self.secret}
            case "aws":
                assert self.aws
                return {"aws": {**asdict(self.aws), "access_key": self.user, "secret_key": self.secret}}

    @cached_property
    def signer(self) -> "Signer":
        """The engine's object that makes the headers with the credentials. It rereads `file` when that changes."""
        from loadframe._engine import Signer

        return Signer(json.dumps(self.plan), self.file)

    @property
    def check(self) -> str:
        """Error text, without a full stop: the server refused the credentials, and the options and files to check."""
        variable = {"basic": "LOADFRAME_PASSWORD", "api_key": "LOADFRAME_API_KEY", "bearer": "LOADFRAME_TOKEN"}
        place = f" in {self.file}" if self.file else ""
        match self.scheme:
            case "basic":
                place = place or f" in --password-file or {variable['basic']}"
                what = f"--user {self.user} and the password{place}"
            case "api_key" | "bearer":
                name = "API key" if self.scheme == "api_key" else "token"
                what = (
                    f"the {name}{place or f' in {variable[self.scheme]}'}, and that it has not expired or been revoked"
                )
            case "aws":
                what = f"the AWS key{place or ' in the environment'}, --aws-service and --aws-region"
        return f"the server refused the given credentials: check {what}"

    @property
    def _key(self) -> str:
        """The API key as requests need it: the Base64 of a key in the form `id:key`, any other key unchanged."""
        # Elasticsearch shows keys as `id:key` and as the Base64 of that, which has no colon.
        return _encoded(self.secret) if ":" in self.secret else self.secret


@dataclass(frozen=True)
class Access:
    """TLS, credentials, compression of request bodies, and the use of proxies."""

    tls: Tls | None = None
    auth: Auth | None = None
    compress: bool = False
    #: Whether administrative requests use the proxies that the environment names.
    proxied: bool = False
    #: Name of the cluster that Loadframe started, empty if it has none, or None for other clusters.
    cluster: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether this has no TLS, credentials, compression or proxies. The cluster's name does not matter."""
        return replace(self, cluster=None) == OPEN

    @property
    def scheme(self) -> str:
        """The URL scheme: `https` with TLS, otherwise `http`."""
        return "https" if self.tls else "http"

    @property
    def status_hint(self) -> str:
        """A hint to append to the remedy for a cluster that is not ready: its status command; empty without a name."""
        return f"; `loadframe cluster status {self.cluster}` shows its nodes" if self.cluster else ""

    @property
    def silence_hint(self) -> str:
        """A hint to append to the remedy for a host that does not answer; may be empty.

        It is the status command of a cluster that Loadframe started; otherwise https:// without TLS, or --cert if that
        was not given.
        """
        if self.cluster is not None:
            return self.status_hint
        if self.tls is None:
            return "; if it uses TLS, write https://"
        # Under TLS 1.3 a server that requires a client certificate may just close the connection.
        return "" if self.tls.certificate else "; if it requires a client certificate, give --cert"

    def authenticate(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the headers to add to a request to authenticate it; empty without credentials.

        `path` includes the query. `headers` are the request's other headers and must include `Host`, because a
        signature covers them. ValueError for a request that cannot be signed.
        """
        return dict(self.auth.signer.headers(method, path, list(headers.items()), body)) if self.auth else {}

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """The client's TLS context, None without TLS; BadInput if a file is unreadable, invalid or encrypted.

        It accepts any certificate and host name if `tls.verify` is False.
        """
        if self.tls is None:
            return None
        tls = self.tls
        with _naming(tls.ca):
            context = ssl.create_default_context(cafile=tls.ca)
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate:
            with _naming(tls.certificate):
                # With the default, OpenSSL would ask for the password of an encrypted key on the terminal.
                context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
        return context

    def plan(self) -> dict[str, Any]:
        """Return the access part of the engine's plan, with the secret: `compress`, `tls`, `auth` and `auth_file`.

        Each key is present only if that is used. Proxies and the cluster's name are left out.
        """
        plan: dict[str, Any] = {"compress": True} if self.compress else {}
        if self.tls:
            files = {"ca": self.tls.ca, "certificate": self.tls.certificate, "key": self.tls.key}
            plan["tls"] = {name: None if file is None else str(file) for name, file in files.items()}
            plan["tls"]["verify"] = self.tls.verify
        if self.auth:
            plan["auth"] = self.auth.plan
            if self.auth.file:
                plan["auth_file"] = str(self.auth.file)
        return plan

    def describe(self) -> dict[str, Any]:
        """Return `tls`, `verified`, `client_certificate` and `compress` (bools), and the credentials' `scheme` or None.

        It is for manifests, without secrets. `verified` is False without TLS.
        """
        return {
            "tls": self.tls is not None,
            "verified": bool(self.tls and self.tls.verify),
            "client_certificate": bool(self.tls and self.tls.certificate),
            "scheme": self.auth.scheme if self.auth else None,
            "compress": self.compress,
        }

    def verify(
        self, addresses: Sequence[str], announce: Callable[[socket.socket], None] = lambda _connection: None
    ) -> None:
        """Complete a TLS handshake with each host; BadInput if a host's certificate is invalid or the handshake fails.

        Does nothing without TLS. `announce` requests TLS on a new connection, in protocols that need it, and raises
        OSError if the host refuses. Skips such hosts, and hosts that are unreachable or do not answer within 5 s.
        """
        if self.context is None:
            return
        for address in addresses:
            host, port = split_address(address)
            try:
                with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT) as plain:
                    announce(plain)
                    with self.context.wrap_socket(plain, server_hostname=host):
                        pass
            except ssl.SSLCertVerificationError as error:
                raise invalid_certificate(address, error) from error
            except ssl.SSLError as error:
                raise BadInput(
                    f"the TLS handshake failed ({error.reason or error})",
                    where=address,
                    remedy=f"write http:// if it does not use TLS{self.silence_hint}",
                ) from error
            except OSError:
                continue


#: No TLS and no credentials.
OPEN = Access()


def endpoints(
    text: str, port: int | None = None, schemes: Mapping[str, bool | None] = MappingProxyType({})
) -> tuple[list[str], bool | None]:
    """Return the `host:port`s of a comma-separated list, and whether it requests TLS (None if unspecified).

    Each entry is `host:port`, or a URL with `http://`, `https://` or a scheme in `schemes` (name -> whether it means
    TLS). Without a port, an `http` or `https` URL gets 80 or 443, and other entries get `port`, the store's default. A
    URL of a store's scheme may list several hosts, such as `mongodb://a,b`. BadInput for an invalid entry, an entry
    that lacks a port without a default, or if entries differ in TLS.
    """
    secure, addresses, native = set[bool | None](), list[str](), False
    for part in (part.strip() for part in text.split(",")):
        if "://" in part:
            scheme, address = _endpoint(part, port, schemes)
            native = scheme in schemes
            tls = schemes[scheme] if native else scheme == "https"
        else:
            # The entries after a URL of a store's scheme are further hosts of that URL.
            tls = tls if native else None
            address = part.rstrip("/") if native else part
            if port is not None and not re.search(r":\d*$", address.rpartition("]")[2]) and _is_host(address):
                address = f"{address}:{port}"
        split_address(address)
        secure.add(tls)
        addresses.append(address)
    if len(secure) > 1:
        raise BadInput("some of these hosts use TLS and others do not", where=text, remedy="write https:// before each")
    return addresses, secure.pop()


def _is_host(text: str) -> bool:
    """Whether this is a host without a port: a name, an IPv4 address, or an IPv6 address in brackets."""
    return re.fullmatch(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", text) is not None


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`, without the brackets of an IPv6 address; BadInput if invalid.

    The port must be 1 to 65535. The host is not resolved.
    """
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    malformed = any(character in name for character in ("[]" if bracketed else "[]:"))
    if not name or malformed or not (port.isascii() and port.isdigit()):
        raise BadInput(f"invalid address {address!r}", remedy="write host:port, such as 127.0.0.1:9200")
    number = int(port) if len(port) <= len(str(LAST_PORT)) else 0
    if not 1 <= number <= LAST_PORT:
        raise BadInput(f"invalid port {port}", where=address, remedy=f"ports are numbers from 1 to {LAST_PORT}")
    return name, number


def join_address(host: str, port: int | str) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def invalid_certificate(address: str, error: ssl.SSLCertVerificationError) -> BadInput:
    """Return the BadInput for a host whose certificate does not verify."""
    return BadInput(
        f"certificate verification failed: {error.verify_message}",
        where=address,
        remedy="give the signing authority with --ca, and address the host by the name in its certificate; "
        "--insecure disables verification",
    )


def require_known(addresses: Sequence[str]) -> None:
    """Raise BadInput for an address that is not `host:port`, or a host name that the system cannot resolve."""
    for address in addresses:
        host, port = split_address(address)
        try:
            socket.getaddrinfo(host, port)
        except (OSError, UnicodeError) as error:
            raise BadInput(
                f"cannot resolve the host {host!r}: {getattr(error, 'strerror', None) or error}",
                where=address,
                remedy="check its name, or write its IP address",
            ) from error


def _endpoint(url: str, port: int | None, schemes: Mapping[str, bool | None]) -> tuple[str, str]:
    """Return scheme and `host:port` of a URL; BadInput if it has credentials, a path, a query or an unknown scheme.

    The path `/` is accepted. Without a port in the URL it is `port` for a scheme in `schemes`, and 80 or 443 for `http`
    and `https`. An invalid port is not detected here.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadInput(f"invalid address {url!r}: {error}", remedy="write [address]:port for IPv6") from error
    if parts.username or parts.password:
        raise BadInput(
            "a password in an address is visible to all users of this machine",
            where=f"{parts.scheme}://***@{parts.hostname}",
            remedy="give --user, and the password in --password-file, in LOADFRAME_PASSWORD or at the prompt",
        )
    known = [*_PORTS, *schemes]
    if parts.scheme not in known or not parts.hostname or parts.path.strip("/") or parts.query:
        raise BadInput(
            f"invalid address {url!r}",
            remedy=f"write {known[-1]}://host:port, without a path; give TLS and users as options",
        )
    with contextlib.suppress(ValueError):
        if parts.port is not None:
            return parts.scheme, parts.netloc
    usual = port if parts.scheme in schemes else _PORTS[parts.scheme]
    return parts.scheme, f"{parts.netloc}:{usual}"


@contextlib.contextmanager
def _naming(file: Path | None) -> Iterator[None]:
    """Turn ssl.SSLError and OSError in the block into BadInput with the TLS file as its place."""
    try:
        yield
    except ssl.SSLError as error:
        reason = {"KEY_VALUES_MISMATCH": "the key does not belong to it"}.get(
            error.reason or "", error.reason or str(error)
        )
        raise BadInput(
            f"cannot use this file for TLS: {reason}",
            where=str(file),
            remedy="give PEM files: certificates, and a key that is not encrypted",
        ) from error
    except OSError as error:
        raise BadInput(f"cannot read the file: {error.strerror or error}", where=str(file)) from error


def _encoded(text: str) -> str:
    """Return the Base64 encoding of a text in UTF-8."""
    return base64.b64encode(text.encode()).decode()


Answer = TypeVar("Answer")


def first_answer(
    addresses: Sequence[str],
    ask: Callable[[str], Answer],
    unanswered: type[Exception] | tuple[type[Exception], ...],
    unsent: type[Exception] | tuple[type[Exception], ...] = (),
    *,
    repeatable: bool = True,
) -> Answer:
    """Return the result of `ask` for the first address that answers; if none does, raise the last exception.

    `ask` gets one of the `addresses`, which must not be empty. `unanswered` are the exceptions for a node
    that did not answer, `unsent` those for a request that was not sent. A request that changes something is not
    `repeatable`, because the node may still carry it out. It goes to the next address only after an `unsent` exception.
    """
    for address in addresses[:-1]:
        try:
            return ask(address)
        except unanswered as error:
            if not (repeatable or isinstance(error, unsent)):
                raise
    return ask(addresses[-1])


#: Paths of a node's TLS files in its folder.
FOLDER = "config/tls"
AUTHORITY = f"{FOLDER}/authority.pem"
CERTIFICATE = f"{FOLDER}/certificate.pem"
KEY = f"{FOLDER}/key.pem"
#: Certificate and key in one file, for servers that need it.
BUNDLE = f"{FOLDER}/node.pem"


class Encryption(StrEnum):
    """Connections that use TLS: client connections (`http`), connections between nodes (`transport`), or both."""

    NONE = "none"
    HTTP = "http"
    TRANSPORT = "transport"
    BOTH = "both"

    @property
    def any(self) -> bool:
        """Whether anything is encrypted."""
        return self is not Encryption.NONE

    @property
    def clients(self) -> bool:
        """Whether client connections use TLS."""
        return self in (Encryption.HTTP, Encryption.BOTH)

    @property
    def nodes(self) -> bool:
        """Whether connections between nodes use TLS."""
        return self in (Encryption.TRANSPORT, Encryption.BOTH)


def refuse_settings(encryption: Encryption, settings: Mapping[str, Any], decided: Callable[[str], bool]) -> None:
    """Raise BadInput for a setting that Loadframe controls when it encrypts: one for which `decided(name)` is True.

    Does nothing without encryption.
    """
    for name in settings if encryption.any else ():
        if decided(name):
            raise BadInput(
                f"with encryption: {encryption}, Loadframe controls the setting {name}",
                where=str(settings[name]),
                remedy="leave the setting out, or leave encryption out and encrypt with settings",
            )


@dataclass(frozen=True)
class Certificates:
    """A node's certificate and key, and its trusted authority, as PEM."""

    authority: str  #: certificate of the cluster's authority
    certificate: str
    key: str = field(repr=False)  #: PKCS #8, without a password

    def files(self, *, bundled: bool = False) -> dict[str, str]:
        """Return PEM contents by path relative to the node's folder: the authority's certificate, the node's, its key.

        With `bundled`, one file contains both the node's certificate and its key.
        """
        if bundled:
            return {AUTHORITY: self.authority, BUNDLE: self.certificate + self.key}
        return {AUTHORITY: self.authority, CERTIFICATE: self.certificate, KEY: self.key}
