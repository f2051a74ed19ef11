"""Cassandra: nodes from the embedded distribution or an installation, tables, and ring changes."""

import json
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.base.units import counted, format_nodes
from loadframe.store import distribution, jvm
from loadframe.store.access import OPEN, Access, Auth, Encryption, first_answer, split_address
from loadframe.store.base import (
    Balancing,
    Figure,
    FoundInstallation,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    Sample,
    Store,
    Unreachable,
    Watch,
    daily_collections,
)
from loadframe.store.cassandra import config
from loadframe.store.cassandra.cql import BAD_CREDENTIALS, DENIED, TRIES, Connection, CqlError, quoted, repeat
from loadframe.store.cassandra.ring import (
    Ring,
    ended_command,
    figures,
    kill_command,
    management_command,
    sampled_rows,
    start_command,
)
from loadframe.store.distribution import Distribution

KEYSPACE = "loadframe"
#: The administrator of clusters that Loadframe starts.
ADMINISTRATOR = "loadframe"
_LOGGED_IN = "SELECT username FROM system_views.clients"
#: Time limit for closed connections to disappear from the list of clients, s.
_DISCONNECT_WITHIN = 10.0
_ALREADY_EXISTS = 0x2400
_STORAGE_SERVICE = "org.apache.cassandra.db:type=StorageService"
#: Timeouts, s. A schema change waits for all nodes; a count reads all data.
_SCHEMA_TIMEOUT = 60.0
_COUNT_TIMEOUT = 600.0
_POLL = 0.5


class _NotConnectedError(OSError):
    """The connection failed, and no statement was sent."""


class Cassandra(Store):
    """Cassandra from the Maven repository or an installation. Operations that use only CQL also work on ScyllaDB.

    Methods that send statements raise the errors of `_ask`. `watch` gets the progress of waits, and may end them by an
    error.
    """

    kind = "cassandra"
    maker = ("Apache Software Foundation", "https://cassandra.apache.org", "Apache Cassandra")
    #: The request OPTIONS of version 4, and the header of its answer.
    greeting = (b"\x04\0\0\0\x05\0\0\0\0", rb"\x84(?s:.){3}[\0\x06]")
    port = 9042
    schemes: Mapping[str, bool | None] = {"cassandra": None}
    family = "cassandra"
    driver = "cql"
    blind_writes = True
    ages = True  # the JIT compiler needs minutes
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
        """Store TLS and credentials; BadInput if a TLS file is invalid. Connections are opened on first use."""
        self._access = access
        self._tls = access.context
        self._silence_hint = access.silence_hint
        self._user = (access.auth.user or "", access.auth.secret) if access.auth else None
        #: Host names from --hosts by IP address.
        self._names: dict[str, str] = {}
        #: Open connections by node, for statistics every second.
        self._watched: dict[str, Connection] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store with TLS, a user with a password, or both; BadInput for other credentials."""
        self._require_user_login(access)
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Return the jars of an embedded version; BadInput for other versions."""
        if version not in self.versions:
            raise BadInput(
                f"cassandra {version} is not an embedded version",
                remedy=f"use {', '.join(self.versions)}, or give an installation of that version with --home",
            )
        return distribution.embedded_files(self.kind, version)

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return the user's installation, None without `home`; BadInput for another layout, or below version 5.0."""
        if home is None:
            return None
        version = distribution.of_jar(home, self.kind, ("apache-cassandra", "cassandra-all"))
        if int(version.split(".")[0]) < 5:
            raise BadInput(
                f"Loadframe cannot start cassandra {version}, only 5.0 and newer",
                where=str(home),
                remedy="start it yourself and name it with --hosts",
            )
        return FoundInstallation(version, home, java=17, java_most=23)

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return `commitlog_sync` and its value, given or by default: when the commit log is synchronised."""
        return f"commitlog_sync {settings.get('commitlog_sync', config.COMMITLOG_SYNC)}"

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for settings that Loadframe controls, and for invalid JVM settings (`heap`, `jvm`).

        Other names and their values are not checked.
        """
        for key in settings:
            if key in config.OURS:
                raise BadInput(f"the setting {key} is controlled by Loadframe", remedy="leave it out")
        jvm.check_settings(settings)

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Do nothing: all modes are supported."""

    def require_machine(self, settings: Mapping[str, Any], memory: int | None, address: str) -> None:
        """Raise BadInput if the heap leaves less than 256 MiB of the limit `memory`, in bytes; None is unlimited.

        By default, the heap is half of the limit, but at least 256 MiB.
        """
        config.require_heap(settings, memory)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of a node that binds one address and opens no JMX port.

        BadInput without Java, or if the heap leaves less than 256 MiB of the node's memory limit. The file
        config/manage.json has the command line of the management tool.
        """
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
            config.identity(node.folder),
            f"-Dcassandra.logdir={node.folder / 'logs'}",
            *config.initial_roles(node),
            "-Dcassandra-foreground=yes",
            "-cp",
            classpath,
            "org.apache.cassandra.service.CassandraDaemon",
        )
        # A JMX port would be open to all local users; the management tool attaches to the process instead.
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
        """Send a statement to the first address that answers, and return its rows by column name.

        `one` is consistency ONE, else QUORUM; `timeout` limits each answer, s. Logins and SELECTs are tried up to 4
        times after temporary errors. BadInput if access is denied, Unreachable without an answer, CqlError for other
        errors of the store. StoreFailed if a statement that is not a SELECT was sent but not answered.
        """

        def ask(address: str) -> list[dict[str, Any]]:
            """Send the statement over a new connection to one address, and return its rows.

            _NotConnectedError if the connection fails, OSError without an answer, CqlError for an error answer.
            """
            try:
                connection = repeat(lambda: self._connect(address, timeout))
            except OSError as error:
                raise _NotConnectedError(str(error)) from error
            with connection:
                return repeat(lambda: connection.ask(statement, one=one), TRIES if repeatable else 1)

        repeatable = statement.startswith("SELECT ")
        try:
            return first_answer(addresses, ask, OSError, _NotConnectedError, repeatable=repeatable)
        except CqlError as error:
            if error.code in DENIED:
                raise BadInput(
                    f"the cluster denies access: {error.what}",
                    where=error.where,
                    remedy=auth.check
                    if (auth := self._access.auth) and error.code == BAD_CREDENTIALS
                    else "give --user, with an account that has the privilege",
                ) from error
            raise
        except OSError as error:
            if not repeatable and not isinstance(error, _NotConnectedError):
                raise StoreFailed(
                    f"a statement was not answered ({error}); it may have been carried out: {statement}",
                    where=", ".join(addresses),
                ) from error
            raise Unreachable(
                f"the cluster does not answer ({error})",
                where=", ".join(addresses),
                remedy=f"check that it runs, and that the addresses name its CQL port{self._silence_hint}",
            ) from error

    def _connect(self, address: str, timeout: float = 10.0) -> Connection:
        """Open a new connection to a node and log in; OSError without an answer, CqlError if the login is refused.

        `timeout` limits each answer, s. Nodes report IP addresses, so TLS checks the host name from --hosts instead.
        """
        host, port = split_address(address)
        if self._tls and host not in self._names.values():
            for *_, (ip, *_) in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                self._names.setdefault(str(ip), host)
        return Connection(address, self._user, timeout, self._tls, self._names.get(host))

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, such as `5.0.9`, preceded by `scylla` for ScyllaDB."""
        local = self._ask(addresses, "SELECT * FROM system.local")[0]
        # Only ScyllaDB has this table.
        tables = self._ask(addresses, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'")
        if any(table["table_name"] == "scylla_local" for table in tables):
            return f"scylla {local['release_version']}"
        return str(local["release_version"])

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if each member of the ring answers a login. Members that do not are missing.

        The first of `addresses` that answers reports the ring. Nodes are the members that answer. Joining, leaving and
        moving nodes count as moving.
        """
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
        """Return the state of the ring, as the first node that answers reports it.

        Unreachable if none answers, BadInput if access is denied.
        """
        return Ring.read(lambda statement: self._ask(addresses, statement))

    def _answers(self, address: str) -> bool:
        """Whether a node answers a login, with at most 5 s for each answer; a refused login counts as an answer."""
        try:
            self._connect(address, 5.0).close()
        except CqlError:
            return True
        except OSError:
            return False
        return True

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Replace a new cluster's default user, with its public password, by the administrator.

        First waits until all members accept logins. Also gives each node a copy of the roles. Does nothing without
        credentials. StoreFailed if another user has logged in before.
        """
        if self._user is None:
            return
        addresses = [member.address for member in members]
        default = Auth("basic", config.INITIAL_USER, user=config.INITIAL_USER)
        initial = self.with_access(replace(self._access, auth=default))
        # Each founder has a copy of all roles, and the new role is written to all of them.
        while not all(initial._accepts_login(address) for address in addresses):
            watch(Balancing(0, "bytes", "starting"))
            time.sleep(_POLL)
        user, password = self._user
        options = f"SUPERUSER = true AND LOGIN = true AND PASSWORD = '{password}'"
        initial._ask(addresses, f"CREATE ROLE {user} WITH {options}", timeout=_SCHEMA_TIMEOUT)
        self._ask(addresses, f"DROP ROLE {config.INITIAL_USER}", timeout=_SCHEMA_TIMEOUT)
        self._require_alone(addresses, watch)
        copies = f"{{'class': 'SimpleStrategy', 'replication_factor': {config.COPIES_OF_ROLES}}}"
        self._ask(addresses, f"ALTER KEYSPACE system_auth WITH replication = {copies}", timeout=_SCHEMA_TIMEOUT)
        self._await_schema_agreement(addresses)

    def _require_alone(self, addresses: Sequence[str], watch: Watch) -> None:
        """Raise StoreFailed if a role besides the administrator exists, or another user is still logged in after 10 s.

        `watch` is called while connections of others are open. Both are checked twice.
        """
        end = time.monotonic() + _DISCONNECT_WITHIN
        # Twice, alternating: the second pass sees a user who logged in between the two checks.
        for _ in range(2):
            roles = {str(row["role"]) for row in self._ask(addresses, "SELECT role FROM system_auth.roles")}
            while (others := self._users(addresses)) and time.monotonic() < end:
                # Connections that Loadframe opened as the default user take a moment to disappear.
                watch(Balancing(0, "bytes", "starting"))
                time.sleep(_POLL / 5)
            if strangers := sorted((roles - {ADMINISTRATOR}) | others):
                raise StoreFailed(
                    f"another user logged in to the cluster while it started: {', '.join(strangers)}",
                    where=", ".join(addresses),
                    remedy="find out who uses this machine, and start the cluster again",
                )

    def _users(self, addresses: Sequence[str]) -> set[str]:
        """Return the users that are logged in to the nodes at these addresses, without the administrator.

        Unreachable if one of the nodes does not answer.
        """
        seen = (row["username"] for address in addresses for row in self._ask([address], _LOGGED_IN))
        return {str(user) for user in seen if user is not None} - {ADMINISTRATOR}

    def _accepts_login(self, address: str) -> bool:
        """Whether a node accepts a login with this store's credentials; False also without an answer within 5 s."""
        try:
            self._connect(address, 5.0).close()
        except (OSError, CqlError):
            return False
        return True

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Wait until the node is a member and answers; meanwhile it fetches its data. `watch` gets the bytes left."""
        while not (self._is_member(addresses, member) and self._answers(member.address)):
            watch(self._streaming(addresses))
            time.sleep(_POLL)
        watch(Balancing(0, "bytes", "normal"))

    def _is_member(self, addresses: Sequence[str], member: Member) -> bool:
        """Whether the first of `addresses` that answers lists the node as a member."""
        return member.address in self._ring(addresses).members

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Wait until no data is streamed and no node joins, leaves or moves; nothing is moved for balance alone.

        `watch` gets the bytes left. Data that moved away stays on disk until a compaction or `nodetool cleanup`.
        """
        while (left := self._streaming(addresses)).left or self._ring(addresses).moving:
            watch(left)
            time.sleep(_POLL)
        watch(Balancing(0, "bytes", "normal"))

    def _streaming(self, addresses: Sequence[str]) -> Balancing:
        """Return the bytes that nodes have yet to send to each other, by their estimates; `state` is the ring's states.

        Only the nodes at `addresses` are asked; those that do not answer are skipped.
        """
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
        """Decommission the node and wait; BadInput if Loadframe did not start it or too few nodes would remain.

        `watch` gets the bytes left; an error of it kills the management command. StoreFailed if the command fails; the
        node then stays a member.
        """
        manage = member.call(management_command, member.folder) if member.folder else None
        if manage is None:
            raise BadInput(
                f"{member.name} was not started by Loadframe, which therefore cannot decommission it",
                where=member.address,
                remedy="run `nodetool decommission` there yourself",
            )
        self._require_copies(addresses, member)
        # `-a true` skips the server's check of replicas, which includes its system keyspaces.
        command = [*member.inside, *manage, "-op", "decommission", "-a", "true"]
        number = member.call(start_command, command)
        try:
            while (ended := member.call(ended_command, number)) is None:
                watch(self._streaming([*addresses, member.address]))
                time.sleep(_POLL)
        except BaseException:
            member.call(kill_command, number)
            raise
        status, output = ended
        if status:
            last = [line for line in output.splitlines() if line.strip() and line[0] != "\t"][-1:] or ["nothing"]
            raise StoreFailed(
                f"{member.name} could not be decommissioned; its last output: {last[0]}",
                where=member.address,
                remedy="see the end of its log; the node is still a member",
            )
        watch(Balancing(0, "bytes", "left"))

    def _require_copies(self, addresses: Sequence[str], member: Member) -> None:
        """Raise BadInput if a keyspace has more copies than nodes remain after `member` has left.

        Keyspaces whose names begin with `system` are not checked.
        """
        others = len(self._ring(addresses).members) - 1
        for keyspace in self._ask(addresses, "SELECT keyspace_name, replication FROM system_schema.keyspaces"):
            name, copies = str(keyspace["keyspace_name"]), _copies(keyspace["replication"])
            if not name.startswith("system") and copies > others:
                raise BadInput(
                    f"keyspace {name} has {counted(copies, 'copy', 'copies')} of its data,"
                    f" and {format_nodes(others)} would remain",
                    where=member.name,
                    remedy="keep the node, or lower replication_factor by ALTER KEYSPACE first",
                )

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a table of `columns` (name -> CQL type) in the keyspace `loadframe`, and wait for schema agreement.

        `key` is its primary key, by default `id`, or a list that begins with the partition key; a key that is not in
        `columns` is a text. `with` is the text of further options. Also creates the keyspace, with `replication`.
        BadInput without columns, for more copies than `nodes`, and if the keyspace exists with another number of copies
        than `replication` gives. CqlError if the table exists.
        """
        columns: Mapping[str, str] = definition.get("columns") or {}
        declared = definition.get("key", "id")
        key: list[str] = [declared] if isinstance(declared, str) else list(declared)
        if not columns:
            raise BadInput(
                f"the collection {name} has no columns for cassandra",
                remedy="add them to the workload: collections: NAME: cassandra: {columns: {name: type}}",
            )
        replication = {k: v for k, v in (definition.get("replication") or {}).items() if v is not None}
        self._create_keyspace(addresses, replication, nodes)
        typed = ", ".join(
            f"{quoted(column)} {kind}" for column, kind in {**dict.fromkeys(key, "text"), **columns}.items()
        )
        options = definition.get("with")
        statement = f"CREATE TABLE {KEYSPACE}.{quoted(name)} ({typed}, PRIMARY KEY ({', '.join(map(quoted, key))}))"
        self._ask(addresses, f"{statement} WITH {options}" if options else statement, timeout=_SCHEMA_TIMEOUT)
        self._await_schema_agreement(addresses)

    def removes_documents(self, definition: Mapping[str, Any]) -> str | None:
        """Return the text `the option default_time_to_live` if `with` sets it, or None if it is missing or 0."""
        # Without texts, such as a comment.
        options = re.sub(r"'[^']*'", "", definition.get("with") or "")
        expires = re.search(r"\bdefault_time_to_live\s*=\s*0*[1-9]", options, re.IGNORECASE)
        return "the option default_time_to_live" if expires else None

    def _create_keyspace(self, addresses: Sequence[str], declared: Mapping[str, Any], nodes: int) -> None:
        """Create the keyspace of all collections, or check the existing one; BadInput if the copies exceed the nodes.

        `declared` are replication options; without them a new keyspace has one copy, and any existing one is accepted.
        BadInput also if the declared number of copies differs from the existing keyspace's.
        """
        replication = {"class": "SimpleStrategy", "replication_factor": 1, **declared}
        if _copies(replication) > nodes:
            raise BadInput(
                f"a replication_factor of {_copies(replication)} needs as many nodes, and the cluster has {nodes}",
                remedy="use more nodes, or lower the replication_factor of the collection",
            )
        text = ", ".join(f"'{key}': '{value}'" for key, value in replication.items())
        try:
            self._ask(addresses, f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{{text}}}", timeout=_SCHEMA_TIMEOUT)
        except CqlError as error:
            if error.code != _ALREADY_EXISTS:
                raise
            existing = self._ask(
                addresses, f"SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{KEYSPACE}'"
            )
            if declared and _copies(existing[0]["replication"]) != _copies(replication):
                raise BadInput(
                    f"the keyspace {KEYSPACE} has {_copies(existing[0]['replication'])} copies of its data, and the"
                    f" workload requires {_copies(replication)}",
                    remedy=f"give all collections the same replication, or drop the keyspace {KEYSPACE} first",
                ) from error

    def _await_schema_agreement(self, addresses: Sequence[str]) -> None:
        """Wait until the first node that answers and the peers that it knows report one schema version.

        StoreFailed after 60 s.
        """
        deadline = time.monotonic() + _SCHEMA_TIMEOUT
        while time.monotonic() < deadline:
            seen = [self._ask(addresses, f"SELECT schema_version FROM system.{table}") for table in ("local", "peers")]
            versions = {row["schema_version"] for rows in seen for row in rows}
            if len(versions) == 1:
                return
            time.sleep(0.2)
        raise StoreFailed("the nodes do not agree on their schema", remedy="see their logs")

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether a table of that name exists."""
        return name in self._tables(addresses)

    def _tables(self, addresses: Sequence[str]) -> list[str]:
        """Return the names of the tables in the keyspace of all collections."""
        tables = self._ask(addresses, f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'")
        return [row["table_name"] for row in tables]

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Drop the table, and the keyspace with its last table; do nothing if it does not exist.

        Waits until the nodes agree on the schema.
        """
        if self.has_collection(addresses, name):
            self._ask(addresses, f"DROP TABLE {KEYSPACE}.{quoted(name)}", timeout=_SCHEMA_TIMEOUT)
            if not self._tables(addresses):
                self._ask(addresses, f"DROP KEYSPACE IF EXISTS {KEYSPACE}", timeout=_SCHEMA_TIMEOUT)
            self._await_schema_agreement(addresses)

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` rows of a table of the keyspace `database`, or `loadframe`; BadInput if absent."""
        return sampled_rows(partial(self._ask, addresses), name, documents, database or KEYSPACE)

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of rows, read at QUORUM, which includes the latest writes; over all days for `NAME-*`.

        This reads all data.
        """
        return self._count(addresses, name, "*")

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return for each column its number of values at QUORUM, without nulls. This reads all data once per column."""
        return {field: self._count(addresses, name, quoted(field)) for field in fields}

    def _count(self, addresses: Sequence[str], name: str, expression: str) -> int:
        """Return the sum of COUNT(expression) at QUORUM over the table, or over all days for `NAME-*`."""
        total = 0
        for table in daily_collections(name, self._tables(addresses), dotted=False):
            statement = f"SELECT COUNT({expression}) AS n FROM {KEYSPACE}.{quoted(table)}"
            total += int(self._ask(addresses, statement, one=False, timeout=_COUNT_TIMEOUT)[0]["n"])
        return total

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the statistics of docs/reference/stores/cassandra.md by address, without nodes that do not answer.

        The connections stay open for the next call.
        """
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


def _copies(replication: Mapping[str, Any]) -> int:
    """Return the copies per data centre in `replication` (`class`, and a factor for each); the maximum if they differ.

    1 without factors. A factor `3/1`, with transient copies, counts as 3. BadInput for a factor that is not a number.
    """
    factors = [value for key, value in replication.items() if key != "class"]
    try:
        return max((int(str(factor).split("/")[0]) for factor in factors), default=1)
    except ValueError as error:
        raise BadInput("a replication factor is not a number", where=str(dict(replication))) from error


STORE = Cassandra()
