"""Push of a command's metrics and spans by OTLP over HTTP.

The exporters of the OpenTelemetry SDK encode and send. They read headers, certificates and compression from the
variables `OTEL_EXPORTER_OTLP_*`. An unreachable receiver never fails or delays the command's load.
"""

import logging
import re
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Exemplar as OtlpExemplar
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
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from loadframe import __version__
from loadframe.base.errors import BadInput
from loadframe.live.feed import Record
from loadframe.live.metrics import BOUNDS, Exemplar, Family, Metrics, Times, segment_of

#: Interval of pushes, s.
_EVERY = 5.0
#: Limit of a push with its retries, s.
_PATIENCE = 5.0
#: Maximum number of spans that wait, and of spans of a push.
_WAITING, _BATCH = 10_000, 512
#: Units of families -> units of UCUM, as OTLP uses them.
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}


_METRICS, _TRACES = "/v1/metrics", "/v1/traces"


def metrics_endpoint(url: str) -> str:
    """Return the receiver's address for metrics: `URL/v1/metrics`, or `url` unchanged if it has a path.

    BadInput if `url`, the value of --otlp, is not a valid http or https URL, or has a query but no path.
    """
    try:
        parts = urlsplit(url)
        # Reading an invalid port raises an error.
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, known = urlsplit(""), False
    has_path = bool(parts.path.strip("/"))
    if not known or (not has_path and (parts.query or parts.fragment)):
        raise BadInput(f"invalid address {url!r} of --otlp", remedy="give a URL, such as http://127.0.0.1:4318")
    return url if has_path else f"{url.rstrip('/')}{_METRICS}"


def traces_endpoint(url: str) -> str:
    """Return the receiver's address for spans, `URL/v1/traces`, from the value of --otlp.

    BadInput if it is invalid, or has a path that does not end in `/v1/metrics`.
    """
    metrics = metrics_endpoint(url)
    if not metrics.endswith(_METRICS):
        remedy = "give the URL without a path, such as http://127.0.0.1:4318"
        raise BadInput(f"--trace cannot derive the address for spans from --otlp {url}", remedy=remedy)
    return metrics.removesuffix(_METRICS) + _TRACES


class _Sender(ABC):
    """Thread that sends to a receiver while it is entered, and once more at the end."""

    def __init__(self, endpoint: str, exporter: Any) -> None:
        """Prepare the thread, which starts when entered; `exporter` sends to `endpoint`, the receiver's URL."""
        self.endpoint = endpoint
        self._exporter = exporter
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._errors = _LastError(self._thread)
        self._resource = Resource.create({"service.name": "loadframe", "service.version": __version__})
        self._scope = InstrumentationScope("loadframe", __version__)

    @abstractmethod
    def _run(self) -> None:
        """Send at intervals until `_leaving` is set, and once more. Runs in the thread."""

    @property
    def _cause(self) -> str:
        """Cause of the last failure, or `no answer` if it is unknown."""
        return self._errors.text or "no answer"

    def __enter__(self) -> Self:
        """Start the thread, and keep the SDK's messages out of the command's output."""
        # Without this handler, the SDK's messages appear in the command's output.
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self._errors)
        logger.propagate = False
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the thread send once more, wait up to 15 s for it, and close the exporter.

        If the thread still sends after that, it is left running.
        """
        self._leaving.set()
        # A push in progress, and the last one.
        self._thread.join(3 * _PATIENCE)
        self._exporter.shutdown()
        if not self._thread.is_alive():
            # Otherwise, the exporter still has to report its last push.
            logging.getLogger("opentelemetry").removeHandler(self._errors)


class Pusher(_Sender):
    """Sender of metrics."""

    def __init__(self, url: str, metrics: Metrics) -> None:
        endpoint = metrics_endpoint(url)
        super().__init__(endpoint, OTLPMetricExporter(endpoint, timeout=_PATIENCE))
        self._metrics = metrics
        self._started = time.time_ns()
        self._pushes = self._failed = 0

    @property
    def summary(self) -> str:
        """Number of accepted pushes, in words."""
        return f"sent metrics; pushes: {self._pushes - self._failed:,}"

    @property
    def failure(self) -> str | None:
        """The numbers of pushes without acceptance and of all pushes, with the last cause; None if all succeeded."""
        if not self._failed:
            return None
        return f"{self._failed} of {self._pushes} pushes failed: {self._cause}"

    def _run(self) -> None:
        """Send every 5 s until `_leaving` is set, and once more."""
        while not self._leaving.wait(_EVERY):
            self._push()
        self._push()

    def _push(self) -> None:
        """Send all metrics once and wait up to 5 s for the answer.

        Counts the push, and counts a failure instead of raising it. A push without an answer yet counts as failed.
        """
        now = time.time_ns()
        metrics = [_metric(family, self._started, now) for family in self._metrics.families()]
        scope = ScopeMetrics(self._scope, metrics, "")
        # Counted before the answer, which may not arrive before the command ends.
        self._pushes += 1
        self._failed += 1
        result = self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))
        self._failed -= result is MetricExportResult.SUCCESS


class SpanPusher(_Sender):
    """Sender of spans. A bounded queue holds the spans that wait; more are dropped and counted."""

    def __init__(self, url: str) -> None:
        endpoint = traces_endpoint(url)
        super().__init__(endpoint, OTLPSpanExporter(endpoint, timeout=_PATIENCE))
        self._lock = threading.Lock()
        self._waiting: deque[ReadableSpan] = deque()
        self._named: dict[str, str] = {}
        self._spans = self._dropped = self._failed = 0

    @property
    def summary(self) -> str:
        """Number of accepted spans, in words."""
        with self._lock:
            sent = self._spans - self._dropped - len(self._waiting) - self._failed
        return f"sent traces; spans: {sent:,}"

    @property
    def failure(self) -> str | None:
        """Numbers of spans that were dropped or not accepted, with the last cause; None if all arrived.

        Spans that wait count as dropped.
        """
        with self._lock:
            dropped = self._dropped + len(self._waiting)
        parts = [f"{self._failed} were not accepted: {self._cause}"] if self._failed else []
        parts += [f"{dropped} were dropped, because too many waited"] if dropped else []
        return f"of {self._spans} spans, {'; '.join(parts)}" if parts else None

    def take(self, records: Sequence[Record]) -> None:
        """Queue the spans of a feed's records of the kind `measures`. Never waits for the receiver.

        Names of the experiment and run in earlier records become attributes of later spans.
        """
        for record in records:
            match record["kind"]:
                case "command":
                    self._named["loadframe.experiment"] = record["name"]
                case "run":
                    self._named["loadframe.run"] = record["run"] or ""
                case "measures":
                    self._queue(record["spans"], {**self._named, "loadframe.phase": record["phase"]})

    def _queue(self, spans: Mapping[str, Any], named: Mapping[str, str]) -> None:
        """Queue the spans `spans["kept"]` with the further attributes `named`; above 10,000 waiting, drop the rest.

        Counts the dropped spans, and those that the engine dropped (the number `spans["dropped"]`).
        """
        room = _WAITING - len(self._waiting)
        kept = [self._span(span, named) for span in spans["kept"][:room]]
        with self._lock:
            self._spans += len(spans["kept"]) + spans["dropped"]
            self._dropped += len(spans["kept"]) - len(kept) + spans["dropped"]
            self._waiting.extend(kept)

    def _span(self, span: Mapping[str, Any], named: Mapping[str, str]) -> ReadableSpan:
        """Return a span of a feed as a span of OpenTelemetry, with the further attributes `named`.

        It lasts from sending to the end of the answer. Attributes with times are in s, `loadframe.scheduled_unix_nano`
        in ns since 1970. Unknown attributes are left out; so are paths of requests and messages of the store.
        """
        # Neither addresses of requests nor messages of stores: both can contain secrets.
        host, _, port = span["node"].rpartition(":")
        attributes: dict[str, Any] = {
            **named,
            **{f"loadframe.{key}": span[key] for key in ("stream", "operation", "rank", "client")},
            "loadframe.segment": segment_of(span),
            "loadframe.scheduled_unix_nano": span["scheduled"],
            "loadframe.service_time": (span["done"] - span["sent"]) / 1e9,
        }
        if span["recorded"]:
            attributes["loadframe.response_time"] = (span["done"] - span["scheduled"]) / 1e9
        if port.isdecimal():
            attributes |= {"server.address": host.strip("[]"), "server.port": int(port)}
        if span["status"] is not None:
            attributes["http.response.status_code"] = span["status"]
        if span["attempt"]:
            attributes["http.request.resend_count"] = span["attempt"]
        if span["error"] is not None:
            attributes["error.type"] = span["error"]
        context = SpanContext(int(span["trace"], 16), int(span["span"], 16), False, TraceFlags(TraceFlags.SAMPLED))
        return ReadableSpan(
            span["operation"],
            context,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.CLIENT,
            status=Status(StatusCode.UNSET if span["error"] is None else StatusCode.ERROR),
            start_time=span["sent"],
            end_time=span["done"],
            instrumentation_scope=self._scope,
        )

    def _run(self) -> None:
        """Send every second until `_leaving` is set, and once more."""
        while not self._leaving.wait(1.0):
            self._push()
        # At the end, a receiver that fails once is not asked again.
        self._push()

    def _push(self) -> None:
        """Send the waiting spans in batches of 512 until none is left or a batch fails. Waits for the receiver.

        A failed batch is counted as not accepted and lost. Failures are not raised.
        """
        accepted = True
        while accepted and self._waiting:
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            # Counted before the answer, which may not arrive before the command ends.
            self._failed += len(batch)
            accepted = self._exporter.export(batch) is SpanExportResult.SUCCESS
            self._failed -= len(batch) if accepted else 0


class _LastError(logging.Handler):
    """Handler that keeps the cause of the last failure in one thread instead of printing messages."""

    text = ""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__()
        self._sender = thread

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the cause of a failure in the sender's thread: the exception of an attempt, or else the message.

        Messages of other threads are ignored.
        """
        if record.thread != self._sender.ident:
            return
        errors = [word for word in record.args or () if isinstance(word, Exception)]
        if errors:
            # The libraries in between wrap the words of the operating system in long ones.
            match = re.search(r"\[Errno -?\d+\] ([^\"')]+)", str(errors[0]))
            self.text = match[1] if match else str(errors[0])
        elif "max retries" not in record.getMessage() or not self.text:
            self.text = record.getMessage().rstrip(".")


def _metric(family: Family, started: int, now: int) -> Metric:
    """Return a family as a metric of OTLP, `loadframe.NAME`, with cumulative counters and histograms.

    `started` (of the command) and `now` are in ns since 1970.
    """
    unit = _UNITS.get(family.unit, f"{{{family.unit}}}" if family.unit else "")
    name = f"loadframe.{family.name}"
    labeled = [(dict(zip(family.labels, labels, strict=True)), value) for labels, value in family.values.items()]
    if family.kind == "histogram":
        points = [
            _histogram(
                dict(zip(family.labels, labels, strict=True)), times, family.exemplars.get(labels, {}), started, now
            )
            for labels, times in family.values.items()
            if isinstance(times, Times)
        ]
        return Metric(name, family.help, unit, Histogram(points, AggregationTemporality.CUMULATIVE))
    numbers = [
        NumberDataPoint(labels, started, now, value) for labels, value in labeled if not isinstance(value, Times)
    ]
    if family.kind == "counter":
        return Metric(name, family.help, unit, Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True))
    name = f"{name}_info" if family.kind == "info" else name
    return Metric(name, family.help, unit, Gauge(numbers))


def _histogram(
    labels: dict[str, str], times: Times, known: Mapping[int, Exemplar], started: int, now: int
) -> HistogramDataPoint:
    """Return the times of one set of labels as a data point of OTLP, with their exemplars by bucket in `known`.

    `started` and `now` are in ns since 1970. The point has no minimum and maximum.
    """
    # Minimum and maximum are optional in OTLP, and not part of the measures.
    least: Any = None
    exemplars = [
        OtlpExemplar({}, exemplar.value, exemplar.done, int(exemplar.span, 16), int(exemplar.trace, 16))
        for exemplar in known.values()
    ]
    return HistogramDataPoint(
        labels, started, now, times.count, times.sum, times.counts, BOUNDS, min=least, max=least, exemplars=exemplars
    )
