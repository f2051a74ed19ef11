"""Workload files and stores for the tests of this folder."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from commands import open_folder
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.workload import Workload, load_workload

Load = Callable[..., Workload]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a workload from its text."""

    def load(text: str, **parameters: str) -> Workload:
        path = tmp_path / "w.yaml"
        path.write_text(dedent(text))
        return load_workload(str(path), parameters)

    return load


@pytest.fixture
def refused(load: Load) -> Callable[..., BadInput]:
    """Load an invalid workload and return the error's text, with `w.yaml` as the path."""

    def refused(text: str, **parameters: str) -> BadInput:
        with pytest.raises(BadInput) as caught:
            load(text, **parameters)
        error = caught.value
        return BadInput(error.what, where=str(error.where).rsplit("/", 1)[-1], remedy=error.remedy)

    return refused


@contextlib.contextmanager
def started(store: str, **settings: str) -> Iterator[Cluster]:
    """A node of a store, in a cluster that is called as the store."""
    with open_folder("state") as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADFRAME_STATE", str(folder))
            cluster = Cluster.start(ClusterSpec(name=store, store=store, settings=settings))
        try:
            yield cluster
        finally:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("LOADFRAME_STATE", str(folder))
                cluster.stop()


@pytest.fixture(scope="session")
def shared_mongodb() -> Iterator[Cluster]:
    with started("mongodb") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_cassandra() -> Iterator[Cluster]:
    with started("cassandra", heap="320m") as cluster:
        yield cluster


@pytest.fixture
def mongodb(shared_mongodb: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The shared MongoDB, known to commands by that name."""
    monkeypatch.setenv("LOADFRAME_STATE", str(shared_mongodb.nodes[0].folder.parents[2]))
    return shared_mongodb


@pytest.fixture
def cassandra(shared_cassandra: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The shared Cassandra, known to commands by that name."""
    monkeypatch.setenv("LOADFRAME_STATE", str(shared_cassandra.nodes[0].folder.parents[2]))
    return shared_cassandra
