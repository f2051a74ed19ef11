"""One cluster of each store, shared by all contract tests of that store.

Each test continues with the cluster as the test before left it. Tests of one store are grouped; tests that change its
cluster run last.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from held import Held, home_of, hosts_of
from subjects import KINDS, subject_of

from commands import open_folder
from loadframe.base.errors import BadInput
from loadframe.store import find

#: Tests that compare names of nodes, which Loadframe knows only of clusters that it started.
_OWN_CLUSTER = ("test_every_node_tells_its_figures",)


class _Turn:
    """The one cluster that runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._now: Held | None = None
        self._failed: set[str] = set()

    def of(self, kind: str) -> Held:
        """Stop another store's cluster if one runs; return this one's. One that failed to start is not tried again."""
        if self._now is None or self._now.kind != kind:
            self.end()
            assert kind not in self._failed, f"{kind} did not start before"
            self._failed.add(kind)
            self._now = Held(kind)
            self._failed.remove(kind)
        return self._now

    def end(self) -> None:
        """Stop the cluster that runs, if any."""
        if self._now is not None and not hosts_of(self._now.kind):
            self._now.cluster.stop()
            self._now = None


@pytest.fixture(scope="session")
def _turn() -> Iterator[_Turn]:
    with open_folder("state") as folder:
        turn = _Turn(folder)
        yield turn
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADFRAME_STATE", str(folder))
            turn.end()


@pytest.fixture
def store(kind: str, _turn: _Turn, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Held:
    """The store's cluster. A store that is excused is skipped by name, with the reason."""
    subject = subject_of(kind)
    reason = subject.absent or subject.excused.get(request.function.__name__) or _missing(kind)
    if hosts_of(kind) and ("changes" in request.path.name or request.function.__name__ in _OWN_CLUSTER):
        reason = "it needs a cluster that Loadframe started"
    if reason:
        pytest.skip(f"not applicable to {kind}: {reason}")
    monkeypatch.setenv("LOADFRAME_STATE", str(_turn.folder))
    held = _turn.of(kind)
    held.dwell(monkeypatch)
    return held


@pytest.fixture
def things(store: Held) -> Iterator[Held]:
    """The same with an empty collection of that name."""
    store.create()
    yield store
    store.drop()


def _missing(kind: str) -> str | None:
    """Return why this machine lacks software that registries do not offer; None if it is installed."""
    if hosts_of(kind):
        return None
    try:
        home = home_of(kind)
        find(kind).installation(Path(home) if home else None)
    except BadInput as error:
        return str(error)
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize each contract test over all stores, or over the store that its module names in ONLY."""
    if "store" in metafunc.fixturenames:
        only = getattr(metafunc.module, "ONLY", None)
        # Their nodes start slowest. OpenSearch's cluster changes by the code of Elasticsearch's.
        trials = {"cassandra", "elasticsearch"} if "changes" in metafunc.module.__name__ else set()
        kinds = [pytest.param(kind, marks=[pytest.mark.trial] if kind in trials else []) for kind in KINDS]
        metafunc.parametrize("kind", [only] if only else kinds)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests by store, with tests that change the cluster last."""
    places = [place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    ordered = sorted((items[place] for place in places), key=_turn_of)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _turn_of(item: pytest.Item) -> tuple[str, bool]:
    return item.callspec.params["kind"], "changes" in item.path.name
