"""HTTP server of a command's metrics in the OpenMetrics and Prometheus text formats.

The text is written here, because prometheus_client needs 30 us per line: 60 ms for the histograms of ten operations.
"""

import gzip
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import accumulate
from types import TracebackType
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.live.metrics import BOUNDS, Exemplar, Family, Metrics, Times
from loadframe.live.server import HttpHandler, HttpServer

#: Prefix of the metrics' names.
_PREFIX = "loadframe"
_LIMITS = (*map(str, BOUNDS), "+Inf")
_OPENMETRICS = "application/openmetrics-text"


def render(families: Iterable[Family], *, openmetrics: bool) -> str:
    """Return metrics as text in the OpenMetrics format 1.0, or, without `openmetrics`, in the Prometheus format 0.0.4.

    The Prometheus format has no exemplars and units.
    """
    lines = [line for family in families for line in _lines(family, openmetrics)]
    return "\n".join([*lines, "# EOF", ""] if openmetrics else [*lines, ""])


def _lines(family: Family, openmetrics: bool) -> Iterator[str]:
    """Yield the lines of a metric, named `loadframe_NAME` with its unit at the end: help, type and samples.

    With `openmetrics`, they have the unit and exemplars, too; the Prometheus format lacks them.
    """
    name = f"{_PREFIX}_{family.name}"
    if not name.endswith(family.unit):
        name += f"_{family.unit}"
    sample = name + {"counter": "_total", "info": "_info"}.get(family.kind, "")
    # The Prometheus format writes the name of the samples here, and its type for information is `gauge`.
    title, kind = (name, family.kind) if openmetrics else (sample, family.kind.replace("info", "gauge"))
    yield f"# HELP {title} {family.help}"
    yield f"# TYPE {title} {kind}"
    if openmetrics and family.unit:
        yield f"# UNIT {title} {family.unit}"
    for values, value in family.values.items():
        labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in zip(family.labels, values, strict=True))
        if isinstance(value, Times):
            known = family.exemplars.get(values, {}) if openmetrics else {}
            yield from _histogram(name, labels, value, known)
        else:
            yield f"{sample}{{{labels}}} {value}"


def _histogram(name: str, labels: str, times: Times, known: Mapping[int, Exemplar]) -> Iterator[str]:
    """Yield the lines of a histogram: cumulative buckets, count and sum (s).

    `name` is the metric's full name, `labels` the written labels without braces (`a="x",b="y"`), and `known` the
    exemplars by index of bucket.
    """
    for place, (limit, count) in enumerate(zip(_LIMITS, accumulate(times.counts), strict=True)):
        exemplar = _exemplar(known[place]) if place in known else ""
        yield f'{name}_bucket{{{labels},le="{limit}"}} {count}{exemplar}'
    yield f"{name}_count{{{labels}}} {times.count}"
    yield f"{name}_sum{{{labels}}} {times.sum}"


def _exemplar(exemplar: Exemplar) -> str:
    """Return the end of a bucket's line that names a traced request: its trace, span, value (s) and time (s)."""
    return f' # {{trace_id="{exemplar.trace}",span_id="{exemplar.span}"}} {exemplar.value} {exemplar.done / 1e9}'


def _escaped(text: str) -> str:
    """Return a label's value with backslashes, line feeds and quotes escaped."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class MetricsServer:
    """HTTP server of metrics, active while it is entered. BadInput if it cannot listen at the address."""

    def __init__(self, host: str, port: int, metrics: Metrics) -> None:
        self._metrics, self._host, self._port = metrics, host, port

    def __enter__(self) -> Self:
        """Listen at the address, and answer in a thread. Port 0 selects a free port. BadInput if it cannot listen."""
        try:
            family, *_, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0]
            self._http = _Http(family, address, self._metrics)
        except (OSError, UnicodeError) as error:
            raise BadInput(
                f"cannot serve metrics: {getattr(error, 'strerror', None) or error}",
                where=f"{self._host}:{self._port}",
                remedy="give another address with --metrics; port 0 selects a free port",
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        return self

    @property
    def url(self) -> str:
        """Address of the metrics, with the port in use; only while the server is entered."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._http.server_address[1]}/metrics"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop answering, close the socket, and wait for the thread."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(HttpServer):
    def __init__(self, family: int, address: Any, metrics: Metrics) -> None:
        self.metrics = metrics
        super().__init__(family, address, _Handler)


class _Handler(HttpHandler):
    server: _Http

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        """Answer any path with all metrics, in the format and compression that the scraper accepts."""
        openmetrics = _OPENMETRICS in self.headers.get("Accept", "")
        content = render(self.server.metrics.families(), openmetrics=openmetrics).encode()
        kind = f"{_OPENMETRICS}; version=1.0.0" if openmetrics else "text/plain; version=0.0.4"
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            content = gzip.compress(content, compresslevel=1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
