"""A connection to one Redis server, for what is asked beside the load; errors are loadframe's own."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from loadframe.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Unreachable
from loadframe.store.redis.resp import Command, Connection, ReplyError

#: The user that every server has.
USER = "default"
#: Seconds.
_TIMEOUT = 30.0
_LOOK_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 3.0
#: The first words of replies to somebody who is not known, or may not do that.
_NOT_LET_IN = {"NOAUTH", "WRONGPASS", "NOPERM"}
#: Of a server that has to read its data first.
_NOT_YET = "LOADING"


class Client:
    """Connects when it first asks. BadInput when access is denied, Unreachable when nobody answers."""

    def __init__(self, address: str, access: Access) -> None:
        """Remember where, and as whom."""
        self.address = address
        self._access = access
        self._auth = access.auth
        self._commands = _Line(address, access, _TIMEOUT)
        #: For what is answered at once.
        self._looks = _Line(address, access, _LOOK_TIMEOUT)

    @property
    def credentials(self) -> list[str]:
        """The words that let another node in here, for MIGRATE."""
        return ["AUTH2", self._auth.user or USER, self._auth.secret] if self._auth else []

    def ask(self, *words: str | int) -> Any:
        """Return the answer to one command."""
        return self._told(self._commands, [words])[0]

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands that are sent at once."""
        return self._told(self._commands, commands)

    def info(self) -> dict[str, str]:
        """Return what INFO says, without its figures for each command, which nobody asks for and which are many."""
        return self.look("INFO")

    def look(self, command: str) -> dict[str, str]:
        """Return the lines `name:value` of a command that a server answers at once; a silent one is given up soon."""
        return dict(line.split(":", 1) for line in self.look_at(command) if ":" in line)

    def look_at(self, command: str) -> list[str]:
        """Return the lines of the answer to such a command."""
        return str(self._told(self._looks, [[command]])[0]).splitlines()

    def keys(self, collection: str) -> Iterator[list[str]]:
        """Yield the keys of a collection's documents that this node holds, in batches; one may come twice."""
        pattern, cursor = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in collection) + ":*", "0"
        while True:
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            yield keys
            if int(cursor) == 0:
                return

    def _told(self, line: "_Line", commands: Sequence[Command]) -> list[Any]:
        try:
            replies = line.ask(commands)
        except ReplyError as error:
            raise self._refused(error) from error
        except OSError as error:
            raise Unreachable(
                f"the server does not answer ({error})",
                where=self.address,
                remedy=f"check that it runs, and that the address is where it speaks RESP{self._access.tls_remedy}",
            ) from error
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise self._refused(reply)
        return replies

    def _refused(self, reply: ReplyError) -> LoadframeError:
        if reply.code in _NOT_LET_IN:
            return BadInput(
                f"the server denies access: {reply}",
                where=self.address,
                remedy="give --user (default, if the server has no others), and its password with --password-file or in"
                " LOADFRAME_PASSWORD; the user needs the right to these commands",
            )
        if reply.code == _NOT_YET:
            return Unreachable(f"the server does not answer yet ({reply})", where=self.address)
        words = str(reply) if reply.code == "ERR" else f"{reply.code} {reply}"
        return StoreFailed(f"the server says: {words}", where=self.address)


class _Line:
    """A connection that is made when it is needed, and again after it broke; one thread at a time uses it."""

    def __init__(self, address: str, access: Access, timeout: float) -> None:
        self._host, self._port = split_address(address)
        self._access = access
        self._timeout = timeout
        self._connection: Connection | None = None
        self._asking = threading.Lock()

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies to commands; ReplyError where access is denied, OSError where there is no answer."""
        with self._asking:
            try:
                return self._ask(commands, again=self._connection is not None)
            except BaseException:
                # An answer that comes late would be taken for that to the next command.
                self._close()
                raise

    def _ask(self, commands: Sequence[Command], *, again: bool) -> list[Any]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection.ask(commands)
        except TimeoutError:
            raise
        except OSError:
            if not again:
                raise
            # Once more, for a server that was started again; a silent one is not waited for twice.
            self._close()
            return self._ask(commands, again=False)

    def _connect(self) -> Connection:
        connection = Connection(
            self._host,
            self._port,
            timeout=self._timeout,
            connect_timeout=_CONNECT_TIMEOUT,
            tls=self._access.context,
        )
        if auth := self._access.auth:
            (reply,) = connection.ask([["AUTH", *([auth.user] if auth.user else []), auth.secret]])
            if isinstance(reply, ReplyError):
                connection.close()
                # A server without users says so as it says of any other mistake.
                raise ReplyError("WRONGPASS", str(reply)) if reply.code == "ERR" else reply
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
