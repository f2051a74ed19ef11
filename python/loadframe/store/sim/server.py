"""A node of a simulated cluster: an HTTP server that answers after a simulated service time.

A node that holds less than its fair share of the data forwards some requests to nodes that hold more. Forwarding is
immediate, because the queues are shared. The end of a request is determined on arrival, so that a late answer does not
delay others.

Answers are the part of the search protocol that Loadframe's driver and store use. A node counts documents and bytes but
stores neither. Searches return as many hits as requested.
"""

import argparse
import asyncio
import itertools
import json
import random
import selectors
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from loadframe.store.sim.model import VERSION, SimModel
from loadframe.store.sim.shared import SharedState

_HIT = {"_id": "1", "_score": None, "_source": {"simulated": True}, "sort": [1]}
#: Last path segments of requests for data, which take service time.
TIMED = ("_search", "_msearch", "_bulk", "_doc", "_create", "_update")
_EXCLUDE = "cluster.routing.allocation.exclude._name"


class Refused(Exception):
    """A request to answer with an error."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        """`status` is the HTTP status, `kind` and `reason` are the error's type and text in the answer."""
        super().__init__(reason)
        self.status = status
        self.answer = {"error": {"type": kind, "reason": reason}}


@dataclass(frozen=True)
class Request:
    """A parsed request."""

    method: str
    parts: tuple[str, ...]  #: segments of the path
    parameters: Mapping[str, str]
    body: bytes

    @classmethod
    def read(cls, method: str, target: str, body: bytes) -> "Request":
        """Parse a request; `parts` are the path's non-empty segments, and a repeated parameter has its last value.

        The path is not decoded.
        """
        path, _, query = target.partition("?")
        parameters = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
        return cls(method, tuple(part for part in path.split("/") if part), parameters, body)

    @property
    def timed(self) -> str | None:
        """The first segment of the path that marks a request for data, such as `_search`; None for other requests."""
        return next((part for part in self.parts if part in TIMED), None)

    def json(self) -> dict[str, Any]:
        """Return the body's JSON object; empty without a body, or for other JSON. ValueError if it is not JSON."""
        content = json.loads(self.body) if self.body.strip() else {}
        return content if isinstance(content, dict) else {}


@dataclass(frozen=True)
class WriteEffect:
    """Effect of a request for data on its collection."""

    collection: str
    created: float  #: creation time of the collection
    documents: int
    bytes: int


def data(request: Request, shared: SharedState) -> tuple[dict[str, Any], WriteEffect | None]:
    """Return the answer to a request for data, and its effect (None for reads); `timed` must not be None.

    Refused for an unknown collection, except by `_bulk` and `_msearch`. Documents are not stored: a GET always finds
    one. Shared state does not change: the caller applies the effect.
    """
    kind, collection = request.timed, request.parts[0]
    if kind == "_bulk":
        return _bulk(request, shared)
    if kind == "_msearch":
        searches = request.body.split(b"\n")[1::2]
        return {"responses": [_search(json.loads(body), "", shared) for body in searches if body.strip()]}, None
    if collection not in shared.definitions:
        raise _no_such(collection)
    if kind == "_search":
        body = request.json()
        size = request.parameters.get("size", body.get("size", 10))
        return _search({**body, "size": int(size)}, collection, shared), None
    answer = {"_id": request.parts[-1], "_shards": {"total": 1, "failed": shared.placement.lost(collection)}}
    if request.method == "GET":
        return {**answer, "found": True, "_source": {"simulated": True}}, None
    added = {"_create": 1, "_update": 0}.get(str(kind), 1 if request.method == "POST" else 0)
    added = -1 if request.method == "DELETE" else added
    return {**answer, "result": "created"}, _write_effect(collection, added, request, shared)


def _search(body: Mapping[str, Any], collection: str, shared: SharedState) -> dict[str, Any]:
    """Return the answer to a search: all documents match, and up to `size` of `body` (10) equal hits are returned.

    An empty `collection` counts as one without documents.
    """
    there = shared.documents.get(collection, 0)
    shards, lost = len(shared.placement.shards(collection)), shared.placement.lost(collection)
    hits = [_HIT] * min(int(body.get("size", 10)), there)
    return {
        "took": 0,
        "timed_out": False,
        "_shards": {"total": shards, "successful": shards - lost, "skipped": 0, "failed": lost},
        "hits": {"total": {"value": there, "relation": "eq"}, "max_score": None, "hits": hits},
        "aggregations": {},
    }


def _bulk(request: Request, shared: SharedState) -> tuple[dict[str, Any], WriteEffect | None]:
    """Answer a bulk request as if each document succeeded; the kind of the first action counts for all.

    Also return the effect on the documents; None for an unknown collection. Without a collection in the path, the
    documents are of the first collection.
    """
    lines = request.body.count(b"\n")
    named = request.parts[0] if len(request.parts) > 1 else next(iter(shared.definitions), "")
    action = next(iter(json.loads(request.body.partition(b"\n")[0] or b"{}")), "index")
    documents = lines if action == "delete" else lines // 2
    item = {action: {"_id": "1", "status": 201, "_shards": {"total": 1, "successful": 1, "failed": 0}}}
    added = {"delete": -documents, "update": 0}.get(action, documents)
    answer = {"took": 0, "errors": False, "items": [item] * documents}
    return answer, _write_effect(named, added, request, shared) if named in shared.definitions else None


def _write_effect(collection: str, documents: int, request: Request, shared: SharedState) -> WriteEffect:
    """Return the effect of adding `documents` documents (negative for deletions), with the bytes of the request.

    The collection must exist. The effect names its time of creation, so that a new one of that name does not get it.
    """
    return WriteEffect(collection, shared.definitions[collection]["created"], documents, len(request.body))


def administration(request: Request, shared: SharedState, node: str, now: float) -> Any:
    """Carry out an administrative request, and return the answer; call it in `shared.locked`. Refused if unsupported.

    `node` is the name of the node that answers, `now` the time in s.
    """
    placement = shared.placement
    answer: Any
    match request.method, request.parts:
        case "GET", ():
            answer = {"name": node, "version": {"number": VERSION, "distribution": "sim"}}
        case _, ("_cluster", *rest):
            answer = _of_cluster(tuple(rest), request, shared, now)
        case "PUT", ("_seed",):
            shared.seeds += 1
            shared.seed = str(request.json()["seed"])
            answer = {"acknowledged": True}
        case "GET", ("_nodes", "stats", *_):
            answer = {"nodes": {name: _statistics(shared, name, now) for name in placement.members}}
        case "GET", ("_nodes", *_):
            answer = {"nodes": {name: {"name": name} for name in placement.members}}
        case "GET", ("_cat", "shards"):
            where = [copy.node if copy.node in placement.members else None for copy in placement.copies]
            answer = [{"node": name, "state": "STARTED" if name else "UNASSIGNED"} for name in where]
        case "GET", ("_cat", "recovery"):
            answer = [_recovery(shared, now, move.begins, move.ends) for move in placement.moves]
        case "GET", ("_all", "_settings", *_):
            replicas = {name: str(definition["replicas"]) for name, definition in shared.definitions.items()}
            answer = {name: {"settings": {"index.number_of_replicas": count}} for name, count in replicas.items()}
        case _, (name, *rest) if not name.startswith("_"):
            answer = _of_collection(name, tuple(rest), request, shared, now)
        case _:
            raise _unknown(request)
    return answer


def _of_cluster(path: tuple[str, ...], request: Request, shared: SharedState, now: float) -> Any:
    """Return the answer to a request below `_cluster`; Refused for others than health, settings, reroute and votes.

    Changed settings replace the nodes that must not hold shards: none, if the request lacks them. Reroute and votes
    have no effect.
    """
    placement = shared.placement
    match request.method, path:
        case "GET", ("health", *_):
            return _health(shared)
        case "GET", ("settings",):
            return {"persistent": {_EXCLUDE: ",".join(sorted(placement.excluded))}, "transient": {}}
        case "PUT", ("settings",):
            names = request.json().get("persistent", {}).get(_EXCLUDE) or ""
            placement.exclude(filter(None, names.split(",")), now)
            return {"acknowledged": True}
        case (("POST" | "DELETE"), ("reroute" | "voting_config_exclusions",)):
            return {"acknowledged": True}
        case _:
            raise _unknown(request)


def _of_collection(name: str, rest: tuple[str, ...], request: Request, shared: SharedState, now: float) -> Any:
    """Create, drop or describe a collection, and return the answer; `rest` are the path's segments after its name.

    Refused if it exists already, or the request is unsupported. GET and DELETE of an unknown collection succeed; other
    requests to it are refused. Settings and mappings of an existing collection are accepted without effect.
    """
    known = name in shared.definitions
    answer: Any = {"acknowledged": True, "index": name}
    match request.method, rest:
        case "PUT", () if known:
            raise Refused(400, "resource_already_exists_exception", f"index [{name}] already exists")
        case "PUT", ():
            _create(name, request.json().get("settings", {}), shared, now)
        case "GET", ():
            answer = {name: {}} if known else {}
        case "DELETE", ():
            shared.placement.drop(name, now)
            for table in (shared.definitions, shared.documents, shared.bytes):
                table.pop(name, None)
        case _ if not known:
            raise _no_such(name)
        case (("GET" | "POST"), ("_count",)):
            answer = {"count": shared.documents[name], "_shards": _shards(name, shared)}
        case (("POST" | "PUT"), (("_refresh" | "_flush" | "_forcemerge" | "_settings" | "_mapping"), *_)):
            answer = {"acknowledged": True, "_shards": _shards(name, shared)}
        case _:
            raise _unknown(request)
    return answer


def _create(name: str, settings: Mapping[str, Any], shared: SharedState, now: float) -> None:
    """Register a new collection with its numbers of shards and replicas, and place the copies on members.

    By default it has one shard without replicas. `now` is its time of creation, s.
    """
    flat = {**settings, **{f"index.{key}": value for key, value in settings.get("index", {}).items()}}

    def number(key: str, default: int) -> int:
        """Return the setting `key` as an integer, with or without the prefix `index.`, or else `default`."""
        return int(flat.get(key, flat.get(f"index.{key}", default)))

    shards, replicas = number("number_of_shards", 1), number("number_of_replicas", 0)
    shared.definitions[name] = {"shards": shards, "replicas": replicas, "created": now}
    shared.documents[name] = shared.bytes[name] = 0
    shared.placement.create(name, shards, replicas, now)


def _shards(name: str, shared: SharedState) -> dict[str, int]:
    """Return the numbers of all shards and of shards without a copy (`failed`) of a collection, for an answer."""
    return {"total": shared.definitions[name]["shards"], "failed": shared.placement.lost(name)}


def _health(shared: SharedState) -> dict[str, Any]:
    """Return the answer to a health request: red if a shard is lost, yellow if a copy is missing."""
    placement = shared.placement
    lost = any(placement.lost(name) for name in shared.definitions)
    return {
        "status": "red" if lost else "yellow" if placement.missing else "green",
        "number_of_nodes": len(placement.members),
        "number_of_data_nodes": len(placement.members),
        "relocating_shards": len(placement.moves),
        "unassigned_shards": placement.missing,
        "initializing_shards": 0,
        "number_of_pending_tasks": 0,
    }


def _statistics(shared: SharedState, name: str, now: float) -> dict[str, Any]:
    """Return the statistics of the node `name` in OpenSearch's format; `now` is in s.

    CPU is the percentage of busy servers. Queries are the requests admitted, and their time is the seconds of work.
    """
    slot = shared.slots[name]
    served, waiting = shared.stations.load(slot, now)
    completed, rejected, busy = shared.stations.sums(slot)
    pool = {"active": served, "queue": waiting, "rejected": int(rejected), "completed": int(completed)}
    copies = [copy for copy in shared.placement.copies if copy.node == name]
    size = sum(shared.placement.sizes.get(copy.collection, 0.0) for copy in copies)
    return {
        "name": name,
        "process": {"cpu": {"percent": round(100 * served / shared.placement.model.servers)}},
        "thread_pool": {"search": pool},
        "indices": {
            "search": {"query_total": int(completed), "query_time_in_millis": int(1000 * busy)},
            "store": {"size_in_bytes": int(size)},
        },
    }


def _recovery(shared: SharedState, now: float, begins: float, ends: float) -> dict[str, str]:
    """Return `bytes_recovered` and `bytes_total` of a move from `begins` to `ends` (s) at the time `now`, as texts."""
    total = (ends - begins) * shared.placement.model.bandwidth
    done = total * min((now - begins) / (ends - begins), 1.0) if ends > begins else total
    return {"bytes_recovered": str(int(done)), "bytes_total": str(int(total))}


def _no_such(collection: str) -> Refused:
    """Return the error for an unknown collection (404)."""
    return Refused(404, "index_not_found_exception", f"no such index [{collection}]")


def _unknown(request: Request) -> Refused:
    """Return the error for an unsupported request (400)."""
    path = "/".join(request.parts)
    return Refused(400, "unknown_request", f"the simulated store does not support {request.method} /{path}")


#: Interval for updating members, due events and document counts, s.
TICK = 0.05
_REJECTED = {"error": {"type": "rejected_execution_exception", "reason": "the simulated queue is full"}}
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 503: "Service Unavailable"}


class SimNode:
    """A node's logic: it chooses the node that serves a request, and the time of the answer."""

    def __init__(self, folder: Path, name: str, model: SimModel, *, founding: bool) -> None:
        """Create or enter the shared state in `folder`, which holds the nodes' folders, and register as started.

        A `founding` node, or one that starts again, is a member at once, others after the model's `join_delay`.
        """
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
        """Process due events, drop ended nodes, and publish the documents that were written through this node."""
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
        """Queue a request for data; return the time (monotonic clock, s), status and body of its answer.

        Status 503 before the node is a member, 429 if the queue is full. Refused for an unknown collection (see
        `data`). The effect of a write is published at the next tick.
        """
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
        """Replace the random generator by one seeded with the run's seed and the node's name, once for each run."""
        if self.shared.seeds != self._seeds:
            self._seeds, self._random = self.shared.seeds, random.Random(f"{self.shared.seed}/{self.name}")

    def _server(self) -> str:
        """Return the node that serves the next request: this one, or in turn one with more than its fair share of data.

        If no node has more, any with data takes a turn. A node with less than its fair share forwards the missing share
        of its requests: with 0.75 of it, every fourth. Each call counts as a request.
        """
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
        """Return the time (monotonic clock, s), status and body of the answer to a request; Refused becomes one.

        Requests for data are queued by `serve`, others carried out at once. A refresh is answered 0.1 s later, when all
        nodes have published their writes.
        """
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
        """Answer the next request if all of it was received; send the answer at the time that the model computes.

        Call it only while no request is being served (`_busy`), else answers may overtake each other. `_send` continues
        with the request after it. ValueError for an invalid request line or length.
        """
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
        """Send an answer, then start the next request that was received meanwhile."""
        self._busy = False
        if not self._transport.is_closing():
            self._transport.write(answer)
            self._next()


async def _run(node: SimNode, address: str, port: int) -> None:
    """Serve until SIGTERM, then remove the node from the shared state."""
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
    """Run a node, as the command line describes it, until SIGTERM."""
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
