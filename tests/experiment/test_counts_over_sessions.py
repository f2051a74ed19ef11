"""Acknowledged documents of an experiment: the session that fills a cluster and those of its runs share the counts."""

from types import SimpleNamespace

import pytest

from loadframe.experiment.kinds.base import Stage
from loadframe.experiment.runner.listener import Listener

EXPERIMENT = """\
experiment: e
store: {kind: opensearch}
workload: small.yaml
kind: scale
factors: {clients: [1, 2]}
measure: fill
"""


def outcome(documents):
    """Return the outcome of a load that wrote this number of documents."""
    return {"operations": [{"operation": "fill", "documents": documents, "warmup": {"documents": 0}}]}


@pytest.fixture
def stage(load, tmp_path, monkeypatch):
    """A stage on a cluster that holds as many documents as its list `held` says, and the phase `fill`."""
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    experiment, held = load(EXPERIMENT), []
    store = SimpleNamespace(driver="search", family="elasticsearch", count_lag=0.0)
    cluster = SimpleNamespace(
        store=store,
        held=held,
        count=lambda _: held.pop(0),
        has_collection=lambda _: False,
        create_collection=lambda *_: None,
    )
    return Stage(experiment, cluster, tmp_path, Listener()), held, experiment.kind.design(experiment).runs


def test_a_run_misses_documents_in_collections_that_another_session_created(stage):
    stage, held, (first, second) = stage
    filling = stage.session(first)
    filling.create_collections()
    (fill,) = (phase for phase in filling.workload.phases if phase.name == "fill")
    held += [990, 1990, 2990]
    run = stage.session(first)
    assert run._differences(fill, outcome(1000)) == ["things holds 990 documents, but 1,000 were acknowledged"]
    assert run._acknowledged.held == 990
    run = stage.session(second)
    assert run._differences(fill, outcome(1000)) == [], "a loss is reported once"
    stage.acknowledged.forget()
    assert run._acknowledged.held is None
    assert run._differences(fill, outcome(500)) == [], "nothing is known after a run whose writes were not counted"
