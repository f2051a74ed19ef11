"""Shared fixtures: temporary folders, and one real node for tests that need only a store."""

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import loadframe.store
import quick_java
import slurm_daemons
from commands import open_folder, uv
from loadframe.base import interrupts
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store import Store
from slurm_daemons import SlurmDaemons

quick_java.install()
# Styles and progress bars depend on the terminal, also of consoles that tests create.
os.environ["TERM"] = "xterm-256color"
# Tests are interrupted and hung up on, which a suite that was started in the background or by nohup would ignore.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse test files of the same name: Python imports only one, and pytest reports it only at the end."""
    places = defaultdict(list)
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        places[path.name].append(str(path.relative_to(config.rootpath)))
    for paths in places.values():
        if len(paths) > 1:
            raise pytest.UsageError(f"{' and '.join(paths)} have the same name: rename one of them")


_TOP = Path(__file__).parents[1]
#: Fixtures that start real nodes.
_STORES = {"shared_node", "shared_mongodb", "shared_cassandra", "_turn"}
#: Pages of the documentation, with the piece whose fixtures they share.
_PAGES = {"docs/start/install.md": "tests/test_wheel.py"}
#: Contract tests that `make check` runs.
_CHECKED = ("test_contract_verbs.py", {"redis", "postgresql"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of real nodes by their fixtures, and the tests of `make check`; run modules that start nodes first."""
    started = set()
    for item in items:
        if _STORES & set(getattr(item, "fixturenames", ())):
            item.add_marker("store")
        if item.get_closest_marker("store"):
            started.add(item.path)
        callspec = getattr(item, "callspec", None)
        checked = item.path.name == _CHECKED[0] and callspec and callspec.params.get("kind") in _CHECKED[1]
        if checked or not any(map(item.get_closest_marker, ("store", "alone", "slow", "trial"))):
            item.add_marker("check")
    # Waiting for nodes takes longest: short modules fill the workers at the end.
    items.sort(key=lambda item: item.path not in started)


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Restore the interrupt handlers after each test and clear a pending interrupt."""
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    interrupts.answer()


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder for the clusters of one test."""
    with open_folder("state") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder))
        yield folder


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache."""
    with open_folder("cache") as folder:
        monkeypatch.setenv("LOADFRAME_CACHE", str(folder))
        yield folder


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, state: Path, cache: Path) -> Store:
    """The toy, which is a store because its module lies where stores lie."""
    monkeypatch.setattr(loadframe.store, "__path__", [*loadframe.store.__path__, str(Path(__file__).parent / "toys")])
    # Do not wait for clients to disconnect; the tests have none.
    monkeypatch.setattr("loadframe.cluster.scaling._FAREWELL", 0.1)
    store = loadframe.store.find("toy")
    store.reset()
    return store


@pytest.fixture(scope="session")
def shared_node() -> Iterator[Cluster]:
    """One real node without limits, under the name `shared`, for the whole session; use `node`."""
    with open_folder("state") as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADFRAME_STATE", str(folder))
            # It is not kept, so it ends with this process however that ends.
            cluster = Cluster.start(ClusterSpec(name="shared", settings={"heap": "400m"}))
        yield cluster
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADFRAME_STATE", str(folder))
            cluster.stop()


@pytest.fixture
def node(shared_node: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The shared node without any collection, known to commands by its name."""
    monkeypatch.setenv("LOADFRAME_STATE", str(shared_node.nodes[0].folder.parents[2]))
    drop_all(shared_node)
    yield shared_node
    drop_all(shared_node)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmDaemons]:
    """Slurm with four nodes of eight cores each, all on this machine."""
    if lacking := slurm_daemons.missing():
        pytest.skip(lacking)
    with SlurmDaemons(machines=4) as daemons:
        yield daemons


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree. It packs the library that `make build` compiled."""
    folder = tmp_path_factory.mktemp("dist")
    maturin = Path(sys.executable).with_name("maturin")
    path = f"{Path(uv()).parent}:{os.environ['PATH']}"
    command = [maturin, "build", "--release", "--quiet", "--out", folder]
    subprocess.run(command, check=True, cwd=_TOP, env={**os.environ, "PATH": path})
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the versions that this project is tested with; the wheel itself asks for none in particular."""
    file = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    lines = (_TOP / "requirements.lock").read_text().splitlines()
    file.write_text("\n".join(line.rstrip("\\ ") for line in lines if "==" in line))
    return file


def drop_all(cluster: Cluster) -> None:
    """Drop every collection."""
    for name in cluster.store.request(cluster.addresses, "GET", "/*"):
        cluster.drop_collection(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Share the work in pieces that start nothing costly twice."""
    # Keep the order of the collection, instead of modules with most tests first.
    config.option.loadscopereorder = False
    return _ByCluster(config, log)


class _ByCluster(LoadScopeScheduling):
    """Keep together the tests of a module, contract tests by store, and tests that share nodes or Slurm.

    Each page of the documentation is its own piece, unless it shares fixtures.
    """

    def _split_scope(self, nodeid: str) -> str:
        module, _, name = nodeid.partition("::")
        if module.startswith("tests/contract/"):
            parameters = name.partition("[")[2].rstrip("]").split("-")
            return next((f"{kind} cluster" for kind in parameters if kind in loadframe.store.stores()), module)
        if module == "tests/docs/test_pages.py":
            return _PAGES.get(name.partition("[")[2].rstrip("]"), nodeid)
        if module.startswith("tests/workload/") and module.endswith("_on_a_store.py"):
            return "shared nodes"
        return "slurm" if "slurm" in module else module
