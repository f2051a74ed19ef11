"""An operation that is repeated until a condition on its answer holds, on a real node: how it is counted and judged."""

import json
import threading
import time

import httpx
import pytest

from loadframe.analyze.summary import summarize
from loadframe.load import check_operations, run_phase
from loadframe.record import RunWriter
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: w
collections: {{awaited: {{}}}}
operations:
  wait:
    {request}
    repeat: {repeat}
phases: [{{name: wait, operation: wait, clients: 1, requests: 1}}]
"""
COUNT = "count: {collection: awaited}"


def planned(node, folder, request, repeat):
    (folder / "w.yaml").write_text(WORKLOAD.format(request=request, repeat=repeat))
    phase = load_workload(str(folder / "w.yaml")).for_family("elasticsearch", 1).phase("wait")
    return phase.plan(seed=1, hosts=node.addresses, driver=node.store.driver, target=node.target())


def run(node, folder, request, repeat):
    """Run the one request; return its figures and the figures of its attempts."""
    with RunWriter(folder, "w") as writer:
        outcome = run_phase(planned(node, folder, request, repeat), writer.phase("wait", 0.0), lambda _: None)
        joined = writer.join()
        (judged,) = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, []).as_dict()["phases"]
    (part,) = outcome["parts"]
    return judged["operations"]["wait"], part


@pytest.fixture
def awaited(node):
    """Make a collection, and yield a way to index documents there one after the other from another thread."""
    node.create_collection("awaited", {"settings": {"number_of_replicas": 0}})
    url = f"http://{node.addresses[0]}/awaited/_doc?refresh=true"
    threads = []

    def later(documents, pause):
        def write():
            for _ in range(documents):
                time.sleep(pause)
                httpx.post(url, json={"n": 1})

        threads.append(threading.Thread(target=write))
        threads[-1].start()

    yield later
    for thread in threads:
        thread.join()
    node.drop_collection("awaited")


def test_it_is_one_request_from_the_first_sending_to_the_answer_that_is_waited_for(node, awaited, tmp_path):
    awaited(3, 0.15)
    waited, attempts = run(node, tmp_path, COUNT, "{until: {count: {at_least: 3}}, every: 50ms, within: 30s}")
    assert (waited["requests"], waited["successes"], waited["errors"]) == (1, 1, {})
    assert attempts["part"] == "attempt"
    assert attempts["requests"] == attempts["successes"] >= 4
    assert waited["response"]["p50"] > 0.4


def test_what_never_comes_is_a_timeout_that_says_what_was_last_answered(node, awaited, tmp_path):
    started = time.monotonic()
    waited, attempts = run(node, tmp_path, COUNT, "{until: {count: 7}, every: 100ms, within: 500ms}")
    assert 0.5 < time.monotonic() - started < 10
    assert (waited["successes"], waited["errors"]) == (0, {"timeout": 1})
    assert attempts["requests"] >= 3
    (answer,) = check_operations(planned(node, tmp_path, COUNT, "{until: {count: 7}, every: 100ms, within: 500ms}"))
    assert answer["message"].endswith('attempts "count" is 0, and not 7')
    assert "exchanges more" in answer["answer"]


def test_a_refusal_ends_it_at_once_unless_it_waits_for_any_success(node, awaited, tmp_path):
    request = "request: {method: GET, path: /not_there_yet/_count}"
    _, attempts = run(node, tmp_path, request, "{until: {count: 0}, every: 50ms, within: 10s}")
    assert attempts["requests"] == 1

    def create():
        time.sleep(0.4)
        node.create_collection("not_there_yet", {"settings": {"number_of_replicas": 0}})

    creating = threading.Thread(target=create)
    creating.start()
    try:
        waited, attempts = run(node, tmp_path / "second", request, "{every: 50ms, within: 30s}")
    finally:
        creating.join()
        node.drop_collection("not_there_yet")
    assert waited["errors"] == {}
    assert attempts["requests"] > 3
    assert attempts["successes"] == 1


def test_merges_that_are_over_are_waited_for(node, awaited, tmp_path):
    request = "request: {method: GET, path: /awaited/_stats/merge}"
    waited, attempts = run(node, tmp_path, request, "{until: {_all.total.merges.current: 0}, every: 50ms}")
    assert (waited["errors"], attempts["requests"]) == ({}, 1), json.dumps(waited)
