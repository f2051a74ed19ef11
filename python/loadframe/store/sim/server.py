"""A node of a simulated cluster: an HTTP server that answers after a simulated service time.

A node that holds less than its fair share of the data forwards some requests to nodes that hold more. Forwarding is
immediate, because the queues are shared. The end of a request is determined on arrival, so that a late answer does not
delay others.
"""

import argparse
import asyncio
import itertools
import json
import random
import selectors
import signal
import time
from pathlib import Path

from loadframe.store.sim.answers import Refused, Request, WriteEffect, administration, data
from loadframe.store.sim.model import SimModel
from loadframe.store.sim.shared import SharedState

#: Interval for updating members, due events and document counts, s.
TICK = 0.05
_REJECTED = {"error": {"type": "rejected_execution_exception", "reason": "the simulated queue is full"}}
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 503: "Service Unavailable"}


class SimNode:
    """A node's logic: it chooses the node that serves a request, and the time of the answer."""

    def __init__(self, folder: Path, name: str, model: SimModel, *, founding: bool) -> None:
        """Join the cluster."""
        self.name = name
        self._model = model
        #: The number of the seed from which `_random` draws.
        self._seeds = -1
        self._random = random.Random()
        self._written: list[WriteEffect] = []
        self._passed_on = itertools.count()
        #: Fraction of a request due to be forwarded; at 1 the next one is.
        self._surplus = 0.0
        self.shared = SharedState(folder, name, model)
        with self.shared.locked(time.monotonic()):
            self.shared.start(time.monotonic(), founding=founding)
        self.tick()

    def tick(self) -> None:
        """Process due events of the cluster, and publish the documents that were written here."""
        with self.shared.locked(now := time.monotonic()):
            self.shared.bury(now)
            for written in self._written:
                # Skip writes to an earlier collection of the same name.
                definition = self.shared.definitions.get(written.collection)
                if definition and definition["created"] == written.created:
                    self.shared.documents[written.collection] += written.documents
                    self.shared.bytes[written.collection] += written.bytes
            self._written.clear()

    def serve(self, request: Request) -> tuple[float, int, object]:
        """Return the time (monotonic clock), status and body of the answer to a request for data."""
        now = time.monotonic()
        with self.shared.queues() as stations:
            placement = self.shared.placement
            if self.name not in placement.members:
                return now, 503, {"error": {"type": "not_a_member", "reason": f"{self.name} has not joined yet"}}
            server = self._server()
            self._reseed()
            slot, moving = self.shared.slots[server], server in placement.moving()
            end = stations.admit(slot, now, len(placement.members), self._random, moving=moving)
        if end is None:
            return now, 429, _REJECTED
        answer, written = data(request, self.shared)
        if written:
            self._written.append(written)
        return end, 200, answer

    def _reseed(self) -> None:
        """Draw from the run's seed if a run has begun."""
        if self.shared.seeds != self._seeds:
            self._seeds, self._random = self.shared.seeds, random.Random(f"{self.shared.seed}/{self.name}")

    def _server(self) -> str:
        """Return the node that serves the next request."""
        shares = self.shared.placement.shares()
        self._surplus += 1 - min(shares[self.name], 1.0)
        if self._surplus < 1:
            return self.name
        self._surplus -= 1
        ample = [name for name, share in shares.items() if share > 1] or [
            name for name, share in shares.items() if share > 0
        ]
        return ample[next(self._passed_on) % len(ample)]

    def answer(self, request: Request) -> tuple[float, int, object]:
        """Return the time, status and body of the answer to any request."""
        now = time.monotonic()
        try:
            if request.timed:
                return self.serve(request)
            # Documents that other nodes have counted are visible after their next tick.
            due = now + 2 * TICK if "_refresh" in request.parts else now
            with self.shared.locked(now):
                return due, 200, administration(request, self.shared, self.name, now)
        except Refused as refused:
            return now, refused.status, refused.answer


class Connection(asyncio.Protocol):
    """A client's connection, which serves one request at a time."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._unread = bytearray()
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport for answers."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes, and start the next request if it is complete."""
        self._unread += data
        if not self._busy:
            self._next()

    def _next(self) -> None:
        head, separator, rest = self._unread.partition(b"\r\n\r\n")
        if not separator:
            return
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", 0))
        if len(rest) < length:
            return
        method, target, _ = lines[0].split(" ")
        self._unread = rest[length:]
        self._busy = True
        due, status, answer = self._node.answer(Request.read(method, target, bytes(rest[:length])))
        body = json.dumps(answer).encode()
        start = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (
            status,
            _REASONS[status].encode(),
            len(body),
        )
        loop = asyncio.get_running_loop()
        # The loop's clock is the monotonic clock.
        loop.call_at(due, self._send, start + body)

    def _send(self, answer: bytes) -> None:
        self._busy = False
        if not self._transport.is_closing():
            self._transport.write(answer)
            self._next()


async def _run(node: SimNode, address: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(node), address, port, backlog=1024)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    async with server:
        while not ended.is_set():
            node.tick()
            try:
                await asyncio.wait_for(ended.wait(), TICK)
            except TimeoutError:
                continue
    node.shared.leave(time.monotonic())


def main() -> None:
    """Run a node until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m loadframe.store.sim.server")
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cluster", type=Path, required=True, help="the folder that contains the nodes' folders")
    parser.add_argument("--settings", default="{}", help="the model's parameters as JSON")
    parser.add_argument("--founding", action="store_true")
    args = parser.parse_args()
    model = SimModel.from_settings(json.loads(args.settings))
    node = SimNode(args.cluster, args.name, model, founding=args.founding)
    # epoll's timers are up to a millisecond late, select's are precise; select allows about 1,000 connections.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_run(node, args.address, args.port))


if __name__ == "__main__":
    main()
