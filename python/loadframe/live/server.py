"""HTTP server of the live page.

`/TOKEN/` is the page, `/TOKEN/events` are server-sent events, each a JSON list of records. The token is random and
printed only by the command. No files are served. To prevent DNS rebinding, requests need a Host header with an IP
address, this machine's name, or the configured host.
"""

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.live.feed import Relay

_PARTS = Path(__file__).parent / "parts"


def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for a Content-Security-Policy (CSP, `hash-source`)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE = _part("page.css")
_SCRIPT = "".join(map(_part, ("chart.js", "answer.js", "page.js")))

#: The HTML page.
PAGE = _part("page.html").replace("{style}", _STYLE).replace("{script}", _SCRIPT).encode()
#: Content-Security-Policy of the page: only its inline script and style, and connections to its server.
POLICY = (
    f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

#: Interval of comment lines without records, which detect closed connections, s.
_HEARTBEAT = 5.0
#: Timeout of a browser's reads and writes, s.
_PATIENCE = 5.0


def parse_address(text: str, what: str = "the live page") -> tuple[str, int]:
    """Return host and port of PORT or HOST:PORT; BadInput, with `what` listens there, for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (colon and not host):
        raise BadInput(
            f"invalid address {text!r} of {what}",
            remedy="give a port, such as 8350, or HOST:PORT, such as 0.0.0.0:8350; port 0 selects a free port",
        )
    return host or "127.0.0.1", int(port)


class Server:
    """HTTP server of a relay's records, active while it is entered. BadInput if it cannot listen at the address."""

    def __init__(self, host: str, port: int, relay: Relay) -> None:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._http = _Http(family, address, host, relay)
        except OSError as error:
            raise BadInput(
                f"cannot serve the live page: {error.strerror or error}",
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
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        # Waits until browsers have received the last records, up to the timeout.
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, family: int, address: Any, host: str, relay: Relay) -> None:
        self.address_family = family
        self.host = host.lower()
        self.relay = relay
        self.token = token_urlsafe(16)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer.server_bind looks up the host's name in DNS, which may be slow.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def is_ours(self, host: str | None) -> bool:
        """Return whether a Host header is an IP address, this machine's name, or the configured host."""
        name = (host or "").strip().lower()
        name = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
        if name in {"localhost", self.host, socket.gethostname().lower()}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def inside(self, path: str) -> str | None:
        """Return the path after the token; None if the token is missing or wrong."""
        _, _, rest = path.partition("/")
        token, _, inside = rest.partition("/")
        return inside if hmac.compare_digest(token.encode(), self.token.encode()) else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Ignore browsers that disconnect.
        pass


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: _Http
    server_version = "loadframe"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page or with events."""
        if not self.server.is_ours(self.headers["Host"]):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "use the address that the command printed")
        elif (path := self.server.inside(self.path)) is None:
            self._answer(
                HTTPStatus.FORBIDDEN, "the token is missing or wrong; use the address that the command printed"
            )
        elif path == "":
            self._begin(HTTPStatus.OK, "text/html; charset=utf-8", {"Content-Security-Policy": POLICY})
            self.wfile.write(PAGE)
        elif path == "events":
            self._begin(HTTPStatus.OK, "text/event-stream")
            self._stream()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "not found; use the address that the command printed")

    def _stream(self) -> None:
        number, relay = 0, self.server.relay
        while True:
            # Check before taking records, so that the last records are sent.
            last = relay.left
            number, records = relay.after(number, _HEARTBEAT)
            data = f"data: {json.dumps(records)}\n\n" if records else ": nothing new\n\n"
            self.wfile.write(data.encode())
            if last:
                return

    def _answer(self, status: HTTPStatus, text: str) -> None:
        self._begin(status, "text/plain; charset=utf-8")
        self.wfile.write(f"{text}\n".encode())

    def _begin(self, status: HTTPStatus, kind: str, more: dict[str, str] | None = None) -> None:
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

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Suppress the log of requests."""
