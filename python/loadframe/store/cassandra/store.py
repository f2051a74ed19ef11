"""Cassandra: a node's files and command line from the embedded distribution, its tables, its ring."""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.base.units import counted, format_nodes
from loadframe.store import days, distribution, installed, jvm
from loadframe.store.access import OPEN, Access, Auth, split_address
from loadframe.store.base import (
    Balancing,
    Figure,
    Found,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    Store,
    Unreachable,
    Watch,
)
from loadframe.store.cassandra import config
from loadframe.store.cassandra.cql import NOT_LET_IN, NOT_NOW, Connection, CqlError
from loadframe.store.cassandra.ring import Ring, figures
from loadframe.store.distribution import Distribution
from loadframe.store.encryption import Encryption
from loadframe.store.first_answer import first_answer

KEYSPACE = "loadframe"
#: The user that clients log in as, of clusters that loadframe starts.
ADMINISTRATOR = "loadframe"
_LOGGED_IN = "SELECT username FROM system_views.clients"
#: Seconds that connections which were closed are given to be gone.
_LEAVING = 10.0
_ALREADY_EXISTS = 0x2400
_STORAGE_SERVICE = "org.apache.cassandra.db:type=StorageService"
#: Seconds. A schema change waits for all nodes, counting reads all data.
_SCHEMA_TIMEOUT = 60.0
_COUNT_TIMEOUT = 600.0
_POLL = 0.5
#: Times that a reading is asked for whose node says that it cannot at the moment.
_TRIES = 4


class _NotConnectedError(OSError):
    """A node was not reached, and no statement was sent to it."""


class Cassandra(Store):
    """Cassandra from the Maven repository; what is asked by CQL alone works for ScyllaDB, too."""

    kind = "cassandra"
    port = 9042
    schemes: Mapping[str, bool | None] = {"cassandra": None}
    family = "cassandra"
    driver = "cql"
    ages = True  # its compiler is at work for minutes
    versions = ("5.0.9",)
    own_address = True
    own_user = True
    administrator = ADMINISTRATOR
    console = f"cqlsh {{host}} {{port}} -u {ADMINISTRATOR}  # asks for the password, which is in {{file}}"
    watched = (
        Figure("requests/s", "request_completed", total=True),
        Figure("running", "request_active"),
        Figure("queued", "request_queue"),
        Figure("compactions", "compactions_current"),
        Figure("clients", "clients"),
        Figure("data", "store_bytes", size=True),
    )

    def __init__(self, access: Access = OPEN) -> None:
        """Remember who asks, and how."""
        self._access = access
        self._tls = access.context
        self._tls_remedy = access.tls_remedy
        self._user = (access.auth.user or "", access.auth.secret) if access.auth else None
        #: The names by which nodes were given, by their IP addresses.
        self._names: dict[str, str] = {}
        #: A connection to each node for its figures, which are asked for every second.
        self._watched: dict[str, Connection] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store as it is asked by TLS, as a user with a password, or both; BadInput for keys and tokens."""
        if access.auth is not None and access.auth.scheme != "basic":
            raise BadInput("cassandra knows users with passwords, and no keys or tokens", remedy="give --user")
        if access.compress:
            raise BadInput("requests to cassandra are not compressed here", remedy="leave --compress out")
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Return the jars of that version."""
        if version not in self.versions:
            raise BadInput(
                f"cassandra {version} is not among the embedded versions",
                remedy=f"take {', '.join(self.versions)}, or give an installation of that version with --home",
            )
        return distribution.listed(self.kind, version)

    def installation(self, home: Path | None) -> Found | None:
        """Return the user's own, as the vendor's archive is laid out; BadInput for one that is too old."""
        if home is None:
            return None
        version = installed.of_jar(home, self.kind, ("apache-cassandra", "cassandra-all"))
        if int(version.split(".")[0]) < 5:
            raise BadInput(
                f"cassandra {version} cannot be started here, 5.0 and newer can",
                where=str(home),
                remedy="start it yourself and give its --hosts",
            )
        return Found(version, home, java=17, java_most=23)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are those of cassandra.yaml, and those of its JVM."""
        for key in settings:
            if key in config.OURS:
                raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
        jvm.check_settings(settings)

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Clients and nodes have ports of their own, and each can be encrypted for itself."""

    def require_machine(self, settings: Mapping[str, Any], memory: int | None) -> None:
        """Look at the heap."""
        config.require_heap(settings, memory)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Bind one address, give its management no port, and write down how that is called."""
        if installation.java is None:
            raise BadInput("cassandra needs a Java runtime", remedy="see `loadframe doctor`")
        heap, options = config.jvm_options(node)
        java = str(installation.java / "bin" / "java")
        classpath = f"{installation.home}/lib/*"
        argv = (
            java,
            *options,
            f"-Djava.io.tmpdir={node.folder / 'tmp'}",
            f"-Djna.tmpdir={node.folder / 'tmp'}",
            f"-XX:ErrorFile={node.folder / 'logs' / 'jvm-error.log'}",
            f"-Dlogback.configurationFile={node.folder / 'config' / 'logback.xml'}",
            f"-Dcassandra.config=file://{node.folder / 'config' / 'cassandra.yaml'}",
            _identity(node.folder),
            f"-Dcassandra.logdir={node.folder / 'logs'}",
            *config.initial_roles(node),
            "-Dcassandra-foreground=yes",
            "-cp",
            classpath,
            "org.apache.cassandra.service.CassandraDaemon",
        )
        # Its management has no port, which any local user could use: whoever may signal the process attaches to it.
        manage = [java, "-Xmx128m", "-XX:+UseSerialGC", *config.MODULES, "-cp", classpath]
        manage += ["org.gridkit.jvmtool.SJK", "mx", "-b", _STORAGE_SERVICE, "-mc"]
        files = {
            "config/cassandra.yaml": config.configuration(node),
            "config/logback.xml": config.LOGGING,
            "config/manage.json": json.dumps(manage),
            **(node.certificates.files(bundled=True) if node.certificates else {}),
        }
        return NodePlan(
            files=files,
            folders=("data", "logs", "tmp"),
            argv=argv,
            environment={"LANG": "C.UTF-8"},
            facts={"heap": heap, "jvm_options": options},
        )

    def _ask(
        self, addresses: Sequence[str], statement: str, *, one: bool = True, timeout: float = 10.0
    ) -> list[dict[str, Any]]:
        """Ask the first address that answers; Unreachable when none does, LoadframeError with the store's words."""

        def ask(address: str) -> list[dict[str, Any]]:
            try:
                connection = self._connect(address, timeout)
            except OSError as error:
                raise _NotConnectedError(str(error)) from error
            with connection:
                for _ in range(_TRIES - 1 if repeatable else 0):
                    try:
                        return connection.ask(statement, one=one)
                    except CqlError as error:
                        if error.code not in NOT_NOW:
                            raise
                    time.sleep(_POLL)
                return connection.ask(statement, one=one)

        repeatable = statement.startswith("SELECT ")
        try:
            return first_answer(addresses, ask, OSError, _NotConnectedError, repeatable=repeatable)
        except CqlError as error:
            if error.code in NOT_LET_IN:
                raise BadInput(
                    f"the cluster denies access: {error.what}",
                    where=error.where,
                    remedy="give --user, with an account that may do it",
                ) from error
            raise
        except OSError as error:
            if not repeatable and not isinstance(error, _NotConnectedError):
                raise StoreFailed(
                    f"a statement was not answered ({error}); whether it was carried out is not known: {statement}",
                    where=", ".join(addresses),
                ) from error
            raise Unreachable(
                f"the cluster does not answer ({error})",
                where=", ".join(addresses),
                remedy=f"check that it runs, and that the addresses are those where it speaks CQL{self._tls_remedy}",
            ) from error

    def _connect(self, address: str, timeout: float = 10.0) -> Connection:
        """Connect to a node. Nodes tell of each other by IP address; certificates may be for the names in --hosts."""
        host, port = split_address(address)
        if self._tls and host not in self._names.values():
            for *_, (ip, *_) in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                self._names.setdefault(str(ip), host)
        return Connection(address, self._user, timeout, self._tls, self._names.get(host))

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, with the name of one that only speaks the same protocol."""
        local = self._ask(addresses, "SELECT * FROM system.local")[0]
        # Of all that speak the protocol, only ScyllaDB has this table.
        tables = self._ask(addresses, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'")
        if any(table["table_name"] == "scylla_local" for table in tables):
            return f"scylla {local['release_version']}"
        return str(local["release_version"])

    def health(self, addresses: Sequence[str]) -> Health:
        """Ready is every member in the state NORMAL, and all of them answering."""
        ring = self._ring(addresses)
        missing = [node for node in ring.members if not self._answers(node)]
        moving = ring.moving
        states = [*(["DOWN"] if missing else []), *sorted(ring.states - {"NORMAL"})]
        return Health(
            ready=not missing,
            status=", ".join(states).lower() or "normal",
            nodes=len(ring.members) - len(missing),
            moving=moving,
            missing=len(missing),
        )

    def _ring(self, addresses: Sequence[str]) -> Ring:
        return Ring.read(lambda statement: self._ask(addresses, statement))

    def _answers(self, address: str) -> bool:
        try:
            self._connect(address, 5.0).close()
        except CqlError:
            return True
        except OSError:
            return False
        return True

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Replace the user that every new cluster has, whose password everybody knows, by the administrator.

        StoreFailed if anybody else has logged in before that.
        """
        if self._user is None:
            return
        addresses = [member.address for member in members]
        known = Auth("basic", config.INITIAL_USER, user=config.INITIAL_USER)
        initial = self.with_access(replace(self._access, auth=known))
        # Each founder has a copy of all roles, and the new one is written to all of them.
        while not all(initial._lets_in(address) for address in addresses):
            watch(Balancing(0, "bytes", "starting"))
            time.sleep(_POLL)
        user, password = self._user
        how = f"SUPERUSER = true AND LOGIN = true AND PASSWORD = '{password}'"
        initial._ask(addresses, f"CREATE ROLE {user} WITH {how}", timeout=_SCHEMA_TIMEOUT)
        self._ask(addresses, f"DROP ROLE {config.INITIAL_USER}", timeout=_SCHEMA_TIMEOUT)
        self._require_alone(addresses, watch)
        copies = f"{{'class': 'SimpleStrategy', 'replication_factor': {config.COPIES_OF_ROLES}}}"
        self._ask(addresses, f"ALTER KEYSPACE system_auth WITH replication = {copies}", timeout=_SCHEMA_TIMEOUT)
        self._agree(addresses)

    def _require_alone(self, addresses: Sequence[str], watch: Watch) -> None:
        """StoreFailed if there are roles beside the administrator's, or connections of others that stay."""
        end = time.monotonic() + _LEAVING
        # Twice, in turn: who logs in between the one and the other is seen by the next.
        for _ in range(2):
            roles = {str(row["role"]) for row in self._ask(addresses, "SELECT role FROM system_auth.roles")}
            while (others := self._users(addresses)) and time.monotonic() < end:
                # Our own connections as the initial user take a moment to be gone.
                watch(Balancing(0, "bytes", "starting"))
                time.sleep(_POLL / 5)
            if strangers := sorted((roles - {ADMINISTRATOR}) | others):
                raise StoreFailed(
                    f"somebody else logged in to the cluster while it started, as {', '.join(strangers)}",
                    where=", ".join(addresses),
                    remedy="see who uses this machine, and start the cluster again",
                )

    def _users(self, addresses: Sequence[str]) -> set[str]:
        """Return the users other than the administrator that are logged in to any node."""
        seen = (row["username"] for address in addresses for row in self._ask([address], _LOGGED_IN))
        return {str(user) for user in seen if user is not None} - {ADMINISTRATOR}

    def _lets_in(self, address: str) -> bool:
        try:
            self._connect(address, 5.0).close()
        except (OSError, CqlError):
            return False
        return True

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Wait while the node fetches its share from the others, which is how it joins."""
        while not (self._is_member(addresses, member) and self._answers(member.address)):
            watch(self._streaming(addresses))
            time.sleep(_POLL)
        watch(Balancing(0, "bytes", "normal"))

    def _is_member(self, addresses: Sequence[str], member: Member) -> bool:
        return member.address in self._ring(addresses).members

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Wait until nothing is streamed: nodes get and give their data while they join and leave.

        What the others no longer need to hold stays on their disks until compactions, or `nodetool cleanup`.
        """
        while (left := self._streaming(addresses)).left or self._ring(addresses).moving:
            watch(left)
            time.sleep(_POLL)
        watch(Balancing(0, "bytes", "normal"))

    def _streaming(self, addresses: Sequence[str]) -> Balancing:
        """Return the bytes that the nodes still have to send to each other, as far as they know yet."""
        left = 0.0
        for address in dict.fromkeys(addresses):
            try:
                with self._connect(address) as connection:
                    streams = connection.ask("SELECT * FROM system_views.streaming")
            except (OSError, CqlError):
                continue
            for stream in streams:
                if stream["status"] not in ("success", "failure"):
                    left += max(float(stream["bytes_to_send"] or 0) - float(stream["bytes_sent"] or 0), 0.0)
        states = self._ring(addresses).states
        return Balancing(left, "bytes", ", ".join(sorted(states)).lower())

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Decommission the node: it streams what it holds to the others."""
        manage = member.call(_manage, member.folder) if member.folder else None
        if manage is None:
            raise BadInput(
                f"{member.name} was not started by loadframe, which cannot decommission it",
                where=member.address,
                remedy="run `nodetool decommission` there yourself",
            )
        self._require_copies(addresses, member)
        # Its own keyspaces may want more copies than there are nodes; those of users were looked at.
        command = [*member.inside, *manage, "-op", "decommission", "-a", "true"]
        number = member.call(_begin, command)
        try:
            while (ended := member.call(_ended, number)) is None:
                watch(self._streaming([*addresses, member.address]))
                time.sleep(_POLL)
        except BaseException:
            member.call(_break_off, number)
            raise
        status, told = ended
        if status:
            last = [line for line in told.splitlines() if line.strip() and line[0] != "\t"][-1:] or ["nothing"]
            raise StoreFailed(
                f"{member.name} could not be decommissioned; it said: {last[0]}",
                where=member.address,
                remedy="see the end of its log; the node is still a member",
            )
        watch(Balancing(0, "bytes", "left"))

    def _require_copies(self, addresses: Sequence[str], member: Member) -> None:
        others = len(self._ring(addresses).members) - 1
        for keyspace in self._ask(addresses, "SELECT keyspace_name, replication FROM system_schema.keyspaces"):
            name, copies = str(keyspace["keyspace_name"]), _copies(keyspace["replication"])
            if not name.startswith("system") and copies > others:
                raise BadInput(
                    f"keyspace {name} wants {counted(copies, 'copy', 'copies')},"
                    f" and {format_nodes(others)} would be left",
                    where=member.name,
                    remedy="keep the node, or lower replication_factor by ALTER KEYSPACE first",
                )

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a table of `columns` and `key` in the keyspace `loadframe`, with its `replication`.

        BadInput for more copies than there are nodes, and where the keyspace is there with another replication.
        """
        columns: Mapping[str, str] = definition.get("columns") or {}
        said = definition.get("key", "id")
        key: list[str] = [said] if isinstance(said, str) else list(said)
        if not columns:
            raise BadInput(
                f"the collection {name} has no columns for cassandra",
                remedy="say them in the workload: collections: NAME: cassandra: {columns: {name: type}}",
            )
        said_of_copies = definition.get("replication") or {}
        wanted = {key: value for key, value in said_of_copies.items() if value is not None}
        self._create_keyspace(addresses, wanted, nodes)
        typed = ", ".join(
            f"{_quoted(column)} {kind}" for column, kind in {**dict.fromkeys(key, "text"), **columns}.items()
        )
        options = definition.get("with")
        statement = f"CREATE TABLE {KEYSPACE}.{_quoted(name)} ({typed}, PRIMARY KEY ({', '.join(map(_quoted, key))}))"
        self._ask(addresses, f"{statement} WITH {options}" if options else statement, timeout=_SCHEMA_TIMEOUT)
        self._agree(addresses)

    def _create_keyspace(self, addresses: Sequence[str], wanted: Mapping[str, Any], nodes: int) -> None:
        replication = {"class": "SimpleStrategy", "replication_factor": 1, **wanted}
        if _copies(replication) > nodes:
            raise BadInput(
                f"a replication_factor of {_copies(replication)} wants as many nodes, and there are {nodes}",
                remedy="take more nodes, or lower the replication_factor of the collection",
            )
        text = ", ".join(f"'{key}': '{value}'" for key, value in replication.items())
        try:
            self._ask(addresses, f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{{text}}}", timeout=_SCHEMA_TIMEOUT)
        except CqlError as error:
            if error.code != _ALREADY_EXISTS:
                raise
            there = self._ask(
                addresses, f"SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{KEYSPACE}'"
            )
            if wanted and _copies(there[0]["replication"]) != _copies(replication):
                raise BadInput(
                    f"the keyspace {KEYSPACE} has {_copies(there[0]['replication'])} copies of its data, and the"
                    f" workload wants {_copies(replication)}",
                    remedy=f"give all collections the same replication, or drop the keyspace {KEYSPACE} first",
                ) from error

    def _agree(self, addresses: Sequence[str]) -> None:
        """Return when the nodes that answer have the same schema."""
        deadline = time.monotonic() + _SCHEMA_TIMEOUT
        while time.monotonic() < deadline:
            seen = [self._ask(addresses, f"SELECT schema_version FROM system.{table}") for table in ("local", "peers")]
            versions = {row["schema_version"] for rows in seen for row in rows}
            if len(versions) == 1:
                return
            time.sleep(0.2)
        raise StoreFailed("the nodes do not agree on their schema", remedy="see their logs")

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Whether a table of that name is there."""
        return name in self._tables(addresses)

    def _tables(self, addresses: Sequence[str]) -> list[str]:
        tables = self._ask(addresses, f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'")
        return [row["table_name"] for row in tables]

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Drop the table, if it is there, and the keyspace with its last table."""
        if self.has_collection(addresses, name):
            self._ask(addresses, f"DROP TABLE {KEYSPACE}.{_quoted(name)}", timeout=_SCHEMA_TIMEOUT)
            if not self._tables(addresses):
                self._ask(addresses, f"DROP KEYSPACE IF EXISTS {KEYSPACE}", timeout=_SCHEMA_TIMEOUT)
            self._agree(addresses)

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Count at a quorum, which sees what was written a moment ago. Reads all data."""
        return self._count(addresses, name, "*")

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Count the rows in which a column is not null, at a quorum. Reads all data, once for each column."""
        return {field: self._count(addresses, name, _quoted(field)) for field in fields}

    def _count(self, addresses: Sequence[str], name: str, what: str) -> int:
        total = 0
        for table in days.collections(name, self._tables(addresses), dotted=False):
            statement = f"SELECT COUNT({what}) AS n FROM {KEYSPACE}.{_quoted(table)}"
            total += int(self._ask(addresses, statement, one=False, timeout=_COUNT_TIMEOUT)[0]["n"])
        return total

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the figures of docs/stores/cassandra.md for each node, by its address. Totals count from its start."""
        by_node = {}
        for address in addresses:
            try:
                connection = self._watched.get(address) or self._connect(address, 5.0)
                self._watched[address] = connection
                by_node[address] = figures(connection.ask)
            except (OSError, CqlError):
                if (broken := self._watched.pop(address, None)) is not None:
                    broken.close()
        return by_node


def _identity(folder: Path) -> str:
    """Return the argument that tells a node's process from all others."""
    return f"-Dcassandra.storagedir={folder / 'data'}"


def _manage(folder: Path) -> list[str] | None:
    """Return the command that calls a node's management on its machine, up to the name of the call; None without it."""
    command = nofollow.read_text(folder, "config/manage.json")
    if command is not None:
        identity = _identity(folder).encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if identity in (process / "cmdline").read_bytes().split(b"\0"):
                    return [*json.loads(command), "-p", process.name]
    return None


#: Commands that were begun on this machine, by the ids of their processes.
_BEGUN: dict[int, "subprocess.Popen[str]"] = {}


def _begin(command: Sequence[str]) -> int:
    """Run a command beside us on this machine, and return its number for `_ended` and `_break_off`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    _BEGUN[process.pid] = process
    return process.pid


def _ended(number: int) -> tuple[int, str] | None:
    """Return the status and the output of a command, or None while it runs."""
    process = _BEGUN[number]
    if process.poll() is None:
        return None
    told, _ = _BEGUN.pop(number).communicate()
    return process.returncode, told


def _break_off(number: int) -> None:
    """Kill a command."""
    process = _BEGUN.pop(number, None)
    if process:
        process.kill()
        process.communicate()


def _copies(replication: Mapping[str, Any]) -> int:
    """Return how many nodes of a data centre hold a piece of data; most, where the centres differ."""
    factors = [value for key, value in replication.items() if key != "class"]
    try:
        return max((int(str(factor).split("/")[0]) for factor in factors), default=1)
    except ValueError as error:
        raise BadInput("a replication factor is not a number", where=str(dict(replication))) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


STORE = Cassandra()
