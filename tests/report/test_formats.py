"""Formats of other tools: the same figures as the run's, failures, verdicts, and refused combinations."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from markdown_it import MarkdownIt

from commands import within
from loadframe.analyze.experiment import RecordedRun
from loadframe.library.actions import convert
from loadframe.record import Run, RunWriter
from loadframe.record.schema import FORMAT
from loadframe.record.schema.summary import RecordedReason, RecordedVerdict
from loadframe.report.formats import FORMATS, tables
from loadframe.report.formats.otava import _figures
from loadframe.report.formats.rally import _meta, race, records
from made_up_runs import MadeUp, operation, phase, summary
from simulated import Truth, write_experiment, write_run

OPERATION = "range_100"
#: Statistics of a recorded latency, by their key in Rally and in k6.
RALLY = {"p50": "50_0", "p90": "90_0", "p99": "99_0", "p999": "99_9", "max": "100_0", "mean": "mean"}
K6 = {"p50": "med", "p90": "p(90)", "p99": "p(99)", "p999": "p(99.9)", "max": "max", "mean": "avg"}
TREND = {
    "type": "object",
    "required": ["type", "contains", "values"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["trend", "counter", "rate", "gauge"]},
        "contains": {"enum": ["default", "time", "data"]},
        "values": {"type": "object", "additionalProperties": {"type": "number"}},
        "thresholds": {"type": "object"},
    },
    "allOf": [
        {
            "if": {"properties": {"type": {"const": kind}}},
            "then": {"properties": {"values": {"required": keys}}},
        }
        for kind, keys in {
            "trend": ["avg", "min", "med", "max", "p(90)", "p(95)"],
            "counter": ["count", "rate"],
            "rate": ["rate", "passes", "fails"],
        }.items()
    ],
}
#: The object that k6 passes to handleSummary, as its documentation describes it.
SUMMARY = {
    "type": "object",
    "required": ["root_group", "options", "state", "metrics"],
    "properties": {
        "root_group": {
            "type": "object",
            "required": ["name", "path", "id", "groups", "checks"],
            "properties": {
                "checks": {
                    "type": "array",
                    "items": {"type": "object", "required": ["name", "path", "id", "passes", "fails"]},
                }
            },
        },
        "options": {"type": "object", "required": ["summaryTrendStats", "summaryTimeUnit", "noColor"]},
        "state": {"type": "object", "required": ["isStdOutTTY", "isStdErrTTY", "testRunDurationMs"]},
        "metrics": {"type": "object", "additionalProperties": TREND},
    },
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("formats"), "good", Truth())


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """A run with failed requests and a saturated generator, so that the verdict is against it."""
    return write_run(tmp_path_factory.mktemp("formats"), "bad", Truth(failed_share=0.1, cpu_share=0.97))


def exported(run, name):
    status, told, said = within("report", run.path, "--format", name)
    assert status == 0, said
    return told


def figures(run):
    return run.summary.phases[0].operations[OPERATION]


@pytest.mark.parametrize("name", ["rally", "osb"])
def test_rally_tasks_have_the_reports_percentiles_and_the_verdict(good, bad, name):
    for run in (good, bad):
        document = json.loads(exported(run, name))
        (task,) = document["results"]["op_metrics"]
        for kind, latency in (("latency", figures(run).response), ("service_time", figures(run).service)):
            assert {key: task[kind][key] for key in RALLY.values()} == {
                key: pytest.approx(1e3 * latency.at(statistic)) for statistic, key in RALLY.items()
            }
        assert task["throughput"]["mean"] == figures(run).throughput
        assert task["error_rate"] == sum(figures(run).errors.values()) / figures(run).requests
        assert document["user-tags"]["loadframe-valid"] == str(run.summary.verdict.valid).lower()
        assert task["meta"]["loadframe-errors"] == figures(run).errors
    assert task["meta"]["loadframe-reasons"] == ["generator_cpu", "errors"]


def test_records_hold_each_request_once_with_its_outcome(bad):
    documents = dict(records(bad, "rally"))
    normal = [it for it in documents.values() if it["sample-type"] == "normal"]
    for name, latency in (("latency", figures(bad).response), ("service_time", figures(bad).service)):
        successes = sorted(it["value"] for it in normal if it["name"] == name and it["meta"]["success"])
        failures = [it for it in normal if it["name"] == name and not it["meta"]["success"]]
        assert len(successes) == latency.count
        assert successes[-1] == pytest.approx(1e3 * latency.max)
        assert [it["meta"]["error-type"] for it in failures] == ["timeout"] * figures(bad).errors["timeout"]
    # The service time of a failure is unknown: the note of its record names the response time.
    assert all("response time" in it["meta"]["loadframe-note"] for it in failures)
    rates = [it["value"] for it in normal if it["name"] == "throughput"]
    assert sum(rates) == figures(bad).successes
    assert {it["race-id"] for it in documents.values()} == {json.loads(exported(bad, "rally"))["race-id"]}


@pytest.mark.parametrize("cut", [0.0, 0.4])
def test_throughput_records_sum_the_streams_of_each_whole_second(tmp_path, cut):
    run = write_run(tmp_path, "run", Truth())
    table = run.series
    halves = [
        {**row, "stream": name, "successes": (row["successes"] + up) // 2}
        for row in table.to_pylist()
        for name, up in (("a", 0), ("b", 1))
    ]
    edit(run, "summary.json", lambda it: it["phases"][0].update(duration=it["phases"][0]["duration"] - cut))
    split = Run(run.path)
    split.__dict__["series"] = table.from_pylist(halves, schema=table.schema)
    rates = [it for _, it in records(split, "rally") if it["name"] == "throughput"]
    phase = split.summary.phases[0]
    seconds = [*range(int(phase.warmup)), *phase.whole_seconds]
    assert [it["value"] for it in rates] == [it["successes"] for it in table.to_pylist() if it["second"] in seconds]
    assert [it["sample-type"] for it in rates].count("normal") == len(phase.whole_seconds)
    measured = json.loads(race(split))["results"]["op_metrics"][0]["throughput"]
    assert max(it["value"] for it in rates if it["sample-type"] == "normal") == measured["max"]


def test_ycsb_sections_follow_its_text_format(bad):
    lines = exported(bad, "ycsb").splitlines()
    matches = [re.fullmatch(r"\[([^\]]+)\], ([^,]+), (\S+)", line) for line in lines]
    assert all(matches)
    values = {(match[1], match[2]): match[3] for match in matches}
    for section, latency in ((OPERATION, figures(bad).service), (f"Intended-{OPERATION}", figures(bad).response)):
        assert int(values[section, "Operations"]) == latency.count
        for measure, statistic in (("50th", "p50"), ("90th", "p90"), ("99th", "p99"), ("99.9", "p999")):
            microseconds = int(values[section, f"{measure}PercentileLatency(us)"])
            assert microseconds == round(1e6 * latency.at(statistic))
    failed = figures(bad).errors["timeout"]
    assert int(values[OPERATION, "Return=OK"]) == figures(bad).successes
    assert int(values[OPERATION, "Return=ERROR-timeout"]) == failed
    assert int(values[f"Intended-{OPERATION}-FAILED", "Operations"]) == failed
    assert values["LOADFRAME", "Valid"] == "true", "all figures are good or bounded"


def test_ycsb_sections_have_the_names_of_its_operations(tmp_path):
    run = write_run(tmp_path, "ycsb", Truth(operation="read_modify_write"))
    assert "[READ-MODIFY-WRITE], Operations, " in exported(run, "ycsb")


def test_k6_summary_matches_its_schema_and_has_the_reports_percentiles(good, bad):
    for run in (good, bad):
        summary = json.loads(exported(run, "k6"))
        jsonschema.validate(summary, SUMMARY)
        metrics = summary["metrics"]
        titles = {"response_time": "response", "http_req_duration{expected_response:true}": "service"}
        for title, kind in titles.items():
            latency = getattr(figures(run), kind)
            values = metrics[title]["values"]
            assert {key: values[key] for key in K6.values()} == {
                key: pytest.approx(1e3 * latency.at(statistic)) for statistic, key in K6.items()
            }
        failed = sum(figures(run).errors.values())
        assert metrics["http_req_failed"]["values"]["passes"] == failed
        # In k6 this trend includes failures, but runs record service times of successes only.
        assert ("http_req_duration" in metrics) == (not failed)
        checks = {check["name"]: check["passes"] for check in summary["root_group"]["checks"]}
        assert checks["the run is valid"] == run.summary.verdict.valid
    # The saturated generator bounds figures, and requests failed.
    reasons = {name.partition(":")[0]: passes for name, passes in checks.items() if ":" in name}
    assert reasons == {"generator_cpu": 1, "errors": 0}


def test_hdr_log_has_the_recorded_histograms(bad, tmp_path):
    log = tmp_path / "run.hlog"
    log.write_text(exported(bad, "hdr"))
    total = HdrHistogram(1, 3_600_000_000_000, 3)
    reader = HistogramLogReader(str(log), total)
    while (interval := reader.get_next_interval_histogram()) is not None:
        if interval.get_tag() == f"{OPERATION}/{OPERATION}/response":
            total.add(interval)
    assert total.get_total_count() == figures(bad).response.count
    assert total.get_value_at_percentile(99) / 1e9 == pytest.approx(figures(bad).response.p99, rel=2e-3)


def test_hdr_log_may_have_comments_in_any_encoding(good, tmp_path):
    run = Run(shutil.copytree(good.path, tmp_path / "r1"))
    log = run.path / "histograms.hlog"
    log.write_bytes(b"#\xff comment\n" + log.read_bytes())
    first, *lines = exported(run, "hdr").splitlines()
    assert (first, lines) == ("#\N{REPLACEMENT CHARACTER} comment", exported(good, "hdr").splitlines())


def test_json_lines_have_failures_and_quality_of_figures(bad):
    (line,) = map(json.loads, exported(bad, "jsonl").splitlines())
    assert line["errors"] == {"timeout": figures(bad).errors["timeout"]}
    assert line["response"]["p99"] == figures(bad).response.p99
    assert (line["valid"], line["failure_cause"]) == (True, None)
    assert set(line["states"]) == {"throughput", "documents", "errors", "response", "service", "all"}
    assert set(line["states"].values()) <= {"good", "bounded", "unknown"}


def test_json_lines_judge_the_figures_of_a_run_once(bad, monkeypatch):
    made = []
    monkeypatch.setattr(tables, "RecordedRun", lambda *args: made.append(args) or RecordedRun(*args))
    run = Run(bad.path)
    phases = run.summary.phases
    run.__dict__["summary"] = replace(run.summary, phases=(*phases, replace(phases[0], name="again")))
    assert len(tables.json_lines([run]).splitlines()) == 2
    assert len(made) == 1


def test_figures_that_an_older_version_did_not_judge_are_judged_as_in_the_report(bad, tmp_path):
    older = shutil.copytree(bad.path, tmp_path / "older")
    file = older / "summary.json"
    summary = json.loads(file.read_text())
    summary["verdict"]["figures"] = []
    file.write_text(json.dumps(summary))
    (line,) = map(json.loads, exported(Run(older), "jsonl").splitlines())
    (known,) = map(json.loads, exported(bad, "jsonl").splitlines())
    assert line["states"] == known["states"]
    cases = [
        [case.get("name") for case in ET.fromstring(exported(run, "junit")).iter("testcase")]
        for run in (bad, Run(older))
    ]
    assert cases[0] == cases[1]


def test_junit_has_a_failure_for_each_unknown_figure_and_each_reason_that_does_not_bound(bad):
    (suite,) = ET.fromstring(exported(bad, "junit"))
    unknown = [figure for figure in bad.summary.verdict.figures if figure.state == "unknown"]
    assert [reason.code for reason in bad.summary.verdict.reasons] == ["generator_cpu", "errors"]
    (told,) = suite.findall("testcase[@name='generator_cpu']/system-out")
    assert told.text.startswith("generator_cpu: ")
    reasons = ["errors"]
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) == len(unknown) + len(reasons)
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert set(reasons) <= set(failed)
    assert "the run is valid" not in failed
    assert int(suite.get("tests")) == len(suite.findall("testcase"))
    properties = {entry.get("name"): entry.get("value") for entry in suite.iter("property")}
    assert int(properties[f"{OPERATION}.{OPERATION}.failed"]) == figures(bad).errors["timeout"]


@pytest.mark.parametrize("end", ["\x1b]0;title", "\x1b[", "\x9d", "\uffff"])
def test_a_failure_that_ends_in_an_escape_sequence_leaves_junit_whole(tmp_path, end):
    with RunWriter(tmp_path, "r1") as writer:
        run = Run(writer.finish({"format": FORMAT}, {"status": "failed", "failure": f"no answer{end}"}))
    (suite,) = ET.fromstring(exported(run, "junit"))
    assert suite.find("testcase/error").attrib == {"message": "no answer", "type": "failed"}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("formats") / "experiment"
    names = [f"b{block}-nodes1-clients{clients}" for block in (1, 2) for clients in (1, 2)]
    return write_experiment(path, Truth(), nodes=[1], clients=[1, 2], failed=names[:1], saturated=names[1:2])


def words_of(token):
    """The text that a reader of Markdown sees; an element such as a link or emphasis adds its type."""
    return "".join(it.content if it.type == "text" else f"({it.type})" for it in token.children)


def table_of(text):
    """The rows of cells of the only table in a Markdown text, as a Markdown parser reads them."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    assert [token.type for token in tokens].count("table_open") == 1
    rows = []
    for token, content in pairwise(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(words_of(content))
    return rows


def items_of(text):
    """The items of lists in a Markdown text."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    return [words_of(tokens[at + 2]) for at, token in enumerate(tokens) if token.type == "list_item_open"]


def test_markdown_shows_names_with_any_signs(tmp_path):
    names = ["a|b", "*bold*", "_low_", "`code`", "<b>x</b>", "[link](page)", "~~gone~~", "a\\|b", "&amp;", "![i](j)"]
    runs = [write_run(tmp_path, f"r{number}", Truth(seconds=1, operation=name)) for number, name in enumerate(names)]
    _, *rows = table_of(tables.markdown(runs))
    assert [row[2] for row in rows] == names


def test_tables_have_a_row_for_each_run_of_an_experiment(experiment):
    status, told, _ = within("report", experiment, "--format", "markdown")
    assert status == 0
    titles, *rows = table_of(told)
    assert [len(row) for row in rows] == [len(titles)] * 4
    assert [row for row in rows if row[-1] == "failed, not judged"] == [rows[0]]
    assert items_of(told)[0] == f"{rows[0][0]}: node 1 did not come up within 120 s"
    _, told, _ = within("report", experiment, "--format", "jsonl")
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["failure_cause"] for line in lines] == ["node 1 did not come up within 120 s", None, None, None]
    _, told, _ = within("report", experiment / "runs", "--format", "junit")
    assert [suite.get("errors") for suite in ET.fromstring(told)] == ["1", "0", "0", "0"]


def test_formats_keep_the_attempts_in_which_the_store_failed(tmp_path):
    path = tmp_path / "experiment"
    failed = "b1-nodes1-clients1"
    write_experiment(path, Truth(), nodes=[1], clients=[1], failed=[failed])
    _, told, _ = within("report", path, "--format", "jsonl")
    before = len(told.splitlines())
    attempt = path / "attempts" / f"{failed}.1"
    shutil.copytree(path / "runs" / failed, attempt)
    edit(Run(attempt), "summary.json", lambda document: document.update(fault="store"))
    for name in ("jsonl", "markdown", "junit"):
        _, told, _ = within("report", path, "--format", name)
        assert f"{failed}.1" in told, name
    _, told, _ = within("report", path, "--format", "jsonl")
    assert len(told.splitlines()) == before + 1


def test_the_markdown_table_names_bounded_figures(tmp_path):
    run = write_run(tmp_path, "bounded", Truth(seconds=1))
    figure = {"phase": OPERATION, "operation": None, "figure": "throughput", "state": "bounded", "reasons": ["starved"]}
    bounds = {"low": {"value": 192.0}, "high": {"value": 204.0}}

    def bound(summary):
        kept = [it for it in summary["verdict"]["figures"] if it["figure"] != "throughput"]
        summary["verdict"]["figures"] = [*kept, figure | bounds]

    edit(run, "summary.json", bound)
    told = exported(run, "markdown")
    assert [row[-1] for row in table_of(told)[1:]] == ["valid, bounded"]
    (item,) = items_of(told)
    assert item.endswith("bounded, 192 to 204 requests/s (starved)")


def test_otava_has_valid_runs_only_and_names_the_others(experiment):
    status, told, said = within("report", experiment, "--format", "otava")
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(told)))
    assert [row["run"] for row in rows] == ["b2-nodes1-clients1", "b2-nodes1-clients2"]
    assert "b1-nodes1-clients1, b1-nodes1-clients2" in said


def test_the_configuration_of_otava_replaces_no_other_file(experiment, tmp_path):
    table, other = tmp_path / "nodes.csv", tmp_path / "nodes.yaml"
    other.write_text("experiment: nodes\n")
    status, _, said = within("report", experiment, "--format", "otava", "--output", table)
    assert (status, "not a configuration of Otava" in said, table.exists()) == (2, True, False), said
    assert other.read_text() == "experiment: nodes\n"
    other.unlink()
    for _ in range(2):
        assert within("report", experiment, "--format", "otava", "--output", table)[0] == 0
        assert other.read_text().startswith("tests:")
    before = other.read_text()
    status, _, said = within("report", experiment, "--format", "otava", "--output", other)
    assert (status, "would replace the table" in said, other.read_text()) == (2, True, before), said


def test_the_table_of_otava_is_named_if_its_configuration_cannot_be_written(experiment, tmp_path):
    (tmp_path / "nodes.yaml").mkdir()
    status, _, said = within("report", experiment, "--format", "otava", "--output", tmp_path / "nodes.csv")
    assert (status, f"the table {tmp_path / 'nodes.csv'} is written" in " ".join(said.split())) == (2, True), said


@pytest.mark.parametrize("name", ["queries", "query-results", "statistics"])
def test_formats_of_the_only_run_of_an_experiment_are_written_to_its_folder(tmp_path, name):
    path = write_experiment(
        tmp_path / "e", Truth(seconds=2, watched={"search_active": (7.0, 7.0)}), nodes=(1,), clients=(1,), repetitions=1
    )
    (run,) = (path / "runs").iterdir()
    before = set(path.iterdir())
    status, _, said = within("report", path, "--format", name)
    assert status == 0, said
    assert set(path.iterdir()) == before
    assert len([*run.glob(f"{name}.*")]) == 1
    assert convert(path, name).text


def test_errors_for_otava_include_dropped_and_unanswered_requests():
    counts = {"requests": 500, "successes": 475, "errors": {"timeout": 25}, "dropped": 400, "in_flight_at_end": 100}
    run = MadeUp(summary(phase("week", {"read": operation(50.0, **counts)})))
    share = RecordedRun("run", None, {}, run).figure("week", "errors").value
    assert (_figures(run)["week.read.errors"], share) == (pytest.approx(0.525), pytest.approx(0.525))


def test_error_rates_for_k6_and_rally_are_of_finished_requests_as_in_these_tools(tmp_path):
    """k6 counts dropped iterations apart and interrupted requests nowhere; Rally drops nothing."""
    run = write_run(tmp_path, "r1", Truth(failed_share=0.05))

    def drop(document):
        document["phases"][0]["operations"][OPERATION].update(dropped=400, in_flight_at_end=100)

    edit(run, "summary.json", drop)
    figures = Run(run.path).summary.phases[0].operations[OPERATION]
    share = sum(figures.errors.values()) / figures.requests
    metrics = json.loads(exported(run, "k6"))["metrics"]
    assert metrics["http_req_failed"]["values"]["rate"] == pytest.approx(share)
    assert metrics["http_reqs"]["values"]["count"] == figures.requests
    assert metrics["dropped_iterations"]["values"]["count"] == 400
    (task,) = json.loads(exported(run, "rally"))["results"]["op_metrics"]
    assert task["error_rate"] == pytest.approx(share)
    assert (task["meta"]["loadframe-dropped"], task["meta"]["loadframe-unanswered"]) == (400, 100)


def test_runs_in_a_folder_are_ordered_by_time(tmp_path):
    for day, name in ((2, "a"), (1, "b")):
        write_run(tmp_path, name, Truth(seconds=1), started=datetime(2026, 1, day, tzinfo=UTC))
    _, told, _ = within("report", tmp_path, "--format", "jsonl")
    assert [json.loads(line)["run"] for line in told.splitlines()] == ["b", "a"]


@pytest.mark.parametrize("name", [name for name, chosen in FORMATS.items() if not chosen.several])
def test_a_format_for_one_run_refuses_several(experiment, name):
    status, _, said = within("report", experiment, "--format", name)
    assert status == 2
    assert "holds one run" in said


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "rally", "--into", "x"),
        ("--format", "k6", "--into", "x", "--hosts", "127.0.0.1:1"),
        ("--format", "rally", "--hosts", "127.0.0.1:1"),
        ("--format", "rally", "--export", "x"),
        ("--format", "rally", "--bands", "1s"),
    ],
    ids=" ".join,
)
def test_contradicting_options_are_refused(good, words):
    assert within("report", good.path, *words)[0] == 2


@pytest.mark.parametrize(
    "index", ["", " ", "a b", "a/b", "*", "a?b", "-a", "_all", "..", "a,b", "a#b", "é" * 128, "a\n"]
)
def test_names_that_no_index_can_have_are_refused_before_the_store_is_asked(good, index):
    words = ("--format", "rally", f"--into={index}", "--hosts", "127.0.0.1:1")
    status, _, said = within("report", good.path, *words)
    assert (status, "cannot be the name of an index" in said) == (2, True), said


@pytest.mark.parametrize("name", ["manifest.json", "summary.json"])
def test_records_of_a_run_are_not_overwritten(tmp_path, name):
    run = write_run(tmp_path, "r1", Truth())
    before = (run.path / name).read_bytes()
    status, _, errors = within("report", run.path, "--format", "jsonl", "--output", run.path / name)
    assert (status, "part of a recorded run" in errors) == (2, True)
    assert (run.path / name).read_bytes() == before


@pytest.mark.parametrize("start", ["x", "2026-13-45", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_start_that_is_not_a_time_is_bad_input(tmp_path, start):
    run = write_run(tmp_path, "r1", Truth())
    manifest = run.path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "started": start}))
    status, _, errors = within("report", run.path, "--format", "rally")
    assert (status, "started is not a time" in errors) == (2, True)


@pytest.mark.parametrize("name", ["rally", "osb", "otava"])
def test_a_missing_start_is_bad_input_where_the_format_requires_it(tmp_path, name):
    run = write_run(tmp_path, "r1", Truth())
    edit(run, "manifest.json", lambda manifest: manifest.pop("started"))
    status, _, errors = within("report", run.path, "--format", name)
    assert (status, "manifest.json: started is missing" in errors) == (2, True)
    assert within("report", run.path, "--format", "k6")[0] == 0


def edit(run, name, change):
    """Change a JSON file of a run."""
    document = json.loads((run.path / name).read_text())
    change(document)
    (run.path / name).write_text(json.dumps(document))


@pytest.mark.parametrize("kept", ["lines", "bytes"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_refuses_half_a_log_of_histograms(tmp_path, name, kept):
    run = write_run(tmp_path, "r1", Truth())
    log = run.path / "histograms.hlog"
    lines = log.read_bytes().splitlines(keepends=True)
    half = b"".join(lines[: len(lines) // 2])
    log.write_bytes(half if kept == "lines" else half[:-20])
    status, told, errors = within("report", run.path, "--format", name)
    assert (status, told) == (2, "")
    assert f"{log}: " in errors
    assert "copy it again from its origin" in errors


@pytest.mark.parametrize("file", ["series.parquet", "telemetry.parquet"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_refuses_half_a_table(tmp_path, name, file):
    run = write_run(tmp_path, "r1", Truth())
    table = run.path / file
    table.write_bytes(table.read_bytes()[: table.stat().st_size // 2])
    status, told, errors = within("report", run.path, "--format", name)
    assert (status, told) == (2, "")
    assert f"{table}: cannot read the table" in errors


@pytest.mark.parametrize("name", FORMATS)
def test_an_operation_that_was_renamed_in_the_summary_alone_is_named(tmp_path, name):
    run = write_run(tmp_path, "r1", Truth())

    def rename(summary):
        operations = summary["phases"][0]["operations"]
        operations["other"] = operations.pop(OPERATION)

    edit(run, "summary.json", rename)
    status, told, errors = within("report", run.path, "--format", name)
    assert (status, told) == (2, "")
    assert f"the histograms of {OPERATION}/other/response hold 0 requests, and summary.json counts" in errors


def test_names_of_errors_cannot_add_lines_to_ycsb(tmp_path):
    run = write_run(tmp_path, "r1", Truth(failed_share=0.1))

    def rename(summary):
        errors = summary["phases"][0]["operations"][OPERATION]["errors"]
        errors["a\n[READ], Operations, 1"] = errors.pop("timeout")

    edit(run, "summary.json", rename)
    lines = exported(run, "ycsb").splitlines()
    assert all(re.fullmatch(r"\[[^\]]+\], [^,]+, \S+", line) for line in lines)
    assert not any(line.startswith("[READ]") for line in lines)
    assert any("Return=ERROR-a--READ---Operations--1, " in line for line in lines)


@pytest.mark.parametrize(("name", "key"), [("rally", "relative-time"), ("osb", "relative-time-ms")])
def test_rally_times_count_from_the_start_of_the_task(good, name, key):
    phase = good.summary.phases[0]
    assert phase.start > 0
    (task,) = json.loads(exported(good, name))["results"]["op_metrics"]
    assert task["duration"] == pytest.approx(1e3 * (phase.warmup + phase.duration))
    times = [it[key] for _, it in records(good, name)]
    assert min(times) == pytest.approx(0.0)
    assert max(times) < task["duration"]


def test_rally_reasons_of_older_runs_belong_to_the_phase_that_they_name():
    reasons = (RecordedReason("lateness", "in phase week requests were sent late", "", None, None),)
    phases = [phase(name, {"get": operation(100.0)}) for name in ("week", "weekend")]
    run = MadeUp(summary(*phases, verdict=RecordedVerdict(False, reasons)))
    assert [_meta(run, it, it.operations["get"])["loadframe-reasons"] for it in phases] == [["lateness"], []]
