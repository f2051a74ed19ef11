"""Records of measures as the publisher creates them, and an OTLP receiver that decodes requests."""

import gzip
from contextlib import contextmanager

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from loadframe.live.metrics import BOUNDS
from loopback_server import Handler, LoopbackServer

BUCKETS = len(BOUNDS) + 1
COUNTS = dict.fromkeys(("documents", "dropped", "retries", "bytes_sent", "bytes_received", "in_flight"), 0)


def measures(number, phase, successes, **more):
    """Return the measures of a phase with one operation. Its requests take between 10 and 15 ms."""
    bucket = BOUNDS.index(0.015)
    times = {"counts": [successes if place == bucket else 0 for place in range(BUCKETS)], "sum": successes / 80}
    operation = {"stream": "s", "operation": "read", "measured": True, "successes": successes}
    operation |= {"errors": {"timeout": successes // 10}, "response": times, "service": times, **COUNTS, **more}
    streams = [{"stream": "s", "clients": 4, "rate": None}]
    return {"kind": "measures", "number": number, "phase": phase, "seconds": 1, "streams": streams,
            "operations": [operation], "lateness": times, "spans": {"kept": [], "dropped": 0}}  # fmt: skip


def finished(run, valid, *codes):
    return {"kind": "finished", "run": run, "status": "done", "valid": valid, "codes": codes}


def _metrics(body):
    request = ExportMetricsServiceRequest.FromString(body)
    scopes = [scope for resource in request.resource_metrics for scope in resource.scope_metrics]
    return {metric.name: metric for scope in scopes for metric in scope.metrics}


def _spans(body):
    request = ExportTraceServiceRequest.FromString(body)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def values(part):
    """Return the attributes of a span or point, of any type."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in part.attributes}


@contextmanager
def receiver(status=200):
    """Answer pushes with `status`; yield the address, and the pushes: path, headers, and metrics by name or spans."""
    pushes = []

    class Receiver(Handler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            pushes.append(
                (self.path, dict(self.headers), (_spans if self.path.endswith("/traces") else _metrics)(body))
            )
            answer = ExportMetricsServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with LoopbackServer(Receiver) as server:
        yield f"http://{server.address}", pushes


def labels(point):
    return {attribute.key: attribute.value.string_value for attribute in point.attributes}
