"""Each run on an existing cluster has exactly the settings of its treatment."""

from types import SimpleNamespace

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster
from loadframe.experiment.runner.existing import ExistingClusters
from loadframe.experiment.runner.existing_cluster import ExistingCluster, RuntimeSettings
from loadframe.experiment.runner.ledger import Changes
from loadframe.store.base import RunningSetting

BEFORE = {"buffer": "64", "threads": "8"}


class Remembering:
    """A cluster that remembers settings; it stands for its store, too."""

    def __init__(self):
        self.values = dict(BEFORE)
        self.addresses, self.size, self.spec, self.nodes = ["127.0.0.1:1"], 1, None, []
        self.store, self.observed, self.uncertain = self, {}, False

    def running_settings(self, _addresses, names):
        return {name: RunningSetting(self.values[name], self.values[name]) for name in names}

    def configure(self, settings):
        self.values |= {name: str(value) for name, value in settings.items()}


@pytest.fixture
def existing(load):
    """Attach an experiment to a cluster that remembers settings, and test their levels; return both."""

    def existing(text):
        experiment = load(f"experiment: e\nstore: {{kind: redis, hosts: '127.0.0.1:1', nodes: 1}}\n{text}")
        cluster = Remembering()
        ledger = SimpleNamespace(changes=Changes("redis", [], None, "e"), write=lambda: None)
        clusters = ExistingClusters(experiment, experiment.document.path, SimpleNamespace(step=lambda _: None))
        target = ExistingCluster(cluster.addresses, None, cluster, ledger, RuntimeSettings(ledger))
        runs = experiment.kind.design(experiment).runs
        clusters._targets[clusters._key(runs[0].treatment)] = target
        clusters._test_settings(target, SimpleNamespace(runs=runs))
        assert cluster.values == BEFORE
        return clusters, target, {run.id: run for run in runs}

    return existing


def test_a_setting_of_another_variant_is_restored(existing):
    clusters, target, runs = existing(
        "workload: small.yaml\nkind: compare\nrepetitions: 1\n"
        "variants: {base: {}, large: {store.settings.buffer: 512}, few: {store.settings.threads: 2}}\n"
    )
    seen = {}
    for variant in ("large", "few", "base"):
        (run,) = (run for run in runs.values() if run.treatment["variant"] == variant)
        seen[variant] = dict(clusters.provide(clusters._experiment, run).values)
    assert seen == {"large": {**BEFORE, "buffer": "512"}, "few": {**BEFORE, "threads": "2"}, "base": BEFORE}
    assert target.settings.changed() == []


def test_settings_of_a_timeline_are_restored_for_the_next_run_and_at_the_end(existing):
    clusters, target, runs = existing(
        "workload: small.yaml\nkind: elastic\nduration: 60s\nloads: {closed: {clients: 1}}\n"
        "transitions: {more: {timeline: [{at: 10s, set: {threads: 2}}]}}\n"
    )
    event, control = (next(run for run in runs.values() if run.treatment["event"] is it) for it in (True, False))
    for run in (control, event, control, event):
        cluster = clusters.provide(clusters._experiment, run)
        assert cluster.values == BEFORE
        assert "threads" not in cluster.observed["settings"] or cluster.observed["settings"]["threads"] is None
        if run is event:
            cluster.configure({"threads": 2})
    assert target.settings.changed() == ["threads"]
    assert target.changes.settings == {"threads": "8"}


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize(("level", "value"), [("512", "512"), ("null", "64")])
def test_settings_are_set_again_after_a_restart_that_forgot_them(existing, monkeypatch, alive, level, value):
    clusters, target, runs = existing(
        f"workload: small.yaml\nkind: settings\nfactors: {{store.settings.buffer: [128, {level}]}}\nrepetitions: 2\n"
    )
    first, second = (run for run in runs.values() if run.treatment["store.settings.buffer"] != 128)
    cluster = clusters.provide(clusters._experiment, first)
    target.name, cluster.nodes = "docs", [SimpleNamespace(alive=alive, paused=False, cut=False)]
    restarted = Remembering()
    restarted.values["buffer"] = "32"
    monkeypatch.setattr(Cluster, "respawn", lambda *_: restarted)
    monkeypatch.setattr(Cluster, "runs", lambda _: True)
    assert target.resize(cluster, 1 if not alive else 2, lambda _: None) is restarted
    target.cluster = restarted
    assert clusters.provide(clusters._experiment, second).values["buffer"] == value


@pytest.mark.parametrize("level", [128, None])
def test_settings_are_set_again_after_a_node_restarted_by_itself(existing, monkeypatch, level):
    clusters, _, runs = existing(
        "workload: small.yaml\nkind: settings\nfactors: {store.settings.buffer: [128, null]}\nrepetitions: 2\n"
    )
    first, second = (run for run in runs.values() if run.treatment["store.settings.buffer"] == level)
    cluster, wanted, remarks = clusters.provide(clusters._experiment, first), str(level or 64), []
    cluster.values["buffer"] = "32"
    assert clusters.provide(clusters._experiment, second).values["buffer"] == wanted
    # Between two runs of one state.
    cluster.values["buffer"], cluster.count = "32", lambda _: 0
    clusters._listener.remark = remarks.append
    monkeypatch.setattr(type(clusters._experiment.kind), "phases", lambda *_: [])
    clusters.count(second, SimpleNamespace(cluster=cluster, workload=SimpleNamespace(collections={"small": {}})))
    assert cluster.values["buffer"] == wanted
    assert remarks == [f"set buffer again before {second.id}: a node had lost the value"]


def test_settings_are_restored_after_the_last_restart(existing, monkeypatch):
    clusters, target, runs = existing(
        "workload: small.yaml\nkind: settings\nfactors: {store.settings.buffer: [128, 512]}\nrepetitions: 2\n"
    )
    cluster = clusters.provide(clusters._experiment, next(iter(runs.values())))
    target.name, target.changes.nodes, target.changes.running = "docs", 2, True
    restarted = Remembering()
    restarted.values["buffer"], restarted.size, restarted.keep = "32", 2, lambda: None
    monkeypatch.setattr(Cluster, "respawn", lambda *_: restarted)
    monkeypatch.setattr(Cluster, "runs", lambda _: True)
    cluster.nodes = [SimpleNamespace(alive=True, paused=False, cut=False)]
    target.ledger.delete = lambda: None
    assert clusters._restore(target) is None
    assert restarted.values == BEFORE


@pytest.mark.parametrize("used", [False, True])
def test_only_a_cluster_that_a_run_has_used_is_restarted_for_damaged_nodes(existing, monkeypatch, used):
    clusters, target, _ = existing("workload: small.yaml\nkind: scale\nfactors: {clients: [1, 2]}\n")
    target.name, target.used, target.changes.nodes, target.changes.running = "docs", used, 1, True
    target.cluster.nodes = [SimpleNamespace(alive=True, paused=True, cut=False)]
    target.cluster.keep = target.ledger.delete = lambda: None
    restarted = Remembering()
    restarted.keep, respawned = lambda: None, []
    monkeypatch.setattr(Cluster, "respawn", lambda name, *_: respawned.append(name) or restarted)
    monkeypatch.setattr(Cluster, "runs", lambda _: True)
    assert clusters._restore(target) is None
    assert respawned == ["docs"] * used


def test_settings_are_set_again_when_the_users_command_has_added_nodes(existing):
    clusters, _, runs = existing(
        "workload: small.yaml\nkind: settings\nfactors: {store.settings.buffer: [128, 512]}\nrepetitions: 2\n"
    )
    run = next(iter(runs.values()))
    cluster = clusters.provide(clusters._experiment, run)
    level = cluster.values["buffer"]
    cluster.size = 2

    def resize(_nodes, _report):
        cluster.values["buffer"] = "the value of a new node"

    cluster.resize = resize
    assert clusters.provide(clusters._experiment, run).values["buffer"] == level


def test_servers_that_apply_a_setting_one_after_the_other_are_waited_for(existing, monkeypatch):
    clusters, _, runs = existing(
        "workload: small.yaml\nkind: settings\nfactors: {store.settings.buffer: [128, 512]}\nrepetitions: 2\n"
    )
    cluster = clusters._targets[clusters._key(next(iter(runs.values())).treatment)].cluster
    read, configure, late = cluster.running_settings, cluster.configure, []

    def running_settings(addresses, names):
        if late:
            late.pop()
            raise BadInput("the servers have different values of buffer")
        return read(addresses, names)

    def configured(settings):
        configure(settings)
        late.extend([None, None])

    monkeypatch.setattr(cluster, "running_settings", running_settings)
    monkeypatch.setattr(cluster, "configure", configured)
    for run in runs.values():
        assert clusters.provide(clusters._experiment, run).values["buffer"] == str(
            run.treatment["store.settings.buffer"]
        )


def test_a_setting_is_set_on_nodes_with_different_values(existing, monkeypatch):
    clusters, target, runs = existing(
        "workload: small.yaml\nkind: settings\nfactors: {store.settings.buffer: [128, 512]}\nrepetitions: 2\n"
    )
    run = next(iter(runs.values()))
    cluster = clusters.provide(clusters._experiment, run)
    level = cluster.values.pop("buffer")
    target.settings.forget()
    read = cluster.running_settings

    def running_settings(addresses, names):
        if "buffer" not in cluster.values:
            raise BadInput("the nodes have different values of buffer")
        return read(addresses, names)

    monkeypatch.setattr(cluster, "running_settings", running_settings)
    assert clusters.provide(clusters._experiment, run).values["buffer"] == level
