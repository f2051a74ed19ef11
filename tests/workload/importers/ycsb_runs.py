"""The requests of YCSB and of Loadframe from one properties file, as lists.

YCSB's core comes from Maven Central and runs unchanged: its client with BasicDB, which prints each request instead of
sending it. Loadframe's engine sends its requests to a recording server on loopback.
"""

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadframe.cluster.artefacts import install
from loadframe.cluster.java import find
from loadframe.load import run_phase
from loadframe.store.distribution import Distribution, Jar
from loadframe.workload import load_workload
from loadframe.workload.importers.ycsb import import_ycsb

_LIB = "lib"
_CORE = Distribution(
    "ycsb-core",
    "0.17.0",
    8,
    (
        Jar(
            "site.ycsb:core:0.17.0",
            _LIB,
            145_989,
            "e1c64d09bfc642715428c2e53ec129b0a98a0e634ee32bf0ae77e5b4eebb3cda",
        ),
        Jar(
            "org.hdrhistogram:HdrHistogram:2.1.4",
            _LIB,
            104_396,
            "8e68b9608ab107690350b904eab24087785f69218e5c6acd860d28116eded708",
        ),
        Jar(
            "org.codehaus.jackson:jackson-core-asl:1.9.4",
            _LIB,
            228_315,
            "6129e1b91d7850ba250b1375094c8ca215a0f7cf234b6f60a2f4a88d5b1272c9",
        ),
        Jar(
            "org.codehaus.jackson:jackson-mapper-asl:1.9.4",
            _LIB,
            777_693,
            "f013389c3eb92aa997df801e4a352464925af634a4af3e5bd77c6c0763dc9c99",
        ),
        Jar(
            "org.apache.htrace:htrace-core4:4.1.0-incubating",
            _LIB,
            1_502_280,
            "5d45b7904857c3e4ad36b3bcc57be2d2c5f308c69b5f6a58bd86aa7d48a25ef6",
        ),
    ),
    (),
)


@dataclass(frozen=True)
class Request:
    """A request of the transaction phase."""

    verb: str  #: read, scan, insert or update
    key: str
    fields: tuple[str, ...] = ()  #: fields that are read or changed; empty for all
    count: int = 0  #: records of a scan


def ycsb_command(properties: Mapping[str, str]) -> list[str]:
    """Return the YCSB command that prints the requests of a transaction phase. Downloads YCSB and Java if necessary."""
    home = install(_CORE, lambda _: None)
    java = find(8, None).home / "bin" / "java"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{home / _LIB}/*", "site.ycsb.Client"]
    silent = {"measurementtype": "raw", "measurement.raw.output_file": "/dev/null", "fieldlength": "1"}
    given = {"workload": "site.ycsb.workloads.CoreWorkload", **properties, **silent}
    return [
        *command,
        "-t",
        "-db",
        "site.ycsb.BasicDB",
        *(word for pair in given.items() for word in ("-p", "=".join(pair))),
    ]


def ycsb_requests(process: "subprocess.Popen[bytes]") -> list[Request]:
    """Return the requests that YCSB's client prints, which is waited for."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    # The fields' values are random characters, of any kind.
    lines = out.decode("latin-1").split("\n")
    return [request for line in lines if (request := _printed(line)) is not None]


def _printed(line: str) -> Request | None:
    parts = re.match(r"(READ|SCAN|UPDATE|INSERT) usertable (user\d+) (?:(\d+) )?\[ (.*)", line)
    if parts is None:
        return None
    verb, key, count, rest = parts.groups()
    names = re.findall(r"(field\d+)=", rest) if verb in ("UPDATE", "INSERT") else re.findall(r"field\d+", rest)
    return Request(verb.lower(), key, () if verb == "INSERT" else tuple(names), int(count or 0))


def engine_requests(folder: Path, properties: Mapping[str, str], **generator: int) -> list[Request]:
    """Return the requests of the transaction phase of the imported properties, in the order in which they came."""
    (folder / "run").mkdir(parents=True)
    file, workload = folder / "properties", folder / "imported.yaml"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    workload.write_text(import_ycsb(file, {"fieldlength": "1", "fieldcount": "10"}).text())
    phase = load_workload(str(workload)).for_family("elasticsearch", 1).phase("transactions")
    with _recording() as (address, asked):
        outcome = run_phase(
            phase.plan(seed=7, hosts=[address], driver="search", **generator), folder / "run", lambda _: None
        )
    assert all(operation["successes"] == operation["requests"] for operation in outcome["operations"]), outcome
    return [_sent(line, body) for line, body in asked]


def _sent(line: str, body: bytes) -> Request:
    method, target, _ = line.split(" ")
    path, _, query = target.partition("?")
    key = path.rsplit("/", 1)[-1]
    if path.endswith("_search"):
        size = re.search(r"\bsize=(\d+)", query)
        assert size is not None
        return Request("scan", json.loads(body)["query"]["range"]["key"]["gte"], count=int(size[1]))
    if "/_update/" in path:
        return Request("update", key, tuple(json.loads(body)["doc"]))
    if method == "PUT" or "/_create/" in path:
        return Request("insert", key)
    fields = re.findall(r"field\d+", query)
    return Request("read", key, tuple(fields))


@contextmanager
def _recording() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Run a server that keeps all requests; yields its address and the requests."""
    asked: list[tuple[str, bytes]] = []
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: _Connection(asked), "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


_ANSWER = json.dumps({
    "found": True, "result": "updated", "_source": {}, "took": 1, "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "failed": 0}, "hits": {"total": {"value": 1}, "hits": [{"_source": {}}]},
}).encode()  # fmt: skip
_REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(_ANSWER), _ANSWER)


class _Connection(asyncio.Protocol):
    def __init__(self, asked: list[tuple[str, bytes]]) -> None:
        self._asked = asked
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, rest = self._read.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if end and len(rest) >= (int(length[1]) if length else 0):
            self._asked.append((head.split(b"\r\n", 1)[0].decode(), rest))
            self._read = b""
            self._transport.write(_REPLY)
