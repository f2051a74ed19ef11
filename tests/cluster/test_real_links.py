"""Real nodes in network namespaces: a cluster is partitioned and heals, and the record shows it."""

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from commands import loadframe
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, Shape
from loadframe.host.netns import NetnsHost
from loadframe.observe.process import ProcessSampler

OBSTACLE = NetnsHost().obstacle
SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="neither redis-server nor valkey-server is installed"),
    pytest.mark.skipif(OBSTACLE is not None, reason=f"no networks for nodes here: {OBSTACLE}"),
]


@pytest.fixture(scope="module")
def apart(module_state) -> Iterator[Cluster]:
    """A cluster of that name, which is kept for other commands."""
    with Cluster.start(ClusterSpec(name="apart", store="redis", nodes=2, host="netns")) as started:
        started.keep()
        yield started
        started.stop()


def linked(*words: str) -> dict:
    """Run the command that changes a link; return its one event."""
    done = loadframe("cluster", "link", "apart", *words, "--json")
    assert done.returncode == 0, done.stderr
    [event] = json.loads(done.stdout)["events"]
    return event


def test_each_node_has_an_address_and_all_have_one_port(apart):
    addresses = [address.split(":") for address in apart.addresses]
    assert len({address for address, _ in addresses}) == 2
    assert len({port for _, port in addresses}) == 1
    assert all(address.startswith("198.19.") for address, _ in addresses)
    assert apart.describe()["host"] == "netns"


def test_a_node_that_another_command_cuts_off_is_a_deviation_and_an_event_until_it_is_restored(apart):
    heard, own_events = [], []
    with apart.telling(heard.append):
        event = linked("node-1", "--cut")
        assert (event["kind"], event["nodes"]) == ("link cut", ["node-1"])
        assert "node-1 is cut off from the other nodes" in apart.deviations()
        with apart.telling(own_events.append):
            apart.restore("node-1")
    assert [event.kind for event in heard] == ["link restored", "link cut"]
    assert heard[1].monotonic < heard[0].monotonic, "each with the instant at which it was done"
    assert [event.kind for event in own_events] == ["link restored"]
    assert "node-1 is cut off from the other nodes" not in apart.deviations()


def test_a_shape_is_shown_and_described_with_its_units(apart):
    event = linked("node-0", "--loss", "0.1%", "--rate", "100mbit")
    assert (event["kind"], event["loss"], event["rate"], event["delay"]) == ("link shaped", 0.001, 12.5e6, 0.0)
    assert apart.describe()["links"] == {"node-0": "loss 0.1 %, rate 100 Mbit/s"}
    assert "link: loss 0.1 %, rate 100 Mbit/s" in loadframe("cluster", "status", "apart").stdout
    apart.shape("node-0")
    assert apart.describe()["links"] == {}


def test_traffic_of_a_nodes_link_is_in_its_telemetry(apart):
    sampler = ProcessSampler(lambda: {node.name: node.pid for node in apart.nodes if node.pid})
    list(sampler.sample(0.0))
    for _ in range(10):
        apart.statistics()
    rates = {(look.source, look.metric): look.value for look in sampler.sample(1.0)}
    for node in ("node-0", "node-1"):
        assert rates[f"node:{node}", "network.received"] > 100
        assert rates[f"node:{node}", "network.sent"] > 10_000, "ten answers to INFO are more"


def test_it_grows_beside_the_others(apart):
    before = {address.rpartition(".")[0] for address in apart.addresses}
    apart.grow(1)
    assert {address.rpartition(".")[0] for address in apart.addresses} == before
    assert apart.health().nodes == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--cut", "--restore"], "one undoes the other"), (["--rate", "100"], "'100' is not a bandwidth")],
)
def test_impossible_link_settings_are_refused(apart, words, said):
    done = loadframe("cluster", "link", "apart", "node-0", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_shape_that_the_spec_asks_for_holds_from_the_start(module_state):
    with Cluster.start(ClusterSpec(store="redis", host="netns", link=Shape(rate=1e6))) as slow:
        assert slow.describe()["links"] == {"node-0": "rate 8 Mbit/s"}
        [end] = [node.process.link.name for node in slow.nodes]
        assert "rate 8Mbit" in subprocess.check_output(["tc", "qdisc", "show", "dev", end], text=True)


def test_nodes_that_share_a_network_have_no_links(module_state):
    with Cluster.start(ClusterSpec(store="redis")) as plain, pytest.raises(BadInput, match="has no link"):
        plain.cut("node-0")
    with pytest.raises(BadInput, match="require a network per node"):
        ClusterSpec(link=Shape(rate=1e6))
