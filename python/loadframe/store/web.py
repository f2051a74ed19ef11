"""Requests by HTTP to the nodes of a store, for administration. The load uses the engine's drivers instead.

It stands on Python's own HTTP, since importing a client library would take longer than a command such as `loadframe
cluster status` takes in all. The environment's proxies are for the way out, and so are not used.
"""

import http.client
import json
import select
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from loadframe.store.access import Access, split_address

#: Seconds that a connection may take to be made.
_CONNECT_TIMEOUT = 5.0
#: What stays as it is in a path with a query; a space or an umlaut is encoded.
_KEPT = "/?&=%,:;*+@!$'()[]~"


class UnansweredError(Exception):
    """A request was not answered; whether it was carried out is not known."""

    def __init__(self, address: str, cause: Exception) -> None:
        """`address` is the node's, as host:port."""
        super().__init__(str(cause) or type(cause).__name__)
        self.address = address


class UnsentError(UnansweredError):
    """A request was not sent: there was no connection to send it on."""


@dataclass(frozen=True)
class Answer:
    """A node's answer to a request."""

    address: str  #: host:port of the node
    path: str  #: that was asked for
    status: int
    headers: Mapping[str, str]  #: by names in small letters
    content: bytes

    @property
    def text(self) -> str:
        """The content as text, with replacements for what is not UTF-8."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Return the content, read as JSON; ValueError for any other."""
        return json.loads(self.content)


class Web:
    """Asks nodes by HTTP, in the clear or by TLS as `access` says. Connections are kept between requests."""

    def __init__(self, access: Access, *, timeout: float) -> None:
        """`timeout` is the seconds that each read and write may take, unless a request says otherwise."""
        self._access = access
        self._timeout = timeout
        #: Connections that no request uses now, by address.
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)
        self._taking = threading.Lock()

    def request(
        self,
        address: str,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        form: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request, with `body` as JSON or with a `form`, and return the answer; UnansweredError without one.

        `headers` are in place of those that say who asks.
        """
        sent = dict(self._access.headers if headers is None else headers)
        content = None
        if body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif form is not None:
            content, sent["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
        connection = self._connection(address, timeout or self._timeout)
        try:
            connection.request(method, quote(path, safe=_KEPT), content, sent)
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
            with self._taking:
                self._idle[address].append(connection)
        answered = {name.lower(): value.strip() for name, value in answer.getheaders()}
        return Answer(address, path, answer.status, answered, read)

    def _connection(self, address: str, timeout: float) -> http.client.HTTPConnection:
        """Take an idle connection, or make one; UnsentError where that fails."""
        connection = self._taken(address)
        if connection is None:
            host, port = split_address(address)
            if (context := self._access.context) is None:
                connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT)
            else:
                connection = http.client.HTTPSConnection(host, port, timeout=_CONNECT_TIMEOUT, context=context)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                raise UnsentError(address, error) from error
        connection.sock.settimeout(timeout)
        return connection

    def _taken(self, address: str) -> http.client.HTTPConnection | None:
        while True:
            with self._taking:
                if not self._idle[address]:
                    return None
                connection = self._idle[address].pop()
            # One that has something to read before it was asked was closed by the node.
            ready = select.poll()
            ready.register(connection.sock, select.POLLIN)
            if not ready.poll(0):
                return connection
            connection.close()
