"""Lines of the advertiser's log, in a file or sent to a port, for measurements of ingest."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from loadframe import _engine
from loadframe.base.errors import LoadframeError

#: Fields that the source parses.
EVENTS: dict[str, Any] = {
    "type": "/type",
    "kinds": {
        "bid": {"id": "/id", "time": "/time"},
        "win": {"id": "/bid_id", "time": "/bid_time"},
        "click": {"id": "/bid_id", "time": "/bid_time"},
    },
}
#: Operation that ingests the events.
TAKE_IN: dict[str, Any] = {"take_in": {"collection": "ads", "daily": "event"}}

#: Bytes per send with a rate.
_AT_ONCE = 64 << 10

#: Time limit for the port to open, s.
_PATIENCE = 60


def write(path: Path, bids: int, *, seed: int = 1, rate: float = 10_000) -> int:
    """Write the log of so many bids, `rate` per second; return the number of lines."""
    start = "2017-03-01T00:00:00Z"
    return _engine.generate_events(path, generator="adbids", seed=seed, documents=bids, rate=rate, start=start)


def free_port() -> int:
    """Return a free port on loopback."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
    return port


def send(path: Path, port: int, times: int = 1, rate: float | None = None) -> None:
    """Send a file's lines to a port on loopback over one connection; LoadframeError if the connection fails.

    `rate` is in bytes/s; without it, lines are sent as fast as the receiver reads. The kernel sends from its page
    cache, so that the sender uses hardly any CPU time.
    """
    with _connected(port) as connection, path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        started, before = time.monotonic(), 0
        for _ in range(times):
            sent = 0
            while sent < size:
                if rate is not None:
                    time.sleep(max(0.0, started + before / rate - time.monotonic()))
                part = min(size - sent, _AT_ONCE) if rate else size - sent
                count = os.sendfile(connection.fileno(), file.fileno(), sent, part)
                sent += count
                before += count


@contextmanager
def sending(
    path: Path, port: int, times: int = 1, connections: int = 1, *, rate: float | None = None
) -> Iterator[None]:
    """Send a file's lines, `times` over each connection, while the block runs; LoadframeError if that fails."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            send(path, port, times, rate)
        except (OSError, LoadframeError) as error:
            failed.append(error)

    threads = [Thread(target=run, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(_PATIENCE)
    if failed:
        raise LoadframeError(f"the lines could not be sent: {failed[0]}")


def require_all(taken_in: int, sent: int) -> int:
    """Return the number of ingested events; LoadframeError unless it equals the number sent."""
    if taken_in != sent:
        raise LoadframeError(f"{sent:,} events were sent, and {taken_in:,} were taken in")
    return taken_in


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise LoadframeError(f"nobody listens at port {port}") from None
            time.sleep(0.01)
