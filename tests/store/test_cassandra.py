"""Cassandra nodes: files, command line, place in the ring, and refusals."""

import contextlib
import json
import socketserver
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import Installation, NodePlan, NodeSpec, find
from loadframe.store.access import Access, Auth
from loadframe.store.base import Member
from loadframe.store.cassandra import cql
from loadframe.store.cassandra.ring import Ring

GIB = 2**30
INSTALLATION = Installation(Path("/cache/cassandra"), Path("/java"))
STORE = find("cassandra")
FOUNDERS = ("node-0", "node-1", "node-2")


def spec(number: int = 1, **more) -> NodeSpec:
    settled = NodeSpec(
        cluster="loadframe-x",
        name=f"node-{number}",
        address=f"127.0.0.{number + 1}",
        port=9042,
        peer_port=7000,
        folder=Path(f"/clusters/x/node-{number}"),
        peers=tuple(f"127.0.0.{host + 1}:7000" for host in range(3)),
        founders=FOUNDERS,
    )
    return replace(settled, **more)


def plan(number: int = 1, **more) -> NodePlan:
    return STORE.plan(spec(number, **more), INSTALLATION)


def configuration(planned: NodePlan) -> dict:
    lines = planned.files["config/cassandra.yaml"].splitlines()
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}


def seeds(planned: NodePlan) -> list[str]:
    return configuration(planned)["seed_provider"][0]["parameters"][0]["seeds"].split(",")


@pytest.mark.parametrize(
    ("memory", "settings", "heap"),
    [
        (None, {}, GIB // 2),
        (GIB, {}, GIB // 2),
        (512 * 2**20, {}, 256 * 2**20),
        (128 * GIB, {}, 31 * GIB),
        (None, {"heap": "300m"}, 300 * 2**20),
    ],
)
def test_the_heap_is_half_of_the_memory_unless_it_is_set(memory, settings, heap):
    planned = plan(memory=memory, settings=settings)
    assert {f"-Xms{heap}", f"-Xmx{heap}"} <= set(planned.argv)
    assert planned.facts["heap"] == heap


def test_a_heap_that_leaves_no_memory_for_the_rest_is_refused():
    with pytest.raises(BadInput, match="too little memory"):
        plan(memory=GIB, settings={"heap": "1g"})


def test_options_of_the_jvm_stand_above_ours():
    planned = plan(settings={"jvm": "-XX:MaxGCPauseMillis=100"})
    assert planned.argv.index("-XX:MaxGCPauseMillis=100") > planned.argv.index("-XX:MaxGCPauseMillis=300")
    assert "jvm" not in configuration(planned)


def test_all_nodes_use_the_same_ports_at_addresses_of_their_own():
    assert STORE.own_address
    written = configuration(plan())
    assert (written["listen_address"], written["rpc_address"]) == ("127.0.0.2", "127.0.0.2")
    assert (written["native_transport_port"], written["storage_port"]) == (9042, 7000)


def test_jmx_ports_are_not_opened():
    assert not any("jmx" in word and ".port" in word for word in plan().argv)


def test_every_client_needs_a_password_and_every_founder_has_all_roles():
    planned = plan(password="secret")
    written = configuration(planned)
    assert written["authenticator"] == "PasswordAuthenticator"
    assert (written["auth_read_consistency_level"], written["auth_write_consistency_level"]) == ("LOCAL_ONE", "ALL")
    assert "-Dcassandra.system_auth.default_rf=3" in planned.argv
    assert not any("default_rf" in word for word in plan(founders=()).argv)
    assert "secret" not in repr(planned)


def test_everything_that_a_node_writes_is_in_its_folder():
    written = configuration(plan())
    folders = [written[key] for key in written if key.endswith("_directory")] + written["data_file_directories"]
    assert len(folders) == 5
    assert all(folder.startswith("/clusters/x/node-1/data/") for folder in folders)


def test_founders_cut_the_ring_evenly():
    tokens = sorted(int(t) for n in range(3) for t in configuration(plan(n))["initial_token"].split(","))
    assert len(tokens) == 48
    gaps = {later - earlier for earlier, later in pairwise(tokens)}
    assert max(gaps) - min(gaps) <= 1
    assert all(-(2**63) <= token < 2**63 for token in tokens)


def test_a_node_that_joins_asks_the_others_and_not_itself():
    joining = plan(founders=())
    assert seeds(joining) == ["127.0.0.1:7000", "127.0.0.3:7000"]
    assert "initial_token" not in configuration(joining)
    assert configuration(joining)["allocate_tokens_for_local_replication_factor"] == 1


def test_a_node_that_comes_back_may_be_the_first(tmp_path):
    (tmp_path / "data" / "tables").mkdir(parents=True)
    assert "127.0.0.2:7000" in seeds(plan(founders=(), folder=tmp_path))


def test_the_users_settings_go_over_ours():
    written = configuration(plan(settings={"auto_snapshot": True, "concurrent_reads": 8, "heap": "400m"}))
    assert (written["auto_snapshot"], written["concurrent_reads"]) == (True, 8)
    assert "heap" not in written


@pytest.mark.parametrize("key", ["native_transport_port", "data_file_directories", "num_tokens", "seed_provider"])
def test_settings_that_loadframe_controls_are_refused(key):
    with pytest.raises(BadInput, match=key):
        STORE.check_settings({key: 1})


@pytest.mark.parametrize("access", [Access(compress=True), Access(auth=Auth(scheme="api_key", secret="k"))])
def test_unsupported_protocol_features_are_refused(access):
    with pytest.raises(BadInput):
        STORE.with_access(access)


def test_an_unknown_version_is_refused_with_those_that_can_be_had():
    with pytest.raises(BadInput) as caught:
        STORE.distribution("4.1.0")
    assert "5.0.9" in (caught.value.remedy or "")


def test_the_distribution_has_native_code_under_names_of_its_own():
    names = [jar.filename for jar in STORE.distribution("5.0.9").jars]
    assert "jffi-1.3.11.jar" in names
    assert "jffi-1.3.11-native.jar" in names
    assert len(set(names)) == len(names)


def test_a_table_without_columns_is_refused():
    with pytest.raises(BadInput, match="columns"):
        STORE.create_collection([], "c", {}, nodes=1)


def test_more_copies_than_nodes_are_refused_before_anything_is_asked():
    definition = {"columns": {"a": "text"}, "replication": {"replication_factor": 3}}
    with pytest.raises(BadInput, match="replication_factor of 3"):
        STORE.create_collection([], "c", definition, nodes=2)


def test_foreign_nodes_are_not_decommissioned():
    with pytest.raises(BadInput, match="not started by Loadframe"):
        STORE.leave([], Member("node-0", "127.0.0.1:9042"), lambda _: None)


def test_a_log_that_is_synced_before_each_answer_has_no_period():
    assert configuration(plan())["commitlog_sync_period"] == "10000ms"
    written = configuration(plan(settings={"commitlog_sync": "batch"}))
    assert written["commitlog_sync"] == "batch"
    assert "commitlog_sync_period" not in written


class _Login(socketserver.StreamRequestHandler):
    """A node's side of a login and one statement. It refuses logins with the server's `errors`, one after another."""

    def handle(self) -> None:
        while len(head := self.rfile.read(9)) == 9:
            self.rfile.read(int.from_bytes(head[5:]))
            self.wfile.write(self._answer(head[4]))

    def _answer(self, opcode: int) -> bytes:
        if opcode == 1:
            return _message(3, _text("PasswordAuthenticator"))
        if opcode == 7:
            return _message(8, b"\0\0\0\1")
        self.server.logins += 1
        return _message(0, b"\0\0\1\0" + _text(self.server.errors.pop(0))) if self.server.errors else ACCEPTED


def _text(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()


def _message(opcode: int, body: bytes) -> bytes:
    return bytes([0x84, 0, 0, 0, opcode]) + len(body).to_bytes(4) + body


ACCEPTED = _message(16, b"\xff" * 4)


@contextlib.contextmanager
def logins(*errors: str):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Login) as server:
        server.errors, server.logins = list(errors), 0
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server, f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_login_is_repeated_if_the_node_could_not_read_its_roles():
    known = STORE.with_access(Access(auth=Auth("basic", "a:b", user="a")))
    with logins("Unable to perform authentication: Operation timed out - received only 0 responses.") as (
        node,
        address,
    ):
        known._ask([address], "SELECT release_version FROM system.local")
        assert node.logins == 2


def test_a_wrong_password_is_refused_at_once():
    known = STORE.with_access(Access(auth=Auth("basic", "a:b", user="a")))
    with logins("Provided username a and/or password are incorrect", "never sent") as (node, address):
        with pytest.raises(BadInput, match="denies access: Provided username a and/or password are incorrect"):
            known._ask([address], "SELECT release_version FROM system.local")
        assert node.logins == 1


def test_the_length_of_a_text_in_the_protocol_counts_bytes():
    written = cql._text("é3")
    assert written == b"\0\3\xc3\xa93"
    assert cql._Reader(written).text() == "é3"


def test_the_members_of_a_ring_have_addresses_that_a_client_can_use():
    rows = {
        "SELECT * FROM system.local": [{"broadcast_address": "fd00::1", "rpc_address": "fd00::1"}],
        "SELECT * FROM system.peers_v2": [
            {"peer": "fd00::2", "native_address": "fd00::2", "native_port": 9043, "tokens": ["1"]},
            {"peer": "10.0.0.3", "native_address": "10.0.0.3", "tokens": ["2"]},
        ],
        "SELECT * FROM system_views.gossip_info": [],
    }
    assert Ring.read(rows.__getitem__).members == ("[fd00::1]:9042", "[fd00::2]:9043", "10.0.0.3:9042")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (None, None),
        ("compaction = {'class': 'LeveledCompactionStrategy'}", None),
        ("default_time_to_live = 0", None),
        ("comment = 'the owner''s default_time_to_live = 60'", None),
        ("gc_grace_seconds = 0 AND Default_time_to_live=60", "the option default_time_to_live"),
    ],
)
def test_tables_whose_rows_expire_are_known(options, why):
    assert STORE.removes_documents({"columns": {"a": "text"}, "with": options}) == why
