"""The observer polls once a second, even if a sampler fails or blocks."""

import threading
import time
from collections.abc import Iterator

import pytest

from loadframe.base.errors import LoadframeError
from loadframe.observe import Gap, HostSampler, Observer, ProcessSampler, Sample, StoreSampler
from loadframe.record import Run, RunWriter


class Counting:
    """Counts its polls; sees `host`, except in the polls with a number in `blind`."""

    def __init__(self, blind: range = range(0), waits: bool = False):
        self.name = "counting"
        self.waits = waits
        self.looks: list[float] = []
        self._blind = blind

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        self.looks.append(now)
        seen = len(self.looks) not in self._blind
        yield Sample("host", "looks", len(self.looks)) if seen else Gap("host", "fog")


def finished(writer: RunWriter) -> Run:
    return Run(writer.finish({"format": 1}, {}))


def rows(run: Run, source: str) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {}
    for row in run.telemetry.to_pylist():
        if row["source"] == source:
            figures.setdefault(row["metric"], []).append(row["value"])
    return figures


def test_it_looks_at_once_and_at_whole_seconds_of_the_run(tmp_path):
    sampler = Counting()
    with RunWriter(tmp_path, "r1") as writer, Observer([sampler], writer):
        time.sleep(2.3)
    first, *later = sampler.looks
    assert first < 0.2
    assert [round(look, 1) for look in later] == [1.0, 2.0]


def test_what_is_seen_stands_in_the_telemetry_on_the_runs_time_axis(tmp_path):
    sampler = Counting()
    with RunWriter(tmp_path, "r1") as writer:
        with Observer([sampler], writer):
            time.sleep(1.2)
        run = finished(writer)
    assert rows(run, "host") == {"looks": [1.0, 2.0]}
    times = [row["time"] for row in run.telemetry.to_pylist() if row["source"] == "host"]
    assert times == sampler.looks


def test_a_slow_answer_does_not_delay_others(tmp_path):
    sampler, answer = Counting(), threading.Event()

    def slow() -> dict[str, dict[str, float]]:
        answer.wait(1.8)
        return {"n1": {"documents": 5.0}}

    with RunWriter(tmp_path, "r1") as writer:
        with Observer([StoreSampler(slow), sampler], writer):
            time.sleep(2.3)
            answer.set()
        run = finished(writer)
    assert [round(look) for look in sampler.looks] == [0, 1, 2]
    assert rows(run, "node:n1")["documents"][0] == 5.0


def test_leaving_does_not_wait_for_an_answer_that_never_comes(tmp_path):
    answer = threading.Event()

    def stuck() -> dict[str, dict[str, float]]:
        answer.wait(30)
        return {"n1": {"documents": 5.0}}

    with RunWriter(tmp_path, "r1") as writer:
        with Observer([StoreSampler(stuck)], writer):
            pass
        assert writer.elapsed() < 5
        answer.set()
        time.sleep(0.2)
        run = finished(writer)
    assert rows(run, "node:n1") == {}, "what comes after leaving is not written"


@pytest.mark.slow
def test_a_gap_is_one_event_with_its_cause_and_another_when_it_is_over(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        with Observer([Counting(blind=range(2, 4))], writer):
            time.sleep(3.3)
        run = finished(writer)
    assert rows(run, "host") == {"looks": [1.0, 4.0]}
    gap, over = run.events
    assert gap.items() >= {"kind": "gap", "sampler": "counting", "source": "host", "cause": "fog"}.items()
    assert over.items() >= {"kind": "gap over", "sampler": "counting", "source": "host"}.items()
    assert (round(gap["time"]), round(over["time"])) == (1, 3)


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (LoadframeError("the cluster does not answer"), "the cluster does not answer"),
        (OSError("reset"), "OSError: reset"),
        (KeyError("nodes"), "KeyError: 'nodes'"),
    ],
)
def test_a_failing_poll_of_the_store_is_a_gap_and_no_crash(tmp_path, failure, cause):
    answers = iter([failure, {"n1": {"documents": 5.0}}])

    def statistics() -> dict[str, dict[str, float]]:
        answer = next(answers, {})
        if isinstance(answer, Exception):
            raise answer
        return answer

    with RunWriter(tmp_path, "r1") as writer:
        with Observer([StoreSampler(statistics)], writer):
            time.sleep(1.3)
        run = finished(writer)
    assert [event["kind"] for event in run.events] == ["gap", "gap over"]
    assert cause in run.events[0]["cause"]
    assert rows(run, "node:n1") == {"documents": [5.0]}


def test_disk_failures_are_raised_when_leaving(tmp_path):
    class Full(RunWriter):
        def telemetry(self, *sample: object) -> None:
            raise LoadframeError("the run cannot be recorded: no room")

    with (
        pytest.raises(LoadframeError, match="no room"),
        Full(tmp_path, "r1") as writer,
        Observer([Counting()], writer),
    ):
        time.sleep(0.2)


@pytest.mark.slow
def test_looking_at_three_nodes_costs_less_than_a_hundredth_of_a_core(tmp_path, spawn):
    pids = {f"n{number}": spawn("import time; time.sleep(60)").pid for number in range(3)}
    samplers = [ProcessSampler(lambda: pids), HostSampler(), StoreSampler(dict)]
    with RunWriter(tmp_path, "r1") as writer:
        with Observer(samplers, writer):
            time.sleep(4.3)
        run = finished(writer)
    costs = rows(run, "observer:system")["cpu"]
    assert len(costs) == 4
    # The least of them: on a busy machine caches are cold, which is not this code's cost.
    assert 0 < min(costs) < 0.01
    seen = {row["source"] for row in run.telemetry.to_pylist()}
    assert seen == {"node:n0", "node:n1", "node:n2", "host", "observer:system", "observer:store"}
