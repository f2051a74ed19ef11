"""A connection to one PostgreSQL server, for what is asked beside the load; errors are loadframe's own."""

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

#: The database that all collections are in; the driver knows it, too.
DATABASE = "loadframe"
#: The database that every server has.
ADMINISTRATION = "postgres"
#: Who asks when nobody is named. The servers that loadframe starts have this superuser.
USER = "postgres"

#: Seconds within which a server answers what only looks, and what reads or writes all rows.
_TIMEOUT = 10.0
SLOW = 600.0

#: SQLSTATE codes, see "PostgreSQL Error Codes" in its documentation.
_NO_DATABASE = "3D000"
_NOT_ALLOWED = ("28P01", "28000")
_NO_PRIVILEGE = "42501"
#: admin_shutdown, crash_shutdown, cannot_connect_now.
_AWAY = ("57P01", "57P02", "57P03")


class PostgresError(StoreFailed):
    """The server's refusal of a statement; `code` is its SQLSTATE."""

    def __init__(self, what: str, where: str, code: str) -> None:
        super().__init__(what, where=where)
        self.code = code

    @property
    def no_database(self) -> bool:
        """Whether the database that was named does not exist."""
        return self.code == _NO_DATABASE


class Client:
    """Asks one server and no other; connects when it first asks, and again after a connection was lost.

    BadInput when the server refuses the user, Unreachable when nobody answers, PostgresError for the server's errors.
    Several threads may share a client.
    """

    def __init__(self, address: str, access: Access) -> None:
        """Note the address and the user."""
        self.address = address
        self._access = access
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}

    def ask(
        self, statement: str, database: str = ADMINISTRATION, *, within: float = _TIMEOUT, **values: Any
    ) -> list[dict[str, Any]]:
        """Execute a statement whose `:name`s stand for the values; return its rows by the names of their columns.

        Unreachable when the answer takes longer than `within` s.
        """
        with self._lock:
            if database in self._connections:
                try:
                    return self._execute(statement, database, within, values)
                except Unreachable as error:
                    # A server that was started anew since has closed the connection; one that is silent stays so.
                    if _timed_out(error):
                        raise
            return self._execute(statement, database, within, values)

    def _execute(self, statement: str, database: str, within: float, values: dict[str, Any]) -> list[dict[str, Any]]:
        from pg8000.exceptions import DatabaseError

        try:
            with self._translated():
                connection = self._connections.get(database) or self._connect(database)
                # The library keeps its socket to itself, and has one time-out for connecting and for answers.
                connection._usock.settimeout(within)
                rows = connection.run(statement, **values) or []
                names = [str(column["name"]) for column in connection.columns or []]
                return [dict(zip(names, row, strict=True)) for row in rows]
        except DatabaseError as error:
            told = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
            code = str(told.get("C", ""))
            if told.get("S") in ("FATAL", "PANIC"):
                self._forget(database)
            raise self._refused(code, str(told.get("M") or error)) from error
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
            # Without one the library breaks off in the middle of SCRAM.
            password=user.secret if user else "",
            timeout=_TIMEOUT,
            # The library takes None as: by TLS where the server has it, and then whatever its certificate.
            ssl_context=self._access.context or False,
            application_name="loadframe",
        )
        self._connections[database] = connection
        # What is asked here must not wait for replicas that are not there yet, whatever the settings say of commits.
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
                + ("" if self._access.tls else "; if the server wants TLS, write https://"),
            )
        if code in _NOT_ALLOWED:
            return BadInput(
                f"the server refuses the user {user}: {words}",
                where=self.address,
                remedy="check --user, and the password in --password-file or LOADFRAME_PASSWORD"
                + ("" if self._access.tls else "; if the server wants TLS, write https://"),
            )
        if code == _NO_PRIVILEGE:
            return BadInput(
                f"the server does not allow the user {user} to do that: {words}",
                where=self.address,
                remedy=f"make {user} the owner of the database {DATABASE} and a member of pg_monitor, "
                "or name another user with --user",
            )
        if code in _AWAY:
            return Unreachable(f"the server does not answer yet ({words})", where=self.address)
        return PostgresError(f"the server says: {words}", self.address, code)

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
    """Whether an error comes from an answer that did not come in time."""
    while error is not None:
        if isinstance(error, TimeoutError):
            return True
        error = error.__cause__
    return False
