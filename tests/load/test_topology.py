"""A load that follows its cluster: targets as nodes join and leave, and their names in the record."""

import json
import time
from collections import Counter

import pytest

from answering import Answering
from loadframe.base.errors import LoadframeError
from loadframe.load import run_phase
from loadframe.record import RunWriter

pytestmark = pytest.mark.alone


def plan(hosts, **target):
    return {
        "seed": 1,
        "phase": "p",
        "target": {"driver": "search", "hosts": hosts, **target},
        "operations": {"a": {"request": {"method": "GET", "path": "/"}}},
        "streams": [
            {"name": "s", "mix": [["a", 1]], "pacing": {"open": {"rate": 300}}, "stop": {"duration": 4}},
        ],
    }


def test_a_node_that_joins_is_asked_and_recorded_by_its_name(tmp_path):
    with Answering() as first, Answering() as second, RunWriter(tmp_path, "run") as writer:
        began = time.monotonic()

        def hosts():
            return [first.address, second.address] if time.monotonic() - began > 1 else [first.address]

        target = plan([first.address], spread="round_robin")
        outcome = run_phase(target, writer.phase("p", 0.0, [first.address]), lambda _: None, hosts)
        telemetry = writer.join().telemetry.to_pylist()
    assert outcome["hosts"] == [first.address, second.address]
    assert outcome["operations"][0]["successes"] == 1200
    served = {}
    for row in telemetry:
        if row["source"].startswith("target:"):
            served.setdefault(row["source"], Counter())[row["time"]] += row["value"]
    assert set(served) == {f"target:{first.address}", f"target:{second.address}"}
    joined = served[f"target:{second.address}"]
    assert joined[0.0] < 30
    assert joined[3.0] == pytest.approx(150, abs=5)


def test_of_several_targets_the_measured_one_follows_its_cluster(tmp_path):
    """How long it takes decides nothing: the load ends once the node has been there for some of its seconds."""
    seconds: list[int] = []
    with Answering() as first, Answering() as second, Answering() as app, RunWriter(tmp_path, "run") as writer:
        made = plan([first.address, app.address])
        store = {"driver": "search", "hosts": [first.address], "spread": "round_robin"}
        other = {"driver": "search", "hosts": [app.address]}
        made["target"] |= {"driver": "several", "targets": {"store": store, "app": other}}
        made["operations"]["b"] = {"target": "app", **made["operations"]["a"]}
        made["streams"][0] |= {
            "mix": [["a", 1], ["b", 1]],
            "pacing": {"open": {"rate": 100}},
            "stop": {"duration": 120},
        }

        def tell(progress):
            seconds.append(progress.seconds)
            if progress.seconds > 5:
                raise KeyboardInterrupt

        def hosts():
            return [first.address, second.address] if seconds[-1] > 1 else [first.address]

        phase = writer.phase("p", 0.0, [first.address, app.address])
        outcome = run_phase(made, phase, tell, hosts)
        telemetry = writer.join().telemetry.to_pylist()
    assert sorted(outcome["hosts"]) == sorted([first.address, second.address, app.address])
    served = Counter()
    for row in telemetry:
        served[row["source"]] += row["value"] if row["metric"] == "requests" else 0
    asked = {figures["operation"]: figures["successes"] for figures in outcome["operations"]}
    assert served[f"target:{app.address}"] == asked["b"] > 0
    assert served[f"target:{first.address}"] + served[f"target:{second.address}"] == asked["a"]
    assert served[f"target:{second.address}"] > 0
    assert not [figures for figures in outcome["operations"] if figures["errors"]]


def test_hosts_that_cannot_be_followed_end_the_phase(tmp_path):
    with (
        Answering() as node,
        pytest.raises(LoadframeError, match=r"cannot send load to the changed cluster.*no-such-host.invalid"),
    ):
        run_phase(plan([node.address]), tmp_path, lambda _: None, lambda: [node.address, "no-such-host.invalid:9200"])


def test_secrets_are_not_in_the_engines_output(tmp_path):
    with Answering() as node:
        target = plan([node.address], auth={"basic": {"user": "ann", "password": "hush"}})
        target["streams"][0]["stop"] = {"requests": 10}
        outcome = run_phase(target, tmp_path, lambda _: None)
    assert outcome["operations"][0]["successes"] == 10
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert not any("hush" in text or "YW5uOmh1c2g=" in text for text in [*written, json.dumps(outcome)])
