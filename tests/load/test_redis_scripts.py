"""Redis runs scripts by their digests: the text goes out where a server has not read it, and not otherwise."""

import shutil
import socket
import subprocess
import time

import pytest

from loadframe.load import check_operations, run_phase

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = pytest.mark.skipif(SERVER is None, reason="neither redis-server nor valkey-server is installed")


class Server:
    """A Redis server of the test, and a connection to it."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port))
                return
            except OSError:
                time.sleep(0.02)
        self.process.kill()
        raise AssertionError("the server did not start")

    def ask(self, command):
        self.socket.sendall(command.encode() + b"\r\n")
        answer = self.socket.recv(1 << 16).decode()
        assert not answer.startswith("-"), answer
        return answer

    def calls(self):
        """How often each command that runs scripts was called, and failed, since the last reset."""
        lines = self.ask("INFO commandstats").splitlines()
        calls = {}
        for line in lines:
            name, _, figures = line.removeprefix("cmdstat_").partition(":")
            if name in ("eval", "evalsha"):
                numbers = dict(figure.split("=") for figure in figures.split(","))
                calls[name] = (int(numbers["calls"]), int(numbers.get("failed_calls", 0)))
        return calls


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server.socket.close()


def plan(server, operation, requests, **more):
    return {
        "seed": 1,
        "phase": "p",
        "target": {"driver": "redis", "hosts": [f"127.0.0.1:{server.port}"], "timeout": 5},
        "variables": {"n": {"sequential": {"from": 0}}},
        "operations": {"a": operation},
        "streams": [
            {"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": requests}}
        ],
    } | more


def test_a_script_is_sent_once_to_a_server_and_again_when_it_has_forgotten(server, tmp_path):
    insert = {"insert": {"collection": "c", "id": "${n}", "document": {"a": 1}}}
    outcome = run_phase(plan(server, insert, 200), tmp_path, lambda progress: None)
    assert outcome["operations"][0]["successes"] == 200
    assert server.calls() == {"evalsha": (200, 1), "eval": (1, 0)}
    server.ask("SCRIPT FLUSH")
    server.ask("CONFIG RESETSTAT")
    change = {"update": {"collection": "c", "id": "5", "document": {"a": 2}}}
    (answer,) = check_operations(plan(server, change, 1))
    assert answer["error"] is None
    assert server.calls() == {"evalsha": (1, 1), "eval": (1, 0)}


def test_a_bulk_request_brings_a_script_along_once(server, tmp_path):
    corpus = tmp_path / "c.json"
    corpus.write_text("".join(f'{{"n": {n}}}\n' for n in range(100)))
    bulk = {"bulk": {"collection": "c", "corpus": "k", "size": 50, "action": "create"}}
    more = {"corpora": {"k": {"files": [str(corpus)]}}}
    outcome = run_phase(plan(server, bulk, 2, **more), tmp_path, lambda progress: None)
    operation = outcome["operations"][0]
    assert (operation["successes"], operation["documents"]) == (2, 100)
    # The first request finds the script missing 50 times; one retry loads it, and 49 find it.
    assert server.calls() == {"evalsha": (50 + 49 + 50, 50), "eval": (1, 0)}
    assert server.ask("DBSIZE") == ":100\r\n"
