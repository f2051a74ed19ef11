"""Push of a command's metrics by OTLP over HTTP.

The exporter of the OpenTelemetry SDK encodes and sends. It reads headers, certificates and compression from the
variables `OTEL_EXPORTER_OTLP_*`. An unreachable receiver never fails or delays the command's load.
"""

import logging
import threading
import time
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from loadframe import __version__
from loadframe.base.errors import BadInput
from loadframe.live.metrics import BOUNDS, Family, Metrics, Times

#: Interval of pushes, s.
_EVERY = 5.0
#: Limit of a push with its retries, s.
_PATIENCE = 5.0
#: Units of families -> units of UCUM, as OTLP uses them.
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}


def metrics_endpoint(url: str) -> str:
    """Return the receiver's address for metrics: `URL/v1/metrics`, or `url` if it has a path. BadInput if invalid."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"invalid address {url!r} of --otlp", remedy="give a URL, such as http://127.0.0.1:4318")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/v1/metrics"


class Pusher:
    """Thread that pushes metrics while it is entered, and once more at the end."""

    def __init__(self, url: str, metrics: Metrics) -> None:
        self.endpoint = metrics_endpoint(url)
        self._metrics = metrics
        self._started = time.time_ns()
        self._exporter = OTLPMetricExporter(self.endpoint, timeout=_PATIENCE)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._errors = _LastError()
        self._pushes = self._failed = 0

    @property
    def failure(self) -> str | None:
        """Number of failed pushes with the last cause; None if all succeeded."""
        if not self._failed:
            return None
        return f"{self._failed} of {self._pushes} pushes failed: {self._errors.text or 'no answer'}"

    def __enter__(self) -> Self:
        # Without this handler, the SDK's messages appear in the command's output.
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self._errors)
        logger.propagate = False
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        # A push in progress, and the last one.
        self._thread.join(3 * _PATIENCE)
        self._exporter.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._errors)

    def _run(self) -> None:
        while not self._leaving.wait(_EVERY):
            self._push()
        self._push()

    def _push(self) -> None:
        now = time.time_ns()
        metrics = [_metric(family, self._started, now) for family in self._metrics.families()]
        scope = ScopeMetrics(InstrumentationScope("loadframe", __version__), metrics, "")
        resource = Resource.create({"service.name": "loadframe", "service.version": __version__})
        self._pushes += 1
        result = self._exporter.export(MetricsData([ResourceMetrics(resource, [scope], "")]))
        self._failed += result is not MetricExportResult.SUCCESS


class _LastError(logging.Handler):
    """Handler that keeps the last message of the exporter instead of printing it."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.text = record.getMessage()


def _metric(family: Family, started: int, now: int) -> Metric:
    unit = _UNITS.get(family.unit, f"{{{family.unit}}}" if family.unit else "")
    name = f"loadframe.{family.name}"
    labeled = [(dict(zip(family.labels, labels, strict=True)), value) for labels, value in family.values.items()]
    if family.kind == "histogram":
        points = [_histogram(labels, times, started, now) for labels, times in labeled if isinstance(times, Times)]
        return Metric(name, family.help, unit, Histogram(points, AggregationTemporality.CUMULATIVE))
    numbers = [
        NumberDataPoint(labels, started, now, value) for labels, value in labeled if not isinstance(value, Times)
    ]
    if family.kind == "counter":
        return Metric(name, family.help, unit, Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True))
    name = f"{name}_info" if family.kind == "info" else name
    return Metric(name, family.help, unit, Gauge(numbers))


def _histogram(labels: dict[str, str], times: Times, started: int, now: int) -> HistogramDataPoint:
    # Minimum and maximum are optional in OTLP, and not part of the measures.
    least: Any = None
    return HistogramDataPoint(labels, started, now, times.count, times.sum, times.counts, BOUNDS, min=least, max=least)
