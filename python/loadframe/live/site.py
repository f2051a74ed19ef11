"""Sites of the page server: the live page of a command, and the parts that all pages have."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

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
        """Whether Host headers with other addresses than this machine's loopback are refused."""

    @property
    def page(self) -> Page:
        """The HTML page."""

    def answer(self, path: str) -> Answer | None:
        """Return the answer to a path below the token; None for an unknown path."""


def page_of(name: str, scripts: Sequence[str]) -> Page:
    """Return a page with the common style and its scripts inside."""
    style, script = _part("page.css"), "".join(map(_part, scripts))
    content = _part(name).replace("{style}", style).replace("{script}", script).encode()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(content, policy)


def _part(name: str) -> str:
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
        """Return the stream of records; None for an unknown path."""
        return Answer("text/event-stream", self._stream()) if path == "events" else None

    def _stream(self) -> Iterator[bytes]:
        number, relay = 0, self._relay
        while True:
            # Check before taking records, so that the last records are sent.
            last = relay.left
            number, records = relay.after(number, _HEARTBEAT)
            data = f"data: {json.dumps(records)}\n\n" if records else ": nothing new\n\n"
            yield data.encode()
            if last:
                return
