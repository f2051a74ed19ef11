"""The operation that looks after the indices of a stream, in the workload language and in a plan."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.runner.preflight import check_load
from loadframe.load import Generator
from loadframe.workload import load_workload

WORKLOAD = """\
workload: streamed
sources: {{ads: {{stdin: true, events: {{kinds: {{bid: {{id: id, time: time}}}}}}}}}}
operations:
  take_in: {{take_in: {{collection: ads, daily: event}}}}
  manage: {{manage_indices: {form}}}
phases:
  - name: ingest
    duration: 1s
    streams:
      - {{operation: take_in, source: ads}}
      - {{operation: manage, clients: 1, think_time: 30s}}
"""


@pytest.fixture
def load(tmp_path):
    def from_form(form):
        path = tmp_path / "w.yaml"
        path.write_text(WORKLOAD.format(form=form))
        return load_workload(str(path), {})

    return from_form


def test_sizes_and_durations_are_numbers_in_the_plan(load):
    form = "{collection: ads, times: [bid.time], roll_over: {size: 1g, age: 7d}, shrink: {after: 1h}, keep: 30d}"
    (phase,) = load(form).for_family("elasticsearch", 1).phases
    said = phase.operations["manage"]["manage_indices"]
    assert said["roll_over"] == {"size": 1 << 30, "age": 604_800.0}
    assert (said["shrink"], said["keep"]) == ({"after": 3600.0}, 2_592_000.0)


@pytest.mark.parametrize(
    ("form", "what"),
    [
        ("{collection: ads, times: [bid.time]}", "manage_indices requires an action"),
        ("{collection: ads, times: [bid.time], roll_over: {}}", "roll_over requires a limit"),
        ("{collection: ads, times: [], keep: 1d}", "at least 1"),
        ("{collection: adds, times: [bid.time], keep: 1d}", "no operation ingests into daily collections of 'adds'"),
    ],
)
def test_invalid_values_are_refused(load, form, what):
    with pytest.raises(BadInput, match=what) as refused:
        load(form)
    assert "w.yaml:5" in str(refused.value)


def test_several_ranks_cannot_roll_over(load, monkeypatch):
    (phase,) = (
        load("{collection: ads, times: [bid.time], roll_over: {documents: 5}}").for_family("elasticsearch", 1).phases
    )
    check_load([phase], "search", {}, Generator(1), 1)
    monkeypatch.setattr(Generator, "members", lambda self: range(2))
    with pytest.raises(BadInput, match="2 ranks cannot agree when to roll over"):
        check_load([phase], "search", {}, Generator(1), 1)


def test_several_ranks_cannot_delete_old_days(tmp_path, monkeypatch):
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD.format(form="{collection: ads, keep: 1d}").replace("manage_indices", "delete_days"))
    (phase,) = load_workload(str(path), {}).for_family("mongodb", 1).phases
    check_load([phase], "mongodb", {}, Generator(1), 1)
    monkeypatch.setattr(Generator, "members", lambda self: range(2))
    with pytest.raises(BadInput, match="2 ranks cannot agree which days to delete"):
        check_load([phase], "mongodb", {}, Generator(1), 1)


@pytest.mark.slow
def test_days_are_deleted_of_what_events_are_taken_into(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD.format(form="{collection: adds}").replace("manage_indices", "delete_days"))
    with pytest.raises(BadInput, match="no operation ingests into daily collections of 'adds'"):
        load_workload(str(path), {})
