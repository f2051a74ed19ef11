"""Servers that violate HTTP: each request must be counted once, in the right class, in time."""

import csv
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from loadframe import _engine
from loadframe.load import run_phase
from trials.misbehaving import Behaviour, Misbehaving, endless, in_turns, never, resets, says
from trials.trial import Trial

CLIENTS = 4
REQUESTS = 40
#: Time-out of a request, s.
TIMEOUT = 0.5
#: Time limit of the phase, s: clients send requests in sequence, and some time-outs follow a reconnect.
PATIENCE = 3 * TIMEOUT * REQUESTS / CLIENTS + 5
#: Maximum memory growth of the process, bytes.
MEMORY = 1 << 30


def ok(body: bytes, fields: bytes = b"", status: bytes = b"200 OK") -> bytes:
    """Return an answer with Content-Length."""
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(body), body)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
PLAIN = ok(b"{}")


@dataclass(frozen=True)
class Case:
    """A server behaviour, and the allowed classes of its requests, including `success`."""

    name: str
    behaviour: Behaviour
    classes: frozenset[str]


def case(name: str, behaviour: Behaviour, *classes: str) -> Case:
    """Return a case."""
    return Case(name, behaviour, frozenset(classes))


CASES = (
    # Valid but rare.
    case("a plain answer", says(PLAIN), "success"),
    case("an answer byte by byte", says(*(bytes([byte]) for byte in PLAIN), pause=0.0005), "success"),
    case("chunks", says(CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"), "success"),
    case("chunks with extensions and trailers", says(CHUNKED + b"2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n"), "success"),
    case(
        "chunks in upper and lower hexadecimal",
        says(CHUNKED + b"0A\r\n1234567890\r\na\r\n1234567890\r\n0\r\n\r\n"),
        "success",
    ),
    case("an interim answer first", says(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN), "success"),
    case("many interim answers", says(b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + PLAIN), "success"),
    case("no content", says(b"HTTP/1.1 204 No Content\r\n\r\n"), "success"),
    case("a body that ends with the connection", says(b"HTTP/1.0 200 OK\r\n\r\n{}", stays=False), "success"),
    case("the connection closed after each answer", says(ok(b"{}", b"Connection: close\r\n"), stays=False), "success"),
    case("field names in other letters", says(b"HTTP/1.1 200 OK\r\ncOnTeNt-LeNgTh:2\r\n\r\n{}"), "success"),
    case("an empty reason", says(b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}"), "success"),
    case("a large body", says(ok(b"x" * 300_000)), "success"),
    case("a hundred fields", says(ok(b"{}", b"X: y\r\n" * 100)), "success"),
    # Refusals.
    *(
        case(f"status {status}", says(ok(b"{}", status=b"%d No" % status)), expected)
        for status, expected in (
            (400, "client"),
            (401, "client"),
            (404, "client"),
            (408, "timeout"),
            (409, "client"),
            (429, "rejected"),
            (500, "server"),
            (502, "server"),
            (503, "server"),
            (504, "timeout"),
        )
    ),
    case(
        "a refusal, then an answer, in turns",
        in_turns(says(ok(b"{}", status=b"429 No")), says(PLAIN)),
        "rejected",
        "success",
    ),
    # Silence.
    case("no answer", never, "timeout"),
    case("half a head", says(b"HTTP/1.1 200 OK\r\nContent-Le"), "timeout"),
    case("half a body", says(LONG + b"x" * 500), "timeout"),
    case("half a chunk", says(CHUNKED + b"5\r\nab"), "timeout"),
    case("no last chunk", says(CHUNKED + b"2\r\n{}\r\n"), "timeout"),
    case("a body that trickles", says(LONG, *([b"x"] * 100), pause=0.02), "timeout"),
    case("a head that trickles", says(*([b"H"] + [b"T"] * 100), pause=0.02), "timeout", "connect", "server"),
    case("interim answers for ever", endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "timeout", "connect", "server"),
    # Ends.
    case("hung up at once", says(stays=False), "connect"),
    case("hung up within the head", says(b"HTTP/1.1 20", stays=False), "connect"),
    case("hung up within the body", says(LONG + b"x", stays=False), "connect"),
    case("hung up within a chunk", says(CHUNKED + b"5\r\nab", stays=False), "connect"),
    case("hung up before the last chunk", says(CHUNKED + b"2\r\n{}\r\n", stays=False), "connect"),
    case("a reset at once", resets(), "connect"),
    case("a reset within the head", resets(b"HTTP/1.1 20"), "connect"),
    case("a reset within the body", resets(LONG + b"x"), "connect"),
    case("the connection closed after an answer, unsaid", says(PLAIN, stays=False), "success", "connect"),
    case("an answer, then a reset, in turns", in_turns(says(PLAIN), resets()), "success", "connect"),
    # Invalid.
    case("junk", says(b"\x00\xff" * 2000), "server", "connect", "timeout"),
    case("another protocol", says(b"220 mail.example ESMTP\r\n\r\n"), "server", "connect"),
    case("a status of letters", says(b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"), "server", "connect"),
    case("a status of four digits", says(b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"), "server", "connect"),
    case("a negative length", says(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "server", "connect"),
    case(
        "two lengths", says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), "server", "connect"
    ),
    case(
        "a length of 2^64",
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n"),
        "server",
        "connect",
    ),
    case(
        "a length of a terabyte",
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n"),
        "connect",
        "timeout",
    ),
    case("a chunk size of letters", says(CHUNKED + b"xyz\r\n"), "server", "connect"),
    case("a chunk size of 2^64", says(CHUNKED + b"10000000000000000\r\n"), "server", "connect"),
    case("a negative chunk size", says(CHUNKED + b"-1\r\n"), "server", "connect"),
    case("a chunk without its end", says(CHUNKED + b"2\r\n{}XX0\r\n\r\n"), "server", "connect"),
    case("a chunk's line without an end", endless(CHUNKED, b"0" * 8192), "server", "connect", "timeout"),
    case("fields without an end", endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 500), "server", "connect", "timeout"),
    case("a body without an end", endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), "server", "connect", "timeout"),
    case(
        "chunks without an end", endless(CHUNKED, b"4000\r\n" + b"x" * 0x4000 + b"\r\n"), "server", "connect", "timeout"
    ),
    # The second is not the answer to the next request.
    case("an unsolicited answer", says(PLAIN + ok(b"{}", status=b"404 No")), "success", "connect"),
)


def trials(_: int) -> Iterator[Trial]:
    """Yield a trial for each behaviour."""
    for one in CASES:
        yield Trial(one.name, lambda one=one: _attempt(one))  # type: ignore[misc]


def _attempt(one: Case) -> str:
    before = psutil.Process().memory_info().rss
    with Misbehaving(one.behaviour) as server, tempfile.TemporaryDirectory(prefix="loadframe-trial-") as folder:
        began = time.monotonic()
        outcome = run_phase(_plan(server.address), Path(folder), lambda _: None)
        took = time.monotonic() - began
        (operation,) = outcome["operations"]
        log = _engine.HistogramLog(f"{folder}/histograms.hlog")
        successes, failures = (log.total(f"p/a/{kind}").count for kind in ("response", "failure"))
        errors = _errors(Path(folder) / "series.csv")
        served = server.requests
    seen = {name: count for name, count in {"success": operation["successes"], **errors}.items() if count}
    assert operation["requests"] == REQUESTS, f"{operation['requests']} requests recorded of {REQUESTS}"
    assert sum(seen.values()) == REQUESTS, f"{seen} do not add up to {REQUESTS}"
    assert set(seen) <= one.classes, f"{seen}, expected {sorted(one.classes)}"
    assert successes == operation["successes"], f"{successes} successes have a response time"
    assert failures == REQUESTS - successes, f"{failures} failures have a response time"
    assert served <= REQUESTS, f"the server read {served} requests"
    if one.classes == {"success"}:
        assert served == REQUESTS, f"the server read {served} requests"
    assert took < PATIENCE, f"took {took:.1f} s"
    grown = psutil.Process().memory_info().rss - before
    assert grown < MEMORY, f"the process grew by {grown >> 20} MiB"
    return ", ".join(f"{name} {count}" for name, count in seen.items())


def _errors(series: Path) -> dict[str, int]:
    """Return the number of failed requests by class."""
    totals: dict[str, int] = {}
    with series.open(newline="") as lines:
        for row in csv.DictReader(lines):
            for column, count in row.items():
                if column.startswith("error_"):
                    name = column.removeprefix("error_")
                    totals[name] = totals.get(name, 0) + int(count)
    return totals


def _plan(address: str) -> dict[str, object]:
    return {
        "seed": 1,
        "phase": "p",
        "target": {"driver": "http", "hosts": [address]},
        "operations": {"a": {"http": {"method": "GET", "path": "/"}, "timeout": TIMEOUT}},
        "streams": [
            {
                "name": "s",
                "mix": [["a", 1]],
                "pacing": {"closed": {"clients": CLIENTS}},
                "stop": {"requests": REQUESTS},
            }
        ],
    }
