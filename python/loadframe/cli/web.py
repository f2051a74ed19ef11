"""The live page of a command: what it tells whoever watches, and with --web the page itself."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.cli.output import tell
from loadframe.errors import BadInput

if TYPE_CHECKING:
    from loadframe.live.publisher import Publisher
    from loadframe.live.relay import Relay
    from loadframe.live.server import Server

Web = Annotated[bool, typer.Option("--web", help="Serve a page that shows it live, at the address that is printed.")]
WebAddress = Annotated[
    str | None,
    typer.Option(help="[HOST:]PORT of that page; 127.0.0.1:8350 if not given. Port 0 is any that is free."),
]

#: Where the page is, unless it is said.
_ADDRESS = "127.0.0.1:8350"


def require_web(web: bool, address: str | None) -> tuple[str, int] | None:
    """Return host and port of the page that is asked for, None without one; BadInput for half a wish."""
    from loadframe.live.server import parse_address

    if address is not None and not web:
        raise BadInput("--web-address is where --web serves its page", remedy="give --web, too")
    return parse_address(address or _ADDRESS) if web else None


@contextlib.contextmanager
def published(command: str, name: str, path: Path, page: tuple[str, int] | None) -> Iterator["Publisher"]:
    """Tell watchers how a command goes while inside, and serve the page where one is asked for.

    `path` is the folder that the command writes. BadInput, before anything is done, if the page cannot be served.
    """
    from loadframe.live.publisher import Publisher
    from loadframe.live.relay import Relay

    publisher = Publisher(command, name, path)
    with contextlib.ExitStack() as stack:
        if page:
            # The last to leave: browsers are told the end, too.
            served = stack.enter_context(serving(page, Relay(lambda: [publisher.path])))
            tell(f"the live page: {served.url}")
        yield stack.enter_context(publisher)


@contextlib.contextmanager
def serving(page: tuple[str, int], relay: "Relay") -> Iterator["Server"]:
    """Serve what a relay has."""
    from loadframe.live.server import Server

    server = Server(*page, relay)
    with server, relay:
        yield server
