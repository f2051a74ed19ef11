"""`loadframe bench` on real nodes: filling, recording, refusals, and leftovers after an interrupt."""

import json
import signal
import time

import psutil
import pytest

from commands import TRIPS, Running, loadframe, result, servers, within
from loadframe.record import Run, schema
from loadframe.record.schema import undocumented

pytestmark = pytest.mark.store

#: One of the searches for a second, after some documents.
BRIEF = ("bench", "nyc_taxis", "--only", "range_100", "--warmup", "0s", "--duration", "1s", "--set", "documents=700")
ON_TRIPS = (*BRIEF[:-1], f"file={TRIPS}")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Change to a temporary working folder and return it; the commands write their results below it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hosts(node):
    return ("--hosts", ",".join(node.addresses))


def reasons(summary):
    return {reason["code"] for reason in summary["verdict"]["reasons"]}


def test_two_nodes_take_a_file_of_trips_and_the_run_is_recorded_whole(state, folder):
    printed = result(*ON_TRIPS, "--store", "opensearch", "--nodes", 2, "--output", "runs/first")
    run = Run(folder / "runs" / "first")
    assert sorted(path.name for path in run.path.iterdir()) == sorted(schema.MEMBERS)
    assert {key: printed[key] for key in run.raw_summary} == run.raw_summary
    assert printed["run"] == "runs/first"
    assert set(printed["percentiles"]["range_100"]["range_100"]) == {"p50", "p90", "p99", "p999"}
    assert undocumented(run.raw_manifest, schema.MANIFEST) == []
    assert len([time for time in run.raw_manifest["hardware"]["yardstick"] if time > 0]) == 2
    assert undocumented(run.raw_summary, schema.SUMMARY) == []
    assert [undocumented(event, schema.EVENTS) for event in run.events] == len(run.events) * [[]]

    phases = {phase["name"]: phase for phase in run.raw_summary["phases"]}
    assert list(phases) == ["load", "merge", "refresh", "range_100"]
    assert phases["load"]["operations"]["bulk"]["documents"] == 1000
    assert phases["range_100"]["operations"]["range_100"]["successes"] > 0
    assert "cluster_state" not in reasons(run.raw_summary), "the store counted as many documents as were sent"

    assert (run.raw_manifest["store"]["nodes"], run.raw_manifest["store"]["origin"]) == (2, "embedded")
    assert run.raw_manifest["workload"]["corpora"]["nyc_taxis"]["files"][0]["bytes"] == TRIPS.stat().st_size
    sources = set(run.telemetry["source"].to_pylist())
    assert {"generator:0", "node:node-0", "node:node-1", "host"} < sources, "the generator and each node are watched"
    assert servers(state) == []
    assert not any(state.glob("passing/*"))


def test_store_settings_reach_the_started_store_with_their_types(state, folder):
    words = ("--store", "sim", "--store-set", "servers=4", "--store-set", "service=2ms", "--output", "run")
    result(*BRIEF, *words)
    assert Run(folder / "run").manifest.store.settings == {"servers": 4, "service": "2ms"}


def test_store_settings_of_an_existing_cluster_are_refused():
    done = loadframe(*BRIEF, "--hosts", "127.0.0.1:1", "--store-set", "a=1")
    assert done.returncode == 2 and "--hosts and --store-set contradict each other" in done.stderr


def test_data_of_an_existing_cluster_is_replaced_or_used_only_on_request(node, hosts, folder):
    result(*ON_TRIPS, *hosts)
    assert node.count("nyc_taxis") == 1000

    refused = loadframe(*BRIEF, *hosts, "--output", "runs/second")
    assert refused.returncode == 2
    assert "the cluster already has nyc_taxis" in refused.stderr
    assert "use --replace to drop and refill it, or --reuse to keep its data" in refused.stderr
    assert not (folder / "runs" / "second").exists()
    assert node.count("nyc_taxis") == 1000

    used = result(*BRIEF, *hosts, "--reuse", "--clients", 2)
    assert [phase["name"] for phase in used["phases"]] == ["range_100"]
    assert used["phases"][0]["streams"][0]["pacing"] == {"closed": {"clients": 2, "think_time": 0.0}}
    assert node.count("nyc_taxis") == 1000

    refused = loadframe(*BRIEF, *hosts, "--replace")
    assert refused.returncode == 2
    assert (
        "--replace drops nyc_taxis (1,000 documents) of opensearch 3.8.0, which loadframe did not start"
        in refused.stderr
    )
    assert "give --yes" in refused.stderr
    assert node.count("nyc_taxis") == 1000

    replaced = result(*BRIEF, *hosts, "--replace", "--yes")
    assert [phase["name"] for phase in replaced["phases"]] == ["load", "merge", "refresh", "range_100"]
    assert node.count("nyc_taxis") == 700


@pytest.mark.parametrize(("asked", "arrivals"), [([], "poisson"), (["--arrivals", "constant"], "constant")])
def test_a_rate_makes_an_open_load_that_is_achieved(node, hosts, asked, arrivals):
    summary = result(*BRIEF, *hosts, "--rate", "20/s", "--duration", "3s", *asked)
    (measured,) = [phase for phase in summary["phases"] if not phase["prepares"]]
    pacing = measured["streams"][0]["pacing"]["open"]
    assert (pacing["rate"], pacing["arrivals"]) == (20, arrivals)
    operation = measured["operations"]["range_100"]
    due = operation["requests"] + operation["in_flight_at_end"]
    # Poisson's standard deviation is 7.7 here; a wrong rate lies far outside of five of them.
    assert due == 60 if arrivals == "constant" else 22 <= due <= 98
    # On a busy machine the last answers come after the end.
    assert 0.5 < summary["generator"]["achieved"] <= 1.05


def test_a_named_cluster_is_used_and_keeps_running(node):
    refused = loadframe(*BRIEF, "--cluster", "shared", "--store", "elasticsearch", "--output", "run")
    assert refused.returncode == 2
    assert "cluster shared is opensearch, not elasticsearch" in refused.stderr
    refused = loadframe(*BRIEF, "--hosts", node.addresses[0], "--store", "elasticsearch", "--replace", "--yes")
    assert refused.returncode == 2
    assert "this is opensearch 3.8.0, not elasticsearch" in refused.stderr
    done = loadframe(*BRIEF, "--cluster", "shared", "--output", "run")
    assert done.returncode == 0, done.stderr
    run = Run("run")
    assert run.raw_summary["status"] == "done"
    assert (run.raw_manifest["store"]["name"], run.raw_manifest["store"]["settings"]) == ("shared", {"heap": "400m"})
    assert node.health().nodes == 1

    assert "range_100" in done.stdout
    assert "requests/s" in done.stdout
    assert "phase range_100" in done.stderr
    assert "recorded in run; see `loadframe report run`" in done.stderr


def test_a_manifest_suffices_to_repeat_a_run(node, hosts, folder):
    (folder / "w.yaml").write_text(
        "workload: counted\n"
        "parameters: {documents: 100, requests: 10}\n"
        "collections: {trips: {}}\n"
        "corpora: {trips: {generate: nyc_taxi_trip, documents: '${documents}'}}\n"
        "variables: {low: {uniform: [0.0, 50.0]}}\n"
        "operations:\n"
        "  fill: {bulk: {collection: trips, corpus: trips, size: 50}}\n"
        "  refresh: {refresh: {collection: trips}}\n"
        "  one: {search: {collection: trips, body: {query: {range: {total_amount: {gte: '${low}'}}}}}}\n"
        "  two: {search: {collection: trips, size: 1}}\n"
        "phases:\n"
        "  - {name: fill, prepares: true, operation: fill, clients: 2, until: exhausted}\n"
        "  - {name: refresh, prepares: true, operation: refresh, clients: 1, requests: 1}\n"
        "  - {name: look, mix: {one: 3, two: 1}, clients: 4, requests: '${requests}'}\n"
    )

    def documents():
        node.count("trips")
        hits = node.store.request(node.addresses, "POST", "/trips/_search", {"size": 1000})["hits"]["hits"]
        return sorted(json.dumps(hit["_source"], sort_keys=True) for hit in hits)

    def looked(summary):
        operations = summary["phases"][-1]["operations"]
        return {name: (figures["requests"], figures["documents"]) for name, figures in operations.items()}

    first = result("bench", "./w.yaml", *hosts, "--set", "documents=300", "--set", "requests=200", "--output", "first")
    filled = documents()
    manifest = Run("first").raw_manifest
    assert manifest["workload"]["phases"][-1]["streams"][0]["stop"] == {"requests": 200}

    parameters = [f"--set={name}={value}" for name, value in manifest["workload"]["parameters"].items()]
    words = (manifest["workload"]["file"]["path"], "--seed", manifest["seed"], *parameters)
    again = result("bench", *words, *hosts, "--replace", "--yes", "--output", "again")
    assert looked(again) == looked(first)
    assert sum(requests for requests, _ in looked(again).values()) == 200
    assert documents() == filled

    other = result("bench", words[0], "--seed", manifest["seed"] + 1, *parameters, *hosts, "--replace", "--yes")
    assert documents() != filled
    assert looked(other) != looked(first)


def test_an_interrupt_keeps_measurements_and_leaves_no_node(state, folder):
    with Running(*BRIEF, "--duration", "60s", "--output", "run", folder=folder) as command:
        command.wait_for("phase range_100")
        time.sleep(2.5)
        running = command.started(state)
        assert len(running) == 2, "a node and its guard"
        status, seconds = command.send(signal.SIGINT)
        assert status == 130
        assert seconds < 30, "the phase would last a minute"
        assert "Traceback" not in command.stderr
    assert not psutil.wait_procs(running, timeout=0)[1]
    run = Run("run")
    assert run.raw_summary["status"] == "interrupted"
    phases = {phase["name"]: phase for phase in run.raw_summary["phases"]}
    assert phases["load"]["operations"]["bulk"]["documents"] == 700
    assert 1.5 < phases["range_100"]["duration"] < 10
    assert phases["range_100"]["operations"]["range_100"]["successes"] > 0


def test_an_interrupt_before_anything_was_measured_leaves_nothing(state, folder):
    with Running("bench", "nyc_taxis", "--output", "runs/run", folder=folder) as command:
        command.wait_for("starting 1 node")
        time.sleep(1)
        running = command.started(state)
        assert running
        assert command.send(signal.SIGINT)[0] == 130
        assert "Traceback" not in command.stderr
    assert not psutil.wait_procs(running, timeout=0)[1]
    assert not (folder / "runs").exists()
    assert not any(state.glob("passing/*"))


def test_a_killed_command_leaves_no_node_and_the_next_start_removes_its_half_run(
    state, node, hosts, folder, monkeypatch
):
    monkeypatch.setenv("LOADFRAME_STATE", str(state))
    with Running(*BRIEF, "--duration", "60s", "--output", "runs/run", folder=folder) as command:
        command.wait_for("phase range_100")
        running = command.started(state)
        assert len(running) == 2
        command.process.kill()
        command.process.wait()
    assert not psutil.wait_procs(running, timeout=20)[1]
    (half,) = (folder / "runs").iterdir()
    assert half.name.startswith(".run.partial-")
    result(*BRIEF, *hosts, "--output", "runs/run")
    assert [path.name for path in (folder / "runs").iterdir()] == ["run"]


def test_a_run_of_many_phases_has_a_line_for_each_operation(tmp_path):
    phases = "".join(f"  - {{name: p{n}, operation: all, clients: 1, requests: 3}}\n" for n in range(33))
    (tmp_path / "w.yaml").write_text(
        "workload: many\ncollections: {trips: {}}\noperations:\n  all: {search: {collection: trips, size: 2}}\n"
        f"phases:\n{phases}"
    )
    done = loadframe("bench", tmp_path / "w.yaml", "--store", "sim", "--output", tmp_path / "run")
    assert done.returncode in (0, 4), done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("p") and "all" in line.split()[1:2]] == [
        [f"p{n}", "all"] for n in range(33)
    ]
    assert "closed loop" in done.stdout.lower()
    assert len(lines) < 250


def test_kernel_timestamps_of_cassandra_are_refused_before_connecting(tmp_path):
    words = ["bench", "ycsb/c", "--store", "cassandra", "--kernel-timestamps", "--output", tmp_path / "run"]
    # Nothing listens at the address; connecting would be refused first.
    for cluster in (["--hosts", "127.0.0.1:1"], []):
        done = loadframe(*words, *cluster)
        assert done.returncode == 2
        assert "kernel timestamps do not support the driver cql" in done.stderr
        assert "remove --kernel-timestamps" in done.stderr


@pytest.mark.parametrize(
    "words", [("bench", "ycsb"), ("check", "ycsb"), ("ingest", "adbids"), ("import", "sample", "--collection", "c")]
)
def test_a_stopped_store_is_refused_before_anything_is_started(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, errors = within(*words, "--hosts", "127.0.0.1:1")
    assert (status, "127.0.0.1:1: " in errors) == (2, True), errors
