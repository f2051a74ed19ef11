"""Clusters of the Elasticsearch family that do not answer, or answer with an error. Real answers: tests/cluster."""

import http.server
import json
import socket
import socketserver
import threading

import pytest

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.cluster import Cluster
from loadframe.store import find
from loadframe.store.search import Unreachable, membership
from loopback_server import Handler, LoopbackServer


@pytest.fixture
def answering():
    """A server that gives one status and body to every request; returns its address."""
    servers = []

    def begin(status: int, body: str) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_PUT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.02,), daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_port}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def closed() -> str:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_cluster_that_does_not_answer_is_named_by_all_its_addresses(closed):
    with pytest.raises(Unreachable, match=f"{closed}, {closed}: the cluster does not answer"):
        find("opensearch").health([closed, closed])


def test_the_next_address_is_asked_when_one_does_not_answer(closed, answering):
    health = {
        "status": "yellow",
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "relocating_shards": 2,
        "unassigned_shards": 3,
        "initializing_shards": 4,
    }
    told = find("opensearch").health([closed, answering(200, json.dumps(health))])
    assert (told.ready, told.status, told.nodes, told.moving, told.missing) == (False, "yellow", 1, 2, 7)
    assert not told.balanced


@pytest.mark.parametrize("kind", ["elasticsearch", "opensearch"])
def test_an_index_that_is_not_ready_in_time_is_an_error(answering, kind):
    """From version 8 on, Elasticsearch answers with status 200."""
    health = {"status": "red", "timed_out": True, "initializing_shards": 1, "version": {"number": "8.17.0"}}
    with pytest.raises(StoreFailed, match="c was not ready within 60 s: its state is red, with 1 initializing shard"):
        address = answering(200, json.dumps(health))
        find(kind).create_collection([address], "c", {"settings": {"number_of_shards": 1}}, nodes=1)


def test_nodes_without_data_do_not_count_as_nodes(answering):
    health = {
        "status": "green",
        "number_of_nodes": 7,
        "number_of_data_nodes": 4,
        "relocating_shards": 0,
        "unassigned_shards": 0,
        "initializing_shards": 0,
    }
    assert find("opensearch").health([answering(200, json.dumps(health))]).nodes == 4


def test_a_cluster_is_not_balanced_while_the_store_delays_the_assignment_of_copies(monkeypatch):
    monkeypatch.setattr(membership, "_POLL", 0.0)
    delayed = iter([2, 2, 2])
    left = []

    def request(addresses, method, path, body=None, timeout=None):
        if path == "/_cluster/health":
            still = dict.fromkeys(("relocating_shards", "initializing_shards", "number_of_pending_tasks"), 0)
            # Copies without a possible node stay unassigned after the delay.
            health = {"status": "yellow", "unassigned_shards": 2, "delayed_unassigned_shards": next(delayed, 0)}
            return still | health
        if path.startswith("/_nodes"):
            return {"nodes": {"a": {"name": "node-0"}}}
        if path.startswith("/_cat/shards"):
            return [{"node": "node-0", "state": "STARTED"}, *[{"node": None, "state": "UNASSIGNED"}] * 2]
        return []

    membership.balance(request, ["h:1"], lambda balancing: left.append(balancing.left))
    assert left == [2, 2, 2, 0, 0]


class _Red(Handler):
    """A cluster that lacks every copy of one of three shards."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        shards = {"total": 3, "successful": 2, "skipped": 0, "failed": 0}
        body = json.dumps({"count": 7, "_shards": shards}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_count_without_a_shard_is_an_error():
    with LoopbackServer(_Red) as server, pytest.raises(StoreFailed, match="1 of 3 shards did not answer"):
        find("opensearch").count([server.address], "taxis")


@pytest.mark.parametrize("status", [404, 410])
def test_a_service_that_does_not_tell_its_state_counts_as_ready_and_has_no_figures_of_nodes(answering, status):
    reason = "Request for uri [/_cluster/health] exists but is not available when running in serverless mode"
    address = answering(status, json.dumps({"error": {"type": "api_not_available_exception", "reason": reason}}))
    store = find("elasticsearch")
    health = store.health([address])
    assert (health.ready, health.status, health.nodes, health.missing) == (True, "unknown", 1, 0)
    assert store.statistics([address]) == {}
    assert not store.has_collection([address], "taxis")
    with pytest.raises(LoadframeError, match="serverless mode") as caught:
        store.request([address], "GET", "/_cluster/settings")
    assert "cluster status" not in str(caught.value.remedy)


def test_an_error_of_the_store_is_given_in_its_own_words(answering):
    address = answering(400, json.dumps({"error": {"type": "x", "reason": "no such index [taxis]"}, "status": 400}))
    with pytest.raises(LoadframeError, match=r"failed with status 400: no such index \[taxis\]"):
        find("opensearch").request([address], "GET", "/taxis/_count")


def test_another_distribution_of_the_family_is_called_by_its_name(answering):
    address = answering(200, json.dumps({"version": {"number": "6.8.23"}}))
    assert find("opensearch").version([address]) == "elasticsearch 6.8.23"


def test_other_http_servers_are_not_clusters(answering):
    with pytest.raises(LoadframeError, match="not a cluster of"):
        find("opensearch").version([answering(200, "<html>Welcome to nginx</html>")])


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        ("opensearch", {"number": "6.8.23"}, "this is elasticsearch 6.8.23, not opensearch"),
        (
            "elasticsearch",
            {"number": "3.8.0", "distribution": "opensearch"},
            "this is opensearch 3.8.0, not elasticsearch",
        ),
        ("elasticsearch", {"number": "5.6.16"}, "the oldest version that Loadframe supports is 6.2"),
    ],
)
def test_another_product_or_version_is_refused_before_anything_is_asked_of_it(answering, kind, answer, said):
    address = answering(200, json.dumps({"version": answer}))
    with pytest.raises(BadInput, match=said):
        Cluster.attach([address], kind)


def test_a_version_that_is_spoken_to_is_accepted(answering):
    address = answering(200, json.dumps({"version": {"number": "6.2.0"}}))
    store = find("elasticsearch")
    store.require_product([address], store.version([address]))


def test_json_without_a_version_is_not_a_cluster(answering):
    with pytest.raises(BadInput, match="the answer lacks a version"):
        find("opensearch").version([answering(200, json.dumps({"hello": "world"}))])


@pytest.fixture
def mute():
    """A server that takes requests and answers none; returns its address and the requests."""
    taken: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            taken.append(self.request.recv(4096))
            while self.request.recv(4096):
                pass

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}", taken
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_change_that_was_not_answered_is_not_asked_of_the_next_node(mute, method):
    address, taken = mute
    with pytest.raises(StoreFailed, match=f"{method} /taxis was not answered(.|\n)*it may have been carried out"):
        find("opensearch").request([address, address], method, "/taxis", timeout=0.2)
    assert len(taken) == 1


def test_a_question_that_was_not_answered_is_asked_of_the_next_node(mute):
    address, taken = mute
    with pytest.raises(Unreachable):
        find("opensearch").request([address, address], "GET", "/taxis", timeout=0.2)
    assert len(taken) == 2


def test_a_change_goes_to_the_next_node_when_it_could_not_be_sent(closed, mute):
    address, taken = mute
    with pytest.raises(StoreFailed):
        find("opensearch").request([closed, address], "PUT", "/taxis", timeout=0.2)
    assert len(taken) == 1


class _Forbidding(Handler):
    """An OpenSearch that answers 403 to everything but `GET /`."""

    def _answer(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        reason = "no permissions for [indices:data/read/search] and User [name=ann]"
        status, answer = 403, {"error": {"type": "security_exception", "reason": reason}, "status": 403}
        if self.path == "/":
            status, answer = 200, {"version": {"distribution": "opensearch", "number": "3.8.0"}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_HEAD = _answer


@pytest.mark.parametrize("kind", ["opensearch", "elasticsearch"])
def test_a_sample_that_the_cluster_forbids_is_bad_input_with_a_remedy(kind):
    with (
        LoopbackServer(_Forbidding) as server,
        pytest.raises(BadInput, match=r"the cluster denies access: 403, no permissions for") as refused,
    ):
        find(kind).sample([server.address], "people", 10)
    assert refused.value.where == server.address
    assert refused.value.remedy
