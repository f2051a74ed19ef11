"""HTTP server of pages: the live page of a command, and the page of `loadframe explore`.

`/TOKEN/` is the page, paths below are its data. The token is random and printed only by the command. No files are
served, and only GET is answered. To prevent DNS rebinding, requests need a Host header with an IP address, this
machine's name, or the configured host. Pages that only loopback may see require a loopback address or `localhost`.
"""

import base64
import hashlib
import hmac
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, Protocol, Self

from loadframe.base.errors import BadInput
from loadframe.live.feed import Relay

_PARTS = Path(__file__).parent / "parts"

#: Interval of comment lines without records, which detect closed connections, s.
_HEARTBEAT = 5.0


@dataclass(frozen=True)
class Page:
    """An HTML page and its Content-Security-Policy: only its script and style, and connections to its server."""

    content: bytes
    policy: str


@dataclass(frozen=True)
class Answer:
    """Media type, content in pieces, and status of an answer."""

    kind: str
    content: Iterator[bytes]
    status: HTTPStatus = HTTPStatus.OK


class Site(Protocol):
    """A page with its data."""

    @property
    def name(self) -> str:
        """Name of the page in messages."""

    @property
    def only_loopback(self) -> bool:
        """Whether only this machine may see the page.

        If so, the server listens only at a loopback address, and refuses Host headers with other addresses.
        """

    @property
    def page(self) -> Page:
        """The HTML page."""

    def answer(self, path: str) -> Answer | None:
        """Return the answer to `path`, the part of a request's path after the token; None if the path is unknown."""


def page_of(name: str, scripts: Sequence[str]) -> Page:
    """Return the HTML page of the file `name` in the folder `parts`, and its Content-Security-Policy.

    The common style and the files `scripts`, in this order, are inserted into the page.
    """
    style, script = _part("page.css"), "".join(map(_part, scripts))
    content = _part(name).replace("{style}", style).replace("{script}", script).encode()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(content, policy)


def _part(name: str) -> str:
    """Return the text of a file in the folder `parts`."""
    return (_PARTS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for a Content-Security-Policy (CSP, `hash-source`)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_LIVE = page_of("page.html", ("chart.js", "answer.js", "page.js"))


class LiveSite:
    """The live page: `events` are server-sent events, each a JSON list of records."""

    name = "the live page"
    only_loopback = False

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    @property
    def page(self) -> Page:
        """The HTML page."""
        return _LIVE

    def answer(self, path: str) -> Answer | None:
        """Return the stream of records for the path `events`. Return None for any other path."""
        return Answer("text/event-stream", self._stream()) if path == "events" else None

    def _stream(self) -> Iterator[bytes]:
        """Yield server-sent events: first all kept records, then new ones until the relay is left.

        Each waits for records up to 5 s; without any, it is a comment.
        """
        number, relay = 0, self._relay
        while True:
            # Check before taking records, so that the last records are sent.
            last = relay.left
            number, records = relay.after(number, _HEARTBEAT)
            data = f"data: {json.dumps(records)}\n\n" if records else ": nothing new\n\n"
            yield data.encode()
            if last:
                return


#: Timeout of reads and writes, s.
_PATIENCE = 5.0


def parse_address(text: str, what: str = "the live page") -> tuple[str, int]:
    """Return host and port of PORT (at 127.0.0.1), HOST:PORT or [IPv6]:PORT; BadInput for other text.

    Ports are 0 to 65535. The error names `what`, the page that is served there.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    # Python refuses to convert very long numbers.
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536) or (colon and not host):
        raise BadInput(
            f"invalid address {text!r} of {what}",
            remedy="give a port, such as 8350, or HOST:PORT, such as 0.0.0.0:8350; port 0 selects a free port",
        )
    return host or "127.0.0.1", int(port)


class Server:
    """HTTP server of a site, active while it is entered. BadInput if it cannot or may not listen at the address."""

    def __init__(self, host: str, port: int, site: Site) -> None:
        """Listen at the address, port 0 at a free port; answers begin once entered.

        BadInput if that fails, or if the site requires a loopback address and `host` is none.
        """
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            if site.only_loopback and not ipaddress.ip_address(address[0]).is_loopback:
                raise BadInput(
                    f"{site.name} is served to this machine only; got {host}",
                    remedy="give a loopback address, such as 127.0.0.1:8350, and forward the port over SSH",
                )
            self._http = _Http(family, address, host, site)
        except (OSError, UnicodeError) as error:
            raise BadInput(
                f"cannot serve {site.name}: {getattr(error, 'strerror', None) or error}",
                where=f"{host}:{port}",
                remedy="give another address with --web-address; port 0 selects a free port",
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, name="page", daemon=True)

    @property
    def url(self) -> str:
        """Address of the page, with its token."""
        host, port = self._http.server_address[:2]
        text = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{text}]' if ':' in text else text}:{port}/{self._http.token}/"

    def __enter__(self) -> Self:
        """Start to answer requests in a thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server, and wait until answers in progress have ended, such as the last records for browsers."""
        self._http.shutdown()
        # Waits until browsers have received the last records, up to the timeout.
        self._http.server_close()


class HttpHandler(BaseHTTPRequestHandler):
    """Handler of requests without a log; its reads and writes time out."""

    timeout = _PATIENCE
    server_version = "loadframe"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Suppress the log of requests."""


class HttpServer(ThreadingHTTPServer):
    """Server of an address that `getaddrinfo` returned. OSError if it cannot listen there."""

    def __init__(self, family: int, address: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without looking up the host's name in DNS, which may be slow; `server_name` is not set."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Suppress the message about a failed request, for example if the client disconnected."""


#: Host header: a name or an address, IPv6 in brackets, and perhaps a port.
_HOST = re.compile(r"(?:\[(?P<inside>[^\[\]]*)\]|(?P<plain>[^:\[\]]*))(?::[0-9]*)?")


class _Http(HttpServer):
    daemon_threads = False

    def __init__(self, family: int, address: Any, host: str, site: Site) -> None:
        """Listen at an address of `getaddrinfo`, with a new random token; `host` is the configured name."""
        self.host = host.lower()
        self.site = site
        self.token = token_urlsafe(16)
        super().__init__(family, address, _Handler)

    def is_ours(self, host: str | None) -> bool:
        """Return whether a Host header is permitted: `localhost`, an IP address, this machine's or the configured name.

        With `only_loopback`, only `localhost` and loopback addresses. False for None and for malformed headers.
        """
        parts = _HOST.fullmatch((host or "").strip().lower())
        if parts is None:
            return False
        name = parts["inside"] or parts["plain"] or ""
        if name == "localhost":
            return True
        only_loopback = self.site.only_loopback
        if not only_loopback and name in {self.host, socket.gethostname().lower()}:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not only_loopback

    def inside(self, path: str) -> str | None:
        """Return the part of a request's path after `/TOKEN/`; None if the token is missing or wrong.

        Return an empty text for the page itself.
        """
        _, _, rest = path.partition("/")
        token, _, inside = rest.partition("/")
        return inside if hmac.compare_digest(token.encode(), self.token.encode()) else None


class _Handler(HttpHandler):
    server: _Http

    def do_GET(self) -> None:
        """Answer with the page or its data; with status 421, 403 or 404 for a wrong host, token or path."""
        if not self.server.is_ours(self.headers["Host"]):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "use the address that the command printed")
        elif (path := self.server.inside(self.path)) is None:
            self._answer(
                HTTPStatus.FORBIDDEN, "the token is missing or wrong; use the address that the command printed"
            )
        elif path == "":
            page = self.server.site.page
            self._begin(HTTPStatus.OK, "text/html; charset=utf-8", {"Content-Security-Policy": page.policy})
            self.wfile.write(page.content)
        elif (answer := self.server.site.answer(path)) is None:
            self._answer(HTTPStatus.NOT_FOUND, "not found; use the address that the command printed")
        else:
            self._begin(answer.status, answer.kind)
            for content in answer.content:
                self.wfile.write(content)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        """Send a status and a line of text."""
        self._begin(status, "text/plain; charset=utf-8")
        self.wfile.write(f"{text}\n".encode())

    def _begin(self, status: HTTPStatus, kind: str, more: dict[str, str] | None = None) -> None:
        """Send a status and headers, with the media type `kind`; `more` are further headers.

        The connection closes afterwards.
        """
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Connection": "close",
        }
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
