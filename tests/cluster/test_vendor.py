"""Vendor downloads: fetched from a local mirror, verified, unpacked once, and started."""

import gzip
import hashlib
import http.server
import io
import os
import platform
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from loadframe.base import download
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, software_sources
from loadframe.cluster.software import Software, prepare
from loadframe.host.local import LocalHost
from loadframe.store import find

ELASTICSEARCH = f"elasticsearch-8.15.3-linux-{platform.machine()}.tar.gz"
JAVA = '#!/bin/sh\necho "an empty shell"\n'


def packed(files: dict[str, str | bytes | tarfile.TarInfo], root: str = "it-1.0", level: int = 1) -> bytes:
    """Return a compressed tar archive of these files, programs where a path has `bin` in it."""
    stream = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=level) as outer,
        tarfile.open(fileobj=outer, mode="w") as archive,
    ):
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = f"{root}/{name}"
                archive.addfile(content)
                continue
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mode = len(data), 0o750 if "bin/" in name else 0o640
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def link(target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo()
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry


#: As the vendor lays it out.
CONTENT = packed(
    {
        "lib/elasticsearch-8.15.3.jar": "",
        "bin/elasticsearch": "#!/bin/sh\n",
        "jdk/bin/java": JAVA,
        "jdk/release": 'JAVA_VERSION="22.0.1"\n',
        "jdk/legal/notice": "words",
        "jdk/legal/more": link("notice"),
        "jdk/legal/lost": link("nowhere"),
    }
)


class Mirror(http.server.ThreadingHTTPServer):
    """Serves archives and their checksums; can break off a download."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cuts = 0  #: how many answers with archives still break off half way

    def offer(self, name: str, content: bytes, algorithm: str = "sha512") -> None:
        digest = hashlib.new(algorithm, content).hexdigest()
        self.files |= {name: content, f"{name}.{algorithm}": f"{digest}  {name}\n".encode()}


class Answer(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        server, name = self.server, self.path.removeprefix("/downloads/")
        server.asked.append(f"{name} {self.headers['Range'] or ''}".strip())
        if name not in server.files:
            self.send_error(404)
            return
        start = int(self.headers["Range"].split("=")[1].rstrip("-")) if self.headers["Range"] else 0
        rest = server.files[name][start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("ETag", '"one"')
        self.end_headers()
        if name.endswith("gz"):
            server.cuts -= 1
            rest = rest[: len(rest) // 2] if server.cuts >= 0 else rest
        self.wfile.write(rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setattr(download, "_PAUSE", 0.01)
    monkeypatch.delenv("LOADFRAME_JAVA_HOME", raising=False)
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        for store in ("elasticsearch", "mongodb"):
            monkeypatch.setenv(software_sources.mirror(store), f"http://127.0.0.1:{server.server_port}/downloads/")
        yield server
        server.shutdown()
        thread.join()


def prepared(version: str = "8.15.3", told: list[str] | None = None) -> Software:
    lines: list[str] = [] if told is None else told
    spec = ClusterSpec(store="elasticsearch", version=version)
    return prepare(find("elasticsearch"), spec, LocalHost(), lines.append)


def unpacked(cache: Path) -> list[str]:
    """Return the entries of the folder of installations."""
    folder = cache / "vendor"
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") if folder.exists() else []


def test_a_version_that_no_registry_has_is_fetched_and_is_an_installation_then(cache, mirror):
    mirror.offer(ELASTICSEARCH, CONTENT)
    told: list[str] = []
    software = prepared(told=told)
    home = cache / "vendor" / "elasticsearch-8.15.3"
    assert (software.version, software.origin, software.java_version) == ("8.15.3", "vendor", "22.0.1")
    assert (software.installation.home, software.installation.java) == (home, home / "jdk")
    assert told[-1] == "unpacking elasticsearch 8.15.3"
    assert (home / "jdk" / "legal" / "more").read_text() == "words"


def test_it_is_fetched_once_and_everybody_can_read_it_and_run_its_programs(cache, mirror):
    mirror.offer(ELASTICSEARCH, CONTENT)
    home = prepared().installation.home
    assert prepared().installation.home == home
    assert mirror.asked == [f"{ELASTICSEARCH}.sha512", ELASTICSEARCH]
    modes = {
        path.relative_to(home).as_posix(): path.stat().st_mode & 0o777 for path in home.rglob("*") if path.exists()
    }
    assert (modes["bin"], modes["bin/elasticsearch"], modes["jdk/release"]) == (0o755, 0o755, 0o644)
    assert not list((cache / "vendor" / "downloads").glob("*.gz"))


def test_a_download_that_was_cut_off_resumes(cache, mirror):
    mirror.offer(ELASTICSEARCH, CONTENT)
    mirror.cuts = 3
    with pytest.raises(BadInput, match="The next attempt resumes the download"):
        prepared()
    assert prepared().version == "8.15.3"
    assert mirror.asked[-1].startswith(f"{ELASTICSEARCH} bytes=")
    assert unpacked(cache) == ["downloads", "elasticsearch-8.15.3"]


def test_an_archive_with_another_checksum_is_not_unpacked(cache, mirror):
    mirror.offer(ELASTICSEARCH, CONTENT)
    mirror.files[ELASTICSEARCH] = CONTENT[:-1] + b"?"
    with pytest.raises(LoadframeError, match="wrong checksum") as caught:
        prepared()
    assert caught.value.where.endswith(f"/downloads/{ELASTICSEARCH}")
    assert unpacked(cache) == ["downloads"]
    mirror.offer(ELASTICSEARCH, CONTENT)
    assert prepared().version == "8.15.3"


def test_an_invalid_checksum_answer_is_shown(cache, mirror):
    mirror.files[f"{ELASTICSEARCH}.sha512"] = b"<html>Please log in</html>"
    with pytest.raises(LoadframeError, match="the checksum file is invalid: '<html>Please'"):
        prepared()


def test_unknown_versions_are_reported_with_alternatives(cache, mirror):
    with pytest.raises(BadInput) as caught:
        prepared("8.99.0")
    assert caught.value.what == "elasticsearch 8.99.0 is not available for download (the server answered 404 Not Found)"
    for words in ("three numbers", "LOADFRAME_MIRROR_ELASTICSEARCH", "--home"):
        assert words in caught.value.remedy
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("version", "what"),
    [("8", "is not a complete version"), ("8.15", "complete version"), ("6.7.1", "not an embedded version")],
)
def test_a_version_that_may_be_many_is_asked_for_nowhere(cache, mirror, version, what):
    with pytest.raises(BadInput, match=what):
        prepared(version)
    assert mirror.asked == []


def test_a_vendor_that_cannot_be_reached_makes_one_message(cache, mirror, monkeypatch):
    monkeypatch.setenv("LOADFRAME_MIRROR_ELASTICSEARCH", "http://127.0.0.1:9")
    with pytest.raises(BadInput) as caught:
        prepared()
    assert caught.value.where == f"http://127.0.0.1:9/{ELASTICSEARCH}.sha512"
    assert "could not download" in caught.value.what
    for words in ("HTTPS_PROXY", "LOADFRAME_MIRROR_ELASTICSEARCH", "--home"):
        assert words in caught.value.remedy
    assert unpacked(cache) == []


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"../../evil": "x"}, "it-1.0/../../evil"),
        ({"a/../../../evil": "x"}, "it-1.0/a/../../../evil"),
        ({"out": link("../.."), "out/evil": "x"}, "it-1.0/out -> ../.."),
        ({"out": link("/tmp")}, "it-1.0/out -> /tmp"),
    ],
    ids=["above", "through a folder", "by a link", "by an absolute link"],
)
def test_an_archive_that_reaches_out_of_its_folder_is_refused(cache, mirror, files, named):
    mirror.offer(ELASTICSEARCH, packed(files))
    with pytest.raises(LoadframeError, match="outside its folder") as caught:
        prepared()
    assert named in caught.value.what
    assert unpacked(cache) == ["downloads"]
    assert not list(cache.rglob("evil"))


def test_absolute_paths_and_special_files_are_refused(cache, mirror):
    mirror.offer(ELASTICSEARCH, packed({"evil": "x"}, root=str(cache)))
    with pytest.raises(LoadframeError, match="outside its folder"):
        prepared()
    pipe = tarfile.TarInfo()
    pipe.type = tarfile.FIFOTYPE
    mirror.offer(ELASTICSEARCH, packed({"pipe": pipe}))
    with pytest.raises(LoadframeError, match=r"not a file, folder or link: it-1\.0/pipe"):
        prepared()
    assert unpacked(cache) == ["downloads"]


@pytest.mark.parametrize(
    "content", [CONTENT[: len(CONTENT) // 2], b"no archive", packed({})], ids=["cut", "junk", "empty"]
)
def test_archives_broken_by_the_vendor_are_reported(cache, mirror, content):
    mirror.offer(ELASTICSEARCH, content)
    with pytest.raises(LoadframeError, match=r"the archive is damaged|the archive has no files"):
        prepared()
    assert unpacked(cache) == ["downloads"]


def test_requested_versions_take_precedence_over_the_systems(cache, mirror, tmp_path, monkeypatch):
    server = tmp_path / "mongod"
    server.write_text("#!/bin/sh\necho db version v6.0.1\n")
    server.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = "#!/bin/sh\necho db version v7.0.14\n"
    name = f"mongodb-linux-{platform.machine()}-ubuntu2204-7.0.14.tgz"
    mirror.offer(name, packed({"bin/mongod": program, "bin/mongos": program}), "sha256")
    spec = ClusterSpec(store="mongodb", version="7.0.14")
    software = prepare(find("mongodb"), spec, LocalHost(), lambda _: None)
    assert (software.version, software.origin) == ("7.0.14", "vendor")
    assert software.installation.home == cache / "vendor" / "mongodb-7.0.14" / "bin"
    with pytest.raises(BadInput, match=r"the installation is mongodb 6.0.1, not 5.0.9"):
        prepare(find("mongodb"), ClusterSpec(store="mongodb", version="5.0.9"), LocalHost(), lambda _: None)


@pytest.mark.store
def test_a_server_that_a_mirror_has_is_started_from_there(state, mirror, tmp_path, monkeypatch):
    software = prepare(find("mongodb"), ClusterSpec(store="mongodb"), LocalHost(), lambda _: None)
    home = software.installation.home
    mongod = next(path for path in (home / "mongod", home / "fiftyone" / "db" / "bin" / "mongod") if path.exists())
    name = f"mongodb-linux-{platform.machine()}-ubuntu2204-6.0.99.tgz"
    # Not compressed, which would take longer than all the rest.
    mirror.offer(name, packed({"bin/mongod": mongod.read_bytes()}, level=0), "sha256")
    monkeypatch.setenv("LOADFRAME_CACHE", str(state / "cache"))
    with Cluster.start(ClusterSpec(store="mongodb", version="6.0.99", nodes=2, name="vendor")) as cluster:
        assert cluster.describe()["origin"] == "vendor"
        assert cluster.health().nodes == 2
        programs = {Path(psutil.Process(node.pid).exe()) for node in cluster.nodes}
    assert programs == {state / "cache" / "vendor" / "mongodb-6.0.99" / "bin" / "mongod"}
