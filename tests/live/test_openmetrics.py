"""Metrics of real phases over HTTP: a real Prometheus scrapes them and answers the queries of the dashboard."""

import itertools
import json
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import httpx
import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from commands import PATIENCE, until
from loadframe._engine import HistogramLog
from loadframe.base.errors import BadInput
from loadframe.live.metrics import BOUNDS, Exemplar, Family, Metrics, Times
from loadframe.live.openmetrics import MetricsServer, render
from loadframe.live.publisher import Publisher
from loadframe.load import run_phase
from loadframe.record import RunWriter
from loopback_server import Handler, LoopbackServer

DASHBOARD = Path(__file__).parents[2] / "python" / "loadframe" / "live" / "parts" / "dashboard.json"
QUERIES = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
SUMMARY = {"status": "done", "verdict": {"valid": False, "reasons": [{"code": "late", "cause": "it was late"}]}}
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
CONFIGURATION = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - {{job_name: loadframe, static_configs: [{{targets: ["{target}"]}}]}}
"""


class Slow(Handler):
    """Answers after a millisecond. Keeps the trace ids of all requests."""

    traces: ClassVar = set()

    def do_GET(self):
        self.traces.add((self.headers["traceparent"] or "-").split("-")[1])
        time.sleep(0.001)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def load(publisher, folder):
    """Run a phase on a real server; return its outcome, and the response times of an operation."""
    closed = {"pacing": {"closed": {"clients": 4}}, "stop": {"requests": 400}}
    opened = {"pacing": {"open": {"rate": 40}}, "stop": {"duration": 1.5}}
    streams = [{"name": "closed", "mix": [["read", 1]], **closed}, {"name": "open", "mix": [["scan", 1]], **opened}]
    get = {"http": {"method": "GET", "path": "/"}}
    folder.mkdir()
    with LoopbackServer(Slow) as server:
        target = {"driver": "http", "hosts": [server.address]}
        plan = {"seed": 1, "phase": "look", "target": target, "operations": {"read": get, "scan": get}}
        plan["trace"] = {"share": 0.5, "run": 7}
        publisher.phase("look", None)
        outcome = run_phase(plan | {"streams": streams}, folder, publisher.progress, measuring=publisher.measuring)
    return outcome, HistogramLog(folder / "histograms.hlog").total("look/read/response")


@contextmanager
def published(server, metrics):
    with server, Publisher("run", "nodes", Path(), [metrics.take]) as publisher:
        yield publisher


class Prometheus:
    """A Prometheus with a separate port and folder that scrapes one server."""

    def __init__(self, folder: Path, target: str) -> None:
        file = folder / "prometheus.yml"
        file.write_text(CONFIGURATION.format(target=target))
        self._log = folder / "log.txt"
        options = (f"--config.file={file}", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0")
        options = (*options, "--enable-feature=exemplar-storage")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(["prometheus", *options], stdout=log, stderr=log)

    def __enter__(self):
        port = until(self._port)
        self.api = f"http://127.0.0.1:{port}/api/v1"
        self._url = f"{self.api}/query"
        until(self._is_ready)
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def _port(self):
        assert self._process.poll() is None, self._log.read_text()
        sockets = psutil.Process(self._process.pid).net_connections("tcp")
        return next((socket.laddr.port for socket in sockets if socket.status == psutil.CONN_LISTEN), None)

    def _is_ready(self):
        try:
            return httpx.get(self._url, params={"query": "1"}, timeout=PATIENCE).is_success
        except httpx.HTTPError:
            return False

    def ask(self, query):
        """Return the values of a query's series."""
        answer = httpx.get(self._url, params={"query": query}, timeout=PATIENCE).json()
        assert answer["status"] == "success", (query, answer)
        return [float(series["value"][1]) for series in answer["data"]["result"]]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A Prometheus that has scraped two runs, the second still in progress; outcomes and times of both."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("scraped")
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(folder / "state"))
        metrics = Metrics()
        server = MetricsServer("127.0.0.1", 0, metrics)
        with (
            published(server, metrics) as publisher,
            Prometheus(folder, re.sub("^http://|/metrics$", "", server.url)) as prometheus,
        ):
            for name in ("r1", "r2"):
                with RunWriter(folder, name) as writer:
                    publisher.recording(writer)
                    results.append(load(publisher, folder / f"records-{name}"))
                    writer.event("node joined", 0.5, nodes=["node-1"])
                    writer.telemetry(1.0, "node:node-0", "process.cpu", 0.25)
                    writer.telemetry(1.0, "host", "cpu.busy", 0.5)
                    if name == "r1":
                        writer.finish({"run": name}, SUMMARY)
                    else:
                        yield prometheus, results


def count(results):
    return sum(operation["requests"] for outcome, _ in results for operation in outcome["operations"])


@pytest.mark.slow
def test_prometheus_has_all_requests_of_both_runs_without_a_reset(scraped):
    prometheus, results = scraped
    total = f"sum(loadframe_requests_total) == {count(results)}"
    assert until(lambda: prometheus.ask(total)) == [count(results)]
    assert set(prometheus.ask("resets(loadframe_requests_total[1h])")) == {0}
    for measure in ("response_time", "service_time"):
        assert prometheus.ask(f"sum(loadframe_{measure}_seconds_count)") == [count(results)]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_percentiles_agree_with_the_record_within_a_bucket(scraped, share):
    prometheus, results = scraped
    (_, one), (_, other) = results
    times = one + other
    buckets = 'loadframe_response_time_seconds_bucket{operation="read", segment="measured"}'
    until(lambda: prometheus.ask(f'{buckets[:-1]}, le="+Inf"}} == {times.count}'))
    (value,) = prometheus.ask(f"histogram_quantile({share}, sum by (le) ({buckets}))")
    recorded = times.quantile(share)
    limits = [0.0, *BOUNDS]
    low, high = next(pair for pair in itertools.pairwise(limits) if pair[0] < recorded <= pair[1])
    # A bin of the record has a width of 0.1 %, and counts in the bucket of its upper end.
    assert low * 0.999 <= value <= high * 1.001, (recorded, value)


def test_prometheus_has_exemplars_with_the_trace_ids_of_requests(scraped):
    prometheus, _ = scraped
    start, names = time.time(), ("response_time", "service_time")

    def exemplars(name):
        query = f'loadframe_{name}_seconds_bucket{{segment="measured"}}'
        asked = {"query": query, "start": start - 3600, "end": start + 3600}
        answer = httpx.get(f"{prometheus.api}/query_exemplars", params=asked, timeout=PATIENCE).json()
        return [one for series in answer["data"] for one in series["exemplars"]]

    for name in names:
        linked = until(lambda name=name: exemplars(name))
        assert {one["labels"]["trace_id"] for one in linked} <= Slow.traces
        assert all(len(one["labels"]["span_id"]) == 16 for one in linked)
        # The server waits for a millisecond.
        assert all(0.001 <= float(one["value"]) < PATIENCE for one in linked)
        assert all(abs(one["timestamp"] - start) < 3600 for one in linked)


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_of_the_dashboard_has_an_answer(scraped, query):
    prometheus, _ = scraped
    query = query.replace("$experiment", "nodes").replace("$__rate_interval", "1m")
    assert "$" not in query
    assert until(lambda: prometheus.ask(query))


def test_the_names_follow_the_conventions(scraped, state):
    metrics = Metrics()
    with published(server := MetricsServer("127.0.0.1", 0, metrics), metrics) as publisher:
        load(publisher, state / "records")
        publisher.run(0, 2, "r1")
        until(lambda: {"requests", "planned_runs"} <= {family.name for family in metrics.families()})
        text = httpx.get(server.url).text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_scrape_works_at_the_start_and_in_both_formats(state):
    metrics = Metrics()
    with published(server := MetricsServer("127.0.0.1", 0, metrics), metrics):
        until(metrics.families)
        answer = httpx.get(server.url, headers=OPENMETRICS)
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        assert families["loadframe_command"].samples[0].labels["experiment"] == "nodes"
        assert httpx.get(server.url).headers["content-type"].startswith("text/plain")
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


@pytest.mark.parametrize("openmetrics", [True, False])
def test_the_official_parser_reads_each_kind_with_special_characters(openmetrics):
    labels = ('quote " backslash \\ line\nend', "é, {}=#")
    times = Times(tuple(range(len(BOUNDS) + 1)), 12.5)
    exemplar = Exemplar(
        "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 0.75 * BOUNDS[4], 1_700_000_000_250_000_000
    )
    names = ("phase", "operation")
    families = [
        Family("runs", "counter", "Runs.", names, values={labels: 3}),
        Family("busy", "gauge", "Share.", names, "ratio", {labels: 1e-7, ("a", "b"): 2e20}),
        Family("cores", "gauge", "Cores.", names, "cores", {labels: 2}),
        Family("run", "info", "The run.", names, values={labels: 1}),
        Family("time", "histogram", "Times.", names, "seconds", {labels: times}, {labels: {4: exemplar}}),
    ]
    parse = text_string_to_metric_families if openmetrics else prometheus_families
    parsed = list(parse(render(families, openmetrics=openmetrics)))
    assert [family.type for family in parsed] == [
        *("counter", "gauge", "gauge", "info" if openmetrics else "gauge", "histogram")
    ]
    values = {}
    for sample in (sample for family in parsed for sample in family.samples):
        shown = dict(sample.labels)
        limit = shown.pop("le", None)
        assert tuple(shown) == names
        values[sample.name, *shown.values(), limit] = sample.value
        if sample.exemplar:
            assert (sample.exemplar.labels["trace_id"], sample.exemplar.value) == (exemplar.trace, exemplar.value)
            assert float(limit) == BOUNDS[4]
            assert float(sample.exemplar.timestamp) == pytest.approx(1_700_000_000.25)
    assert openmetrics == any(sample.exemplar for sample in parsed[-1].samples)
    assert values.pop(("loadframe_runs_total", *labels, None)) == 3
    assert values.pop(("loadframe_busy_ratio", *labels, None)) == 1e-7
    assert values.pop(("loadframe_busy_ratio", "a", "b", None)) == 2e20
    assert values.pop(("loadframe_cores", *labels, None)) == 2
    assert values.pop(("loadframe_run_info", *labels, None)) == 1
    assert values.pop(("loadframe_time_seconds_count", *labels, None)) == sum(times.counts)
    assert values.pop(("loadframe_time_seconds_sum", *labels, None)) == 12.5
    limits = [float(limit) for *_, limit in values]
    assert limits == [*BOUNDS, float("inf")]
    assert list(values.values()) == list(itertools.accumulate(times.counts))


def test_a_port_in_use_is_refused_with_a_remedy():
    with (
        MetricsServer("127.0.0.1", 0, Metrics()) as server,
        pytest.raises(BadInput, match="cannot serve metrics: Address already in use") as refused,
    ):
        MetricsServer("127.0.0.1", httpx.URL(server.url).port, Metrics()).__enter__()
    assert "port 0" in refused.value.remedy
