"""HTTP server of the live page.

`/TOKEN/` is the page, and `/TOKEN/events` are server-sent events, each a JSON list of records. The token is random, and
only the command prints it. No file is served. A request is only answered under a name that nobody else's DNS can give
to this server, so that no page from elsewhere reads along.
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
from loadframe.live.relay import Relay

_PARTS = Path(__file__).parent / "parts"


def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how a policy names an inline script or style (CSP, section `hash-source`)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE = _part("page.css")
_SCRIPT = "".join(map(_part, ("chart.js", "answer.js", "page.js")))

#: The document, as it is sent.
PAGE = _part("page.html").replace("{style}", _STYLE).replace("{script}", _SCRIPT).encode()
#: Its Content-Security-Policy: its own script and style, its own server, and nothing from anywhere else.
POLICY = (
    f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

#: Seconds after which a browser that there is no news for gets an empty line, which finds out whether it is there.
_HEARTBEAT = 5.0
#: Seconds that a browser may take to send its request, or to read what it is sent.
_PATIENCE = 5.0


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of PORT or HOST:PORT; BadInput for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (colon and not host):
        raise BadInput(
            f"{text!r} is not an address for a page",
            remedy="write a port, such as 8350, or HOST:PORT, such as 0.0.0.0:8350; port 0 takes any that is free",
        )
    return host or "127.0.0.1", int(port)


class Server:
    """Serves what a relay has, while it is entered. BadInput if it cannot listen at the address."""

    def __init__(self, host: str, port: int, relay: Relay) -> None:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._http = _Http(family, address, host, relay)
        except OSError as error:
            raise BadInput(
                f"the page cannot be served: {error.strerror or error}",
                where=f"{host}:{port}",
                remedy="give another address with --web-address; port 0 takes any that is free",
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, name="page", daemon=True)

    @property
    def url(self) -> str:
        """Where the page is, with the token that it requires."""
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
        # Waits for browsers to be told the last, within the patience with each.
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, family: int, address: Any, host: str, relay: Relay) -> None:
        self.address_family = family
        self.asked = host.lower()
        self.relay = relay
        self.token = token_urlsafe(16)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The one above looks its own name up in the DNS, which may take long, for nothing.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def is_ours(self, host: str | None) -> bool:
        """Whether a request's Host names this server: an address, this machine, or the name that was asked for."""
        name = (host or "").strip().lower()
        name = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
        if name in {"localhost", self.asked, socket.gethostname().lower()}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def inside(self, path: str) -> str | None:
        """Return the path behind the token, or None without the token."""
        _, _, rest = path.partition("/")
        token, _, inside = rest.partition("/")
        return inside if hmac.compare_digest(token.encode(), self.token.encode()) else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that goes away is not worth a word.
        pass


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: _Http
    server_version = "loadframe"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page or with events."""
        if not self.server.is_ours(self.headers["Host"]):
            self._say(HTTPStatus.MISDIRECTED_REQUEST, "this page is served under its own address only")
        elif (path := self.server.inside(self.path)) is None:
            self._say(HTTPStatus.FORBIDDEN, "this page requires the token of the address that the command printed")
        elif path == "":
            self._begin(HTTPStatus.OK, "text/html; charset=utf-8", {"Content-Security-Policy": POLICY})
            self.wfile.write(PAGE)
        elif path == "events":
            self._begin(HTTPStatus.OK, "text/event-stream")
            self._tell()
        else:
            self._say(HTTPStatus.NOT_FOUND, "there is the page and events")

    def _tell(self) -> None:
        number, relay = 0, self.server.relay
        while True:
            # Asked first: what was said before the end is then sent.
            last = relay.left
            number, records = relay.after(number, _HEARTBEAT)
            data = f"data: {json.dumps(records)}\n\n" if records else ": nothing new\n\n"
            self.wfile.write(data.encode())
            if last:
                return

    def _say(self, status: HTTPStatus, text: str) -> None:
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
        """Print nothing: requests are a browser's affair."""
