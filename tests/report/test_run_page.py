"""The page of a single run, and the same in brief on the terminal."""

import io
import json
import math
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pages import Page
from rich.console import Console

from loadframe.analyze.percentiles import Percentile, percentiles_of
from loadframe.analyze.telemetry import ProcessesOf, Unsampled
from loadframe.base.units import format_duration
from loadframe.record import Run, RunWriter
from loadframe.record.schema.figures import FailureMessage, Latency
from loadframe.record.schema.summary import RankFigures, RecordedFigure, RecordedReason
from loadframe.report.labels import (
    ends_text,
    few_text,
    interval_text,
    messages_texts,
    reconnects_texts,
    retries_texts,
    setup_texts,
)
from loadframe.report.plot import Axis, Figure, Panel, Trace
from loadframe.report.plot.draw import data, draw
from loadframe.report.plots.run import phase_over_time, resources_over_time, run_over_time
from loadframe.report.run.document import run_document
from loadframe.report.run.page import operations_table, run_page
from loadframe.report.run.terminal import print_run
from loadframe.report.run_status import bounds_of, merged_reasons, merged_unchecked
from loadframe.report.tables import failures_table, ranks_table, run_cpu
from simulated import Truth, add_samples, write_run

EVIL = "a \x1b[2Jtxt.exe\u202e\x9b1m\u2066 b"
MARKS = set("\u202e\u2066\x1b\x9b")


def printed(run):
    console = Console(file=io.StringIO(), width=100)
    print_run(run, console)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), "r1", Truth(), nodes=2, clients=8)


def test_a_run_has_its_figures_its_verdict_and_its_setup(run):
    page = Page(run_page(run))
    assert page.loads == []
    assert page.headings[0] == "nyc_taxis on opensearch 3.8.0, 2 nodes, each 0.5 CPUs and 1 GiB"
    assert "range_100, 8 clients:" in page.text
    assert "Valid: no problem was found." in page.text
    assert "Not checked: steadiness of phase range_100" in page.text
    assert set(page.plots) == {"run-over-time", "resources"}
    assert "Example CPU 3.0 GHz" in page.text
    assert "file workloads/nyc_taxis.yaml, SHA-256 0000000000000000…" in page.text


def test_a_run_of_too_few_requests_does_not_look_certain(tmp_path):
    few = write_run(tmp_path, "r1", Truth(seconds=2, lam=3.0))
    page = Page(run_page(few))
    words = "Valid, but too short for 95 % intervals."
    assert words in page.text and "no problem was found" not in page.text
    assert words in printed(few) and "\nvalid" not in printed(few)
    (headline,) = run_page(few).answer
    assert "[unknown], maximum" in headline and "requests." in headline and "p99" not in headline
    assert Run(few.path).summary.verdict.valid is True
    long = write_run(tmp_path, "r2", Truth(seconds=30))
    (headline,) = run_page(long).answer
    assert "p99" in headline and "[" not in headline
    assert "\nvalid\n" in printed(long)


def test_closed_loops_have_a_note_on_their_percentiles(run, tmp_path):
    words = "each client waits for its answer before it sends the next request"
    assert words in Page(run_page(run)).text
    assert words in " ".join(printed(run).split())
    rated = write_run(tmp_path, "r1", Truth(rate=50.0))
    assert words not in Page(run_page(rated)).text
    assert words not in " ".join(printed(rated).split())


@pytest.mark.parametrize(("group", "offered"), [(1, 50.0), (3, 150.0)])
def test_the_offered_rate_of_exported_figures_counts_requests(tmp_path, group, offered):
    rated = write_run(tmp_path, "r1", Truth(rate=50.0))
    phase = rated.summary.phases[-1]
    phase = replace(phase, streams=(replace(phase.streams[0], group=group),))
    rated.__dict__["summary"] = replace(rated.summary, phases=(phase,))
    table = operations_table(rated, percentiles_of(rated)).data
    assert {row[table.columns.index("offered/s")].number.value for row in table.rows} == {offered}


def test_the_offered_rate_of_journeys_counts_their_requests(tmp_path):
    rated = write_run(tmp_path, "r1", Truth(rate=50.0))
    phase, stream = rated.summary.phases[-1], rated.summary.phases[-1].streams[0]
    planned = [{"name": phase.name, "streams": [{"name": stream.name, "journey": ["post", "read"]}]}]
    rated.__dict__["manifest"] = replace(rated.manifest, workload=replace(rated.manifest.workload, phases=planned))
    table = operations_table(rated, percentiles_of(rated)).data
    assert {row[table.columns.index("offered/s")].number.value for row in table.rows} >= {100.0}


def test_throughput_over_time_counts_each_second(run):
    plot = Page(run_page(run)).plots["run-over-time"]
    throughput = plot["traces"][0]
    assert len(throughput["y"]) == 6
    assert sum(throughput["y"]) == sum(run.series["successes"].to_pylist())


def test_a_second_in_which_nothing_was_answered_is_a_gap(run):
    run = Run(run.path)
    answered = run.series["response_p99"].to_pylist()
    column = run.series.schema.get_field_index("response_p99")
    median = run.series.schema.get_field_index("response_p50")
    gap = [None if second == 3 else value for second, value in enumerate(answered)]
    run.__dict__["series"] = run.series.set_column(column, "response_p99", pa.array(gap)).set_column(
        median, "response_p50", pa.array(gap)
    )
    percentiles = [trace for trace in Page(run_page(run)).plots["run-over-time"]["traces"] if trace["name"] == "p99"]
    assert [value is None for value in percentiles[0]["y"]] == [False, False, False, True, False, False]


def test_invalid_runs_are_marked_first(tmp_path):
    run = write_run(tmp_path, "r1", Truth(), deviations=["a copy is out of service"])
    page = Page(run_page(run))
    assert "Invalid: do not rely on these figures." in page.text
    assert page.text.index("do not rely on these figures") < page.text.index("requests/s, median")
    assert page.text.count("do not rely on these figures") == 1
    assert all(words.startswith("Invalid: ") for words in run_page(run).answer)
    assert "throughput of range_100: unknown (cluster_state)" in page.text
    assert printed(run).splitlines()[1].startswith("INVALID: do not rely on these figures")
    assert "! a copy is out of service" in printed(run)


def test_a_run_of_a_saturated_generator_shows_the_bounds_of_its_figures(tmp_path):
    run = write_run(tmp_path, "r1", Truth(cpu_share=0.9))
    text = Page(run_page(run)).text
    assert "Valid, bounded: delays or limits of the load generator" in text
    assert "or more requests/s (generator_cpu)" in text
    assert "response times of range_100 in range_100: bounded, p50 at most" in text
    assert "In phase range_100 a generator thread used 90 % of its core" in text
    assert "Valid, bounded: delays or limits of the load generator" in printed(run)


def test_ranks_are_shown_with_their_machines_and_of_many_those_that_did_least(run):
    phase = run.summary.phases[-1]
    assert ranks_table([phase]) is None

    def table(number):
        ranks = tuple(RankFigures(rank=rank, machine=f"m{rank}", requests=1000 + rank) for rank in range(number))
        return ranks_table([replace(phase, ranks=ranks)])

    assert [(row[1].text, row[2].text, row[3].text) for row in table(2).rows] == [
        ("0", "m0", "1,000"),
        ("1", "m1", "1,001"),
    ]
    assert [row[1].text for row in table(100).rows] == [str(rank) for rank in range(32)]
    assert table(100).note.startswith("summary.json has 68 more ranks, with more requests.")


def test_failed_requests_are_shown_by_class(tmp_path):
    run = write_run(tmp_path, "r1", Truth(failed_share=0.1))
    assert "timeout" in printed(run)
    assert "timeout" in Page(run_page(run)).text


def test_failures_that_were_slow_show_beside_the_percentiles_of_successes(tmp_path, run):
    slow = write_run(tmp_path, "r1", Truth(failed_share=0.1))
    operation = slow.summary.phases[0].operations["range_100"]
    # On average, failures in this recording take ten times the time of successes.
    assert operation.response.p99 < 0.5 * operation.all.p99 == 0.5 * operation.failure.p50
    shown = format_duration(operation.all.p99)
    row = next(line for line in printed(slow).splitlines() if "with failures" in line)
    assert shown in row
    assert f"({shown} with failures)." in Page(run_page(slow)).text
    for text in (printed(run), Page(run_page(run)).text):
        assert "with failures" not in text, "nothing failed"


def test_a_run_of_before_failures_had_times_is_still_shown(tmp_path):
    run = write_run(tmp_path, "r1", Truth(failed_share=0.1))
    file = run.path / "summary.json"
    summary = json.loads(file.read_text())
    for operation in summary["phases"][0]["operations"].values():
        del operation["failure"], operation["all"]
    del summary["generator"]["longest_stall"], summary["generator"]["away_share"]
    file.write_text(json.dumps(summary))
    run = Run(run.path)
    assert "with failures" not in printed(run) + Page(run_page(run)).text


def test_the_terminal_shows_figures_per_operation(run):
    text = printed(run)
    assert "nyc_taxis on opensearch 3.8.0, 2 nodes, each 0.5 CPUs and 1 GiB" in text
    assert "range_100 · 8 clients · measured 5 s after 1 s of warm-up" in text
    assert "valid" in text
    assert "not checked: steadiness of phase range_100" in text


def test_the_terminal_names_the_ranks_that_generated_the_load(tmp_path):
    run = write_run(tmp_path, "r1", Truth())
    assert "ranks" not in printed(run)
    manifest = json.loads((run.path / "manifest.json").read_text())
    members = [{"rank": rank, "machine": f"n{rank // 2}"} for rank in range(4)]
    manifest["generator"] |= {"ranks": 4, "members": members}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    assert "load by 4 ranks on 2 machines" in printed(Run(run.path))


def test_a_failed_run_names_the_failure(tmp_path, run):
    with RunWriter(tmp_path, "f1") as writer:
        path = writer.finish(run.raw_manifest, {"status": "failed", "failure": "node 1 did not come up"})
    failed = type(run)(path)
    assert "The run failed: node 1 did not come up" in printed(failed)
    assert "The run failed: node 1 did not come up." in Page(run_page(failed)).text


def test_percentiles_carry_their_intervals_and_those_of_few_requests_a_mark(tmp_path):
    run = write_run(tmp_path, "r1", Truth(lam=12.5, sigma=0.0, kappa=0.0, noise=0.0, seconds=5))
    text = printed(run)
    most = next(line for line in text.splitlines() if line.startswith("  95 % high"))
    assert most.split()[-1] == "unknown", "nothing bounds p99.9 of 1,000 requests"
    assert "ms*" in next(line for line in text.splitlines() if line.startswith("range_100  "))
    assert "Fewer than 10 requests are slower" in text
    assert "* Fewer than 10 requests are slower" in Page(run_page(run)).text
    result = run_document(run)["percentiles"]["range_100"]["range_100"]
    assert result["p999"]["few"]
    assert result["p999"]["high"] is None
    assert not result["p50"]["few"]


def test_a_second_that_the_end_cut_short_is_not_drawn(run):
    phase = run.summary.phases[-1]
    cut = replace(phase, duration=phase.duration - 0.6)
    brief = replace(phase, warmup=0.0, duration=0.4)
    whole, last, only = (
        list(phase_over_time(run, of, "range_100", "f", "A caption.").traces[0].y) for of in (phase, cut, brief)
    )
    assert last == whole[:-1]
    assert only == whole[:1]


def test_attempts_are_drawn_beside_requests_that_were_retried(run):
    first = run.summary.phases[0]
    retried = replace(first, operations={"range_100": replace(first.operations["range_100"], retries=3)})
    column = run.series.schema.get_field_index("retries")
    series = run.series.set_column(column, "retries", pa.array([3] * run.series.num_rows))
    again = changed(run, series=series, summary=replace(run.summary, phases=(retried,)))
    plain, attempts = (
        [trace for trace in run_over_time(of, "f").traces if trace.name == "attempts, with retries"]
        for of in (run, again)
    )
    assert not plain
    rows = series.filter(pc.equal(series["phase"], first.name)).filter(pc.equal(series["operation"], "range_100"))
    by_second = rows.group_by("second").aggregate([("requests", "sum"), ("retries", "sum")]).sort_by("second")
    expected = [row["requests_sum"] + row["retries_sum"] for row in by_second.to_pylist()]
    assert list(attempts[0].y) == expected[: len(attempts[0].y)]


def changed(run, **members):
    """Return the run with other members than it has on disk."""
    other = type(run)(run.path)
    vars(other).update(members)
    return other


def test_a_page_has_no_marks_of_text_direction_and_no_control_characters(run):
    manifest = replace(run.manifest, workload=replace(run.manifest.workload, name=EVIL))
    first = run.summary.phases[0]
    operation = replace(first.operations["range_100"], messages=(FailureMessage("client", EVIL, 1, 401),))
    summary = replace(run.summary, phases=(replace(first, operations={"range_100": operation}),))
    text = run_page(changed(run, manifest=manifest, summary=summary))
    assert text.count("a txt.exe b") >= 2
    assert not MARKS & set(text)


def test_a_plot_has_no_marks_of_text_direction_and_no_control_characters():
    figure = Figure("name", Axis(EVIL), (Panel(Axis(EVIL)),), (Trace([1.0, 2.0], [1.0, 2.0], EVIL),), EVIL)
    text = draw(figure) + json.dumps(json.loads(data(figure)), ensure_ascii=False)
    assert text.count("a txt.exe b") > 2
    assert not MARKS & set(text)


@pytest.mark.parametrize("length", [0.0004, 0.4, 1.3])
def test_a_phase_shorter_than_a_second_has_its_page_although_activities_of_the_store_were_watched(tmp_path, length):
    long = write_run(tmp_path, "r1", Truth(totals={"refresh_ms": lambda second: 50.0 * second**2}))
    brief = replace(long.summary.phases[0], warmup=0.0, duration=length)
    run = changed(long, summary=replace(long.summary, phases=(brief,)))
    assert "nyc_taxis on opensearch" in Page(run_page(run)).headings[0]
    assert run_document(run)["phases"][0]["name"] == "range_100"
    assert "range_100" in printed(run)


def test_a_percentile_of_a_handful_of_requests_has_unknown_bounds_and_says_why(tmp_path):
    ends = Percentile(0.04, 0.0, math.inf, 2.5)
    assert ends_text(ends) == ("unknown", "unknown")
    assert interval_text(ends) == "[unknown]*"
    assert (ends.as_dict()["low"], ends.as_dict()["high"]) == (None, None)
    assert "unknown: too few independent requests" in few_text([ends])
    assert "unknown" not in few_text([Percentile(0.04, 0.03, 0.05, 2.5)])
    run = write_run(tmp_path, "r1", Truth(lam=12.5, sigma=0.0, kappa=0.0, noise=0.0, seconds=5))
    assert "unknown: too few independent requests" in Page(run_page(run)).text


def test_failures_have_their_messages(run):
    first = run.summary.phases[0]
    messages = (FailureMessage("client", "token <expired>", 120, 401), FailureMessage("timeout", "no answer", 3))
    operation = replace(first.operations["range_100"], messages=messages, reconnects=7, retries=1)
    phase = replace(first, operations={"range_100": operation})
    rows = [[cell.text for cell in row][2:] for row in failures_table([phase]).rows]
    assert rows == [["client", "401", "120", "token <expired>"], ["timeout", "", "3", "no answer"]]
    assert messages_texts(phase)[0] == "120 of range_100 failed with 401 (client): token <expired>"
    assert reconnects_texts(phase) == ["7 reconnects: the server closed the connection, or it broke"]
    assert retries_texts(phase) == ["1 retry of range_100: response times include the back-off"]
    assert failures_table([first]) is None


def test_connection_setup_is_shown_where_connections_were_opened(run):
    (first, *_) = run.summary.phases
    setup = Latency(count=1200, mean=2e-3, p50=1e-3, p90=3e-3, p99=5e-3, p999=8e-3, max=9e-3)
    assert setup_texts(replace(first, setup=setup)) == ["setup of 1,200 connections: p50 1 ms, p99 5 ms, max 9 ms"]
    assert setup_texts(replace(first, setup=Latency())) == setup_texts(replace(first, setup=None)) == []


def test_bounded_figures_of_an_interrupted_run_are_written_with_their_bounds(tmp_path):
    folder = write_run(tmp_path, "r", Truth(seconds=2)).path
    summary = json.loads((folder / "summary.json").read_text())
    phase, operation = summary["phases"][0]["name"], next(iter(summary["phases"][0]["operations"]))
    summary["status"] = "interrupted"
    summary["verdict"]["figures"] = [
        {"phase": phase, "figure": "throughput", "state": "bounded", "low": {"value": 90.0}},
        {
            "phase": phase, "figure": "response", "state": "bounded", "operation": operation,
            "low": {"p50": 0.01, "p99": 0.02}, "high": {"p50": 0.011},
        },
    ]  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary))
    throughput, response = bounds_of(Run(folder))
    assert throughput == f"throughput of {phase}: bounded, 90 or more requests/s"
    assert response.endswith("bounded, p50 10 ms to 11 ms, p99 20 ms or more")


def test_each_bounded_run_has_a_list_of_its_bounded_figures(tmp_path):
    run = write_run(tmp_path, "r1", Truth())
    figures = tuple(
        replace(it, state="bounded", low={"p50": 0.1}, high={"p50": 0.2}) if it.figure == "all" else
        replace(it, state="good") for it in run.summary.verdict.figures
    )  # fmt: skip
    summary = replace(run.summary, verdict=replace(run.summary.verdict, figures=figures))
    limited = changed(run, summary=summary)
    (line,) = bounds_of(limited)
    assert line.startswith("response times with failures of range_100 in range_100: bounded, p50 100 ms to 200 ms")
    assert "1 bounded or unknown figure" in Page(run_page(limited)).text


def test_phases_without_documents_have_no_bounds_of_documents(tmp_path):
    run = write_run(tmp_path, "r1", Truth())
    bound = RecordedFigure(run.summary.phases[0].name, "documents", "bounded", low={"value": 0.0}, high={"value": 0.0})
    verdict = replace(run.summary.verdict, figures=(bound,))
    limited = changed(run, summary=replace(run.summary, verdict=verdict))
    assert len(bounds_of(limited)) == 1
    (phase,) = limited.summary.phases
    operations = {name: replace(it, documents_per_second=0.0) for name, it in phase.operations.items()}
    without = replace(limited.summary, phases=(replace(phase, operations=operations),))
    assert bounds_of(changed(limited, summary=without)) == []


def test_reasons_of_one_rule_in_several_phases_are_one_entry():
    reasons = [RecordedReason("late", f"in phase {name} late", "wait", name) for name in "abcdef"]
    other = RecordedReason("lag", "lagged", "stop", None)
    assert merged_reasons([*reasons[:2], other]) == [("in phase a late; also in b", "wait"), ("lagged", "stop")]
    assert merged_reasons(reasons) == [("in phase a late; also in b, c, d and 2 more", "wait")]


def test_rules_not_checked_in_several_phases_are_one_entry():
    short = [f"steadiness of phase {name}: 2 s is too short (20 s are needed)" for name in "abcdef"]
    other = "steadiness of phase g: a node was lost"
    assert merged_unchecked([short[0], other, "the limits: unknown"]) == [short[0], other, "the limits: unknown"]
    (words,) = merged_unchecked(short)
    assert words == "steadiness of phases a, b, c and 3 more: 2 s is too short (20 s are needed)"


def test_long_tables_are_folded_except_the_operations(run):
    (phase,) = run.summary.phases
    many = run_page(changed(run, summary=replace(run.summary, phases=(phase,) * 25)))
    folds = re.findall(r"<details>\s*<summary>\d+ rows</summary>(.*?)</details>", many, re.DOTALL)
    assert any("<td" in content for content in folds), "samples"
    assert all(">operation<" not in content for content in folds)
    assert many.count(f">{next(iter(phase.operations))}<") >= 25
    few = replace(run.summary, phases=(phase,) * 2)
    assert "rows</summary>" not in run_page(changed(run, summary=few))


def test_a_cpu_table_without_figures_is_omitted():
    gap = Unsampled("load", {}, 1, 1, 1.0, 2.0)
    assert run_cpu(ProcessesOf({}, [gap])) is None


def test_the_cpu_of_each_node_and_the_traffic_are_drawn_over_time(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=6), nodes=2)
    nodes = [trace for trace in Page(run_page(run)).plots["resources"]["traces"] if trace["panel"] == 0]
    assert [trace["name"] for trace in nodes] == ["0", "1"]
    rows = run.telemetry.filter(pc.equal(run.telemetry["metric"], "process.cpu"))
    drawn = [value for trace in nodes for value in trace["y"]]
    assert sorted(drawn) == pytest.approx(sorted(rows["value"].to_pylist()))


def test_the_traffic_of_all_machines_with_nodes_is_drawn(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=6))
    machines = ("host", "machine:store-1", "machine:store-2")
    samples = [(float(second), source, 2e6) for source in machines for second in range(1, 6)]
    add_samples(run, "network.received", samples)
    figure = Page(run_page(Run(run.path))).plots["resources"]
    traffic = [trace["name"] for trace in figure["traces"] if trace["panel"] == 1]
    assert traffic == [f"machine{name} received" for name in ("", " store-1", " store-2")]


def test_the_cpu_of_each_node_is_drawn_in_user_mode_and_in_the_kernel(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=6), nodes=2)
    rows = run.telemetry.filter(pc.equal(run.telemetry["metric"], "process.cpu"))
    place = rows.schema.get_field_index("metric")
    parts = [
        rows.set_column(place, "metric", pa.array([f"process.cpu_{mode}"] * len(rows))) for mode in ("user", "system")
    ]
    telemetry = pa.concat_tables([run.telemetry, *(part.cast(run.telemetry.schema) for part in parts)])
    figure = Page(run_page(changed(run, telemetry=telemetry))).plots["resources"]
    nodes = [trace["name"] for trace in figure["traces"] if trace["panel"] == 0]
    assert nodes == ["0 system", "0 user", "1 system", "1 user"]


def test_plots_of_a_run_of_one_second_reach_its_end_and_show_its_points(tmp_path):
    run = write_run(tmp_path, "r", Truth(seconds=1))
    (phase,) = run.summary.phases
    over_time = run_over_time(run, "f")
    whole = phase_over_time(run, phase, "range_100", "h", "A caption.")
    end = phase.warmup + phase.duration
    for figure, last in (
        (over_time, phase.start + end),
        (resources_over_time(run, "g"), phase.start + end),
        (whole, end),
    ):
        assert figure.x.range[0] == 0
        assert figure.x.range[1] >= last
        drawn = [trace for trace in figure.traces if any(value is not None for value in trace.y)]
        assert drawn
        # A line through few points would hardly be visible.
        assert all(trace.mark or sum(value is not None for value in trace.y) > 3 for trace in drawn)
    longer = run_over_time(write_run(tmp_path, "s", Truth(seconds=9)), "f")
    assert not any(trace.mark for trace in longer.traces)


def over_time_of(run, count):
    """Draw the run as if its requests were of `count` operations; return the traces of percentiles in the legend."""
    first = run.summary.phases[0]
    names = [f"look-{number}" for number in range(count)]
    operations = dict.fromkeys(names, first.operations["range_100"])
    column = pa.array([names[index % count] for index in range(run.series.num_rows)])
    series = run.series.set_column(run.series.schema.get_field_index("operation"), "operation", column)
    summary = replace(run.summary, phases=(replace(first, operations=operations),))
    figure = run_over_time(changed(run, summary=summary, series=series), "over-time")
    return [trace for trace in figure.traces if trace.legend and trace.group in ("p50", "p99")]


def test_the_legend_of_many_operations_has_one_entry_for_each_percentile(run):
    assert {trace.name for trace in over_time_of(run, 6)} == {"p50 of each operation", "p99 of each operation"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_legend_entry_of_few_operations_has_its_own_line(run, count):
    drawn = over_time_of(run, count)
    assert len(drawn) == 2 * count
    assert len({(trace.line.color, trace.line.dash) for trace in drawn}) == 2 * count
