"""The live page and the metrics of a command, and the records that `loadframe watch` reads."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from loadframe.base.errors import BadInput
from loadframe.cli.app import Topic, option
from loadframe.cli.output import tell

if TYPE_CHECKING:
    from loadframe.live.feed import Relay
    from loadframe.live.metrics import Metrics as CurrentMetrics
    from loadframe.live.otlp import Pusher
    from loadframe.live.publisher import Publisher
    from loadframe.live.server import Server

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

#: The default of --web-address.
DEFAULT_ADDRESS = "127.0.0.1:8350"


def require_web(web: bool, address: str | None) -> tuple[str, int] | None:
    """Return host and port of the live page, None without --web. BadInput for --web-address without --web."""
    from loadframe.live.server import parse_address

    if address is not None and not web:
        raise BadInput("--web-address requires --web", remedy="give --web, too")
    return parse_address(address or DEFAULT_ADDRESS) if web else None


@dataclass(frozen=True)
class Outlets:
    """Destinations of a command's metrics: host and port to serve them at, and URL to push them to."""

    address: tuple[str, int] | None = None
    otlp: str | None = None


def require_outlets(metrics: str | None, otlp: str | None) -> Outlets | None:
    """Return the outlets of --metrics and --otlp, None without. BadInput for wrong addresses or a missing extra."""
    from loadframe.live.server import parse_address

    if otlp is not None:
        try:
            from loadframe.live.otlp import metrics_endpoint
        except ImportError:
            remedy = "install the extra `otlp`: pip install 'loadframe[otlp]'"
            raise BadInput(
                "--otlp requires the OpenTelemetry exporter, which is not installed", remedy=remedy
            ) from None
        metrics_endpoint(otlp)
    if metrics is None and otlp is None:
        return None
    return Outlets(parse_address(metrics, "--metrics") if metrics is not None else None, otlp)


@contextlib.contextmanager
def published(
    command: str, name: str, path: Path, page: tuple[str, int] | None, outlets: Outlets | None = None
) -> Iterator["Publisher"]:
    """Publish the progress of a command, and serve the live page at `page`. `path` is the folder it writes.

    BadInput on entry if the page or the metrics cannot be served.
    """
    from loadframe.live.feed import Relay
    from loadframe.live.publisher import Publisher

    with contextlib.ExitStack() as stack:
        # The outlets close last, so that they have the final values.
        receivers = [stack.enter_context(_exported(outlets)).take] if outlets else []
        publisher = Publisher(command, name, path, receivers)
        if page:
            # The page closes last, so that browsers learn the end.
            served = stack.enter_context(serving(page, Relay(lambda: [publisher.path])))
            tell(f"live page: {served.url}")
        yield stack.enter_context(publisher)


@contextlib.contextmanager
def _exported(outlets: Outlets) -> Iterator["CurrentMetrics"]:
    """Serve and push metrics."""
    from loadframe.live.metrics import Metrics as CurrentMetrics

    metrics = CurrentMetrics()
    with contextlib.ExitStack() as stack:
        if outlets.address:
            from loadframe.live.openmetrics import MetricsServer

            tell(f"metrics: {stack.enter_context(MetricsServer(*outlets.address, metrics)).url}")
        if outlets.otlp:
            stack.enter_context(_pushing(outlets.otlp, metrics))
        yield metrics


@contextlib.contextmanager
def _pushing(url: str, metrics: "CurrentMetrics") -> Iterator["Pusher"]:
    """Push metrics, and report failed pushes at the end."""
    from loadframe.live.otlp import Pusher

    pusher = Pusher(url, metrics)
    try:
        with pusher:
            yield pusher
    finally:
        if pusher.failure:
            tell(f"--otlp {pusher.endpoint}: {pusher.failure}; check that a receiver listens there", style="yellow")


@contextlib.contextmanager
def serving(page: tuple[str, int], relay: "Relay") -> Iterator["Server"]:
    """Serve the page with the records of a relay."""
    from loadframe.live.server import LiveSite, Server

    server = Server(*page, LiveSite(relay))
    with server, relay:
        yield server
