"""The director of a run on a cluster of toys: steps in their order, control runs without them, ends in the middle."""

import json
import threading
import time

import pytest

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.experiment.file.elastic import Objective, PolicyEntry, Step
from loadframe.experiment.runner.director import BoundedPolicy, Director, TriggeredStep
from loadframe.experiment.runner.triggers import SloBroken, trigger_of
from loadframe.load import Progress
from loadframe.record import RunWriter


@pytest.fixture
def cluster(toy):
    with Cluster.start(ClusterSpec("toy", nodes=2)) as cluster:
        yield cluster


@pytest.fixture
def directed(cluster, tmp_path):
    """Run a director until `until` accepts its log; return its events, its deviations and `held()`."""

    def directed(plan, until, *, control=False, holds=False, seconds=20.0):
        with RunWriter(tmp_path, "run") as writer:
            director = Director(cluster, plan, lambda text: None, control=control, holds=holds)
            director.begin(writer)
            director.phase(0.0, 0.0)
            told = writer.scratch.parent / "events.jsonl"
            end = time.monotonic() + seconds
            number = 0
            while not until(told.read_text()) and time.monotonic() < end:
                number += 1
                director.progress(Progress(number, 100 * number, 0, 0, 100, 0, 0.01, 0.02))
                time.sleep(0.05)
            assert until(told.read_text())
            deviations = director.end()
            held = director.held()
            return [json.loads(line) for line in told.read_text().splitlines()], deviations, held

    return directed


def steps(*texts):
    made = [Step.model_validate(text) for text in texts]
    return [TriggeredStep(step, trigger_of(step, None, 0.0)) for step in made]


def kinds(events):
    return [event["kind"] for event in events]


def test_steps_are_taken_one_after_the_other(directed, cluster):
    plan = steps({"at": 0.2, "add": 1}, {"balanced": 0.1, "kill": "node-1"})
    events, deviations, _ = directed(plan, lambda text: text.count('"change over"') == 2)
    assert kinds(events) == [
        "trigger fired",
        "change started",
        "balancing",
        "change over",
        "trigger fired",
        "change started",
        "change over",
    ]
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    assert events[0]["time"] >= 0.2
    assert events[4]["time"] >= events[3]["time"] + 0.1
    assert deviations == []
    assert cluster.size == 3


def test_settings_are_changed_and_links_cut_as_the_steps_say(directed, cluster, monkeypatch):
    done = []
    monkeypatch.setattr(
        cluster.store, "configure", lambda addresses, settings: done.append(dict(settings)), raising=False
    )
    monkeypatch.setattr(cluster, "cut", lambda name: done.append(f"cut {name}"))
    monkeypatch.setattr(cluster, "restore", lambda name: done.append(f"restore {name}"))
    # Steps due at the same time run at the same time; only a step that waits for another one follows it.
    cut, restore = {"balanced": 0.1, "cut": "node-1"}, {"balanced": 0.1, "restore": "node-1"}
    plan = steps({"at": 0.1, "set": {"pace": 3}}, cut, restore)
    events, deviations, _ = directed(plan, lambda text: text.count('"change over"') == 3)
    assert done == [{"pace": 3}, "cut node-1", "restore node-1"]
    assert [event["change"] for event in events if event["kind"] == "change started"] == [
        "set pace 3",
        "cut node-1",
        "restore node-1",
    ]
    assert deviations == []


def test_a_setting_that_takes_a_restart_makes_the_step_fail_with_its_reason(directed):
    events, deviations, _ = directed(steps({"at": 0.1, "set": {"pace": 3}}), lambda text: "change failed" in text)
    assert "change failed" in kinds(events)
    assert "cannot be changed while it runs" in deviations[0]


def test_a_control_run_only_records_the_times_of_its_steps(directed, cluster):
    events, deviations, held = directed(
        steps({"at": 0.1, "add": 1}), lambda text: "trigger fired" in text, control=True, holds=True
    )
    assert kinds(events) == ["trigger fired", "clients held"]
    assert events[0]["control"]
    assert (deviations, held, cluster.size) == ([], True, 2)


def test_triggers_that_never_fire_are_reported_after_their_time(directed):
    plan = steps({"overloaded": True, "within": 0.3, "add": 1})
    events, deviations, held = directed(plan, lambda text: "never fired" in text, holds=True)
    assert kinds(events) == ["trigger never fired"]
    assert not held
    (words,) = deviations
    assert "step 1 was not taken" in words
    assert "within 300 ms" in words


def test_triggers_that_wait_at_the_end_are_reported(directed):
    _, deviations, _ = directed(steps({"at": 0.0, "kill": "node-1"}, {"at": 99.0, "add": 1}), lambda t: "over" in t)
    assert deviations == ["step 2 was not taken: its trigger, at 1 min 39 s, did not fire before the run was over"]


def test_a_second_trigger_on_the_load_needs_seconds_after_the_first(directed, monkeypatch):
    moments = []

    def fires(self, moment):
        moments.append((moment.since, len(moment.metrics.seconds())))
        return "slow" if len(moment.metrics.seconds()) >= moment.since + 3 else None

    monkeypatch.setattr(SloBroken, "fires", fires)
    slow = {"slo_broken": 3, "set": {"pace": 3}}
    plan = [
        TriggeredStep(step, trigger_of(step, Objective(p99=0.1), 0.0))
        for step in map(Step.model_validate, ({"at": 0.0, "set": {"pace": 3}}, slow, slow))
    ]
    directed(plan, lambda text: text.count("trigger fired") == 3)
    used = [since for since, _ in moments]
    assert used[0] == 0
    assert used[-1] >= 3
    assert moments[-1][1] >= used[-1] + 3


def test_a_failed_change_gives_the_reason(directed):
    events, deviations, _ = directed(steps({"at": 0.0, "kill": "nod-1"}), lambda text: "failed" in text)
    assert deviations == ["step 1, kill nod-1, failed: unknown node 'nod-1' of the cluster"]
    assert events[-1]["cause"] == "unknown node 'nod-1' of the cluster"


def test_unfinished_changes_are_cancelled_at_the_end_of_the_run(directed):
    began = time.monotonic()
    events, deviations, _ = directed(steps({"at": 0.0, "add": 1}), lambda text: '"balancing"' in text)
    assert kinds(events)[-1] == "change broken off"
    assert deviations == []
    assert time.monotonic() - began < 30


def test_a_trigger_that_fires_while_the_run_ends_starts_no_node(cluster, tmp_path):
    looks, ended = threading.Event(), threading.Event()

    class AtTheEnd:
        description = "at the end"

        def fires(self, moment):
            looks.set()
            return "the end" if ended.wait(30) else None

    with RunWriter(tmp_path, "run") as writer:
        plan = [TriggeredStep(Step.model_validate({"at": 0.0, "add": 1}), AtTheEnd())]
        director = Director(cluster, plan, lambda text: None, control=False, holds=False)
        # `end` sets this first, so the trigger fires between the end of the run and the end of the watching thread.
        director._over.set = lambda over=director._over: (type(over).set(over), ended.set())[0]
        director.begin(writer)
        director.phase(0.0, 0.0)
        assert looks.wait(30)
        director.end()
        told = [json.loads(line) for line in (writer.scratch.parent / "events.jsonl").read_text().splitlines()]
    assert kinds(told) == ["trigger fired", "change broken off"]
    assert [node.name for node in cluster.nodes] == ["node-0", "node-1"]


def test_a_policy_decides_within_its_bounds_and_one_change_at_a_time(directed, cluster):
    entry = PolicyEntry.model_validate({"target": 0.5, "least": 1, "most": 3, "every": 0.2, "cooldown": 0.2})
    events, deviations, _ = directed(BoundedPolicy(entry, lambda seen: 9), lambda text: '"change over"' in text)
    decided = [event for event in events if event["kind"] == "policy decided"]
    assert [event["nodes"] for event in decided] == [3]
    assert (deviations, cluster.size) == ([], 3)


def test_a_policy_that_breaks_fails_the_run(directed, cluster, tmp_path):
    def broken(seen):
        raise ValueError("no such level")

    entry = PolicyEntry(python="mine.py:decide", most=3, every=0.1)
    with RunWriter(tmp_path, "run") as writer:
        director = Director(cluster, BoundedPolicy(entry, broken), lambda text: None, control=False, holds=False)
        director.begin(writer)
        director.phase(0.0, 0.0)
        end = time.monotonic() + 20
        number = 0
        while director.failure() is None and time.monotonic() < end:
            number += 1
            director.progress(Progress(number, 100 * number, 0, 0, 100, 0, 0.01, 0.02))
            time.sleep(0.05)
        director.end()
    failure = director.failure()
    assert failure is not None
    assert "the policy failed: ValueError: no such level" in failure.what
    assert "test_director.py, line" in str(failure.remedy)


def test_a_trigger_that_breaks_fails_the_run(cluster, tmp_path, monkeypatch):
    plan = steps({"at": 0.0, "add": 1})
    monkeypatch.setattr(type(plan[0].trigger), "fires", lambda self, moment: 1 / 0)
    with RunWriter(tmp_path, "run") as writer:
        director = Director(cluster, plan, lambda text: None, control=False, holds=False)
        director.begin(writer)
        director.phase(0.0, 0.0)
        end = time.monotonic() + 20
        while director.failure() is None and time.monotonic() < end:
            time.sleep(0.02)
        director.end()
    assert "ZeroDivisionError" in str(director.failure())
