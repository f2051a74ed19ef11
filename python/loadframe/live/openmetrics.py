"""HTTP server of a command's metrics in the OpenMetrics and Prometheus text formats."""

from collections.abc import Iterator
from itertools import accumulate
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as OpenMetricsExemplar
from prometheus_client.utils import floatToGoString

from loadframe.base.errors import BadInput
from loadframe.live.metrics import BOUNDS, Exemplar, Family, Metrics, Times

#: Prefix of the metrics' names.
_PREFIX = "loadframe"
_LIMITS = [*map(floatToGoString, BOUNDS), "+Inf"]


class _Collector(Collector):
    """Metrics at the time of a scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        return map(_metric, self._metrics.families())


def _metric(family: Family) -> Metric:
    name = f"{_PREFIX}_{family.name}"
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, family.help, labels=family.labels, unit=family.unit)
        for labels, times in family.values.items():
            assert isinstance(times, Times)
            counts = map(float, accumulate(times.counts))
            known = family.exemplars.get(labels, {})
            buckets = [
                (limit, count, _exemplar(known[place])) if place in known else (limit, count)
                for place, (limit, count) in enumerate(zip(_LIMITS, counts, strict=True))
            ]
            histogram.add_metric(labels, buckets, times.sum)
        return histogram
    if family.kind == "info":
        info = InfoMetricFamily(name, family.help)
        for labels in family.values:
            info.add_metric([], dict(zip(family.labels, labels, strict=True)))
        return info
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(name, family.help, labels=family.labels, unit=family.unit)
    for labels, value in family.values.items():
        assert not isinstance(value, Times)
        metric.add_metric(labels, value)
    return metric


def _exemplar(exemplar: Exemplar) -> OpenMetricsExemplar:
    return OpenMetricsExemplar(
        {"trace_id": exemplar.trace, "span_id": exemplar.span}, exemplar.value, exemplar.done / 1e9
    )


class MetricsServer:
    """HTTP server of metrics, active while it is entered. BadInput if it cannot listen at the address."""

    def __init__(self, host: str, port: int, metrics: Metrics) -> None:
        self._metrics, self._host, self._port = metrics, host, port

    def __enter__(self) -> Self:
        registry = CollectorRegistry()
        registry.register(_Collector(self._metrics))
        try:
            self._http, self._thread = start_http_server(self._port, self._host, registry)
        except OSError as error:
            raise BadInput(
                f"cannot serve metrics: {error.strerror or error}",
                where=f"{self._host}:{self._port}",
                remedy="give another address with --metrics; port 0 selects a free port",
            ) from error
        return self

    @property
    def url(self) -> str:
        """Address of the metrics."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._http.server_port}/metrics"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
