"""A rate that is a share of the capacity that an earlier experiment found, on a service with a known limit."""

import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from test_existing_clusters import Witness, carry_out

from loadframe.analyze.capacity import Kind, read_capacities
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.base.errors import BadInput
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import _other_load, experiment_of, load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.loop import run_experiment
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.manifest import RecordedWorkload, WorkloadFile
from loadframe.workload import load_workload
from loadframe.yamlfile import read
from made_up_runs import MadeUp, summary

#: Requests per second that the service serves.
LIMIT = 150
WORKLOAD = """\
workload: rest
operations: {ask: {http: {method: GET, path: /}}}
phases: [{name: ask, operation: ask, clients: 1, duration: 1s}]
"""


class Service(ThreadingHTTPServer):
    """A service that answers 429 to requests beyond LIMIT a second."""

    daemon_threads = True

    def __init__(self) -> None:
        self._lock, self._tokens, self._last = threading.Lock(), 0.3 * LIMIT, time.monotonic()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self.send_response(200 if service.take() else 429)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def take(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._tokens + LIMIT * (now - self._last), 0.3 * LIMIT)
            self._last = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The service, as text for `store`."""
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "state"))
    (tmp_path / "rest.yaml").write_text(WORKLOAD)
    with Service() as service:
        threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True).start()
        yield f"{{kind: http, hosts: 127.0.0.1:{service.server_port}}}"
        service.shutdown()


def write(folder, name, store, text):
    path = folder / f"{name}.yaml"
    path.write_text(f"experiment: {name}\nstore: {store}\nworkload: ./rest.yaml\n{text}")
    return path


@pytest.mark.store
def test_a_rate_follows_the_capacity_that_was_found(tmp_path, store):
    text = "kind: capacity\nslo: {response: 10s}\nsearch: {start: 50, factor: 8, most: 400, precision: 50%}\n"
    carry_out(write(tmp_path, "found", store, text), Witness())
    [capacity] = read_capacities(tmp_path / "found").capacities
    if capacity.kind is Kind.UNKNOWN:
        pytest.skip("others use this machine so much that the generator was the limit throughout")
    assert capacity.kind is Kind.BRACKETED and capacity.rate is not None
    text = "kind: compare\nvariants: {a: {threads: 1}, b: {threads: 2}}\nrepetitions: 1\n"
    path = write(tmp_path, "share", store, f"{text}rate: 50 % of capacity\ncapacity: found\n")
    runs = carry_out(path, Witness())
    for run in runs:
        (stream,) = run.raw_manifest["workload"]["phases"][0]["streams"]
        assert stream["pacing"]["open"]["rate"] == pytest.approx(0.5 * capacity.rate.value)
    described = json.loads((tmp_path / "share" / "experiment.json").read_text())
    assert described["capacities"] == [{"treatment": {}, "rate": capacity.rate.value}]


@pytest.mark.store
def test_a_capacity_of_another_load_is_refused(tmp_path, store):
    (tmp_path / "rest.yaml").write_text(f"parameters: {{size: 1}}\n{WORKLOAD}")
    text = "kind: capacity\nslo: {response: 10s}\nsearch: {start: 50, least: 50, most: 100}\n"
    carry_out(write(tmp_path, "found", store, text), Witness())
    text = "kind: scale\nfactors: {threads: [1, 2]}\nrate: 70 % of capacity\ncapacity: found\n"
    path = write(tmp_path, "share", store, f"{text}with: {{size: 2}}\n")
    with pytest.raises(BadInput, match="found has the capacity of other runs: its parameter size is 1") as caught:
        load_experiment(path)
    assert str(caught.value.where).endswith("share.yaml:7:11")
    (tmp_path / "rest.yaml").write_text(f"parameters: {{size: 1}}\n{WORKLOAD.replace('name: ask', 'name: other')}")
    with pytest.raises(BadInput, match="other runs: it measures ask"):
        load_experiment(write(tmp_path, "share", store, text))
    for workload, what in (
        (f"parameters: {{size: 2}}\n{WORKLOAD}", "its parameter size is 1"),
        (f"parameters: {{size: 1, other: 1}}\n{WORKLOAD}", "only this workload has a parameter 'other'"),
        (WORKLOAD, "its workload has a parameter 'size'"),
        (f"parameters: {{size: 1}}\n{WORKLOAD.replace('workload: rest', 'workload: new')}", "its workload is rest"),
    ):
        (tmp_path / "rest.yaml").write_text(workload)
        with pytest.raises(BadInput, match=f"other runs: {what}"):
            load_experiment(write(tmp_path, "share", store, text))


@pytest.mark.store
def test_parameters_that_no_file_sets_or_that_follow_a_factor_are_not_another_load(tmp_path, store):
    (tmp_path / "rest.yaml").write_text(f"parameters: {{size: 1, same: '${{size}}'}}\n{WORKLOAD}")
    given = load_workload("./rest.yaml", folder=tmp_path).with_parameters({"size": 5})
    text = "kind: capacity\nslo: {response: 10s}\nsearch: {start: 50, factor: 8, most: 400, precision: 50%}\n"
    experiment = experiment_of(read(write(tmp_path, "found", store, text)), given)
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "found", describe(experiment, planned))
    run_experiment(experiment, planned, folder, Witness())
    [capacity] = read_capacities(tmp_path / "found").capacities
    if capacity.kind is Kind.UNKNOWN:
        pytest.skip("others use this machine so much that the generator was the limit throughout")
    text = "kind: scale\nfactors: {FACTOR: [1, 2]}\nrate: 70 % of capacity\ncapacity: found\n"
    path = write(tmp_path, "share", store, text.replace("FACTOR", "threads"))
    assert experiment_of(read(path), given).capacities
    with pytest.raises(BadInput, match="its parameter size is 5"):
        load_experiment(path)
    assert load_experiment(write(tmp_path, "share", store, text.replace("FACTOR", "with.size"))).capacities


SIM = "experiment: e\nstore: {kind: sim}\nworkload: ./small.yaml\nmeasure: look\n"
GROWING = f"{SIM}kind: scale\nfactors: {{nodes: [1, 2]}}\n"


def capacity_of_growing_data(load):
    """Return a capacity experiment whose data grow by 500 documents per node, as if it had been run."""
    experiment = load(
        SIM + 'kind: capacity\nslo: {response: 1s}\nfactors: {nodes: [1, 2]}\nwith: {documents: "${500 * nodes}"}\n'
    )
    runs = []
    for nodes in (1, 2):
        parameters = experiment.workload_at({"nodes": nodes}).fill(nodes).parameters
        made = MadeUp(summary(), Manifest(FORMAT, workload=RecordedWorkload(file=WorkloadFile("small.yaml", "0"))))
        made.__dict__["raw_manifest"] = {"workload": {"name": "small", "nodes": nodes, "parameters": dict(parameters)}}
        runs.append(RecordedRun(f"r{nodes}", 1, {"nodes": nodes, "rate": 100.0}, made))
    return RecordedExperiment(Path("found"), experiment.describe(), tuple(runs))


@pytest.mark.parametrize(
    ("text", "differing"),
    [
        (f"{GROWING}scaling: weak\ngrows: documents\nwith: {{documents: 500}}\n", None),
        (f"{GROWING}scaling: weak\ngrows: documents\n", "its parameter documents is 500 with 1 node, not 1000"),
        (f'{GROWING}with: {{documents: "${{500 * nodes}}"}}\n', None),
        (f'{GROWING}with: {{documents: "${{400 + 100 * nodes}}"}}\n', "documents is 1000 with 2 nodes, not 600"),
        (f"{GROWING}with: {{documents: 500}}\n", "its parameter documents is 1000 with 2 nodes, not 500"),
        (f'{GROWING.replace("2]", "2], threads: [1, 2]")}with: {{documents: "${{500 * threads}}"}}\n', None),
    ],
)
def test_data_that_grow_with_the_nodes_are_compared_at_each_number_of_nodes(load, text, differing):
    measured = capacity_of_growing_data(load)
    other = _other_load(load(text), measured)
    assert other is None if differing is None else differing in other


def test_the_capacity_of_weak_scaling_is_that_of_the_grown_data(load):
    experiment = load(f"{GROWING}scaling: weak\ngrows: documents\n")
    rates = [({"nodes": 2, "with.documents": documents}, rate) for documents, rate in ((1000, 900.0), (2000, 700.0))]
    assert replace(experiment, capacities=tuple(rates))._capacity({"nodes": 2}) == 700.0


@pytest.mark.store
def test_a_capacity_that_was_not_found_is_refused(tmp_path, store):
    text = "kind: capacity\nslo: {response: 1us, percentile: p50}\nsearch: {start: 50, least: 50, most: 100}\n"
    carry_out(write(tmp_path, "none", store, text), Witness())
    path = write(
        tmp_path,
        "share",
        store,
        "kind: scale\nfactors: {threads: [1, 2]}\nrate: 70 % of capacity\ncapacity: none\n",
    )
    with pytest.raises(BadInput, match="the experiment in none found no capacity") as caught:
        load_experiment(path)
    assert str(caught.value.where).endswith("share.yaml:7:11")


@pytest.mark.parametrize(
    ("load", "what"),
    [
        ("mix: {ask: 3}, order: together, rate: 1", "groups of requests"),
        ("journey: [ask, ask], clients: 1", "journeys of several requests"),
    ],
)
def test_a_share_of_a_rate_of_requests_is_not_a_rate_of_groups_or_journeys(tmp_path, load, what):
    (tmp_path / "rest.yaml").write_text(WORKLOAD.replace("operation: ask, clients: 1", load))
    text = "kind: scale\nfactors: {threads: [1, 2]}\nrate: 70 % of capacity\ncapacity: found\n"
    path = write(tmp_path, "e", "{kind: http, hosts: 127.0.0.1:9}", text)
    with pytest.raises(BadInput, match=f"the phase 'ask' sends {what}, and the capacity is a rate of req"):
        load_experiment(path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("rate: 70 % of capacity\n", "capacity is missing"),
        ("rate: 70/s\ncapacity: found\n", "capacity requires a rate such as 70 % of capacity"),
        ("rate: 0 % of capacity\ncapacity: found\n", "must be above 0"),
        ("rate: 70 % of capacity\ncapacity: absent\n", "cannot read a capacity experiment in absent"),
    ],
)
def test_incomplete_shares_are_refused(tmp_path, text, what):
    (tmp_path / "rest.yaml").write_text(WORKLOAD)
    path = write(
        tmp_path, "e", "{kind: http, hosts: 127.0.0.1:9}", f"kind: scale\nfactors: {{threads: [1, 2]}}\n{text}"
    )
    with pytest.raises(BadInput, match=what):
        design(load_experiment(path))
