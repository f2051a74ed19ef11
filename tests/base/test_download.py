"""Files from web addresses: whole or not there, resumed, verified, and clear when they cannot be fetched."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadframe.base import download
from loadframe.base.errors import BadInput, LoadframeError

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves one file; can misbehave on request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = CONTENT
        self.tag = '"one"'
        self.cuts = 0  #: how many answers break off half way
        self.refusals: list[int] = []  #: statuses to answer with, first of all
        self.asked: list[str | None] = []  #: requested ranges

    @property
    def url(self) -> str:
        """The file's address."""
        return f"http://127.0.0.1:{self.server_port}/some/data%20set.json"


class Answer(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(self.headers["Range"])
        if server.refusals:
            self.send_error(server.refusals.pop(0))
            return
        same = self.headers["If-Range"] == server.tag
        start = int(self.headers["Range"].split("=")[1].rstrip("-")) if self.headers["Range"] and same else 0
        if start >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.end_headers()
            return
        rest = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("ETag", server.tag)
        self.end_headers()
        server.cuts -= 1
        self.wfile.write(rest[: len(rest) // 2] if server.cuts >= 0 else rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "_PAUSE", 0.01)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch(server: Server, folder: Path, sha256: str | None = None, told: list[str] | None = None) -> Path:
    lines: list[str] = [] if told is None else told
    return download.fetch(server.url, folder, lines.append, otherwise="set file: to its path", checksum=sha256)


def left(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_a_file_is_fetched_once_and_keeps_its_name(server, tmp_path):
    told: list[str] = []
    path = fetch(server, tmp_path, SHA256, told)
    assert path.read_bytes() == CONTENT
    assert path.name.endswith("-data set.json")
    assert path == download.place(server.url, tmp_path, SHA256)
    assert told == ["Downloading data%20set.json: 1,000 KiB"]
    assert fetch(server, tmp_path, SHA256) == path
    assert server.asked == [None]
    assert left(tmp_path) == [".json", ".lock"]


def test_interrupted_downloads_resume(server, tmp_path):
    server.cuts = 2
    assert fetch(server, tmp_path, SHA256).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=512000-", "bytes=768000-"]


def test_the_next_call_resumes_where_the_last_gave_up(server, tmp_path):
    server.cuts = 3
    with pytest.raises(BadInput, match="could not download") as caught:
        fetch(server, tmp_path)
    assert caught.value.where == server.url
    assert "The next attempt resumes the download" in str(caught.value)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=896000-"


def test_a_file_that_changed_meanwhile_is_fetched_again(server, tmp_path):
    server.cuts = 3
    with pytest.raises(BadInput):
        fetch(server, tmp_path)
    server.content, server.tag = b"another" * 100_000, '"two"'
    assert fetch(server, tmp_path).read_bytes() == server.content


def test_a_file_that_is_all_there_already_is_taken(server, tmp_path):
    path = download.place(server.url, tmp_path)
    path.with_name(f"{path.name}.part").write_bytes(CONTENT)
    path.with_name(f"{path.name}.part.version").write_text(server.tag)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not(server, tmp_path):
    server.refusals = [503, 429]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    server.refusals = [404]
    with pytest.raises(BadInput, match="the server answered 404 Not Found"):
        fetch(server, tmp_path / "other")
    assert len(server.asked) == 4


def test_files_with_a_wrong_checksum_are_not_kept(server, tmp_path):
    with pytest.raises(LoadframeError, match="wrong checksum") as caught:
        fetch(server, tmp_path, "0" * 64)
    assert SHA256 in caught.value.what
    assert ".json" not in left(tmp_path)


def test_without_a_network_there_is_one_clear_message(server, tmp_path):
    port = server.server_port
    server.shutdown()
    server.server_close()
    with pytest.raises(BadInput) as caught:
        fetch(server, tmp_path)
    assert caught.value.where == f"http://127.0.0.1:{port}/some/data%20set.json"
    assert "could not download" in caught.value.what
    assert "file:" in caught.value.remedy
    assert caught.value.exit_status == 2


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot create the folder"):
        fetch(server, tmp_path / "file" / "corpora")
