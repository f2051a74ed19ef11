"""Exports read by the tools that they are for: Rally, OpenSearch Benchmark, Otava, JUnit; records in a real store."""

import csv
import json
from datetime import UTC, datetime

import pytest

from commands import result, within
from other_tools import Tool
from simulated import Truth, write_run

pytestmark = pytest.mark.slow
OPERATION = "range_100"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 13)]
    # The release of the seventh day halves the throughput.
    return [
        write_run(
            folder,
            f"day{day.day:02}",
            Truth(lam=100 if day.day < 7 else 50, failed_share=0.1),
            seed=day.day,
            started=day,
        )
        for day in days
    ]


#: Compares two documents with a tool's own classes. Arguments: table to write, documents.
COMPARE = """
import json, sys
from {package} import config, metrics, {reporter}
from {package}.utils import console
console.init(quiet=True)
cfg = config.Config()
for section, key, value in (
    ("reporting", "output.path", sys.argv[1]), ("reporting", "format", "csv"),
    ("reporting", "percentiles", "50,90,99,99.9,100"),
    ("node", "rally.cwd", "."), ("node", "benchmark.cwd", "."),
):
    cfg.add(config.Scope.application, section, key, value)
{reporter}.{kind}(cfg).{verb}(*[metrics.{document}.from_dict(json.load(open(name))) for name in sys.argv[2:]])
"""


def compared(tool, runs, tmp_path, name, script):
    """Return the rows of a tool's comparison of two runs by metric: baseline, contender and unit."""
    files = [tmp_path / f"{run.path.name}.json" for run in runs]
    for run, file in zip(runs, files, strict=True):
        assert within("report", run.path, "--format", name, "--output", file)[0] == 0
    table = tmp_path / "compared.csv"
    tool.run("python", "-c", script, table, *files, cwd=tmp_path)
    with table.open() as lines:
        return {row["Metric"]: row for row in csv.DictReader(lines)}


def assert_compared(rows, runs):
    for column, run in zip(("Baseline", "Contender"), runs, strict=True):
        figures = run.summary.phases[0].operations[OPERATION]
        assert float(rows["Mean Throughput"][column]) == pytest.approx(figures.throughput)
        for words, latency in (("latency", figures.response), ("service time", figures.service)):
            for rank, statistic in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p999"), (100, "max")):
                value = float(rows[f"{rank}th percentile {words}"][column])
                assert value == pytest.approx(1e3 * latency.at(statistic))
        failed = sum(figures.errors.values()) / figures.requests
        assert float(rows["error rate"][column]) == pytest.approx(100 * failed)


def test_rally_compares_two_runs(runs, tmp_path, tmp_path_factory):
    # What these classes need; all requirements of Rally take half a minute to install.
    needed = ("certifi", "psutil", "tabulate", "typing_extensions", "urllib3", "zstandard")
    tool = Tool(tmp_path_factory.mktemp("rally"), "--no-deps", "esrally==2.13.0", *needed)
    words = {"package": "esrally", "reporter": "reporter", "kind": "ComparisonReporter", "verb": "report"}
    pair = (runs[0], runs[-1])
    assert_compared(compared(tool, pair, tmp_path, "rally", COMPARE.format(**words, document="Race")), pair)


@pytest.mark.trial
def test_opensearch_benchmark_compares_two_runs(runs, tmp_path, tmp_path_factory):
    needed = ("aiokafka", "aiohttp", "boto3", "numpy", "opensearch-py", "psutil", "tabulate", "zstandard")
    tool = Tool(tmp_path_factory.mktemp("osb"), *needed)
    tool.install("--no-deps", "opensearch-benchmark==2.4.0")
    words = {"package": "osbenchmark", "reporter": "publisher", "kind": "ComparisonPublisher", "verb": "publish"}
    pair = (runs[0], runs[-1])
    assert_compared(compared(tool, pair, tmp_path, "osb", COMPARE.format(**words, document="TestRun")), pair)


def test_otava_finds_the_change(runs, tmp_path, tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("otava"), "apache-otava==0.8.0")
    table = tmp_path / "runs.csv"
    assert within("report", runs[0].path.parent, "--format", "otava", "--output", table)[0] == 0
    words = ("nyc_taxis", "--config-file", table.with_suffix(".yaml"), "--output", "json")
    done = tool.run("otava", "analyze", *words, "--since", "2025-12-31", cwd=tmp_path)
    (changes,) = json.loads(done.stdout[done.stdout.index("{") :]).values()
    first_runs = {change["metric"]: at["attributes"]["run"] for at in changes for change in at["changes"]}
    assert first_runs[f"{OPERATION}.{OPERATION}.throughput"] == "day07"


def test_junitparser_counts_the_cases(runs, tmp_path, tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("junit"), "junitparser==5.0.3")
    file = tmp_path / "runs.xml"
    assert within("report", runs[0].path.parent, "--format", "junit", "--output", file)[0] == 0
    script = (
        "import json, sys; from junitparser import JUnitXml; suites = JUnitXml.fromfile(sys.argv[1]); "
        "print(json.dumps({suite.name: [suite.tests, sum(1 for _ in suite), suite.failures,"
        " sum(not case.is_passed and not case.is_skipped for case in suite)] for suite in suites}))"
    )
    suites = json.loads(tool.run("python", "-c", script, file).stdout)
    assert set(suites) == {run.path.name for run in runs}
    for tests, cases, failures, failed in suites.values():
        assert tests == cases > 0
        assert failures == failed


def test_records_in_a_store_give_the_error_rate_and_percentiles_that_rally_asks_for(node, runs):
    run = runs[0]
    figures = run.summary.phases[0].operations[OPERATION]
    words = ("report", run.path, "--format", "rally", "--into", "rally-metrics-2026-01")
    written = result(*words, "--hosts", ",".join(node.addresses))
    again = result(*words, "--hosts", ",".join(node.addresses))
    assert again == written

    def asked(aggregation, name, **terms):
        terms = {"race-id": written["race"], "name": name, "task": OPERATION, "sample-type": "normal", **terms}
        query = {"bool": {"filter": [{"term": {key: value}} for key, value in terms.items()]}}
        body = {"query": query, "size": 0, "aggs": {"it": aggregation}, "track_total_hits": True}
        return node.store.request(node.addresses, "POST", "/rally-metrics-2026-01/_search", body)

    everything = node.store.request(node.addresses, "GET", "/rally-metrics-2026-01/_count")
    assert everything["count"] == written["records"]
    outcomes = asked({"terms": {"field": "meta.success"}}, "service_time")["aggregations"]["it"]["buckets"]
    counts = {bucket["key_as_string"]: bucket["doc_count"] for bucket in outcomes}
    assert counts == {"true": figures.service.count, "false": sum(figures.errors.values())}
    percentiles = asked(
        {"percentiles": {"field": "value", "percents": [50, 90], "hdr": {"number_of_significant_value_digits": 3}}},
        "latency",
        **{"meta.success": True},
    )["aggregations"]["it"]["values"]
    assert percentiles["50.0"] == pytest.approx(1e3 * figures.response.p50, rel=0.01)
    assert percentiles["90.0"] == pytest.approx(1e3 * figures.response.p90, rel=0.01)
