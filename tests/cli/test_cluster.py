"""`loadframe cluster`: one stays up between commands, and comes back with its data."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from commands import loadframe
from loadframe.analyze.publication_figures import rate_samples_by_node
from loadframe.analyze.rates import RATES
from loadframe.base.errors import BadInput
from loadframe.cli.choices import sharding, store_settings
from loadframe.cluster import Cluster, named
from loadframe.record import Run
from loadframe.store import find


@pytest.fixture
def state(state) -> Iterator[Path]:
    """A state folder of the test's own; clusters that it left running are stopped."""
    yield state
    for cluster in named.names():
        if named.existing(cluster).running:
            Cluster.load(cluster).stop()


@pytest.fixture
def cluster(state) -> Callable[..., CompletedProcess]:
    """Run `loadframe cluster` with these words."""

    def call(*words: str) -> CompletedProcess:
        return loadframe("cluster", *words)

    return call


@pytest.mark.store
def test_a_cluster_stays_up_and_comes_back_with_its_data(cluster):
    started = cluster("up", "trial", "--set", "heap=300m", "--json")
    assert started.returncode == 0, started.stderr
    state = json.loads(started.stdout)
    assert (state["state"], state["size"], state["settings"]) == ("running", 1, {"heap": "300m"})
    assert state["deviations"] == []

    trial = Cluster.load("trial")
    trial.create_collection("kept", {"settings": {"number_of_replicas": 0}})
    trial.store.request(trial.addresses, "PUT", "/kept/_doc/1", {"a": 1})

    assert "trial    running  opensearch 3.8.0  1" in cluster("status").stdout
    again = cluster("up", "trial")
    assert again.returncode == 2
    assert "cluster trial is already running" in again.stderr

    process = trial.nodes[0].process
    assert cluster("down", "trial").returncode == 0
    assert not process.alive()
    assert json.loads(cluster("status", "trial", "--json").stdout)["state"] == "stopped"
    other = cluster("up", "trial", "--store", "toy")
    assert other.returncode == 2
    assert "cluster trial exists with store opensearch, not toy" in other.stderr

    assert cluster("up", "trial").returncode == 0
    trial = Cluster.load("trial")
    assert trial.count("kept") == 1
    assert trial.describe()["heap"] == 300 * 2**20, "the settings of the first start are forgotten"

    os.kill(trial.nodes[0].pid, signal.SIGKILL)
    while trial.nodes[0].process.alive():
        pass
    assert json.loads(cluster("status", "trial", "--json").stdout)["state"] == "stopped"

    assert cluster("down", "trial", "--delete-data").returncode == 0
    assert cluster("status", "--json").stdout.strip() == "[]"


@pytest.mark.parametrize("word", ["status", "down", "grow", "shrink"])
def test_a_cluster_that_does_not_exist_is_bad_input(cluster, word):
    answer = cluster(word, "trial")
    assert answer.returncode == 2
    assert answer.stderr.startswith("loadframe: cluster 'trial' does not exist")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--store", "opensaerch"), "did you mean opensearch?"),
        (("--nodes", "0"), "0 is not in the range 1<=x<=1000"),
        (("--cpus", "0"), "the CPU limit of a node must be 0.01 to 4096 cores; got 0.0"),
        (("--memory", "much"), "'much' is not a size"),
        (("--memory", "200m"), "leaves too little memory of a node's 200 MiB"),
        (("--set", "heap"), "--set 'heap' lacks a value"),
        (("--set", "http.port=1"), "http.port is controlled by Loadframe"),
        (("--version", "1.0"), "opensearch 1.0 is not an embedded version"),
        (("--port", "80"), "80 is not in the range 1024<=x<=65535"),
    ],
)
def test_impossible_requests_give_one_message_and_leave_nothing(cluster, state, words, message):
    answer = cluster("up", "trial", *words)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (state / "clusters" / "trial").exists()


@pytest.mark.parametrize("word", ["up", "status", "down", "grow", "shrink", "kill", "pause", "resume"])
def test_every_command_has_examples(cluster, word):
    assert f"loadframe cluster {word}" in cluster(word, "--help").stdout


def test_urls_of_another_store_name_that_store(cluster):
    answer = cluster("status", "--hosts", "redis://127.0.0.1:1")
    assert answer.returncode == 2
    assert "redis:// is an address of redis, and --store is opensearch" in answer.stderr
    assert "give --store redis" in answer.stderr


@pytest.mark.store
def test_repeated_pausing_and_resuming_is_reported_but_not_an_event(cluster):
    assert cluster("up", "trial", "--store", "sim").returncode == 0
    said = [cluster(word, "trial", "node-0", "--json") for word in ("pause", "pause", "resume", "resume")]
    assert [[event["kind"] for event in json.loads(answer.stdout)["events"]] for answer in said] == [
        ["node paused"],
        [],
        ["node resumed"],
        [],
    ]
    assert [answer.stderr.strip() for answer in said] == ["", "node-0 is already paused", "", "node-0 is not paused"]


#: Modules that take longer to import than a status query of a cluster.
HEAVY = ("httpx", "jinja2", "numpy", "pydantic", "requests", "scipy", "urllib3", "yaml", "loadframe._engine")


@pytest.mark.store
@pytest.mark.parametrize("store", ["sim", "redis"])
def test_to_look_at_a_cluster_and_to_kill_a_node_imports_nothing_heavy(cluster, store):
    started = cluster("up", "trial", "--store", store, "--nodes", "2")
    assert started.returncode == 0, started.stderr
    for words in (["status"], ["status", "trial"], ["pause", "trial", "node-1"], ["kill", "trial", "node-1"]):
        program = f"""
import sys
from loadframe.cli import main
try:
    main({["cluster", *words]!r})
except SystemExit as end:
    print("ended:", end.code, *(name for name in {HEAVY!r} if name in sys.modules))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.splitlines()[-1] == "ended: 0", done


def test_settings_have_the_value_types_of_an_experiment_file():
    settings = store_settings(["members=1", "replica_set=true", "sigma=0.1", "service=20ms", "save=", "a=b=c"])
    assert settings == {"members": 1, "replica_set": True, "sigma": 0.1, "service": "20ms", "save": "", "a": "b=c"}
    with pytest.raises(BadInput, match="--set x: this whole number does not fit into 64 bits"):
        store_settings(["x=99999999999999999999"])


@pytest.mark.parametrize(
    ("store", "setting"),
    [
        ("mongodb", "members=1"),
        ("mongodb", "replica_set=true"),
        ("mongodb", "cache=1073741824"),
        ("redis", "cluster=true"),
        ("sim", "servers=4"),
    ],
)
def test_documented_settings_are_accepted_from_the_command_line(store, setting):
    find(store).check_settings(store_settings([setting]))


def test_shards_routers_and_config_servers_are_options():
    assert sharding("mongodb", None, 3, 2, None) == {"members": 1, "routers": 2}
    assert sharding("mongodb", 2, None, None, 3) == {"members": 1, "config_members": 3}
    assert sharding("redis", 3, None, None, None) == {}
    for arguments, message in [
        (("redis", None, 2, None, None), "redis does not use routers"),
        (("mongodb", 2, 2, None, None), "each shard is a node"),
        (("mongodb", None, None, 2, None), "require a sharded cluster"),
    ]:
        with pytest.raises(BadInput, match=message):
            sharding(*arguments)


def test_without_a_router_the_options_say_what_to_install(cluster):
    if shutil.which("mongos"):
        pytest.skip("mongos is installed")
    refused = cluster("up", "split", "--store", "mongodb", "--shards", "2", "--routers", "2", "--config-servers", "3")
    assert refused.returncode == 2
    assert "a sharded cluster needs mongos" in refused.stderr and "mongodb-org-mongos" in refused.stderr


@pytest.mark.store
@pytest.mark.skipif(not shutil.which("mongos"), reason="mongos is not installed, and no package registry has it")
def test_two_shards_behind_two_routers_take_in_revisions(cluster, tmp_path):
    started = cluster("up", "split", "--store", "mongodb", "--shards", "2", "--routers", "2", "--json")
    assert started.returncode == 0, started.stderr
    run = tmp_path / "run"
    words = ["--set", "documents=200", "--set", "duration=6s", "--only", "write", "--output", str(run)]
    written = loadframe("bench", "wikipedia", "--cluster", "split", *words)
    assert written.returncode == 0, written.stderr
    split = Cluster.load("split")
    assert len(split.addresses) == 2 and split.count("revisions") == 200
    figures = split.statistics()
    assert {name: figures[name]["documents"] > 0 for name in ("node-0", "node-1")} == {"node-0": True, "node-1": True}
    spreads = rate_samples_by_node(Run(run), Run(run).summary.measured[0], RATES["documents"])
    assert set(spreads) == set(split.addresses), "each router has its revisions"
