"""The course of a run by second: answers and waiting requests, in new and in old recordings."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadframe.analyze.elastic.course import read_course
from loadframe.analyze.rates import RATES
from loadframe.record import Run
from simulated import Truth, write_histograms, write_run

#: No answers from 20 s to 30 s; eight requests wait from 19.9 s on.
SILENT = range(20, 30)
WARMUP, SECONDS = 1, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a run that lacks the answers of ten seconds."""
    truth = Truth(seconds=SECONDS, warmup=WARMUP, operation="look", noise=0.0)
    run = write_run(tmp_path_factory.mktemp("course"), "silent", replace(truth, events=((60.0, "x", {}),)))
    log = run.path / "histograms.hlog"
    silent = {f"{0.5 + WARMUP + second:.3f}" for second in SILENT}
    lines = [line for line in log.read_text().splitlines() if line.split(",")[1:2] not in [[tag] for tag in silent]]
    log.write_text("\n".join(lines) + "\n")
    return run.path


def silent(folder, unanswered, oldest):
    """Return the course with ten seconds without requests; `unanswered` and `oldest` are functions of the second."""
    table = Run(folder).series
    seconds = [second - WARMUP for second in table["second"].to_pylist()]
    columns = {"unanswered": [unanswered(second) for second in seconds]}
    columns["oldest_unanswered"] = [oldest(second) for second in seconds]
    for name in ("requests", "successes"):
        pairs = zip(seconds, table[name].to_pylist(), strict=True)
        columns[name] = [0 if second in SILENT else value for second, value in pairs]
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.schema.names.index(name), field, pa.array(values, field.type))
    pq.write_table(table, folder / "series.parquet")
    return read_course(Run(folder))


def test_the_unanswered_that_were_recorded_have_the_latency_of_a_silence(folder):
    course = silent(folder, lambda second: 8, lambda second: second - 18.9 if second in SILENT else 0.005)
    assert course.response_p99[20:30] == pytest.approx(np.arange(1.1, 11))
    assert not course.unknown.any()
    assert not course.idle.any()


def test_seconds_without_a_request_are_idle_where_nothing_was_in_flight(folder):
    course = silent(folder, lambda second: 0, lambda second: None)
    assert np.flatnonzero(course.idle).tolist() == list(SILENT)
    assert not course.unknown.any()


def test_of_older_runs_a_silence_is_unknown_and_no_line_is_drawn_across_it(folder):
    course = silent(folder, lambda second: None, lambda second: None)
    assert np.flatnonzero(course.unknown).tolist() == list(SILENT)
    assert np.isnan(course.response_p99[20:30]).all()


def test_requests_without_an_answer_at_the_end_waited_for_as_long_as_was_recorded(tmp_path):
    run = write_run(tmp_path, "hung", Truth(seconds=SECONDS, warmup=WARMUP, operation="look", noise=0.0))
    assert (read_course(run).response_p99 < 1).all()
    write_histograms(tmp_path / "hung.hlog", {0: [20.4] * 50})
    (line,) = [line for line in (tmp_path / "hung.hlog").read_text().splitlines() if line.startswith("Tag=x")]
    with (run.path / "histograms.hlog").open("a") as log:
        log.write(line.replace("Tag=x,0.000", f"Tag=look/look/abandoned,{0.5 + WARMUP + SECONDS:.3f}") + "\n")
    p99 = read_course(Run(run.path)).response_p99
    # They were sent in the second 19, and the load ended after 40 s.
    assert p99[21:] == pytest.approx(np.arange(1.4, 20), rel=0.01)
    assert (p99[:21] < 1).all()


def test_seconds_after_the_last_event_are_not_a_throughput_loss(tmp_path):
    run = write_run(tmp_path, "streamed", Truth(seconds=SECONDS, warmup=WARMUP, operation="look"))
    file = run.path / "summary.json"
    summary = json.loads(file.read_text())
    source = {"pacing": {"source": {"source": "ads", "workers": 4}}, "measured": 25.4}
    (summary["phases"][-1]["streams"][0]).update(source)
    file.write_text(json.dumps(summary))
    assert len(read_course(Run(run.path)).throughput) == 25


def test_documents_are_counted_where_they_are_asked_for_and_failures_stay_requests(tmp_path):
    run = write_run(tmp_path, "loaded", Truth(seconds=SECONDS, warmup=WARMUP, operation="look"))
    requests, documents = read_course(run), read_course(run, RATES["documents"])
    assert (requests.rate.unit, documents.rate.unit) == ("requests/s", "documents/s")
    assert documents.throughput == pytest.approx(100 * requests.throughput), "each request has 100"
    assert documents.successes == pytest.approx(requests.throughput)
    assert documents.failures == pytest.approx(requests.failures)
