"""An interrupt at the end of a run with a crash: the run is not recorded as done without its crash."""

from types import SimpleNamespace

import pytest

from loadframe.base import interrupts
from loadframe.experiment.runner.document_counts import AcknowledgedDocuments
from loadframe.experiment.runner.listener import RunHook
from loadframe.experiment.runner.session import Session

OUTCOME = {"phase": "fill", "operations": [], "interrupted": False, "unreachable": []}


@pytest.mark.parametrize(("phases", "crashes"), [(1, 1), (2, 0)])
def test_the_node_is_killed_after_the_last_phase_in_spite_of_an_interrupt(monkeypatch, tmp_path, phases, crashes):
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
    session = Session.__new__(Session)
    session.cluster = SimpleNamespace(addresses=[])
    session._acknowledged, session._sources = (
        AcknowledgedDocuments(new_ids=True, blind_writes=False),
        SimpleNamespace(tell=lambda _: None),
    )
    monkeypatch.setattr(session, "_await_ready", lambda *_, **__: None)
    monkeypatch.setattr(session, "_phase", lambda *_, **__: OUTCOME)
    monkeypatch.setattr(session, "_differences", lambda *_: [])
    monkeypatch.setattr(interrupts, "pending", lambda: True)
    writer = SimpleNamespace(
        phase=lambda *_: tmp_path, elapsed=lambda: 0.0, folder=tmp_path, began=0.0, event=lambda *_, **__: None
    )
    made, outcomes = [], []

    class Crash(RunHook):
        def after(self):
            made.append("crash")

    events = SimpleNamespace(begun=None, ended=lambda _: None)
    session._measure([phase] * phases, writer, Crash(), outcomes, [], [], events, None)
    assert (len(made), len(outcomes)) == (crashes, 1)
