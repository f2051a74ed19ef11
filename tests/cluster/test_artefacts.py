"""Fetching a store's files: verified, resumed, one process at a time, and clear when it cannot be done."""

import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import artefacts
from loadframe.store.distribution import Archive, Distribution, Jar

CONTENTS = {"org.example:one:1.0": b"1" * 100_000, "org.example:two:2.0": b"2" * 300_000}


def told(_line: str) -> None:
    pass


@pytest.fixture
def distribution() -> Distribution:
    jars = tuple(
        Jar(name, "lib", len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENTS.items()
    )
    return Distribution("example", "1.0", 21, jars, (), texts=(("modules/m/d.properties", "a=b\n"),), folders=("bin",))


class Mirror(http.server.ThreadingHTTPServer):
    """A repository in memory that counts requests and can misbehave on request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []
        self.contents = dict(CONTENTS)
        self.cut: set[str] = set()  #: answered with only half of the content, then hung up


class Answer(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        artifact = self.path.split("/")[-3]
        name = next((name_there for name_there in self.server.contents if name_there.split(":")[1] == artifact), None)
        if name is None or not self.path.endswith((".jar", ".zip")):
            self.send_error(404)
            return
        self.server.asked.append(artifact)
        content = self.server.contents[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if artifact in self.server.cut else content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(monkeypatch):
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        monkeypatch.setenv("LOADFRAME_MAVEN", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(artefacts, "_PAUSE", 0.01)
        yield server
        server.shutdown()
        thread.join()


def test_every_file_gets_into_its_place(cache, mirror, distribution):
    home = artefacts.install(distribution, told)
    assert home == cache / "stores" / "example-1.0"
    assert (home / "lib" / "one-1.0.jar").read_bytes() == CONTENTS["org.example:one:1.0"]
    assert (home / "lib" / "two-2.0.jar").read_bytes() == CONTENTS["org.example:two:2.0"]
    assert (home / "modules" / "m" / "d.properties").read_text() == "a=b\n"
    assert (home / "bin").is_dir()
    assert not [path.name for path in (cache / "stores").iterdir() if path.name.endswith(".part")]


def test_nothing_is_fetched_twice(cache, mirror, distribution):
    artefacts.install(distribution, told)
    mirror.asked.clear()
    artefacts.install(distribution, told)
    assert mirror.asked == []
    assert artefacts.installed(distribution)


def test_a_file_that_was_changed_in_the_cache_is_fetched_again(cache, mirror, distribution):
    home = artefacts.install(distribution, told)
    mirror.asked.clear()
    (home / "lib" / "one-1.0.jar").write_bytes(b"x" * 100_000)
    assert not artefacts.installed(distribution)
    artefacts.install(distribution, told)
    assert mirror.asked == ["one"]
    assert (home / "lib" / "one-1.0.jar").read_bytes() == CONTENTS["org.example:one:1.0"]


def test_a_file_that_was_only_touched_is_verified_and_not_fetched(cache, mirror, distribution):
    home = artefacts.install(distribution, told)
    mirror.asked.clear()
    os.utime(home / "lib" / "one-1.0.jar", (1, 1))
    artefacts.install(distribution, told)
    assert mirror.asked == []
    assert artefacts.installed(distribution)


def test_a_descriptor_of_another_release_is_rewritten(cache, mirror, distribution):
    home = artefacts.install(distribution, told)
    (home / "modules" / "m" / "d.properties").write_text("a=old\n")
    artefacts.install(distribution, told)
    assert (home / "modules" / "m" / "d.properties").read_text() == "a=b\n"


def test_a_damaged_stamp_counts_as_missing(cache, mirror, distribution):
    target = artefacts.install(distribution, told)
    (target / artefacts._STAMP).write_bytes(b"\xff{")
    assert not artefacts.installed(distribution)
    assert artefacts.install(distribution, told) == target
    assert artefacts.installed(distribution)


def test_an_interrupted_download_resumes(cache, mirror, distribution):
    mirror.cut = {"two"}
    with pytest.raises(BadInput, match="could not reach the package registry"):
        artefacts.install(distribution, told)
    home = artefacts.home(distribution)
    assert (home / "lib" / "one-1.0.jar").exists()
    assert not (home / "lib" / "two-2.0.jar").exists(), "a partial file has the name of a complete one"
    mirror.cut = set()
    mirror.asked.clear()
    artefacts.install(distribution, told)
    assert mirror.asked == ["two"]


def test_a_file_with_another_checksum_never_gets_into_its_place(cache, mirror, distribution):
    mirror.contents["org.example:one:1.0"] = b"!" * 100_000
    with pytest.raises(LoadframeError, match=r"org\.example:one:1\.0 had a wrong checksum"):
        artefacts.install(distribution, told)
    assert not (artefacts.home(distribution) / "lib" / "one-1.0.jar").exists()


def test_the_bytes_of_a_file_with_another_size_are_taken_back_once(cache, mirror, tmp_path):
    jar = Jar("org.example:one:1.0", "lib", 100_001, "0" * 64)
    counted = []

    class Progress:
        advance = staticmethod(counted.append)

    with pytest.raises(LoadframeError, match="wrong checksum"):
        artefacts._fetch_one(jar, tmp_path / "target", tmp_path / "staging", Progress, threading.Event())
    assert (sum(counted), max(counted) > 0) == (0, True)


def test_without_network_there_is_one_message_with_a_remedy(cache, monkeypatch, distribution):
    monkeypatch.setenv("LOADFRAME_MAVEN", "http://127.0.0.1:9")
    monkeypatch.setattr(artefacts, "_PAUSE", 0.01)
    with pytest.raises(BadInput) as caught:
        artefacts.install(distribution, told)
    assert str(caught.value).startswith("could not reach the package registry (")
    assert "HTTPS_PROXY" in str(caught.value)
    assert caught.value.exit_status == 2


def test_without_room_nothing_is_fetched(cache, mirror, distribution):
    huge = Jar("org.example:one:1.0", "lib", 2**60, "0" * 64)
    with pytest.raises(BadInput, match=r"not enough disk space: downloading example 1\.0 needs 1,048,576 TiB"):
        artefacts.install(Distribution("example", "1.0", 21, (huge,), ()), told)
    assert mirror.asked == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_fills_up_on_the_way_is_one_message(cache, mirror, distribution, monkeypatch):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(cache)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    monkeypatch.setattr(folders, "require_room", lambda *_: None)
    try:
        with pytest.raises(BadInput, match="not enough disk space for the store's files"):
            artefacts.install(distribution, told)
        assert not (artefacts.home(distribution) / "lib" / "two-2.0.jar").exists()
    finally:
        subprocess.run(["umount", str(cache)], check=True)


def test_a_cache_that_cannot_be_made_is_one_message(monkeypatch, tmp_path, distribution):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadInput, match="cannot create the folder: Not a directory"):
        artefacts.install(distribution, told)


def test_two_processes_at_once_fetch_each_file_once(cache, mirror, distribution, tmp_path):
    program = tmp_path / "install.py"
    program.write_text(
        "import hashlib\n"
        "from loadframe.cluster import artefacts\n"
        "from loadframe.store.distribution import Archive, Distribution, Jar\n"
        f"distribution = {distribution!r}\n"
        "artefacts.install(distribution, print)\n"
    )
    both = [subprocess.Popen([sys.executable, str(program)], stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert sorted(mirror.asked) == ["one", "two"]
    assert artefacts.installed(distribution)


def test_root_whose_files_are_private_still_makes_a_cache_that_others_can_read(cache, mirror, distribution):
    before = os.umask(0o077)
    try:
        home = artefacts.install(distribution, told)
    finally:
        os.umask(before)
    for path in (home, *home.rglob("*")):
        if path.name != "installed.json":
            assert path.stat().st_mode & 0o004, f"{path} is for root alone"


def test_the_lines_of_a_download_tell_its_size(cache, mirror, distribution):
    lines: list[str] = []
    artefacts.install(distribution, lines.append)
    assert lines == ["Downloading example 1.0: 391 KiB"]


def test_a_killed_download_leaves_nothing_that_passes_for_whole(cache, mirror, distribution):
    left = cache / "stores" / "example-1.0.part" / "lib" / "org" / "example" / "two" / "2.0"
    left.mkdir(parents=True)
    (left / "two-2.0.jar").write_bytes(b"half")
    home = artefacts.install(distribution, told)
    assert (home / "lib" / "two-2.0.jar").read_bytes() == CONTENTS["org.example:two:2.0"]
    assert not Path(cache / "stores" / "example-1.0.part").exists()


@pytest.fixture
def archived(mirror) -> Distribution:
    """A distribution that is one zip file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as content:
        program = zipfile.ZipInfo("three-3.0/bin/start")
        program.external_attr = 0o755 << 16
        content.writestr(program, "#!/bin/sh\n")
        content.writestr("three-3.0/lib/a.jar", "a")
        content.writestr("three-3.0/modules/native/program", "b")
    data = mirror.contents["org.example:three:3.0"] = packed.getvalue()
    file = Jar("org.example:three:3.0", ".", len(data), hashlib.sha256(data).hexdigest(), packaging="zip")
    archive = Archive(file, root="three-3.0", without=("modules/native/",))
    return Distribution("three", "3.0", 11, (), (), archive=archive, folders=("plugins",))


def test_an_archive_is_unpacked_without_the_excluded_files(cache, archived):
    home = artefacts.install(archived, told)
    assert os.access(home / "bin" / "start", os.X_OK)
    assert (home / "lib" / "a.jar").read_text() == "a"
    assert (home / "plugins").is_dir()
    assert not (home / "modules").exists()
    assert not list(home.glob("*.zip"))
    assert artefacts.installed(archived)


def test_a_file_of_an_archive_that_was_changed_is_fetched_again(cache, mirror, archived):
    home = artefacts.install(archived, told)
    (home / "lib" / "a.jar").write_text("changed")
    assert not artefacts.installed(archived)
    artefacts.install(archived, told)
    assert (home / "lib" / "a.jar").read_text() == "a"
    assert mirror.asked == ["three", "three"]


def test_an_archive_that_is_there_is_not_fetched_again(cache, mirror, archived):
    artefacts.install(archived, told)
    artefacts.install(archived, told)
    assert mirror.asked == ["three"]
