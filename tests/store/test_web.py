"""HTTP requests for administration: content, kept connections, and missing answers."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from loadframe.store.access import OPEN, Access, Auth
from loadframe.store.web import UnansweredError, UnsentError, Web


class Echo(http.server.BaseHTTPRequestHandler):
    """Echoes the request; /close ends the connection after the answer, /cut before it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/cut":
            self.close_connection = True
            return
        length = int(self.headers.get("content-length", 0))
        said = {"path": self.path, "body": self.rfile.read(length).decode(), "headers": dict(self.headers)}
        answer = json.dumps(said | {"client": self.client_address[1]}).encode()
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        # Without a word, as a server does that has waited long enough.
        self.close_connection = self.path == "/close"

    do_PUT = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=[0.05]).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_body_is_sent_as_json_a_form_as_a_form_and_who_asks_with_both(address):
    web = Web(Access(auth=Auth("bearer", "hush")), timeout=5)
    said = web.request(address, "PUT", "/a", body={"b": "ü"}).json()
    assert json.loads(said["body"]) == {"b": "ü"}
    assert said["headers"]["Content-Type"] == "application/json"
    assert said["headers"]["authorization"] == "Bearer hush"
    said = web.request(address, "POST", "/a", form={"b": "c d"}, headers={}).json()
    assert said["body"] == "b=c+d"
    assert "authorization" not in said["headers"]


def test_a_status_is_an_answer(address):
    answer = Web(OPEN, timeout=5).request(address, "GET", "/none")
    assert (answer.status, answer.path, answer.address) == (404, "/none", address)
    assert answer.headers["content-length"] == str(len(answer.content))


def test_a_path_keeps_its_query_and_gets_what_it_may_not_have_encoded(address):
    assert Web(OPEN, timeout=5).request(address, "GET", "/a b/ü?c=d,e*").json()["path"] == "/a%20b/%C3%BC?c=d,e*"


def test_a_connection_is_kept_until_the_node_closes_it(address):
    web = Web(OPEN, timeout=5)
    clients = [web.request(address, "GET", path).json()["client"] for path in ("/", "/close")]
    assert clients[0] == clients[1]
    # The end of the connection may take a moment to arrive, and nothing may be sent on it even so.
    threading.Event().wait(0.1)
    assert web.request(address, "GET", "/").json()["client"] != clients[0]


def test_requests_at_the_same_time_have_connections_of_their_own(address):
    web, clients = Web(OPEN, timeout=5), list[int]()
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        clients.extend(web.request(address, "GET", "/").json()["client"] for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clients) == 80
    assert len(set(clients)) <= 4


def test_a_request_that_was_sent_and_not_answered_differs_from_one_that_was_not_sent(address):
    web = Web(OPEN, timeout=5)
    with pytest.raises(UnansweredError) as caught:
        web.request(address, "GET", "/cut")
    assert not isinstance(caught.value, UnsentError)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(UnsentError, match="refused") as caught:
        web.request(nobody, "GET", "/")
    assert caught.value.address == nobody


def test_a_silent_node_is_given_up_after_the_time_of_the_request():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(UnansweredError, match="timed out"):
        Web(OPEN, timeout=60).request(f"127.0.0.1:{silent.getsockname()[1]}", "GET", "/", timeout=0.05)


def test_servers_without_http_count_as_unanswered():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"-ERR unknown command\r\n")
            connection.close()

        threading.Thread(target=answer).start()
        with pytest.raises(UnansweredError):
            Web(OPEN, timeout=5).request(f"127.0.0.1:{server.getsockname()[1]}", "GET", "/")
