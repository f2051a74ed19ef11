"""Client of a MongoDB server for administration, with the statistics of mongostat and random documents.

Errors are Loadframe's own. Statistics are from serverStatus.
"""

import base64
import contextlib
import hashlib
import json
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Figure, Sample, Unreachable

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
    """Return the key with which a cluster's servers authenticate, derived from the administrator's password.

    It has only characters that a key file allows.
    """
    return base64.b64encode(hashlib.sha256(f"servers:{password}".encode()).digest()).decode()


class MongoError(StoreFailed):
    """A server's error; `code` is MongoDB's error number."""

    def __init__(self, what: str, where: str, code: int) -> None:
        """`where` is the server's address, `code` MongoDB's error number."""
        super().__init__(what, where=where)
        self.code = code


class Client:
    """Client of one server, which connects on first use.

    BadInput if access is denied, Unreachable if the server does not answer, MongoError for other errors of the server.
    """

    def __init__(self, address: str, access: Access) -> None:
        """Store address and credentials; the first command connects."""
        self.address = address
        self._access = access
        self._as_server = False
        self._client = self._connected(
            {"username": access.auth.user, "password": access.auth.secret} if access.auth else {}
        )

    def _connected(self, login: Mapping[str, Any]) -> "MongoClient[dict[str, Any]]":
        """Return a pymongo client with the options `login`, such as `username`; it connects on first use.

        It uses only this server and does not repeat commands.
        """
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
        """Send a command to a database, and return the answer.

        If the server does not know the user, logs in as the server itself and tries again. BadInput if access is
        denied, Unreachable without an answer, MongoError for other errors of the server.
        """
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
        """Switch to the credentials of the cluster's servers, and return True.

        Shards, and servers outside their set, do not know the administrator. False, without a change, if these
        credentials are in use already, or the user is not the administrator of a cluster of Loadframe.
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
        """Create the user of the credentials as administrator, and wait until `members` members know it.

        Does nothing without credentials. MongoError after 600 s, or if the user exists.
        """
        auth = self._access.auth
        if auth is not None:
            made = {"createUser": auth.user, "pwd": auth.secret, "roles": ["root"], "mechanisms": ["SCRAM-SHA-256"]}
            self.ask({**made, "writeConcern": {"w": members, "wtimeout": int(_TIMEOUT * 1000)}})

    def collections(self, database: str) -> list[str]:
        """Return the names of a database's collections."""
        answer = self.ask({"listCollections": 1, "nameOnly": True, "cursor": {"batchSize": 100_000}}, database)
        return [str(entry["name"]) for entry in answer["cursor"]["firstBatch"]]

    def hello(self) -> dict[str, Any]:
        """Return the answer to `hello`: the server's role, and its set if it belongs to one.

        BadInput if access is denied, Unreachable without an answer, MongoError for other errors of the server.
        """
        return self.ask({"hello": 1})

    def running(self) -> dict[str, Any] | None:
        """Return the answer to `hello`, or None if the server's address refuses connections.

        Unreachable if it does not answer otherwise, BadInput if access is denied.
        """
        try:
            return self.hello()
        except Unreachable:
            try:
                socket.create_connection(split_address(self.address), _CONNECT_TIMEOUT).close()
            except ConnectionRefusedError:
                return None
            except OSError:
                pass
            raise

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _refused(self, code: int, words: str) -> BadInput:
        """Return the error for a refused command; the remedy depends on the code: failed login or missing role.

        `code` is MongoDB's error number, `words` the server's text.
        """
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
            remedy="give that user the roles readWrite on the database loadframe and clusterMonitor, and to sample"
            " another database the role read on it; or use another user",
        )

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise Unreachable for a lost connection and LoadframeError for an invalid answer.

        OperationFailure, an error that the server reports, is not changed.
        """
        from pymongo import errors

        try:
            yield
        except errors.OperationFailure:
            raise
        except (errors.ConnectionFailure, OSError) as error:
            raise Unreachable(
                f"the server does not answer ({str(error).split(',')[0]})",
                where=self.address,
                remedy=f"check that it runs, and that the address is its port for clients{self._access.silence_hint}",
            ) from error
        except errors.PyMongoError as error:
            raise LoadframeError(f"invalid answer of the server: {error}", where=self.address) from error


WATCHED = (
    Figure("insert/s", "inserts", total=True),
    Figure("query/s", "queries", total=True),
    Figure("update/s", "updates", total=True),
    Figure("delete/s", "deletes", total=True),
    Figure("command/s", "commands", total=True),
    Figure("dirty", "cache_dirty_bytes", size=True),
    Figure("cache", "cache_bytes", size=True),
    Figure("data", "store_bytes", size=True),
    Figure("queued", "queued"),
    Figure("clients", "clients"),
    Figure("lag s", "lag_seconds"),
)

#: The columns of mongostat. `mapped` is empty: servers from version 4.2 on map no data files.
#: Servers no longer publish a locked share; `locked` is the share of time that operations waited for locks, summed over
#: operations, so it can exceed 1.
MONGOSTAT = (
    Figure("insert/s", "inserts", total=True),
    Figure("query/s", "queries", total=True),
    Figure("update/s", "updates", total=True),
    Figure("delete/s", "deletes", total=True),
    Figure("getmore/s", "getmores", total=True),
    Figure("command/s", "commands", total=True),
    Figure("flushes/s", "checkpoints", total=True),
    Figure("mapped", "memory_mapped_bytes", size=True),
    Figure("vsize", "memory_virtual_bytes", size=True),
    Figure("res", "memory_rss_bytes", size=True),
    Figure("faults/s", "page_faults", total=True),
    Figure("locked", "lock_wait_seconds", total=True),
    Figure("qr", "queued_readers"),
    Figure("qw", "queued_writers"),
    Figure("ar", "active_readers"),
    Figure("aw", "active_writers"),
    Figure("netIn/s", "received_bytes", total=True, size=True),
    Figure("netOut/s", "sent_bytes", total=True, size=True),
    Figure("conn", "clients"),
)

#: The command; it skips sections that are expensive and not used here.
STATUS = {
    "serverStatus": 1,
    **dict.fromkeys(("asserts", "sharding", "tcmalloc", "transportSecurity", "twoPhaseCommitCoordinator"), 0),
}

#: Our names of statistics -> their paths in serverStatus.
_PLACES = {
    "inserts": "opcounters.insert",
    "queries": "opcounters.query",
    "updates": "opcounters.update",
    "deletes": "opcounters.delete",
    "getmores": "opcounters.getmore",
    "commands": "opcounters.command",
    "replicated_inserts": "opcountersRepl.insert",
    "replicated_updates": "opcountersRepl.update",
    "replicated_deletes": "opcountersRepl.delete",
    "reads": "opLatencies.reads.ops",
    "writes": "opLatencies.writes.ops",
    "clients": "connections.current",
    "queued": "globalLock.currentQueue.total",
    "queued_readers": "globalLock.currentQueue.readers",
    "queued_writers": "globalLock.currentQueue.writers",
    "active_readers": "globalLock.activeClients.readers",
    "active_writers": "globalLock.activeClients.writers",
    "received_bytes": "network.bytesIn",
    "sent_bytes": "network.bytesOut",
    "requests": "network.numRequests",
    "page_faults": "extra_info.page_faults",
    "documents_returned": "metrics.document.returned",
    "documents_scanned": "metrics.queryExecutor.scannedObjects",
    "keys_scanned": "metrics.queryExecutor.scanned",
    "cache_bytes": "wiredTiger.cache.bytes currently in the cache",
    "cache_dirty_bytes": "wiredTiger.cache.tracked dirty bytes in the cache",
    "cache_max_bytes": "wiredTiger.cache.maximum bytes configured",
    "cache_read_bytes": "wiredTiger.cache.bytes read into cache",
    "cache_written_bytes": "wiredTiger.cache.bytes written from cache",
    "checkpoint_running": "wiredTiger.transaction.transaction checkpoint currently running",
    "checkpoints": "wiredTiger.transaction.transaction checkpoints",
    "checkpoint_ms": "wiredTiger.transaction.transaction checkpoint total time (msecs)",
    "read_tickets": "wiredTiger.concurrentTransactions.read.available",
    "write_tickets": "wiredTiger.concurrentTransactions.write.available",
    "flow_control_lagged": "flowControl.isLagged",
}
#: Paths from version 8.0 on.
_LATER = {
    "checkpoints": "wiredTiger.checkpoint.total succeed number of checkpoints",
    "checkpoint_ms": "wiredTiger.checkpoint.total time (msecs)",
}
#: Times, in microseconds in serverStatus.
_TIMES = {
    "read_seconds": "opLatencies.reads.latency",
    "write_seconds": "opLatencies.writes.latency",
    "flow_control_seconds": "flowControl.timeAcquiringMicros",
}
#: Statistics of the database with all collections -> their fields in dbStats.
_OF_DATABASE = {"documents": "objects", "data_bytes": "dataSize", "index_bytes": "indexSize"}
#: Memory -> its path in serverStatus, in MiB.
_MEMORY = {
    "memory_rss_bytes": "mem.resident",
    "memory_virtual_bytes": "mem.virtual",
    "memory_mapped_bytes": "mem.mapped",
}
_MEBIBYTE = 2**20


def figures(status: Mapping[str, Any]) -> dict[str, float]:
    """Return a server's statistics by Loadframe's names, from serverStatus, without statistics that its version lacks.

    Counters start with the server. Names end with their unit, such as `_ms`, if they have one.
    """
    figures = {}
    for places in (_LATER, _PLACES):
        for name, place in places.items():
            if (value := _at(status, place)) is not None:
                figures[name] = float(value)
    for name, place in _TIMES.items():
        if (value := _at(status, place)) is not None:
            figures[name] = float(value) / 1e6
    for name, place in _MEMORY.items():
        if (value := _at(status, place)) is not None:
            figures[name] = float(value) * _MEBIBYTE
    if locks := status.get("locks"):
        waits = [wait for lock in locks.values() for wait in lock.get("timeAcquiringMicros", {}).values()]
        figures["lock_wait_seconds"] = sum(map(float, waits)) / 1e6
    if repl := status.get("repl"):
        figures["primary"] = float(bool(repl.get("isWritablePrimary")))
    return figures


def of_database(stats: Mapping[str, Any]) -> dict[str, float]:
    """Return statistics from dbStats: documents, and bytes of data (uncompressed), of indexes and of both on disk.

    Values that `stats` lacks are left out.
    """
    figures = {name: float(stats[key]) for name, key in _OF_DATABASE.items() if key in stats}
    if "storageSize" in stats:
        figures["store_bytes"] = float(stats["storageSize"]) + figures.get("index_bytes", 0.0)
    return figures


def is_router(status: Mapping[str, Any]) -> bool:
    """Whether a result of serverStatus is from a router, which holds no data."""
    return str(status.get("process", "")).startswith("mongos")


def last_write_time(status: Mapping[str, Any]) -> float | None:
    """Return the time of a member's last write, s since the epoch, from serverStatus.

    None for other servers, and for members without writes, which report 1970: arbiters, and members in initial sync.
    """
    at = _at(status, "repl.lastWrite.lastWriteDate")
    return None if at is None else float(at.replace(tzinfo=UTC).timestamp()) or None


def replica_set_name(status: Mapping[str, Any]) -> str | None:
    """Return the name of a server's replica set, from serverStatus; None if it is not a member."""
    name = _at(status, "repl.setName")
    return None if name is None else str(name)


def name_of(options: Mapping[str, Any], address: str) -> str:
    """Return the name of a server's node if Loadframe started it, else its `address`.

    `options` is the answer to getCmdLineOpts.
    """
    parsed = options.get("parsed") or {}
    pid = (parsed.get("processManagement") or {}).get("pidFilePath")
    data = (parsed.get("storage") or {}).get("dbPath")
    if pid and (data is None or Path(data).parent == Path(pid).parent):
        return Path(pid).stem
    return address


def _at(status: Mapping[str, Any], place: str) -> Any:
    """Return the value at a path of keys with dots, such as `repl.setName`; None if a key is missing."""
    value: Any = status
    for part in place.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


_BATCH = 1000
#: Error code of a collection that does not exist.
_NO_COLLECTION = 26


def sampled_documents(server: Client, name: str, documents: int, database: str) -> Sample:
    """Return up to `documents` random documents, and the collection's indexes. BadInput if it does not exist.

    Values are in relaxed extended JSON. Ids are left out, unless all are texts or whole numbers; then the sample's key
    is `_id`.
    """
    from bson import json_util

    pipeline = [{"$sample": {"size": documents}}]
    cursor = server.ask({"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": _BATCH}}, database)["cursor"]
    batches = list(cursor["firstBatch"])
    while cursor["id"]:
        cursor = server.ask({"getMore": cursor["id"], "collection": name, "batchSize": _BATCH}, database)["cursor"]
        batches += cursor["nextBatch"]
    # MongoDB reads a collection that does not exist as an empty one.
    if not batches and name not in server.collections(database):
        what = f"the database {database} does not have the collection {name}"
        raise BadInput(what, where=server.address, remedy="check --collection and --database")
    own_ids = all(isinstance(document.get("_id"), str | int) for document in batches)
    for document in batches:
        if not own_ids:
            document.pop("_id", None)
    text = json_util.dumps(batches, json_options=json_util.RELAXED_JSON_OPTIONS)
    key = "_id" if own_ids and batches else None
    return Sample(json.loads(text), _indexes_of(server, name, database), key)


def _indexes_of(server: Client, name: str, database: str) -> dict[str, Any]:
    """Return {"indexes": [{field: direction or type}]} of a collection, without the index of ids and text indexes.

    Empty if no other index exists.
    """
    try:
        indexes = server.ask({"listIndexes": name, "cursor": {"batchSize": _BATCH}}, database)["cursor"]["firstBatch"]
    except MongoError as error:
        if error.code != _NO_COLLECTION:
            raise
        return {}
    keys = [dict(index["key"]) for index in indexes if index["name"] != "_id_" and "_fts" not in index["key"]]
    whole = [{field: int(way) if isinstance(way, float) else way for field, way in key.items()} for key in keys]
    return {"indexes": whole} if whole else {}
