"""Pushes of metrics by OTLP over HTTP to a receiver that decodes them."""

import pytest
from feeds import command

from loadframe.base.errors import BadInput
from loadframe.live.metrics import BOUNDS, Metrics
from loadframe.live.otlp import Pusher, metrics_endpoint
from measured import finished, labels, measures, receiver
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
    monkeypatch.setattr("loadframe.live.otlp._PATIENCE", 0.5)
    with Pusher(f"http://127.0.0.1:{free_port()}", recorded()) as pusher:
        pass
    assert pusher.failure.startswith("1 of 1 pushes failed: ")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://host", "http://", ""])
def test_addresses_without_a_scheme_or_host_are_refused(url):
    with pytest.raises(BadInput, match="invalid address"):
        metrics_endpoint(url)
