"""The end of a phase: an interrupt before the crash of a node, and documents that cannot be counted."""

from types import SimpleNamespace

import pytest

from loadframe.base import interrupts
from loadframe.base.errors import StoreFailed
from loadframe.experiment.runner.document_counts import AcknowledgedDocuments
from loadframe.experiment.runner.listener import Listener, RunHook
from loadframe.experiment.runner.session import Session

OUTCOME = {"phase": "fill", "operations": [], "interrupted": False, "unreachable": []}


class Crash(RunHook):
    def __init__(self, disturbs=False):
        self.made, self.disturbs = 0, disturbs

    def after(self):
        self.made += 1


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Measure a number of phases with a hook; return the number of outcomes."""
    phase = SimpleNamespace(
        name="fill",
        sources={},
        operations={},
        corpora={},
        visibility_probes={},
        stop={},
        prepares=False,
        finishes=False,
    )
    writer = SimpleNamespace(
        phase=lambda *_: tmp_path, elapsed=lambda: 0.0, folder=tmp_path, began=0.0, event=lambda *_, **__: None
    )
    events = SimpleNamespace(begun=None, ended=lambda _: None)

    def measure(phases, hook, differences=lambda *_: []):
        session = Session.__new__(Session)
        session.cluster, session.listener = SimpleNamespace(addresses=[]), Listener()
        session._acknowledged, session._sources = AcknowledgedDocuments(), SimpleNamespace(tell=lambda _: None)
        monkeypatch.setattr(session, "_await_ready", lambda _: None)
        monkeypatch.setattr(session, "_phase", lambda *_, **__: OUTCOME)
        monkeypatch.setattr(session, "_differences", differences)
        outcomes = []
        session._measure([phase] * phases, writer, hook, outcomes, [], [], events, None)
        return len(outcomes)

    return measure


@pytest.mark.parametrize(("phases", "crashes"), [(1, 1), (2, 0)])
def test_the_node_is_killed_after_the_last_phase_in_spite_of_an_interrupt(monkeypatch, measure, phases, crashes):
    monkeypatch.setattr(interrupts, "pending", lambda: True)
    hook = Crash()
    assert (measure(phases, hook), hook.made) == (1, crashes)


def test_a_run_that_kills_nodes_keeps_its_figures_if_the_store_cannot_count(measure):
    def lost(*_):
        raise StoreFailed("a shard is missing")

    assert measure(1, Crash(disturbs=True), lost) == 1
    with pytest.raises(StoreFailed):
        measure(1, Crash(), lost)
