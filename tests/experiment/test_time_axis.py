"""All times in a run folder share one axis with the start of the run as origin."""

from datetime import datetime

import pytest

from answering import Answering
from loadframe.cluster import Cluster
from loadframe.experiment.runner.listener import Labels, Listener
from loadframe.experiment.runner.session import Session
from loadframe.load import Generator, PhaseFailed, run_phase
from loadframe.record import Run
from loadframe.workload import load_workload

WORKLOAD = """\
workload: two
corpora: {trips: {generate: nyc_taxi_trip, documents: 100000}}
operations:
  one: {http: {method: GET, path: /one}}
  two: {http: {method: GET, path: /two}}
phases:
  - {name: first, operation: one, clients: 1, requests: 1}
  - {name: second, operation: two, rate: 20/s, warmup: 500ms, duration: 500ms}
"""


@pytest.fixture
def session(tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    with Answering(delay=0.02) as server, Cluster.attach([server.address], "http") as cluster:
        workload = load_workload(str(tmp_path / "w.yaml")).for_family("http", 1)
        yield Session(cluster, workload, seed=1, generator=Generator(), listener=Listener()), server


def test_a_phase_begins_when_its_load_does_in_every_record(session, tmp_path):
    session, server = session
    run = Run(session.record(tmp_path, "run", session.workload.phases, Labels()))
    zero = datetime.fromisoformat(run.raw_manifest["started"]).timestamp()
    answered = server.end()
    begun = {event["phase"]: event["time"] for event in run.events if event["kind"] == "phase started"}
    series, telemetry = run.series.to_pylist(), run.telemetry.to_pylist()
    watched = {row["time"] for row in telemetry if row["source"] == "generator:0"}
    for phase in run.raw_summary["phases"]:
        name, start = phase["name"], phase["start"]
        # The wall clock's instant is taken apart from the monotonic one's.
        assert phase["clock"]["started"] - zero == pytest.approx(start, abs=2e-3)
        assert begun[name] == pytest.approx(start, abs=1e-6)
        assert min(row["time"] - row["second"] for row in series if row["phase"] == name) == pytest.approx(start)
        assert min(abs(time - start) for time in watched) < 1e-6
        tag = next(tag for tag in run.histograms.tags() if tag.startswith(f"{name}/") and "/response" in tag)
        assert run.histograms.seconds(tag)[0][0] == pytest.approx(start, abs=1e-3)
    # The server's own time of the request: the only request was due when the phase began.
    first = run.raw_summary["phases"][0]
    took = first["operations"]["one"]["response"]["max"]
    assert 0 < answered["/one"] - (zero + first["start"]) < took + 5e-3


def test_measurements_before_the_generators_death_are_kept_and_marked(session, tmp_path, monkeypatch):
    session, _ = session

    def dying(plan, *arguments, **options):
        outcome = run_phase(plan, *arguments, **options)
        if plan["phase"] == "second":
            raise PhaseFailed("a client panicked", outcome)
        return outcome

    monkeypatch.setattr("loadframe.experiment.runner.session.run_phase", dying)
    with pytest.raises(PhaseFailed, match="a client panicked"):
        session.record(tmp_path, "run", session.workload.phases, Labels())
    summary = Run(tmp_path / "run").raw_summary
    assert (summary["status"], summary["fault"]) == ("failed", "generator")
    assert "a client panicked" in summary["failure"]
    assert [phase["name"] for phase in summary["phases"]] == ["first", "second"]
    assert summary["phases"][1]["operations"]["two"]["requests"] > 0
