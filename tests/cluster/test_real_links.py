"""Real nodes with networks of their own: a cluster that is cut apart and comes together, and what is recorded of it."""

import json
import shutil
from collections.abc import Iterator

import pytest

from commands import loadframe
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.errors import BadInput
from loadframe.host.netns import NetnsHost
from loadframe.observe.process import ProcessSampler

OBSTACLE = NetnsHost().obstacle
SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="there is no redis-server and no valkey-server on this machine"),
    pytest.mark.skipif(OBSTACLE is not None, reason=f"no networks for nodes here: {OBSTACLE}"),
]


@pytest.fixture(scope="module")
def apart(module_state) -> Iterator[str]:
    """A cluster of that name."""
    assert loadframe("cluster", "up", "apart", "--store", "redis", "--nodes", "2", "--host", "netns").returncode == 0
    yield "apart"
    loadframe("cluster", "down", "apart", "--delete-data")


def status(name: str) -> dict:
    return json.loads(loadframe("cluster", "status", name, "--json").stdout)


def test_each_node_has_an_address_and_all_have_one_port(apart):
    addresses = [node["address"].split(":") for node in status(apart)["nodes"]]
    assert len({address for address, _ in addresses}) == 2
    assert len({port for _, port in addresses}) == 1
    assert all(address.startswith("198.19.") for address, _ in addresses)
    assert Cluster.load(apart).describe()["host"] == "netns"


def test_a_node_that_is_cut_off_is_a_deviation_until_it_is_restored(apart):
    done = loadframe("cluster", "link", apart, "node-1", "--cut", "--json")
    [event] = json.loads(done.stdout)["events"]
    assert (event["kind"], event["nodes"]) == ("link cut", ["node-1"])
    seen = status(apart)
    assert seen["state"] == "deviating"
    assert "node-1 is cut off from the others" in seen["deviations"]
    assert [node["link"] for node in seen["nodes"]] == [None, "cut"]
    done = loadframe("cluster", "link", apart, "node-1", "--restore")
    assert "link restored: node-1" in done.stderr
    assert [node["link"] for node in status(apart)["nodes"]] == [None, None]


def test_what_another_command_does_is_heard_of_by_a_run_that_goes_on(apart):
    heard, own = [], []
    cluster = Cluster.load(apart)
    with cluster.telling(heard.append):
        loadframe("cluster", "link", apart, "node-1", "--cut")
        with cluster.telling(own.append):
            cluster.restore("node-1")
    assert [event.kind for event in heard] == ["link restored", "link cut"]
    assert heard[1].monotonic < heard[0].monotonic, "each with the instant at which it was done"
    assert [event.kind for event in own] == ["link restored"]


def test_a_shape_is_shown_and_described_with_its_units(apart):
    done = loadframe("cluster", "link", apart, "node-0", "--loss", "0.1%", "--rate", "100mbit", "--json")
    [event] = json.loads(done.stdout)["events"]
    assert (event["kind"], event["loss"], event["rate"], event["delay"]) == ("link shaped", 0.001, 12.5e6, 0.0)
    assert Cluster.load(apart).describe()["links"] == {"node-0": "loss 0.1 %, rate 100 Mbit/s"}
    assert "link: loss 0.1 %, rate 100 Mbit/s" in loadframe("cluster", "status", apart).stdout
    loadframe("cluster", "link", apart, "node-0", "--restore")
    assert Cluster.load(apart).describe()["links"] == {}


def test_what_goes_over_a_nodes_link_is_in_its_telemetry(apart):
    cluster = Cluster.load(apart)
    sampler = ProcessSampler(lambda: {node.name: node.pid for node in cluster.nodes if node.pid})
    list(sampler.sample(0.0))
    for _ in range(10):
        cluster.statistics()
    rates = {(look.source, look.metric): look.value for look in sampler.sample(1.0)}
    for node in ("node-0", "node-1"):
        assert rates[f"node:{node}", "network.received"] > 100
        assert rates[f"node:{node}", "network.sent"] > 10_000, "ten answers to INFO are more"


def test_it_grows_beside_the_others_and_is_found_again_after_a_stop(apart):
    cluster = Cluster.load(apart)
    before = {address.rpartition(".")[0] for address in cluster.addresses}
    cluster.grow(1)
    assert {address.rpartition(".")[0] for address in cluster.addresses} == before
    assert cluster.health().nodes == 3
    cluster.stop()
    assert loadframe("cluster", "up", apart).returncode == 0
    assert status(apart)["state"] == "running"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cut", "--restore"], "one undoes the other"),
        ([], "nothing is asked of the link"),
        (["--loss", "120%"], "'120%' is no share"),
        (["--rate", "100"], "'100' is no bandwidth"),
    ],
)
def test_what_no_link_can_do_is_refused(apart, words, said):
    done = loadframe("cluster", "link", apart, "node-0", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_nodes_that_share_a_network_have_no_links(module_state):
    with Cluster.start(ClusterSpec(store="redis")) as plain, pytest.raises(BadInput, match="no link of its own"):
        plain.cut("node-0")
