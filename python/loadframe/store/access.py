"""How a cluster is reached: its addresses, TLS, and credentials.

Secrets stay inside: they are in no representation, description or message. Where they come from: `store.secrets`.
"""

import base64
import contextlib
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from loadframe.base.errors import BadInput
from loadframe.base.ranges import LAST_PORT

#: How long a host is waited for while its certificate is looked at, s.
_PATIENCE = 5.0

#: Schemes that every store is reached by, with their usual ports.
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Tls:
    """PEM files: the authorities to trust instead of the system's, and what the client shows."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True


@dataclass(frozen=True)
class Auth:
    """Who asks: a user with a password, or the holder of an API key or of a token."""

    scheme: Literal["basic", "api_key", "bearer"]
    secret: str = field(repr=False)
    user: str | None = None

    @property
    def header(self) -> str:
        """The value of the `Authorization` header."""
        match self.scheme:
            case "basic":
                return f"Basic {_encoded(f'{self.user}:{self.secret}')}"
            case "api_key":
                return f"ApiKey {self._key}"
            case "bearer":
                return f"Bearer {self.secret}"

    @property
    def plan(self) -> dict[str, Any]:
        """The form in which the engine takes it."""
        match self.scheme:
            case "basic":
                return {"basic": {"user": self.user, "password": self.secret}}
            case "api_key":
                return {"api_key": self._key}
            case "bearer":
                return {"bearer": self.secret}

    @property
    def _key(self) -> str:
        # Stores give keys out as `id:key` and as its Base64, which has no colon.
        return _encoded(self.secret) if ":" in self.secret else self.secret


@dataclass(frozen=True)
class Access:
    """TLS or not, credentials or none, and whether bodies of requests are compressed."""

    tls: Tls | None = None
    auth: Auth | None = None
    compress: bool = False

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.tls else "http"

    @property
    def tls_remedy(self) -> str:
        """What about TLS may be the matter where a host does not answer, as the end of a remedy; empty for nothing."""
        if self.tls is None:
            return "; if it speaks TLS, write https://"
        # Under TLS 1.3 a server that misses the client's certificate may just close the connection.
        return "" if self.tls.certificate else "; if it wants the client's certificate, give --cert"

    @property
    def headers(self) -> dict[str, str]:
        """What each request to the cluster carries."""
        return {"Authorization": self.auth.header} if self.auth else {}

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """The client's end of TLS; BadInput for files that cannot serve."""
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
                # The password of a locked key would be asked for at the terminal, by a library, amid other things.
                context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
        return context

    def plan(self) -> dict[str, Any]:
        """Return what the engine's plan says of it in its target. It holds the secret."""
        plan: dict[str, Any] = {"compress": True} if self.compress else {}
        if self.tls:
            files = {"ca": self.tls.ca, "certificate": self.tls.certificate, "key": self.tls.key}
            plan["tls"] = {name: None if file is None else str(file) for name, file in files.items()}
            plan["tls"]["verify"] = self.tls.verify
        if self.auth:
            plan["auth"] = self.auth.plan
        return plan

    def describe(self) -> dict[str, Any]:
        """Return what a manifest may say of it."""
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
        """Shake hands with each host; BadInput says which one's certificate does not verify, and why.

        `announce` says on a new connection that TLS is to begin, where the protocol wants that; it raises OSError where
        the host refuses. A host that is not there is no error here.
        """
        if self.context is None:
            return
        for address in addresses:
            host, port = split_address(address)
            try:
                with socket.create_connection((host, port), timeout=_PATIENCE) as plain:
                    announce(plain)
                    with self.context.wrap_socket(plain, server_hostname=host):
                        pass
            except ssl.SSLCertVerificationError as error:
                raise BadInput(
                    f"its certificate does not verify: {error.verify_message}",
                    where=address,
                    remedy="name the authority that signed it with --ca, and the host as the certificate does; "
                    "--insecure believes any certificate",
                ) from error
            except ssl.SSLError as error:
                raise BadInput(
                    f"the TLS handshake failed ({error.reason or error})",
                    where=address,
                    remedy=f"write http:// if it speaks in the clear{self.tls_remedy}",
                ) from error
            except OSError:
                continue


#: In the clear, and nobody in particular.
OPEN = Access()


def endpoints(
    text: str, port: int | None = None, schemes: Mapping[str, bool | None] = MappingProxyType({})
) -> tuple[list[str], bool | None]:
    """Return the `host:port`s of a comma-separated list, and whether it asks for TLS; None if it does not say.

    Each is `host:port`, or a URL with `http://`, `https://` or one of the store's `schemes`. The port may be left out
    where `port` is the store's usual one, or the scheme has one. The hosts of one URL of the store's, such as
    `mongodb://a,b`, are separated by commas, too.
    """
    secure, addresses, native = set[bool | None](), list[str](), False
    for part in (part.strip() for part in text.split(",")):
        if "://" in part:
            scheme, address = _endpoint(part, port, schemes)
            native = scheme in schemes
            asked = schemes[scheme] if native else scheme == "https"
        else:
            # What follows a URL of the store's is one of its hosts, too.
            asked = asked if native else None
            address = part.rstrip("/") if native else part
            if port is not None and not re.search(r":\d*$", address.rpartition("]")[2]) and _is_host(address):
                address = f"{address}:{port}"
        split_address(address)
        secure.add(asked)
        addresses.append(address)
    if len(secure) > 1:
        raise BadInput(
            "some of these hosts are asked by TLS and some are not", where=text, remedy="write https:// before each"
        )
    return addresses, secure.pop()


def _is_host(text: str) -> bool:
    """Whether this is a host without a port: a name, an IPv4 address, or an IPv6 address in brackets."""
    return re.fullmatch(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", text) is not None


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`, brackets of an IPv6 address taken off; BadInput for anything else."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or (":" in host and not host.startswith("[")):
        raise BadInput(f"{address!r} is not an address", remedy="write host:port, such as 127.0.0.1:9200")
    number = int(port) if len(port) <= len(str(LAST_PORT)) else 0
    if not 1 <= number <= LAST_PORT:
        raise BadInput(f"{port} is not a port", where=address, remedy=f"ports are numbers from 1 to {LAST_PORT}")
    return host.strip("[]"), number


def require_known(addresses: Sequence[str]) -> None:
    """Raise BadInput for an invalid address, or one whose host name does not resolve."""
    for address in addresses:
        host, port = split_address(address)
        try:
            socket.getaddrinfo(host, port)
        except (OSError, UnicodeError) as error:
            raise BadInput(
                f"the host {host!r} cannot be found: {getattr(error, 'strerror', None) or error}",
                where=address,
                remedy="check its name, or write its IP address",
            ) from error


def _endpoint(url: str, port: int | None, schemes: Mapping[str, bool | None]) -> tuple[str, str]:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise BadInput(
            "an address with a password in it is seen by everybody on this machine",
            where=f"{parts.scheme}://***@{parts.hostname}",
            remedy="give --user, and the password in --password-file, in LOADFRAME_PASSWORD or when asked",
        )
    known = [*_PORTS, *schemes]
    if parts.scheme not in known or not parts.hostname or parts.path.strip("/") or parts.query:
        raise BadInput(
            f"{url!r} is not an address of a host",
            remedy=f"write {known[-1]}://host:port, without a path; TLS and users are options of the command",
        )
    with contextlib.suppress(ValueError):
        if parts.port is not None:
            return parts.scheme, parts.netloc
    usual = port if parts.scheme in schemes else _PORTS[parts.scheme]
    return parts.scheme, f"{parts.netloc}:{usual}"


@contextlib.contextmanager
def _naming(file: Path | None) -> Iterator[None]:
    """Say of which file it is that it cannot serve."""
    try:
        yield
    except ssl.SSLError as error:
        reason = {"KEY_VALUES_MISMATCH": "its key is another one's"}.get(error.reason or "", error.reason or str(error))
        raise BadInput(
            f"it cannot serve for TLS: {reason}",
            where=str(file),
            remedy="give PEM files: certificates, and a key that is not encrypted",
        ) from error
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror or error}", where=str(file)) from error


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
