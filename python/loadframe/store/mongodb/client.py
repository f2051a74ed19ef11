"""Client of a MongoDB server for administration, which raises Loadframe's errors."""

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

#: Timeouts, s. Server selection is short because a missing node may be starting; a count reads all data.
_SELECTION = 1.5
_CONNECT_TIMEOUT = 5.0
_TIMEOUT = 600.0
#: Error codes Unauthorized and AuthenticationFailed.
_NOT_ALLOWED, _NOT_KNOWN = 13, 18
#: Error code KeyNotFound: a new server has not read the keys that sign its set's cluster time.
_NO_KEYS_YET = 211


#: The administrator of clusters that Loadframe starts, and the user as which their servers log in to each other.
ADMINISTRATOR, _SERVER = "loadframe", "__system"


def server_key(password: str) -> str:
    """Return the key with which a cluster's servers authenticate, in the characters that a key file allows."""
    return base64.b64encode(hashlib.sha256(f"servers:{password}".encode()).digest()).decode()


class MongoError(StoreFailed):
    """A server's error; `code` is MongoDB's error number."""

    def __init__(self, what: str, where: str, code: int) -> None:
        super().__init__(what, where=where)
        self.code = code


class Client:
    """Client of one server, which connects on first use.

    BadInput if access is denied, Unreachable if the server does not answer, MongoError for other errors of the server.
    """

    def __init__(self, address: str, access: Access) -> None:
        """Store address and credentials."""
        self.address = address
        self._access = access
        self._as_server = False
        self._client = self._connected(
            {"username": access.auth.user, "password": access.auth.secret} if access.auth else {}
        )

    def _connected(self, login: Mapping[str, Any]) -> "MongoClient[dict[str, Any]]":
        """Return a pymongo client with these credentials; it connects on first use."""
        # Imported late: nodes are also planned on machines without pymongo.
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
            # Poll every ten seconds, instead of streaming on a second connection.
            serverMonitoringMode="poll",
            connect=False,
            **more,
        )

    def ask(self, command: Mapping[str, Any], database: str = "admin") -> dict[str, Any]:
        """Send a command and return the answer."""
        from pymongo import errors

        try:
            with self._translated_errors():
                answer: dict[str, Any] = self._client[database].command(dict(command))
                return answer
        except errors.OperationFailure as error:
            if error.code == _NOT_KNOWN and self._log_in_as_server():
                return self.ask(command, database)
            words = str((error.details or {}).get("errmsg") or error)
            if error.code == _NO_KEYS_YET:
                raise Unreachable(f"the server is not ready yet ({words})", where=self.address) from error
            if error.code in (_NOT_ALLOWED, _NOT_KNOWN):
                raise self._refused(error.code, words) from error
            raise MongoError(f"the server reports an error: {words}", self.address, error.code or 0) from error

    def _log_in_as_server(self) -> bool:
        """Switch to the credentials of the cluster's servers; False if they are in use or unavailable.

        Shards do not know the administrator, nor do servers outside their set.
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
        """Create the administrator of a new cluster, and wait until `members` members know it."""
        auth = self._access.auth
        if auth is not None:
            made = {"createUser": auth.user, "pwd": auth.secret, "roles": ["root"], "mechanisms": ["SCRAM-SHA-256"]}
            self.ask({**made, "writeConcern": {"w": members, "wtimeout": int(_TIMEOUT * 1000)}})

    def collections(self, database: str) -> list[str]:
        """Return the names of a database's collections."""
        answer = self.ask({"listCollections": 1, "nameOnly": True, "cursor": {"batchSize": 100_000}}, database)
        return [str(entry["name"]) for entry in answer["cursor"]["firstBatch"]]

    def hello(self) -> dict[str, Any]:
        """Return the answer to `hello`: the server's role and set."""
        return self.ask({"hello": 1})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _refused(self, code: int, words: str) -> BadInput:
        if self._access.auth is None:
            what = f"the server denies access: {words}"
            return BadInput(what, where=self.address, remedy="give --user")
        user = self._access.auth.user
        if code == _NOT_KNOWN:
            return BadInput(
                f"the server denies access to {user}: {words}",
                where=self.address,
                remedy="check --user, a user of the database admin, and the password in --password-file or "
                "LOADFRAME_PASSWORD",
            )
        return BadInput(
            f"the server does not allow {user} to do that: {words}",
            where=self.address,
            remedy="give that user the roles readWrite on the database loadframe and clusterMonitor, or use another",
        )

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
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
            raise LoadframeError(f"invalid answer of the server: {error}", where=self.address) from error
