"""Pushes of metrics and spans by OTLP over HTTP to a receiver that decodes them."""

import contextlib
import json
import socket
import threading
import time
from typing import ClassVar

import pytest
from feeds import command

from commands import PATIENCE
from loadframe import _engine
from loadframe.base.errors import BadInput
from loadframe.live.metrics import BOUNDS, Metrics
from loadframe.live.otlp import Pusher, SpanPusher, metrics_endpoint, traces_endpoint
from loadframe.live.publisher import Publisher
from loadframe.load import run_phase
from loopback_server import Handler, LoopbackServer
from measured import finished, labels, measures, receiver, values
from own_servers import free_port


def recorded():
    metrics = Metrics()
    metrics.take([command("nodes"), measures(1, "look", 30, in_flight=2)])
    return metrics


def test_the_last_push_has_the_final_values(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
    metrics = recorded()
    with receiver() as (url, pushes):
        with Pusher(url, metrics) as pusher:
            metrics.take([measures(1, "look", 50), finished("r1", True)])
        assert pusher.failure is None
    path, headers, pushed = pushes[-1]
    assert (path, headers["authorization"]) == ("/v1/metrics", "Bearer secret")
    requests = pushed["loadframe.requests"].sum
    assert (requests.is_monotonic, requests.aggregation_temporality) == (True, 2), "cumulative"
    assert {labels(point)["outcome"]: point.as_int for point in requests.data_points} == {
        "ok": 50,
        "timeout": 5,
        "dropped": 0,
    }
    (point,) = pushed["loadframe.response_time"].histogram.data_points
    assert labels(point) == {
        "experiment": "nodes", "phase": "look", "stream": "s", "operation": "read", "segment": "measured",
    }  # fmt: skip
    assert (point.count, point.sum, list(point.explicit_bounds)) == (50, 50 / 80, list(BOUNDS))
    assert point.bucket_counts[BOUNDS.index(0.015)] == 50
    assert point.start_time_unix_nano < point.time_unix_nano
    assert (pushed["loadframe.response_time"].unit, pushed["loadframe.sent"].unit) == ("s", "By")
    (command_info,) = pushed["loadframe.command_info"].gauge.data_points
    assert labels(command_info)["command"] == "bench"
    assert "loadframe.clients" not in pushed, "the run has ended"


def test_pushes_of_compressed_data_can_be_configured(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    with receiver() as (url, pushes), Pusher(f"{url}/own/path", recorded()):
        pass
    path, headers, pushed = pushes[-1]
    assert (path, headers["Content-Encoding"]) == ("/own/path", "gzip")
    assert "loadframe.requests" in pushed


def test_a_refusing_receiver_is_reported(capfd):
    with receiver(400) as (url, _), Pusher(url, recorded()) as pusher:
        pass
    assert pusher.failure.startswith("1 of 1 pushes failed: ")
    assert capfd.readouterr().err == ""


def test_a_missing_receiver_is_reported_and_does_not_fail(capfd, monkeypatch):
    monkeypatch.setattr("loadframe.live.otlp._PATIENCE", 1.5)
    with Pusher(f"http://127.0.0.1:{free_port()}", recorded()) as pusher:
        pass
    assert pusher.failure == "1 of 1 pushes failed: Connection refused"
    assert capfd.readouterr().err == ""


def test_a_push_without_an_answer_at_the_end_counts_as_failed(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pusher = Pusher(f"http://127.0.0.1:{silent.getsockname()[1]}", Metrics())
        # The exporter waits longer for its answer than the command for the exporter.
        monkeypatch.setattr("loadframe.live.otlp._PATIENCE", 0.1)
        with pusher:
            pass
        assert pusher.summary == "sent metrics; pushes: 0"
        assert pusher.failure == "1 of 1 pushes failed: no answer"


def test_spans_without_a_receiver_are_reported_with_the_cause_once(monkeypatch):
    monkeypatch.setattr("loadframe.live.otlp._PATIENCE", 1.5)
    with SpanPusher(f"http://127.0.0.1:{free_port()}") as pusher:
        pusher.take([{**measures(1, "look", 1), "spans": {"kept": [span()], "dropped": 0}}])
    assert pusher.failure == "of 1 spans, 1 were not accepted: Connection refused"


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:4318", "ftp://host", "http://", "", "http://[", "http://[::1", "http://host:99999"),
        *("http://host:0", "http://host:port", "http://host?key=1", "http://host/#part"),
    ],
)
def test_addresses_that_are_no_url_of_a_receiver_are_refused(url):
    with pytest.raises(BadInput, match="invalid address"):
        metrics_endpoint(url)


def test_a_path_may_have_a_query():
    assert metrics_endpoint("https://host/own/metrics?key=1") == "https://host/own/metrics?key=1"


class Traced(Handler):
    """Keeps the trace context of each request with its time; refuses each third request."""

    requests: ClassVar = []
    lock = threading.Lock()

    def do_GET(self):
        with self.lock:
            self.requests.append((self.headers["traceparent"], time.time_ns()))
            refuses = len(self.requests) % 3 == 0
        self.send_response(503 if refuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def plan(hosts, requests=600, **more):
    stream = {"name": "s", "mix": [["read", 1]], "pacing": {"closed": {"clients": 3}}, "retries": 5}
    stream |= {"stop": {"requests": requests}, "back_off": {"on": ["server"], "base": 0.001}}
    get = {"http": {"method": "GET", "path": "/"}, "timeout": 30}
    target = {"driver": "http", "hosts": hosts}
    return {
        "seed": 5, "phase": "look", "target": target, "operations": {"read": get}, "streams": [stream], **more,
    }  # fmt: skip


@contextlib.contextmanager
def traced_server():
    """Yield the address of a server and the requests that it gets."""
    handler = type("Kept", (Traced,), {"requests": [], "lock": threading.Lock()})
    with LoopbackServer(handler) as server:
        yield server.address, handler.requests


def ids(headers):
    """Return the ids of trace and span of the requests that carry a trace context."""
    return {tuple(header.split("-")[1:3]) for header, _ in headers if header}


@pytest.fixture
def exported(tmp_path, state):
    """Run a phase; return the spans that the receiver gets, and the requests that the server gets."""

    def exported(**more):
        folder = tmp_path / f"records-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        with receiver() as (url, pushes), traced_server() as (address, requests):
            pusher = SpanPusher(url)
            with pusher, Publisher("bench", "taxis", tmp_path, [pusher.take]) as publisher:
                publisher.phase("look", None)
                run_phase(plan([address], **more), folder, publisher.progress, measuring=publisher.measuring)
            assert pusher.failure is None
        assert {path for path, _, _ in pushes} <= {"/v1/traces"}
        spans = [span for _, _, spans in pushes for span in spans]
        assert pusher.summary == f"sent traces; spans: {len(spans)}"
        return spans, requests, address

    return exported


def test_each_sampled_attempt_has_a_header_and_a_span_with_its_ids(exported):
    spans, requests, address = exported(trace={"share": 0.3, "run": 7})
    sent = {(span.trace_id.hex(), span.span_id.hex()): span for span in spans}
    assert len(sent) == len(spans)
    assert sent.keys() == ids(requests)
    traces = {span.trace_id for span in spans}
    # 600 requests with a share of 0.3: five standard deviations.
    assert abs(len(traces) - 180) < 5 * (600 * 0.3 * 0.7) ** 0.5
    for header, arrived in requests:
        if header is None:
            continue
        version, trace, span, flags = header.split("-")
        assert (version, flags) == ("00", "01")
        exported_span = sent[trace, span]
        assert exported_span.start_time_unix_nano < arrived < exported_span.end_time_unix_nano
    for span in spans:
        known = values(span)
        assert (span.name, span.kind, span.parent_span_id) == ("read", 3, b"")
        assert known["loadframe.scheduled_unix_nano"] <= span.start_time_unix_nano
        lasted = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        assert known["loadframe.service_time"] == pytest.approx(lasted, abs=1e-8)
        assert f"{known['server.address']}:{known['server.port']}" == address
        assert [known[f"loadframe.{key}"] for key in ("experiment", "phase", "stream")] == ["taxis", "look", "s"]
        failed = known["http.response.status_code"] == 503
        assert (known.get("error.type"), span.status.code) == (("server", 2) if failed else (None, 0))
    repeated = [trace for trace in traces if len([span for span in spans if span.trace_id == trace]) > 1]
    assert repeated, "retries are spans of the same trace"
    for trace in repeated:
        attempts = sorted(
            (span for span in spans if span.trace_id == trace), key=lambda span: span.start_time_unix_nano
        )
        assert [values(span).get("http.request.resend_count", 0) for span in attempts] == [*range(len(attempts))]
        assert ["loadframe.response_time" in values(span) for span in attempts][-1]
        assert not any("loadframe.response_time" in values(span) for span in attempts[:-1])


def test_sampling_depends_on_the_seed_and_not_on_threads_or_time(exported):
    def traces(**more):
        return {span.trace_id for span in exported(**more)[0]}

    first = traces(trace={"share": 0.1, "run": 7})
    assert first == traces(trace={"share": 0.1, "run": 7}, threads=2)
    assert first < traces(trace={"share": 0.4, "run": 7}), "a larger share adds requests"
    assert first.isdisjoint(traces(trace={"share": 0.1, "run": 8})), "ids differ between runs"
    spans, requests, _ = exported()
    assert (spans, ids(requests)) == ([], set())


def test_ranks_sample_the_requests_of_one_process_and_rank_0_gets_all_spans(exported, tmp_path):
    alone = {span.trace_id.hex() for span in exported(trace={"share": 0.2, "run": 7})[0]}
    with traced_server() as (address, requests):
        plans = [json.dumps(plan([address], trace={"share": 0.2, "run": 7}, rank=rank, ranks=2)) for rank in range(2)]
        ready = [_engine.prepare_rank(text) for text in plans]
        start = time.monotonic() + 0.5
        recorder = ready[0].recorder(tmp_path, start)
        handles = [one.begin(start) for one in ready]
        assert all(handle.wait(PATIENCE) for handle in handles)
        seconds = {}
        for handle in handles:
            for second in handle.seconds():
                seconds.setdefault(_engine.second_number(second), []).append(second)
        for _, parts in sorted(seconds.items()):
            recorder.second(_engine.add(parts))
        recorder.finish([handle.outcome() for handle in handles])
    read = json.loads(recorder.measures().spans())
    assert {(span["trace"], span["span"]) for span in read["kept"]} == ids(requests)
    assert {span["trace"] for span in read["kept"]} == alone
    assert ({span["rank"] for span in read["kept"]}, {span["node"] for span in read["kept"]}) == ({0, 1}, {address})
    assert read["dropped"] == 0


def test_drivers_without_http_and_own_headers(exported):
    with pytest.raises(_engine.PlanRefused, match=r"traces require requests over HTTP.*redis.*remove --trace"):
        redis = {**plan(["127.0.0.1:1"]), "operations": {"read": {"read": {"collection": "c", "id": "1"}}}}
        redis["target"] = {"driver": "redis", "hosts": ["127.0.0.1:1"]}
        _engine.validate(json.dumps({**redis, "trace": {"share": 0.1, "run": 1}}))
    operation = {"http": {"method": "GET", "path": "/", "headers": {"Traceparent": "own"}}}
    spans, requests, _ = exported(requests=20, operations={"read": operation}, trace={"share": 1, "run": 1})
    assert (spans, {header for header, _ in requests}) == ([], {"own"})


def span(**more):
    """Return a span as the engine describes it."""
    times = {"scheduled": 10, "sent": 20, "done": 30}
    return {
        "trace": "a" * 32, "span": "b" * 16, "attempt": 0, "recorded": True, "stream": "s", "operation": "read",
        "measured": True, "rank": 0, "client": 1, **times, "node": "[::1]:9200", "status": 200, "error": None, **more,
    }  # fmt: skip


def test_spans_beyond_the_queue_are_dropped_and_counted_while_the_receiver_hangs(monkeypatch):
    monkeypatch.setattr("loadframe.live.otlp._PATIENCE", 0.2)
    monkeypatch.setattr("loadframe.live.otlp._WAITING", 100)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pusher = SpanPusher(f"http://127.0.0.1:{silent.getsockname()[1]}")
        for _ in range(3):
            pusher.take([{**measures(1, "look", 1), "spans": {"kept": [span()] * 90, "dropped": 5}}])
        with pusher:
            pass
    assert pusher.failure.startswith("of 285 spans, ")
    refused, dropped = (int(part.split()[0]) for part in pusher.failure.removeprefix("of 285 spans, ").split("; "))
    assert (refused, dropped) == (100, 15 + 170)


@pytest.mark.parametrize(("status", "cause"), [(400, "400"), (503, "timeout")])
def test_a_receiver_that_refuses_spans_is_reported(status, cause, monkeypatch, capfd):
    monkeypatch.setattr("loadframe.live.otlp._PATIENCE", 0.5)
    with receiver(status) as (url, _), SpanPusher(url) as pusher:
        pusher.take([{**measures(1, "look", 1), "spans": {"kept": [span()], "dropped": 0}}])
    assert pusher.summary == "sent traces; spans: 0"
    assert pusher.failure.startswith("of 1 spans, 1 were not accepted: ")
    assert cause in pusher.failure
    assert capfd.readouterr().err == ""


def test_exemplars_are_pushed_with_the_histograms():
    metrics = recorded()
    spans = [span(), span(trace="c" * 32, error="timeout"), span(trace="d" * 32, recorded=False)]
    metrics.take([{**measures(1, "look", 40), "spans": {"kept": spans, "dropped": 0}}])
    with receiver() as (url, pushes), Pusher(url, metrics):
        pass
    for name, lasted in (("response_time", 20e-9), ("service_time", 10e-9)):
        (point,) = pushes[-1][2][f"loadframe.{name}"].histogram.data_points
        (exemplar,) = point.exemplars
        assert (exemplar.trace_id.hex(), exemplar.span_id.hex()) == ("a" * 32, "b" * 16)
        assert (exemplar.as_double, exemplar.time_unix_nano) == (pytest.approx(lasted), 30)


def test_the_address_for_spans_follows_from_that_for_metrics():
    assert traces_endpoint("http://host:4318/") == "http://host:4318/v1/traces"
    assert traces_endpoint("http://host/otlp/v1/metrics") == "http://host/otlp/v1/traces"
    with pytest.raises(BadInput, match="cannot derive the address for spans from --otlp http://host/own"):
        traces_endpoint("http://host/own")
