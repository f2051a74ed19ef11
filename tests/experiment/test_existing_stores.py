"""A comparison, a capacity search and a settings experiment through `hosts`, on the stores with larger servers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_existing_clusters import Witness, carry_out, ledgers

from commands import open_folder
from loadframe.cluster import Cluster, ClusterSpec

pytestmark = pytest.mark.store
RECORDS = 200


@dataclass(frozen=True)
class Subject:
    """A kind of store: settings of its server, and a factor of the settings experiment with its levels."""

    settings: dict[str, str]
    factor: str
    levels: str


SUBJECTS = {
    "opensearch": Subject(
        {"heap": "300m"}, "store.settings.cluster.routing.allocation.node_concurrent_recoveries", "[null, 3]"
    ),
    "mongodb": Subject({}, "store.settings.setParameter.ttlMonitorSleepSecs", "[null, 30]"),
    # Cassandra has no settings that CQL changes at run time; settings of a table are a factor.
    "cassandra": Subject(
        {"heap": "320m"}, "collections.usertable.with", "[null, \"compression = {'enabled': false}\"]"
    ),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[pytest.mark.trial] if kind == "cassandra" else []) for kind in SUBJECTS],
)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, Path]]:
    """A node that answers at its address, and the file with its password."""
    subject = SUBJECTS[request.param]
    with open_folder("state") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(folder))
        with Cluster.start(ClusterSpec(store=request.param, settings=subject.settings)) as cluster:
            auth = cluster.access.auth
            password = folder / "password"
            password.write_text(auth.secret if auth else "")
            password.chmod(0o600)
            yield cluster, password


@pytest.fixture
def run(server, tmp_path):
    """Run an experiment on the server; return its runs, which must all succeed and leave nothing."""
    cluster, password = server
    auth = cluster.access.auth

    def run(text: str, witness: Witness):
        access = f", user: {auth.user}, password_file: {password}" if auth else ""
        path = tmp_path / "e.yaml"
        path.write_text(
            f"experiment: e\nstore: {{kind: {cluster.store.kind}, hosts: '{cluster.addresses[0]}'{access}}}\n"
            f"workload: ycsb\nwith: {{records: {RECORDS}}}\nmeasure: b\nprepare: once\n{text}"
        )
        runs = carry_out(path, witness)
        assert [run.summary.failure for run in runs] == [None] * len(runs)
        assert all(run.raw_manifest["store"]["documents"] == {"usertable": RECORDS} for run in runs)
        (collection,) = {f"{run.raw_manifest['store']['prefix']}usertable" for run in runs}
        assert not cluster.has_collection(collection) and not cluster.has_collection("usertable")
        assert not ledgers()
        return runs

    return run


def test_comparison(run):
    runs = run(
        "kind: compare\nvariants: {few: {clients: 1}, many: {clients: 3}}\nwarmup: 0s\nduration: 300ms\n", Witness()
    )
    assert {run.raw_manifest["treatment"]["variant"] for run in runs} == {"few", "many"}


def test_capacity_search(run):
    runs = run(
        "kind: capacity\nslo: {response: 20s}\nsearch: {start: 20, most: 40, factor: 2, precision: 50%}\n"
        "warmup: 0s\nduration: 300ms\n",
        Witness(),
    )
    assert len(runs) >= 2


def test_settings(run, server):
    cluster, _ = server
    subject = SUBJECTS[cluster.store.kind]
    name = subject.factor.removeprefix("store.settings.")
    seen = []

    def look():
        if name != subject.factor:
            seen.append(cluster.store.running_settings(cluster.addresses, [name])[name].value)

    text = f"kind: settings\nfactors: {{{subject.factor}: {subject.levels}}}\nconfirm: 0\nwarmup: 0s\nduration: 300ms\n"
    witness = Witness()
    witness.phase = lambda phase, _: look() if phase == "b" else None
    assert len(run(text, witness)) == 2
    if name != subject.factor:
        before = cluster.store.running_settings(cluster.addresses, [name])[name].value
        assert len(set(seen)) == 2 and before in seen, "one level is in force in each run, and restored at the end"
