"""Every library workload on a real node, at small scale: filling, and the assertions of each step."""

import json

import pytest

from every_step import failed_steps
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Session
from loadframe.load import Generator, check_operations
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

#: Parameters that make each workload small enough for a test.
SMALL = {
    "geonames": {"documents": 2000, "terms": 50},
    "mri": {"documents": 1000},
    "wikipedia": {"documents": 300},
    "nyc_taxis": {"documents": 2000},
    "ycsb": {"records": 200},
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_step_is_answered_well(node, tmp_path, name):
    workload = load_workload(name, SMALL[name]).for_family("elasticsearch", 1)
    assert failed_steps(node, workload, tmp_path) == []


@pytest.mark.parametrize(
    ("level", "durability", "active"),
    [
        ("unacknowledged", "async", "0"),
        ("acknowledged", "async", "1"),
        ("journaled", "request", "1"),
        ("fsynced", "request", "1"),
        ("majority", "request", "all"),
    ],
)
def test_a_level_of_acknowledgement_is_a_setting_of_the_index(node, tmp_path, level, durability, active):
    workload = load_workload("wikipedia", {"documents": 3, "acknowledgement": level}).for_family("elasticsearch", 1)
    session = Session(node, workload, seed=1, generator=Generator(), listener=Listener())
    session.create_collections()
    session.prepare([workload.phase("level")], tmp_path)
    settings = node.store.request(node.addresses, "GET", "/revisions/_settings")["revisions"]["settings"]["index"]
    assert settings["translog"]["durability"] == durability
    assert settings["write"]["wait_for_active_shards"] == active


def test_each_page_can_have_a_collection_of_its_own(node, tmp_path):
    workload = load_workload("wikipedia", {"documents": 300, "layout": "page"}).for_family("elasticsearch", 1)
    session = Session(node, workload, seed=1, generator=Generator(), listener=Listener())
    session.create_collections()
    session.prepare([workload.phase(name) for name in ("level", "write", "refresh")], tmp_path)
    sizes = {name: node.count(name) for name in node.store.request(node.addresses, "GET", "/revisions-*/_settings")}
    assert len(sizes) > 1
    assert sum(sizes.values()) == 300
    phase = workload.phase("history")
    (answer,) = check_operations(
        phase.plan(seed=1, hosts=node.addresses, driver=node.store.driver, target=node.target())
    )
    assert answer["error"] is None


def test_a_real_dump_takes_the_generators_place(node, tmp_path):
    dump = tmp_path / "dump.xml"
    revisions = "".join(
        f"<revision><id>{n}</id><timestamp>2001-01-{n:02}T00:00:00Z</timestamp>"
        f"<contributor><ip>192.0.2.{n}</ip></contributor><text>text &amp; {n}</text></revision>"
        for n in range(1, 21)
    )
    dump.write_text(f"<mediawiki><page><title>One</title><id>5</id>{revisions}</page></mediawiki>")
    workload = load_workload("wikipedia", {"file": str(dump), "format": "mediawiki"}).for_family("elasticsearch", 1)
    session = Session(node, workload, seed=1, generator=Generator(), listener=Listener())
    session.create_collections()
    session.prepare([workload.phase(name) for name in ("level", "write", "refresh")], tmp_path)
    assert node.count("revisions") == 20
    phase = workload.phase("history")
    (answer,) = check_operations(
        phase.plan(seed=1, hosts=node.addresses, driver=node.store.driver, target=node.target())
    )
    assert answer["error"] is None
    answered = json.loads(answer["answer"].split("\n\n", 1)[1])
    assert answered["hits"]["hits"][0]["_source"]["timestamp"] == "2001-01-20T00:00:00Z"
