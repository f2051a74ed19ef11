"""How long it takes until a write is seen, apart from its own response, on a real node with a refresh each second."""

import pytest

from loadframe.analyze.summary import summarize
from loadframe.load import run_phase
from loadframe.record import RunWriter
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: w
collections: {{seen: {{}}}}
variables: {{n: {{sequential: {{from: 0}}, per: iteration}}}}
operations:
  write:
    request: {{method: PUT, path: "/seen/_doc/{refresh}-${{n}}", body: {{a: 1}}, parameters: {{refresh: {refresh}}}}}
  is_seen:
    search: {{collection: seen, body: {{query: {{ids: {{values: ["{refresh}-${{n}}"]}}}}}}}}
    assert: {{min_hits: 1}}
    visible: {{every: 10ms, within: {within}}}
phases: [{{name: p, journey: [write, is_seen], rate: 10/s, requests: 40}}]
"""


def recorded(node, folder, text):
    """Run the phase `p` of a workload; return its series and its summary."""
    folder.mkdir()
    (folder / "w.yaml").write_text(text)
    phase = load_workload(str(folder / "w.yaml")).for_family("elasticsearch", 1).phase("p")
    plan = phase.plan(seed=1, hosts=node.addresses, driver=node.store.driver, target=node.target())
    with RunWriter(folder, "w") as writer:
        outcome = run_phase(plan, writer.phase("p", 0.0), lambda _: None) | {"looks": phase.visibility_probes}
        joined = writer.join()
        (judged,) = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, []).phases
    return joined.series, judged


def run(node, folder, refresh, within="30s"):
    """Write 20 documents at random instants and look for them; return the figures of both operations."""
    series, judged = recorded(node, folder, WORKLOAD.format(refresh=refresh, within=within))
    looks = sum(row["retries"] for row in series.to_pylist() if row["operation"] == "is_seen")
    return judged.operations["write"], judged.operations["is_seen"], looks


@pytest.fixture
def collection(node):
    """Create a collection with a refresh every second; between refreshes, only a write can request one."""
    node.create_collection("seen", {"settings": {"number_of_replicas": 0, "refresh_interval": "1s"}})
    yield
    node.drop_collection("seen")


@pytest.mark.usefixtures("collection")
def test_a_pause_for_a_refresh_is_seen_as_what_it_is(node, tmp_path):
    plain, forced, waiting = (run(node, tmp_path / way, way) for way in ("false", "true", "wait_for"))
    for write, seen, _ in (plain, forced, waiting):
        assert (write.requests, write.successes, seen.requests, seen.successes) == (20, 20, 20, 20)
        assert seen.response.count == 20, "its own histogram"
        assert seen.resolution == 0.01
    # Without a refresh the write is answered long before it is seen, anywhere within the second until the next one.
    assert plain[1].response.p50 > plain[0].response.p50
    assert plain[1].response.p50 > forced[1].response.p50
    assert plain[1].response.p50 > waiting[1].response.p50
    # With wait_for the same wait is in the write's response, and the first look sees it.
    assert waiting[0].response.p50 > waiting[1].response.p50
    assert plain[2] > forced[2] == waiting[2] == 0, "looks that saw nothing"


@pytest.mark.usefixtures("collection")
def test_documents_not_visible_in_time_are_a_separate_error(node, tmp_path):
    node_settings = {"settings": {"number_of_replicas": 0, "refresh_interval": "-1"}}
    node.drop_collection("seen")
    node.create_collection("seen", node_settings)
    write, seen, looks = run(node, tmp_path / "never", "false", within="200ms")
    assert (write.successes, seen.requests, seen.successes) == (20, 20, 0)
    assert seen.errors == {"unseen": 20}
    assert seen.failure.count == 20
    assert looks >= 20


STREAM = """\
workload: w
collections: {{seen: {{}}}}
sources:
  ads:
    generate: {{generator: adbids, rate: 100, documents: 250}}
    events:
      kinds:
        bid: {{id: id, time: time}}
        win: {{id: bid_id, time: bid_time}}
        click: {{id: bid_id, time: bid_time}}
    flush: 100ms
operations:
  take_in:
    take_in: {{collection: seen, daily: {daily}}}
    visible: {{sample: 200ms, every: 50ms, within: {within}}}
phases: [{{name: p, operation: take_in, source: ads, until: exhausted}}]
"""


def taken_in(node, folder, daily="null", within="30s"):
    """Take 250 bids in, in 2.5 s, and look for one in each 200 ms; return the operation's figures and the source's."""
    _, judged = recorded(node, folder, STREAM.format(daily=daily, within=within))
    return judged.operations["take_in"], judged.sources["ads"]


@pytest.mark.usefixtures("collection")
def test_events_of_a_stream_are_seen_after_a_refresh_long_after_the_store_has_them(node, tmp_path):
    taken, source = taken_in(node, tmp_path / "w")
    visible, event, look = (taken.parts[part] for part in ("visible", "event", "look"))
    assert 10 <= source.sampled <= 14
    assert (source.seen, source.unseen) == (source.sampled, 0)
    assert (visible.response.count, taken.resolution) == (source.seen, 0.05)
    assert visible.response.p50 > event.response.p50, "a refresh each second is waited for"
    assert look.successes == look.requests > source.seen / 5, "one poll covers all pending events"


def test_events_are_looked_for_in_the_collections_of_all_days(node, tmp_path):
    try:
        _, source = taken_in(node, tmp_path / "w", daily="event")
        assert source.seen == source.sampled >= 10
    finally:
        node.drop_collection("seen-*")


@pytest.mark.usefixtures("collection")
def test_events_that_no_query_sees_in_time_are_counted(node, tmp_path):
    node.drop_collection("seen")
    node.create_collection("seen", {"settings": {"number_of_replicas": 0, "refresh_interval": "-1"}})
    taken, source = taken_in(node, tmp_path / "never", within="300ms")
    assert (source.seen, source.unseen) == (0, source.sampled)
    assert taken.parts["visible"].errors == {"unseen": source.sampled}
    assert source.indexed == source.accepted, "they are in the store"
