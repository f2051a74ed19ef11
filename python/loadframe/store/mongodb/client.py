"""A connection to one MongoDB server, for what is asked beside the load; errors are loadframe's own."""

import base64
import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Unreachable

if TYPE_CHECKING:
    from pymongo import MongoClient

#: Seconds. A node that is gone is waited for briefly, for it may be starting; counting reads all data.
_SELECTION = 1.5
_CONNECT_TIMEOUT = 5.0
_TIMEOUT = 600.0
#: Unauthorized, AuthenticationFailed.
_NOT_ALLOWED, _NOT_KNOWN = 13, 18
#: KeyNotFound: a server that was just started has not read the keys that the time of its set is signed with.
_NO_KEYS_YET = 211


#: The user that clients of a cluster log in as which loadframe starts, and the one that its servers are to each other.
ADMINISTRATOR, _SERVER = "loadframe", "__system"


def server_key(password: str) -> str:
    """Return the key by which the servers of a cluster know each other, in the letters that a key file may have."""
    return base64.b64encode(hashlib.sha256(f"servers:{password}".encode()).digest()).decode()


class MongoError(StoreFailed):
    """What the server said no with; `code` is the number of its error."""

    def __init__(self, what: str, where: str, code: int) -> None:
        super().__init__(what, where=where)
        self.code = code


class Client:
    """Asks one server and no other. Connects when it first asks.

    BadInput when access is denied, Unreachable when nobody answers, MongoError for the server's own errors.
    """

    def __init__(self, address: str, access: Access) -> None:
        """Take note of where, and as whom."""
        self.address = address
        self._access = access
        self._as_server = False
        self._client = self._connected(
            {"username": access.auth.user, "password": access.auth.secret} if access.auth else {}
        )

    def _connected(self, login: Mapping[str, Any]) -> "MongoClient[dict[str, Any]]":
        """Return a client of the library that logs in like this; it connects when it first asks."""
        # Here and not above: nodes are planned on machines that have no such library.
        from pymongo import MongoClient

        host, port = split_address(self.address)
        more, access = dict(login), self._access
        if access.tls:
            more |= {"tls": True, "tlsAllowInvalidCertificates": not access.tls.verify}
            files = {"tlsCAFile": access.tls.ca, "tlsCertificateKeyFile": access.tls.certificate}
            more |= {name: str(file) for name, file in files.items() if file}
        return MongoClient(
            host,
            port,
            directConnection=True,
            appname="loadframe",
            retryReads=False,
            retryWrites=False,
            serverSelectionTimeoutMS=int(_SELECTION * 1000),
            connectTimeoutMS=int(_CONNECT_TIMEOUT * 1000),
            socketTimeoutMS=int(_TIMEOUT * 1000),
            # A thread that looks every ten seconds, and none that holds a second connection for it.
            serverMonitoringMode="poll",
            connect=False,
            **more,
        )

    def ask(self, command: Mapping[str, Any], database: str = "admin") -> dict[str, Any]:
        """Return the answer to one command."""
        from pymongo import errors

        try:
            with self._told():
                answer: dict[str, Any] = self._client[database].command(dict(command))
                return answer
        except errors.OperationFailure as error:
            if error.code == _NOT_KNOWN and self._log_in_as_server():
                return self.ask(command, database)
            words = str((error.details or {}).get("errmsg") or error)
            if error.code == _NO_KEYS_YET:
                raise Unreachable(f"the server does not answer yet ({words})", where=self.address) from error
            if error.code in (_NOT_ALLOWED, _NOT_KNOWN):
                raise self._refused(error.code, words) from error
            raise MongoError(f"the server says: {words}", self.address, error.code or 0) from error

    def _log_in_as_server(self) -> bool:
        """Log in as the servers of a cluster do from now on; False where that was tried, or is not ours to try.

        Shards do not know the administrator, and neither do servers that are not yet in their set.
        """
        auth = self._access.auth
        if self._as_server or auth is None or auth.user != ADMINISTRATOR:
            return False
        self._as_server = True
        self._client.close()
        self._client = self._connected(
            {"username": _SERVER, "password": server_key(auth.secret), "authSource": "local"}
        )
        return True

    def create_administrator(self, members: int) -> None:
        """Make the user that clients log in as, on a cluster that has none; return when so many members know it."""
        auth = self._access.auth
        if auth is not None:
            made = {"createUser": auth.user, "pwd": auth.secret, "roles": ["root"], "mechanisms": ["SCRAM-SHA-256"]}
            self.ask({**made, "writeConcern": {"w": members, "wtimeout": int(_TIMEOUT * 1000)}})

    def collections(self, database: str) -> list[str]:
        """Return the names of a database's collections."""
        answer = self.ask({"listCollections": 1, "nameOnly": True, "cursor": {"batchSize": 100_000}}, database)
        return [str(entry["name"]) for entry in answer["cursor"]["firstBatch"]]

    def hello(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        return self.ask({"hello": 1})

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _refused(self, code: int, words: str) -> BadInput:
        if self._access.auth is None:
            what = f"the server denies access: {words}"
            return BadInput(what, where=self.address, remedy="say who asks by --user")
        user = self._access.auth.user
        if code == _NOT_KNOWN:
            return BadInput(
                f"the server denies access to {user}: {words}",
                where=self.address,
                remedy="check --user, a name of the database admin, and the password in --password-file or "
                "LOADFRAME_PASSWORD",
            )
        return BadInput(
            f"the server does not allow {user} to do that: {words}",
            where=self.address,
            remedy="give that user the roles readWrite on the database loadframe and clusterMonitor, or ask as another",
        )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        from pymongo import errors

        try:
            yield
        except errors.OperationFailure:
            raise
        except (errors.ConnectionFailure, OSError) as error:
            raise Unreachable(
                f"the server does not answer ({str(error).split(',')[0]})",
                where=self.address,
                remedy=f"check that it runs, and that the address is its port for clients{self._access.tls_remedy}",
            ) from error
        except errors.PyMongoError as error:
            raise LoadframeError(f"the server's answer makes no sense: {error}", where=self.address) from error
