"""PostgreSQL nodes: files, command line, tables of collections, and refusals."""

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from commands import until
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store import Installation, NodePlan, NodeSpec, find, postgresql
from loadframe.store.access import Access, Auth
from loadframe.store.postgresql import config, replication
from loadframe.store.postgresql.client import lags

STORE = find("postgresql")


@pytest.fixture
def installation(tmp_path) -> Installation:
    (tmp_path / "bin").mkdir()
    for name in ("postgres", "initdb", "pg_basebackup"):
        (tmp_path / "bin" / name).touch()
    return Installation(tmp_path)


def plan(installation: Installation, **more) -> NodePlan:
    spec = NodeSpec(
        cluster="loadframe-x",
        name="node-0",
        address="127.0.0.1",
        port=5432,
        peer_port=5433,
        folder=Path("/clusters/x/node-0"),
        peers=("127.0.0.1:5433",),
        founders=("node-0", "node-1"),
    )
    return STORE.plan(replace(spec, **more), installation)


def parameters(planned: NodePlan) -> dict[str, str]:
    lines = planned.files["config/postgresql.conf"].splitlines()
    return {name: value.strip("'") for name, _, value in (line.partition(" = ") for line in lines)}


def test_a_node_binds_one_address_and_writes_into_its_folder(installation):
    planned = plan(installation)
    lines = parameters(planned)
    assert (lines["listen_addresses"], lines["port"]) == ("127.0.0.1", "5432")
    assert lines["data_directory"] == "/clusters/x/node-0/data/main"
    assert lines["unix_socket_directories"] == ""
    assert planned.argv == ("/bin/sh", "/clusters/x/node-0/config/start.sh")


def test_every_client_needs_the_password_which_is_in_a_file_of_its_own(installation):
    planned = plan(installation, password="secret")
    assert {line.split()[-1] for line in planned.files["config/pg_hba.conf"].splitlines()} == {"scram-sha-256"}
    assert [name for name, content in planned.files.items() if "secret" in content] == ["config/password"]
    assert "secret" not in repr((planned.argv, planned.environment, planned.facts))


def test_what_alter_system_writes_cannot_change_who_is_let_in(installation):
    started = plan(installation).files["config/start.sh"].splitlines()[-1]
    for option in ("--hba_file=/clusters/x/node-0/config/pg_hba.conf", "--listen_addresses=127.0.0.1"):
        assert option in started


def test_a_server_is_asked_to_stop_without_waiting_for_its_clients(installation):
    assert plan(installation).stop_signal == signal.SIGINT


@pytest.mark.parametrize(
    ("memory", "settings", "size"),
    [(None, {}, "128MB"), (2**30, {}, "256MB"), (2**30, {"shared_buffers": "64MB"}, "64MB")],
)
def test_the_cache_is_a_quarter_of_the_memory_unless_it_is_said(installation, memory, settings, size):
    assert parameters(plan(installation, memory=memory, settings=settings))["shared_buffers"] == size


def test_a_value_in_sql_is_a_string_constant_with_escapes():
    assert config.literal("it's %m\\") == "E'it''s %m\\\\'"
    assert config.literal(True) == "E'true'"


def test_the_users_settings_are_quoted_and_loadframes_own_are_not_the_servers(installation):
    settings = {"log_line_prefix": "it's %m\\", "jit": False, "read_from": "any"}
    text = plan(installation, settings=settings).files["config/postgresql.conf"]
    assert "log_line_prefix = 'it''s %m\\\\'\n" in text
    assert "jit = 'false'\n" in text
    assert "read_from" not in text
    assert STORE.read_from(settings) == "any"


def script(installation: Installation, folder: Path, **more) -> str:
    """Start a node from fake programs that only print their arguments; return that output."""
    for name in ("postgres", "initdb", "pg_basebackup"):
        program = installation.home / "bin" / name
        makes = (
            'mkdir -p "$2"; echo 16 > "$2/PG_VERSION"; touch "$2/postgresql.auto.conf"; ' if name != "postgres" else ""
        )
        program.write_text(f'#!/bin/sh\n{makes}echo {name} "$@"\n')
        program.chmod(0o755)
    planned = plan(installation, folder=folder, **more)
    for name, content in planned.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content or "host=a port=1")
    (folder / "data").mkdir(exist_ok=True)
    return subprocess.run(planned.argv, capture_output=True, text=True, timeout=30, check=True).stdout


def test_the_first_founder_makes_its_data_and_all_others_copy_it_once(installation, tmp_path):
    first, second = tmp_path / "a cluster" / "node-0", tmp_path / "a cluster" / "node-1"
    made = script(installation, first)
    assert made.startswith(
        f"initdb -D {first}/data/main.new -U postgres -A scram-sha-256 --pwfile={first}/config/password"
    )
    assert f"\npostgres --config-file={first}/config/postgresql.conf " in made
    copied = script(installation, second, name="node-1")
    assert copied.startswith(f"pg_basebackup -D {second}/data/main.new -d host=a port=1 -S node_1")
    follows = "primary_conninfo = 'host=a port=1'\nprimary_slot_name = 'node_1'\n"
    assert (second / "data" / "main" / "postgresql.auto.conf").read_text() == follows
    # After a restart the primary keeps its role, and the other follows the primary that it is given.
    assert script(installation, first, founders=()).startswith("postgres ")
    assert script(installation, second, name="node-1", founders=()).startswith("postgres ")
    assert (second / "data" / "main" / "postgresql.auto.conf").read_text() == follows


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"port": 1}, "controlled by Loadframe"),
        ({"Primary_Conninfo": "x"}, "controlled by Loadframe"),
        ({"work mem": "1MB"}, "invalid parameter name"),
        ({"work_mem": ["1MB"]}, "must be a text, a number"),
        ({"work_mem": "1MB\nport = 1"}, "must be a text, a number"),
        ({"wal_level": "minimal"}, "does not allow replicas"),
        ({"partitioned": "yes"}, "must be true or false"),
        ({"read_from": "nearest"}, "must be one of primary, replica, prefer_replica, any"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(BadInput, match=what):
        STORE.check_settings(settings)


def test_unsupported_protocol_features_are_refused():
    with pytest.raises(BadInput, match="does not support API keys or tokens"):
        STORE.with_access(Access(auth=Auth("bearer", "hush")))
    with pytest.raises(BadInput, match="does not compress"):
        STORE.with_access(Access(compress=True))


def test_a_version_that_no_registry_has_is_refused_with_a_way_out():
    with pytest.raises(BadInput, match="postgresql 9\\.6 is not in the package registries") as caught:
        STORE.distribution("9.6")
    assert "--home" in str(caught.value.remedy)


def test_an_installation_without_its_tools_is_refused(installation):
    (installation.home / "bin" / "pg_basebackup").unlink()
    with pytest.raises(BadInput, match="pg_basebackup is missing in this installation"):
        plan(installation)


def test_a_collection_is_a_table_of_columns_or_of_documents():
    assert list(postgresql.create("t", {})) == [
        'CREATE TABLE "t" ("id" text, "document" jsonb NOT NULL, PRIMARY KEY ("id"))'
    ]
    definition = {"columns": {"n": "int", "a": "text"}, "key": "n", "indexes": ["(a)"], "with": "fillfactor=90"}
    assert list(postgresql.create('a"b', definition | {"unlogged": True})) == [
        'CREATE UNLOGGED TABLE "a""b" ("n" int, "a" text, PRIMARY KEY ("n")) WITH (fillfactor=90)',
        'CREATE INDEX ON "a""b" (a)',
    ]
    assert list(postgresql.create("t", {"columns": {"a": "text"}, "key": None})) == ['CREATE TABLE "t" ("a" text)']


def test_rows_of_a_partitioned_table_go_by_the_hash_of_a_column():
    definition = {"columns": {"n": "int", "page": "int"}, "key": "n", "partition_by": "page"}
    assert list(postgresql.create_partitioned("t", definition, ["node_1"])) == [
        'CREATE TABLE "t" ("n" int, "page" int) PARTITION BY HASH ("page")',
        'CREATE TABLE "t_0" ("n" int, "page" int, PRIMARY KEY ("n"))',
        'ALTER TABLE "t" ATTACH PARTITION "t_0" FOR VALUES WITH (MODULUS 2, REMAINDER 0)',
        'CREATE FOREIGN TABLE "t_1" PARTITION OF "t" FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER node_1',
    ]
    with pytest.raises(BadInput, match="neither key nor partition_by"):
        list(postgresql.create_partitioned("t", {"key": None}, ["node_1"]))


def test_a_shard_has_its_own_data_which_is_read_only_for_clients(installation):
    shared = plan(installation, name="node-1", settings={"partitioned": True})
    started = shared.files["config/start.sh"]
    assert 'if [ ! -s "$data/PG_VERSION" ] && [ -n "yes" ]' in started
    assert "default_transaction_read_only = on" in started
    assert "partitioned" not in shared.files["config/postgresql.conf"]
    coordinator = plan(installation, settings={"partitioned": True}).files["config/start.sh"]
    assert "default_transaction_read_only" not in coordinator


def test_only_replicas_lag_behind_a_primary():
    shards = {"node-0": {"primary": 1.0, "log_bytes": 900.0}, "node-1": {"primary": 1.0, "log_bytes": 200.0}}
    replicated = {"node-0": {"primary": 1.0, "log_bytes": 900.0}, "node-1": {"primary": 0.0, "log_bytes": 200.0}}
    for figures, lag in ((shards, 0.0), (replicated, 700.0)):
        lags(figures)
        assert [node["lag_bytes"] for node in figures.values()] == [0.0, lag]


def test_a_replica_has_a_name_that_a_slot_may_have():
    assert config.slot("Node-12.x") == "node_12_x"
    assert config.source("node-1", "[::1]:5432") == "host=::1 port=5432 user=postgres application_name=node_1"


@pytest.mark.store
def test_the_wheel_starts_a_primary_and_a_replica_and_clusters_are_distinguished():
    wheel = ClusterSpec(store="postgresql", version="16.2", nodes=2)
    with Cluster.start(wheel) as two, Cluster.start(replace(wheel, nodes=1)) as one:
        assert two.describe()["version"] == "16.2"
        assert two.health().status == "streaming"
        # With one password for both, so that only their being two clusters is refused.
        one.store.client(one.addresses[0]).ask(f"ALTER USER postgres PASSWORD '{two.access.auth.secret}'")
        with pytest.raises(BadInput, match="are not a primary and its replicas"):
            Cluster.attach([*two.addresses, *one.addresses], "postgresql", two.access)
        assert Cluster.attach(two.addresses[1:], "postgresql", two.access).size == 2


@pytest.mark.store
def test_settings_hold_on_all_servers_or_are_refused():
    with Cluster.start(ClusterSpec(store="postgresql", nodes=2)) as two:
        store, (first, second) = two.store, two.addresses

        def running(name: str) -> str | None:
            try:
                return store.running_settings([first, second], [name])[name].value
            except BadInput as error:
                assert "the servers have different values" in str(error)
                return None

        with pytest.raises(BadInput, match="1 replica of this cluster would keep the old settings"):
            store.running_settings([first], ["work_mem"])
        # A replica names its primary.
        for name, value in (("work_mem", "9216 kB"), ("synchronous_commit", "off")):
            store.configure([second], {name: value.replace(" ", "")})
            until(lambda name=name, value=value: running(name) == value)
        store.client(second).ask("ALTER SYSTEM SET work_mem = '7MB'")
        store.client(second).ask("SELECT pg_reload_conf()")
        until(lambda: running("work_mem") is None)
        store.configure([first, second], {"work_mem": None})
        until(lambda: running("work_mem") == "4096 kB")


@pytest.mark.store
def test_settings_reach_the_servers_between_a_replica_and_the_primary():
    with Cluster.start(ClusterSpec(store="postgresql", nodes=3)) as three:
        store, (first, second, third) = three.store, three.addresses
        replica = store.client(third)
        conninfo = replica.ask("SELECT setting FROM pg_settings WHERE name = 'primary_conninfo'")[0]["setting"]
        port = [address.rpartition(":")[2] for address in (first, second)]
        assert f"port={port[0]}" in conninfo
        for name, value in (("primary_slot_name", ""), ("primary_conninfo", conninfo.replace(*port))):
            replica.ask(f"ALTER SYSTEM SET {name} = {config.literal(value)}")
        replica.ask("SELECT pg_reload_conf()")
        until(lambda: [feeder.address for feeder in replication.feeders(replica, store.client)] == [second, first])
        store.configure([third], {"work_mem": "9MB"})
        until(lambda: store.running_settings([third], ["work_mem"])["work_mem"].value == "9216 kB")
        for unaware in (first, second):
            with pytest.raises(BadInput, match="1 replica of this cluster would keep the old settings"):
                store.running_settings([unaware], ["work_mem"])


class Named:
    """A client of a server that has several addresses."""

    def __init__(self, address: str, server: str, replicas: int, upstream: int):
        self.address, self._server, self._replicas, self._upstream = address, server, replicas, upstream

    def ask(self, statement: str) -> list[dict[str, str]]:
        if "identity" in statement:
            return [{"identity": self._server}]
        return [{}] * (self._replicas if "pg_stat_replication" in statement else self._upstream)


def test_a_server_that_is_named_twice_counts_once_among_the_named_replicas():
    primary, alias = Named("db:5432", "p", 1, 0), Named("127.0.0.1:5432", "p", 1, 0)
    replica = Named("r:5432", "r", 0, 1)
    servers = replication.distinct([primary, alias, replica])
    assert [server.address for server in servers] == ["db:5432", "r:5432"]
    replication.require_named_replicas(servers)
    # The second name of one replica does not stand for another replica.
    two, again = Named("db:5432", "p", 2, 0), Named("r.example:5432", "r", 0, 1)
    with pytest.raises(BadInput, match="1 replica of this cluster would keep the old settings"):
        replication.require_named_replicas(replication.distinct([two, replica, again]))


@pytest.mark.store
def test_a_server_with_two_addresses_gets_settings_once():
    with Cluster.start(ClusterSpec(store="postgresql", nodes=2)) as two:
        alias = two.addresses[0].replace("127.0.0.1", "localhost")
        named = [alias, *two.addresses]
        assert two.store.running_settings(named, ["work_mem"])["work_mem"].value == "4096 kB"
        assert [server.address for server in two.store._servers(named)] == [alias, two.addresses[1]]


@pytest.mark.store
def test_a_partitioned_cluster_spreads_rows_over_its_nodes_and_keeps_its_size():
    try:
        started = Cluster.start(ClusterSpec(store="postgresql", nodes=2, settings={"partitioned": True}))
    except BadInput as error:
        if "lacks postgres_fdw" not in str(error):
            raise
        pytest.skip(str(error))
    with started as two:
        assert (two.health().status, two.health().nodes) == ("partitioned", 2)
        coordinator, shard = (two.store.client(address) for address in two.addresses)
        two.create_collection("t", {"columns": {"n": "int", "page": "int"}, "key": "n"})
        coordinator.ask("INSERT INTO t SELECT n, n FROM generate_series(1, 1000) n", "loadframe")
        (there,) = shard.ask("SELECT count(*) AS rows FROM t_1", "loadframe")
        assert two.count("t") == 1000
        assert 300 < there["rows"] < 700
        with pytest.raises(StoreFailed, match="read-only"):
            shard.ask("DELETE FROM t_1", "loadframe")
        for change in (two.grow, two.shrink):
            with pytest.raises(BadInput, match="cannot add or remove nodes of a partitioned cluster"):
                change()
        with pytest.raises(StoreFailed, match="read-only"):
            shard.ask("DELETE FROM t_1", "loadframe")
        two.store.configure(two.addresses[:1], {"work_mem": "9MB"})
        until(lambda: shard.ask("SHOW work_mem")[0]["work_mem"] == "9MB")
        two.drop_collection("t")
        assert not shard.ask("SELECT 1 FROM pg_class WHERE relname = 't_1'", "loadframe")
