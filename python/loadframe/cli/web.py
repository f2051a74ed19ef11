"""The live page and the metrics of a command, and the records that `loadframe watch` reads."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_share
from loadframe.cli.app import Topic, option
from loadframe.cli.output import tell

if TYPE_CHECKING:
    from loadframe.live.feed import Relay
    from loadframe.live.otlp import Pusher, SpanPusher
    from loadframe.live.publisher import Publisher, Receiver
    from loadframe.live.server import Server

AnyPusher = TypeVar("AnyPusher", "Pusher", "SpanPusher")

Web = Annotated[bool, option(Topic.OUTPUT, "--web", help="Serve a live page, and print its address.")]
WebAddress = Annotated[
    str | None,
    option(Topic.OUTPUT, help="[HOST:]PORT of the live page. Port 0: any free port. Default: 127.0.0.1:8350."),
]

MetricsAddress = Annotated[
    str | None,
    option(
        Topic.OUTPUT,
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus while the command runs. Default host: 127.0.0.1. Port 0: any free port.",
    ),
]
Otlp = Annotated[
    str | None,
    option(Topic.OUTPUT, "--otlp", metavar="URL", help="Push metrics to an OpenTelemetry receiver every 5 s."),
]

TracedShare = Annotated[
    str | None,
    option(
        Topic.OUTPUT,
        "--trace",
        metavar="SHARE",
        help="Trace this share of the HTTP requests, such as 0.1%: they carry a W3C traceparent header, and --otlp "
        "receives their spans.",
    ),
]

#: The default of --web-address.
DEFAULT_ADDRESS = "127.0.0.1:8350"


def require_web(web: bool, address: str | None) -> tuple[str, int] | None:
    """Return host and port of the live page, None without --web.

    BadInput for --web-address without --web, and for a malformed address.
    """
    from loadframe.live.server import parse_address

    if address is not None and not web:
        raise BadInput("--web-address requires --web", remedy="give --web, too")
    return parse_address(address or DEFAULT_ADDRESS) if web else None


@dataclass(frozen=True)
class Outlets:
    """Destinations of a command's metrics: host and port to serve them at, and URL to push them to.

    `trace` is the share of the requests whose spans are pushed, too.
    """

    address: tuple[str, int] | None = None
    otlp: str | None = None
    trace: float | None = None


def require_outlets(metrics: str | None, otlp: str | None, trace: str | None) -> Outlets:
    """Return the outlets of --metrics, --otlp and --trace. BadInput for wrong values or a missing extra."""
    from loadframe.live.server import parse_address

    if otlp is not None:
        try:
            from loadframe.live.otlp import metrics_endpoint, traces_endpoint
        except ImportError:
            remedy = "install the extra `otlp`: pip install 'loadframe[otlp]'"
            raise BadInput(
                "--otlp requires the OpenTelemetry exporter, which is not installed", remedy=remedy
            ) from None
        (metrics_endpoint if trace is None else traces_endpoint)(otlp)
    elif trace is not None:
        raise BadInput("--trace requires --otlp", remedy="give the address of an OpenTelemetry receiver with --otlp")
    share = None if trace is None else parse_share(trace)
    if share == 0:
        raise BadInput(f"--trace {trace} samples no requests", remedy="give a share above 0, such as 0.1%")
    return Outlets(parse_address(metrics, "--metrics") if metrics is not None else None, otlp, share)


@contextlib.contextmanager
def published(
    command: str, name: str, path: Path, page: tuple[str, int] | None, outlets: Outlets | None = None
) -> Iterator["Publisher"]:
    """Publish the progress of a command, and serve the live page at `page`. `path` is the folder it writes.

    `name` is the name of its workload or experiment. Yields the publisher, to which the command passes its progress.
    BadInput on entry if the page or the metrics cannot be served.
    """
    from loadframe.live.feed import Relay
    from loadframe.live.publisher import Publisher

    with contextlib.ExitStack() as stack:
        # The outlets close last, so that they have the final values.
        receivers = stack.enter_context(_exported(outlets)) if outlets else []
        publisher = Publisher(command, name, path, receivers)
        if page:
            # The page closes last, so that browsers learn the end.
            served = stack.enter_context(serving(page, Relay(lambda: [publisher.path])))
            tell(f"live page: {served.url}")
        yield stack.enter_context(publisher)


@contextlib.contextmanager
def _exported(outlets: Outlets) -> Iterator[list["Receiver"]]:
    """Serve and push metrics, and push spans, during the block; yield the receivers of records.

    The list is empty without outlets. Prints the URL of the metrics.
    """
    if outlets == Outlets():
        yield []
        return
    from loadframe.live.metrics import Metrics as CurrentMetrics

    metrics = CurrentMetrics()
    receivers: list[Receiver] = [metrics.take]
    with contextlib.ExitStack() as stack:
        if outlets.address:
            from loadframe.live.openmetrics import MetricsServer

            tell(f"metrics: {stack.enter_context(MetricsServer(*outlets.address, metrics)).url}")
        if outlets.otlp:
            from loadframe.live.otlp import Pusher, SpanPusher

            stack.enter_context(_pushing(Pusher(outlets.otlp, metrics)))
            if outlets.trace is not None:
                receivers.append(stack.enter_context(_pushing(SpanPusher(outlets.otlp))).take)
        yield receivers


@contextlib.contextmanager
def _pushing(pusher: "AnyPusher") -> Iterator["AnyPusher"]:
    """Run a pusher as a context; on exit, print the numbers of accepted and failed pushes, and the last failure."""
    try:
        with pusher:
            yield pusher
    finally:
        tell(f"--otlp {pusher.endpoint}: {pusher.summary}")
        if pusher.failure:
            tell(f"--otlp {pusher.endpoint}: {pusher.failure}; check that a receiver listens there", style="yellow")


@contextlib.contextmanager
def serving(page: tuple[str, int], relay: "Relay") -> Iterator["Server"]:
    """Serve the live page at host and port `page`, with the records of a relay; yield the server."""
    from loadframe.live.server import LiveSite, Server

    server = Server(*page, LiveSite(relay))
    with server, relay:
        yield server
