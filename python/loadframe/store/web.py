"""HTTP client for administering the nodes of a store. Load uses the engine's drivers instead.

It uses `http.client`, because importing a client library takes longer than `loadframe cluster status`. Nodes that
Loadframe starts are in the local network and reached directly. Requests to existing clusters use the proxies that the
environment names.
"""

import base64
import http.client
import ipaddress
import json
import select
import ssl
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from loadframe.base.errors import BadInput
from loadframe.store.access import Access, invalid_certificate, split_address

#: Connect timeout, s.
_CONNECT_TIMEOUT = 5.0
#: Port of proxies without one in their URL, as in curl.
_PROXY_PORT = 1080
#: Status of a proxy that requires credentials.
_PROXY_REFUSED = 407
#: Characters that stay unquoted in a path with a query.
_UNQUOTED = "/?&=%,:;*+@!$'()[]~"


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy, and the environment variable that names it."""

    host: str
    port: int
    variable: str
    headers: dict[str, str] = field(repr=False)  #: with the credentials, if the URL has them

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(address: str, scheme: str) -> Proxy | None:
    """Return the proxy for requests to `host:port`, or None without one, for loopback addresses and hosts in NO_PROXY.

    `scheme` (http or https) selects HTTP_PROXY or HTTPS_PROXY, and ALL_PROXY is used without that, in upper or lower
    case. The proxy's port is 1080 by default. BadInput for a proxy that is not supported.
    """
    proxies = getproxies_environment()
    name = scheme if scheme in proxies else "all"
    if name not in proxies or _is_direct(address, proxies.get("no", "")):
        return None
    variable = f"{name.upper()}_PROXY"
    url = proxies[name] if "://" in proxies[name] else f"http://{proxies[name]}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PROXY_PORT
    except ValueError:
        parts, host, port = urlsplit(""), None, 0
    if parts.scheme != "http" or not host:
        target, _ = split_address(address)
        raise BadInput(
            f"{variable} names a proxy that Loadframe does not support, for requests to {address}",
            where=f"{parts.scheme}://{host or '?'}",
            remedy=f"name an HTTP proxy (http://host:port), or add the host to NO_PROXY: NO_PROXY={target}",
        )
    headers = {}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(host, port, variable, headers)


def _is_direct(address: str, exceptions: str) -> bool:
    """Whether the host of `address` (host:port) is `localhost`, a loopback address, or in `exceptions` (NO_PROXY).

    An entry is a domain, an address, a network (CIDR) or `*`. Host names are not resolved.
    """
    host = split_address(address)[0]
    if host == "localhost" or proxy_bypass(host, {"no": exceptions}):
        return True
    if proxy_bypass(address, {"no": exceptions}):
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    return ip.is_loopback or any(ip in network for network in _networks(exceptions))


def _networks(exceptions: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the networks (CIDR) in the text of NO_PROXY; other and invalid entries are skipped."""
    networks = []
    for text in exceptions.split(","):
        if "/" in text:
            try:
                networks.append(ipaddress.ip_network(text.strip(), strict=False))
            except ValueError:
                continue
    return networks


class UnansweredError(Exception):
    """No answer arrived; the request may have been carried out."""

    def __init__(self, address: str, cause: Exception) -> None:
        """`address` is the node's host:port; the text is that of `cause`, or the name of its class."""
        super().__init__(str(cause) or type(cause).__name__)
        self.address = address


class UnsentError(UnansweredError):
    """The request was not sent, because the connection failed."""


@dataclass(frozen=True)
class Answer:
    """A node's answer to a request."""

    address: str  #: host:port of the node
    path: str  #: of the request
    status: int
    headers: Mapping[str, str]  #: by lower-case name
    content: bytes

    @property
    def text(self) -> str:
        """The content as text; invalid UTF-8 is replaced."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Return the parsed JSON content; ValueError if it is not JSON."""
        return json.loads(self.content)


class Web:
    """HTTP client for nodes, with the TLS and credentials of `access`. It keeps connections open between requests."""

    def __init__(self, access: Access, *, timeout: float) -> None:
        """`timeout` is the default limit of each read and write, s."""
        self._access = access
        self._timeout = timeout
        #: Idle connections by address.
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)
        self._lock = threading.Lock()

    def request(
        self,
        address: str,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        form: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request, with `body` as JSON or else `form` as a form, and return the answer with any status.

        A sequence is sent as JSON lines. `path` includes the query, and is quoted where necessary. With `headers`, even
        empty ones, no credentials are sent. `timeout` limits each read and write, s. Redirects are not followed.
        UnansweredError without an answer (UnsentError if the node did not get the request), BadInput for an invalid
        certificate or a proxy that is not supported.
        """
        sent = dict(headers or {})
        content = None
        if isinstance(body, Mapping):
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif body is not None:
            lines = "".join(f"{json.dumps(line)}\n" for line in body)
            content, sent["Content-Type"] = lines.encode(), "application/x-ndjson"
        elif form is not None:
            content, sent["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
        target = quote(path, safe=_UNQUOTED)
        if headers is None:
            sent["Host"] = self._host(address)
            sent |= self._access.authenticate(method, target, sent, content or b"")
        proxy = proxy_for(address, self._access.scheme) if self._access.proxied else None
        if proxy and self._access.context is None:
            # The request line to a proxy has the whole URL. With TLS, the proxy passes bytes on.
            target, sent = f"http://{address}{target}", sent | proxy.headers
        connection = self._connection(address, timeout or self._timeout, proxy)
        try:
            connection.request(method, target, content, sent)
            answer = connection.getresponse()
            read = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise UnansweredError(address, error) from error
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle[address].append(connection)
        if proxy and answer.status == _PROXY_REFUSED:
            raise UnsentError(address, OSError(f"the proxy {proxy} requires a user and a password"))
        answered = {name.lower(): value.strip() for name, value in answer.getheaders()}
        return Answer(address, path, answer.status, answered, read)

    def _host(self, address: str) -> str:
        """Return the `Host` header for an address. It lacks the scheme's default port, as signatures require."""
        _, port = split_address(address)
        return address.rpartition(":")[0] if port == (443 if self._access.tls else 80) else address

    def _connection(self, address: str, timeout: float, proxy: Proxy | None) -> http.client.HTTPConnection:
        """Take an idle connection to `address`, or open one, through `proxy` if given.

        `timeout` limits each read and write, s. UnsentError if it cannot be opened, BadInput for an invalid
        certificate.
        """
        connection = self._idle_connection(address)
        if connection is None:
            node = split_address(address)
            host, port = (proxy.host, proxy.port) if proxy else node
            if (context := self._access.context) is None:
                connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT)
            else:
                connection = http.client.HTTPSConnection(host, port, timeout=_CONNECT_TIMEOUT, context=context)
                if proxy:
                    connection.set_tunnel(*node, proxy.headers)
            try:
                connection.connect()
            except ssl.SSLCertVerificationError as error:
                connection.close()
                raise invalid_certificate(address, error) from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                cause = OSError(f"through the proxy {proxy} of {proxy.variable}: {error}") if proxy else error
                raise UnsentError(address, cause) from error
        connection.sock.settimeout(timeout)
        return connection

    def _idle_connection(self, address: str) -> http.client.HTTPConnection | None:
        """Take an open idle connection, or None, and discard connections that the node has closed."""
        while True:
            with self._lock:
                if not self._idle[address]:
                    return None
                connection = self._idle[address].pop()
            # An idle connection is readable only if the node has closed it.
            ready = select.poll()
            ready.register(connection.sock, select.POLLIN)
            if not ready.poll(0):
                return connection
            connection.close()
