"""The live page of a command, and the records that `loadframe watch` reads."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from loadframe.base.errors import BadInput
from loadframe.cli.app import Topic, option
from loadframe.cli.output import tell

if TYPE_CHECKING:
    from loadframe.live.feed import Relay
    from loadframe.live.publisher import Publisher
    from loadframe.live.server import Server

Web = Annotated[bool, option(Topic.OUTPUT, "--web", help="Serve a live page, and print its address.")]
WebAddress = Annotated[
    str | None,
    option(Topic.OUTPUT, help="[HOST:]PORT of the live page. Port 0: any free port. Default: 127.0.0.1:8350."),
]

#: The default of --web-address.
_ADDRESS = "127.0.0.1:8350"


def require_web(web: bool, address: str | None) -> tuple[str, int] | None:
    """Return host and port of the live page, None without --web. BadInput for --web-address without --web."""
    from loadframe.live.server import parse_address

    if address is not None and not web:
        raise BadInput("--web-address requires --web", remedy="give --web, too")
    return parse_address(address or _ADDRESS) if web else None


@contextlib.contextmanager
def published(command: str, name: str, path: Path, page: tuple[str, int] | None) -> Iterator["Publisher"]:
    """Publish the progress of a command, and serve the live page at `page`. `path` is the folder it writes.

    BadInput on entry if the page cannot be served.
    """
    from loadframe.live.feed import Relay
    from loadframe.live.publisher import Publisher

    publisher = Publisher(command, name, path)
    with contextlib.ExitStack() as stack:
        if page:
            # The page closes last, so that browsers learn the end.
            served = stack.enter_context(serving(page, Relay(lambda: [publisher.path])))
            tell(f"live page: {served.url}")
        yield stack.enter_context(publisher)


@contextlib.contextmanager
def serving(page: tuple[str, int], relay: "Relay") -> Iterator["Server"]:
    """Serve the page with the records of a relay."""
    from loadframe.live.server import Server

    server = Server(*page, relay)
    with server, relay:
        yield server
