"""Waiting until a cluster is ready for a phase, with a bound, and bad states that are allowed and declared."""

from dataclasses import dataclass, field, replace

import pytest

from loadframe.base.errors import StoreFailed
from loadframe.experiment.runner import preflight
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.preflight import wait_until_ready
from loadframe.store import Health
from loadframe.store.access import Access
from loadframe.store.base import Unreachable

GREEN = Health(ready=True, status="green", nodes=2, moving=0, missing=0)
YELLOW = Health(ready=False, status="yellow", nodes=2, moving=0, missing=1, declared=((1, 2),))


@dataclass
class RecordingListener(Listener):
    """A listener that records its steps."""

    steps: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def step(self, text):
        self.steps.append(text)

    def remark(self, text):
        self.remarks.append(text)


@dataclass
class States:
    """A cluster of two nodes that has one state after the other, and keeps the last."""

    states: list
    size: int = 2
    unsettled: str | None = None
    access: Access = field(default_factory=lambda: Access(cluster="trial"))

    def health(self):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(preflight, "_LOOK", 0.01)


def test_a_phase_waits_until_every_copy_is_in_service():
    told = RecordingListener()
    wait_until_ready(States([YELLOW, Unreachable("it does not answer"), YELLOW, GREEN]), "range", 30, told)
    waiting = "waiting up to 30 s for the cluster: the cluster is yellow, with 1 copy of data not in service"
    assert told.steps == [waiting]


def test_waits_time_out_with_the_missing_condition_and_a_remedy():
    with pytest.raises(StoreFailed, match=r"not ready within .*: the cluster is yellow") as caught:
        wait_until_ready(States([YELLOW]), "range", 0.05, RecordingListener())
    assert caught.value.where == "phase range"
    status = "; `loadframe cluster status trial` shows its nodes"
    accept = ", or accept the state with --allow-bad (allow_bad: true in an experiment)"
    assert caught.value.remedy == f"repair the cluster, or raise ready_within{accept}{status}"
    with pytest.raises(StoreFailed) as caught:
        wait_until_ready(States([YELLOW]), "range", 0.05, RecordingListener(), acceptable=False)
    assert caught.value.remedy == f"repair the cluster, or raise ready_within{status}"


def test_without_a_limit_a_run_starts_once_the_store_has_settled_or_after_a_while(monkeypatch):
    told = RecordingListener()
    settling = States([YELLOW, GREEN])
    wait_until_ready(settling, "range", None, told)
    assert settling.states == [GREEN]
    assert told.steps == [
        "waiting up to 10 s for the cluster: the cluster is yellow, with 1 copy of data not in service"
    ]
    monkeypatch.setattr(preflight, "SETTLING", 0.05)
    wait_until_ready(States([YELLOW]), "range", None, told)


def test_a_state_that_outlasted_the_wait_of_a_run_is_a_remark_and_does_not_delay_the_next_run(monkeypatch):
    monkeypatch.setattr(preflight, "SETTLING", 0.05)
    cluster, told = States([YELLOW]), RecordingListener()
    for _ in range(2):
        wait_until_ready(cluster, "range", None, told)
    state = "the cluster is yellow, with 1 copy of data not in service"
    assert told.remarks == [f"the load begins, although the cluster was not ready after 0 s: {state}"]
    assert len(told.steps) == 1
    # Another state, and one that the phase requires, are waited for.
    cluster.states = [replace(YELLOW, missing=2), GREEN]
    wait_until_ready(cluster, "range", None, told)
    assert cluster.states == [GREEN]
    cluster.unsettled = state
    cluster.states = [YELLOW, GREEN]
    wait_until_ready(cluster, "range", 30, told)
    assert (cluster.states, cluster.unsettled) == ([GREEN], None)


@pytest.mark.parametrize("state", [replace(YELLOW, moving=1), Unreachable("it does not answer")])
def test_a_state_that_can_change_is_waited_for_again(monkeypatch, state):
    monkeypatch.setattr(preflight, "SETTLING", 0.05)
    cluster, told = States([state]), RecordingListener()
    for _ in range(2):
        wait_until_ready(cluster, "range", None, told)
    assert len(told.steps) == len(told.remarks) == 2


def test_a_copy_that_no_node_could_hold_is_not_waited_for():
    told = RecordingListener()
    wait_until_ready(States([YELLOW], size=1), "range", 30, told)
    assert told.steps == []
