"""Client of a PostgreSQL server for administration, which raises Loadframe's errors."""

import contextlib
import struct
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Unreachable

if TYPE_CHECKING:
    from pg8000.native import Connection

#: The database of all collections; the driver uses the same.
DATABASE = "loadframe"
#: The database that all servers have.
ADMINISTRATION = "postgres"
#: The default user, and the superuser of servers that Loadframe starts.
USER = "postgres"

#: Timeouts of status queries, and of statements that read or write all rows, s.
_TIMEOUT = 10.0
SLOW = 600.0

#: SQLSTATE codes, see "PostgreSQL Error Codes" in its documentation.
_NO_DATABASE = "3D000"
_NOT_ALLOWED = ("28P01", "28000")
_NO_PRIVILEGE = "42501"
#: admin_shutdown, crash_shutdown, cannot_connect_now.
_AWAY = ("57P01", "57P02", "57P03")


class PostgresError(StoreFailed):
    """A server's error; `code` is its SQLSTATE."""

    def __init__(self, what: str, where: str, code: str) -> None:
        super().__init__(what, where=where)
        self.code = code

    @property
    def no_database(self) -> bool:
        """Whether the database does not exist."""
        return self.code == _NO_DATABASE


class Client:
    """Client of one server, which connects on first use, and again after a connection was lost.

    BadInput if access is denied, Unreachable if the server does not answer, PostgresError for its other errors. Threads
    may share a client.
    """

    def __init__(self, address: str, access: Access) -> None:
        """Store address and credentials."""
        self.address = address
        self._access = access
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}

    def ask(
        self, statement: str, database: str = ADMINISTRATION, *, within: float = _TIMEOUT, **values: Any
    ) -> list[dict[str, Any]]:
        """Execute a statement with `:name` parameters, and return its rows by column name.

        Unreachable if the answer takes longer than `within` s.
        """
        with self._lock:
            if database in self._connections:
                try:
                    return self._execute(statement, database, within, values)
                except Unreachable as error:
                    # Retry once, since a restart closes connections; a server that is silent stays silent.
                    if _timed_out(error):
                        raise
            return self._execute(statement, database, within, values)

    def _execute(self, statement: str, database: str, within: float, values: dict[str, Any]) -> list[dict[str, Any]]:
        from pg8000.exceptions import DatabaseError

        try:
            with self._translated():
                connection = self._connections.get(database) or self._connect(database)
                # pg8000 has one timeout for connecting and answers, and hides its socket.
                connection._usock.settimeout(within)
                rows = connection.run(statement, **values) or []
                names = [str(column["name"]) for column in connection.columns or []]
                return [dict(zip(names, row, strict=True)) for row in rows]
        except DatabaseError as error:
            fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
            code = str(fields.get("C", ""))
            if fields.get("S") in ("FATAL", "PANIC"):
                self._forget(database)
            raise self._refused(code, str(fields.get("M") or error)) from error
        except Unreachable:
            self._forget(database)
            raise

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for database in list(self._connections):
                self._forget(database)

    def _connect(self, database: str) -> "Connection":
        from pg8000.native import Connection

        host, port = split_address(self.address)
        user = self._access.auth
        connection = Connection(
            (user.user or USER) if user else USER,
            host=host,
            port=port,
            database=database,
            # Without a password, pg8000 fails in the middle of SCRAM.
            password=user.secret if user else "",
            timeout=_TIMEOUT,
            # None would let pg8000 use TLS without verifying the certificate.
            ssl_context=self._access.context or False,
            application_name="loadframe",
        )
        self._connections[database] = connection
        # Administration must not wait for missing synchronous replicas.
        connection.run("SET synchronous_commit TO local")
        return connection

    def _forget(self, database: str) -> None:
        connection = self._connections.pop(database, None)
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _refused(self, code: str, words: str) -> LoadframeError:
        user = (self._access.auth.user if self._access.auth else None) or USER
        if code in _NOT_ALLOWED and self._access.auth is None:
            return BadInput(
                f"the server denies access to {user}: {words}",
                where=self.address,
                remedy="give --user and --password-file, or set LOADFRAME_PASSWORD"
                + ("" if self._access.tls else "; if the server requires TLS, write https://"),
            )
        if code in _NOT_ALLOWED:
            return BadInput(
                f"the server refuses the user {user}: {words}",
                where=self.address,
                remedy="check --user, and the password in --password-file or LOADFRAME_PASSWORD"
                + ("" if self._access.tls else "; if the server requires TLS, write https://"),
            )
        if code == _NO_PRIVILEGE:
            return BadInput(
                f"the server does not allow the user {user} to do that: {words}",
                where=self.address,
                remedy=f"make {user} the owner of the database {DATABASE} and a member of pg_monitor, "
                "or use another user with --user",
            )
        if code in _AWAY:
            return Unreachable(f"the server is not ready yet ({words})", where=self.address)
        return PostgresError(f"the server reports an error: {words}", self.address, code)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        from pg8000.exceptions import DatabaseError, InterfaceError

        try:
            yield
        except DatabaseError:
            raise
        except (InterfaceError, OSError, struct.error) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"the server does not answer ({error.__cause__ or error})",
            where=self.address,
            remedy=f"check that it runs, and that the address is its port for clients{self._access.tls_remedy}",
        )


def _timed_out(error: BaseException | None) -> bool:
    """Whether a timeout caused an error."""
    while error is not None:
        if isinstance(error, TimeoutError):
            return True
        error = error.__cause__
    return False
