"""Every store reports denied access in the same words, with reason and remedy, and without the secret."""

import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import PATIENCE
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, artefacts
from loadframe.store import find
from loadframe.store.access import Access, Auth

WRONG = Access(auth=Auth("basic", "hush", user="ann"))
REDIS = shutil.which("redis-server") or shutil.which("valkey-server")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def served(tmp_path: Path) -> Iterator:
    """Start a server of one's own, and return its address when it listens."""
    started: list[subprocess.Popen] = []

    def start(port: int, *command: object) -> str:
        started.append(subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, cwd=tmp_path))
        end = time.monotonic() + PATIENCE
        while True:
            assert started[-1].poll() is None
            assert time.monotonic() < end
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            except OSError:
                time.sleep(0.05)
            else:
                return f"127.0.0.1:{port}"

    yield start
    for server in started:
        server.kill()
        server.wait()


def refused(kind: str, address: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        Cluster.attach([address], kind, WRONG)
    assert re.search("denies access", str(caught.value))
    assert caught.value.where == address
    assert "check --user" in str(caught.value.remedy), "the credentials were given, so the remedy is not to give them"
    assert "hush" not in str(caught.value)


@pytest.mark.store
@pytest.mark.skipif(REDIS is None, reason="neither redis-server nor valkey-server is installed")
def test_by_redis(served):
    port = free_port()
    refused("redis", served(port, REDIS, "--port", port, "--requirepass", "other", "--save", ""), "WRONGPASS|invalid")


@pytest.mark.store
def test_by_mongodb(served, tmp_path):
    (tmp_path / "data").mkdir()
    port, home = free_port(), artefacts.install(find("mongodb").distribution("6.0.5"), lambda _: None)
    options = ("--auth", "--bind_ip", "127.0.0.1", "--port", port, "--dbpath", tmp_path / "data")
    refused("mongodb", served(port, next(home.rglob("mongod")), *options), "Authentication failed")


@pytest.mark.slow
def test_by_cassandra():
    """The server refuses as in protocol version 4: AUTHENTICATE, then the error 0x0100."""

    def frame(opcode: int, body: bytes) -> bytes:
        return struct.pack(">BBhBi", 0x84, 0, 0, opcode, len(body)) + body

    def text(words: str) -> bytes:
        return struct.pack(">H", len(words)) + words.encode()

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(frame(0x03, text("PasswordAuthenticator")))
            connection.recv(4096)
            connection.sendall(frame(0x00, struct.pack(">i", 0x0100) + text("Provided username ann is incorrect")))

    with socket.create_server(("127.0.0.1", 0)) as server:
        node = threading.Thread(target=answer)
        node.start()
        refused("cassandra", f"127.0.0.1:{server.getsockname()[1]}", "Provided username ann is incorrect")
        node.join()
