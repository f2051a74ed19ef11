"""Numbers of nodes in the ledgers of existing clusters: noted before the first change, and restored after a failure."""

from types import SimpleNamespace

import pytest

from loadframe.base.errors import StoreFailed
from loadframe.experiment.runner import existing
from loadframe.experiment.runner.existing import ExistingClusters
from loadframe.experiment.runner.ledger import Changes, Ledger

STORE = "experiment: e\nstore: {kind: redis, hosts: '127.0.0.1:1', scale_command: 'true {nodes}'}\n"
SCALE = f"{STORE}workload: small.yaml\nkind: scale\nfactors: {{nodes: [2, 3]}}\n"
ELASTIC = (
    "experiment: e\nstore: {kind: redis, hosts: '127.0.0.1:1', nodes: 2, scale_command: 'true {nodes}'}\n"
    "workload: small.yaml\nkind: elastic\nduration: 60s\nloads: {closed: {clients: 1}}\n"
    "transitions: {more: {timeline: [{at: 10s, add: 1}]}}\n"
)


class Scaled:
    """A cluster of two nodes that the user's command scales; it stands for its store, too."""

    def __init__(self):
        self.size, self.nodes, self.addresses, self.spec, self.uncertain = 2, [], ["127.0.0.1:1"], None, False
        self.store, self.kind, self.family, self.observed = self, "redis", "redis", {}
        self.wanted = []

    def resize(self, nodes, _report=None):
        self.wanted.append(nodes)
        self.size = nodes


@pytest.fixture
def opening(load, monkeypatch, tmp_path):
    """Prepare an experiment on a cluster of two nodes with `leftovers`; return both, and the planned runs."""

    def opening(text, *leftovers):
        experiment = load(text)
        listener = SimpleNamespace(step=lambda _: None, remark=lambda _: None)
        clusters, cluster = ExistingClusters(experiment, tmp_path, listener), Scaled()
        earlier = [Ledger(tmp_path / "earlier.json", changes) for changes in leftovers]
        monkeypatch.setattr(clusters, "_attach", lambda _: cluster)
        monkeypatch.setattr(existing, "claim", lambda _, changes: (Ledger(tmp_path / "now.json", changes), earlier))
        return clusters, cluster, experiment.kind.design(experiment).runs

    return opening


def test_the_number_of_nodes_is_noted_before_the_first_change(opening):
    clusters, cluster, runs = opening(SCALE)
    same, more = (next(run for run in runs if run.treatment["nodes"] == nodes) for nodes in (2, 3))
    with clusters:
        target = clusters._open(same.treatment, adopts=False)
        clusters.provide(clusters._experiment, same)
        assert target.changes.nodes is None
        clusters.provide(clusters._experiment, more)
        assert target.changes.nodes == 2
    assert cluster.wanted == [3, 2]


def test_the_number_of_nodes_is_noted_before_a_timeline_that_changes_it(opening):
    clusters, cluster, runs = opening(ELASTIC)
    control, event = (next(run for run in runs if run.treatment["event"] is wanted) for wanted in (False, True))
    with clusters:
        target = clusters._open(control.treatment, adopts=False)
        clusters.provide(clusters._experiment, control)
        assert target.changes.nodes is None
        clusters.provide(clusters._experiment, event).size = 3
    assert cluster.wanted == [2]


def test_the_end_repeats_a_failed_restoration_of_leftovers(opening, monkeypatch):
    clusters, cluster, runs = opening(SCALE, Changes("redis", ["127.0.0.1:1"], None, "earlier", nodes=3))

    def resize(nodes, _report=None):
        cluster.wanted.append(nodes)
        if len(cluster.wanted) == 1:
            raise StoreFailed("the command ended with status 1")
        cluster.size = nodes

    monkeypatch.setattr(cluster, "resize", resize)
    with pytest.raises(StoreFailed, match="status 1"), clusters:
        clusters._open(runs[0].treatment, adopts=False)
    assert (cluster.wanted, cluster.size) == ([3, 3], 3)


def test_leftovers_run_the_command_also_for_the_present_number(opening):
    clusters, cluster, runs = opening(SCALE, Changes("redis", ["127.0.0.1:1"], None, "earlier", nodes=2))
    with clusters:
        clusters._open(runs[0].treatment, adopts=False)
        assert cluster.wanted == [2]


def test_the_command_runs_again_after_a_failure_that_left_the_number_as_it_was(opening, monkeypatch):
    clusters, cluster, runs = opening(SCALE)
    more = next(run for run in runs if run.treatment["nodes"] == 3)

    def resize(nodes, _report=None):
        cluster.wanted.append(nodes)
        cluster.uncertain = nodes == 3
        if cluster.uncertain:
            raise StoreFailed("the command did not end in time")

    monkeypatch.setattr(cluster, "resize", resize)
    with clusters:
        clusters._open(more.treatment, adopts=False)
        with pytest.raises(StoreFailed, match="in time"):
            clusters.provide(clusters._experiment, more)
        clusters.discard()
        cluster.uncertain = False
    assert cluster.wanted == [3, 2]
