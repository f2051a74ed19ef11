"""What tests of several parts share: folders of a test's own, and one real node for all that only need a store."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadframe.cluster import Cluster, ClusterSpec

#: A thousand real trips, one JSON document per line.
TRIPS = Path(__file__).parent / "data" / "nyc_taxis" / "documents-1k.json"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder for the clusters of one test, which root's servers may enter too."""
    with tempfile.TemporaryDirectory(prefix="loadframe-state-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("LOADFRAME_STATE", name)
        yield Path(name)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache."""
    with tempfile.TemporaryDirectory(prefix="loadframe-cache-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("LOADFRAME_CACHE", name)
        yield Path(name)


@pytest.fixture(scope="session")
def shared_node() -> Iterator[Cluster]:
    """One real node without limits, under the name `shared`, for the whole session; use `node`."""
    with tempfile.TemporaryDirectory(prefix="loadframe-state-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADFRAME_STATE", name)
            # It is not kept, so it ends with this process however that ends.
            cluster = Cluster.start(ClusterSpec(name="shared", settings={"heap": "400m"}))
        try:
            yield cluster
        finally:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("LOADFRAME_STATE", name)
                cluster.stop()


@pytest.fixture
def node(shared_node: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The shared node without any collection, known to commands by its name."""
    monkeypatch.setenv("LOADFRAME_STATE", str(shared_node.nodes[0].folder.parents[2]))
    drop_all(shared_node)
    yield shared_node
    drop_all(shared_node)


def drop_all(cluster: Cluster) -> None:
    """Drop every collection."""
    for name in cluster.store.request(cluster.addresses, "GET", "/*"):
        cluster.drop_collection(name)
