"""`--metrics` and `--otlp` of commands, with a real store and two ranks."""

import json
import re
import socket
from pathlib import Path

import httpx
import pytest

from commands import LOADFRAME, Running, loadframe, open_folder, until
from loadframe.live.metrics import BOUNDS
from loadframe.record import Run
from measured import labels, receiver, values
from own_servers import REDIS

BENCH = ("bench", "ycsb/b", "--store", "redis", "--seed", "1")


@pytest.fixture
def folder(monkeypatch):
    with open_folder("metrics") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        yield folder


def address(command):
    """Return the address that the command prints."""
    command.wait_for("metrics: http://", "/metrics")
    return re.search(r"metrics: (http://\S+)", command.stderr)[1]


@pytest.mark.store
@pytest.mark.skipif(REDIS is None, reason="requires redis-server")
def test_a_command_on_two_ranks_serves_metrics_and_pushes_the_recorded_totals(folder):
    with receiver() as (url, pushes):
        words = ("--ranks", 2, "--duration", "3s", "--output", "kept", "--metrics", "0", "--otlp", url)
        with Running(*BENCH, *words, folder=folder) as command:
            scraped = address(command)
            until(lambda: "loadframe_command_info{" in httpx.get(scraped).text)
            until(lambda: re.search('phase="b".*segment="measured"', httpx.get(scraped).text))
            assert command.process.wait(240) == 0, command.stderr
        with pytest.raises(httpx.ConnectError):
            httpx.get(scraped)
    pushed = pushes[-1][2]
    run = Run(folder / "kept")
    for phase in run.summary.phases:
        for name, operation in phase.operations.items():
            points = [
                point
                for point in pushed["loadframe.requests"].sum.data_points
                if (labels(point)["phase"], labels(point)["operation"]) == (phase.name, name)
                and labels(point)["segment"] == "measured"
            ]
            assert sum(point.as_int for point in points) == operation.requests
            assert sum(point.as_int for point in points if labels(point)["outcome"] == "ok") == operation.successes
    events = {labels(point)["event"] for point in pushed["loadframe.events"].sum.data_points}
    assert {"phase started", "phase ended"} <= events
    (runs,) = pushed["loadframe.runs"].sum.data_points
    assert (labels(runs)["status"], labels(runs)["valid"]) == ("done", str(run.summary.verdict.valid).lower())
    times = [
        point
        for point in pushed["loadframe.response_time"].histogram.data_points
        if (labels(point)["phase"], labels(point)["operation"], labels(point)["segment"]) == ("b", "read", "measured")
    ]
    recorded = next(phase for phase in run.summary.phases if phase.name == "b").operations["read"].response.p99
    assert bucket_of(times[0], 0.99) == next(place for place, bound in enumerate(BOUNDS) if recorded <= bound)


def bucket_of(point, quantile):
    """Return the place of the bucket that contains a quantile."""
    below = 0
    for place, count in enumerate(point.bucket_counts):
        below += count
        if below >= quantile * point.count:
            return place
    raise AssertionError("a quantile lies in a bucket")


def test_a_port_in_use_is_bad_input(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = loadframe(*BENCH, "--output", "kept", "--metrics", port)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: cannot serve metrics: Address already in use" in done.stderr
    assert "port 0 selects a free port" in done.stderr
    assert not Path("kept").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--metrics", "nowhere"), "invalid address 'nowhere' of --metrics"),
        (("--metrics", "70000"), "invalid address '70000' of --metrics"),
        (("--metrics", "9" * 5000), "invalid address '999"),
        (("--otlp", "127.0.0.1:4318"), "invalid address '127.0.0.1:4318' of --otlp"),
        (("--trace", "1%"), "--trace requires --otlp"),
        (("--trace", "0%", "--otlp", "http://h:1"), "--trace 0% samples no requests"),
        (("--trace", "1/s", "--otlp", "http://h:1"), "'1/s' is not a share"),
        (("--trace", "1%", "--otlp", "http://h:1/own"), "cannot derive the address for spans"),
    ],
)
@pytest.mark.parametrize("command", [BENCH, ("run", "nodes.yaml")])
def test_wrong_addresses_are_bad_input(folder, command, words, what):
    done = loadframe(*command, *words)
    assert done.returncode == 2
    assert what in done.stderr


def test_an_impossible_host_is_refused(folder):
    done = loadframe(*BENCH, "--metrics", "a..b:1")
    assert done.returncode == 2
    assert "a..b:1: cannot serve metrics" in done.stderr


@pytest.mark.slow
def test_traces_of_a_store_without_http_are_refused_before_it_starts(folder):
    done = loadframe(*BENCH, "--output", "kept", "--trace", "1%", "--otlp", "http://127.0.0.1:4318")
    assert done.returncode == 2
    assert done.stderr.count("traces require requests over HTTP") == 1
    assert "remove --trace" in done.stderr
    assert not Path("kept").exists()


WORKLOAD = """\
workload: looks
collections: {trips: {elasticsearch: {}}}
operations: {look: {search: {collection: trips, size: 1}}}
phases: [{name: look, operation: look, rate: 200/s, duration: 2s}]
"""
EXPERIMENT = """\
experiment: looks
store: {kind: sim}
workload: ./looks.yaml
kind: scale
factors: {nodes: [1, 2]}
repetitions: 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_traced_bench_pushes_a_span_for_each_request(folder, ranks):
    Path("looks.yaml").write_text(WORKLOAD)
    words = ("--trace", "100%", "--ranks", ranks, "--output", "kept")
    with receiver() as (url, pushes):
        done = loadframe("bench", "looks.yaml", "--store", "sim", "--otlp", url, *words)
    assert done.returncode == 0, done.stderr
    spans = [span for path, _, spans in pushes if path == "/v1/traces" for span in spans]
    run = Run(folder / "kept")
    (operation,) = run.summary.phases[-1].operations.values()
    measured = [span for span in spans if values(span)["loadframe.segment"] == "measured"]
    assert len(measured) == operation.requests
    assert {values(span)["loadframe.run"] for span in measured} == {"kept"}
    assert run.raw_manifest["generator"]["trace"] == 1.0
    assert f"sent traces; spans: {len(spans):,}\n" in done.stderr


@pytest.mark.slow
def test_a_traced_experiment_pushes_spans_of_each_run(folder):
    Path("looks.yaml").write_text(WORKLOAD)
    Path("experiment.yaml").write_text(EXPERIMENT)
    with receiver() as (url, pushes):
        done = loadframe("run", "experiment.yaml", "--otlp", url, "--trace", "0.5", "--output", "kept")
    assert done.returncode in (0, 4), done.stderr
    spans = [span for path, _, spans in pushes if path == "/v1/traces" for span in spans]
    runs = {path.name for path in Path("kept/runs").iterdir()}
    assert {values(span)["loadframe.run"] for span in spans} == runs
    assert len({span.trace_id for span in spans}) == len(spans), "runs with one seed have different traces"


def test_a_missing_exporter_is_named_with_its_extra(folder):
    (folder / "opentelemetry").mkdir()
    (folder / "opentelemetry" / "__init__.py").write_text("raise ImportError")
    done = loadframe(*BENCH, "--otlp", "http://127.0.0.1:4318", before=("env", f"PYTHONPATH={folder}"))
    assert done.returncode == 2
    assert "pip install 'loadframe[otlp]'" in done.stderr


def test_the_dashboard_is_printed_as_json():
    done = loadframe("dashboard")
    assert done.returncode == 0
    assert json.loads(done.stdout)["uid"] == "loadframe"


def test_the_libraries_load_only_with_the_options():
    done = loadframe(before=(str(LOADFRAME.with_name("python")), "-X", "importtime"))
    assert "typer" in done.stderr
    assert "http.server" not in done.stderr
    assert "opentelemetry" not in done.stderr
