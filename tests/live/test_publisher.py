"""A command's messages to its feed, from progress events and writers."""

import pytest

from commands import until
from loadframe.live.feed import Following
from loadframe.live.publisher import Publisher
from loadframe.load import Progress
from loadframe.record import RunWriter, Subscriber

pytestmark = pytest.mark.usefixtures("state")

SUMMARY = {
    "status": "done",
    "verdict": {"valid": False, "reasons": [{"code": "late", "cause": "the generator was late"}]},
}


def progress(seconds, requests=100, errors=0):
    return Progress(seconds, requests * seconds, errors, 0, requests, 0, 0.003, None)


@pytest.fixture
def taken(tmp_path):
    """Record a command through a function that drives its publisher; return the records."""

    def taken(play):
        with Publisher("bench", "taxis", tmp_path / "r1") as publisher:
            until(publisher.path.exists)
            following = Following(publisher.path)
            play(publisher)
        records = []
        with following:
            until(lambda: records.extend(following.take()) or following.over)
        return records

    return taken


def of(records, kind):
    return [record for record in records if record["kind"] == kind]


def test_a_run_is_published_with_figures_events_samples_and_verdict(taken, tmp_path):
    def play(publisher):
        publisher.run(1, 3, "r1")
        with RunWriter(tmp_path, "r1") as writer:
            publisher.recording(writer)
            publisher.phase("look", 10.0)
            for seconds, errors in ((0, 0), (1, 2), (1, 2), (3, 10)):
                publisher.progress(progress(seconds, errors=errors))
            writer.event("node joined", 0.5, nodes=["node-1"])
            writer.telemetry(1.0, "node:node-0", "process.cpu", 0.25)
            writer.telemetry(1.0, "node:node-0", "process.resident", 1e9)
            writer.telemetry(1.0, "cluster", "data.moving", 4)
            writer.finish({"run": "r1"}, SUMMARY)

    records = taken(play)
    assert [record["n"] for record in records] == list(range(1, len(records) + 1))
    kinds = [record["kind"] for record in records]
    assert kinds == ["command", "part", "run", "phase", "load", "load", "event", "watched", "finished", "over"]
    assert [(load["second"], load["errors"], load["p99"]) for load in of(records, "load")] == [
        (1, 2, None),
        (3, 4, None),
    ]
    (watched,) = of(records, "watched")
    assert (watched["cpu"], watched["moving"]) == ({"node-0": 0.25}, 4)
    (finished,) = of(records, "finished")
    assert (finished["run"], finished["path"]) == ("r1", str(tmp_path / "r1"))
    assert (finished["status"], finished["valid"], finished["reasons"]) == ("done", False, ["the generator was late"])


def test_filling_phases_are_published_before_and_between_runs(taken, tmp_path):
    def play(publisher):
        for run in ("r1", "r2"):
            publisher.phase("fill", None)
            publisher.phase("merge", None)
            with RunWriter(tmp_path, run) as writer:
                publisher.recording(writer)
                publisher.phase("look", 1.0)

    records = taken(play)
    runs = [record.get("run", record.get("phase")) for record in records if record["kind"] in ("run", "phase")]
    assert runs == [None, "fill", "merge", "r1", "look", None, "fill", "merge", "r2", "look"]
    assert of(records, "finished") == [], "runs that were thrown away have no verdict"


def test_the_final_record_has_the_outcome_and_the_reports_path(taken, tmp_path):
    assert of(taken(lambda publisher: publisher.reported(tmp_path / "report.html")), "over") == [
        {"n": 2, "kind": "over", "how": "done", "why": None, "report": str(tmp_path / "report.html")}
    ]


def test_a_command_continues_if_its_feed_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "file"))
    with Publisher("bench", "taxis", tmp_path) as publisher:
        publisher.step("a node starts")
    assert not publisher.path.exists()


def test_a_stalled_subscriber_loses_the_oldest_records():
    subscriber = Subscriber(most=3)
    for number in range(5):
        subscriber.put(number)
    assert subscriber.take() == [2, 3, 4]
    assert subscriber.take() == []
