"""`bench` and `ingest` with `replace` drop data only once each source has an event, and fail for damaged input."""

import contextlib
import gzip
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from commands import connected, until
from loadframe.base.errors import BadInput, GeneratorFailed
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.experiment.runner.listener import Listener
from loadframe.library.bench import Bench
from loadframe.library.ingest import Ingest
from loadframe.load import Generator
from loadframe.record import Run
from loadframe.workload import load_workload
from loadframe.workload.sources import Feed
from own_servers import free_port

WORKLOAD = """\
workload: w
collections: {{ads: {{}}}}
sources: {{ads: {{{source}, flush: 100ms, events: {{kinds: {{bid: {{id: id, time: time}}}}}}}}}}
operations: {{take_in: {{take_in: {{collection: ads}}}}}}
phases: [{{name: filling, operation: take_in, source: ads, {end}}}]
"""
EVENTS = b"".join(b'{"type": "bid", "id": "%d", "time": %d}\n' % (number, number) for number in range(3))
JUNK = b"no JSON\n{}\n"


@pytest.fixture(scope="module")
def simulated() -> Iterator[Cluster]:
    """A simulated cluster."""
    with Cluster.start(ClusterSpec("sim"), print) as cluster:
        yield cluster


@pytest.fixture
def cluster(simulated: Cluster) -> Cluster:
    """A simulated cluster with one document in the collection of the workload."""
    if simulated.has_collection("ads"):
        simulated.drop_collection("ads")
    simulated.create_collection("ads", {})
    document = urllib.request.Request(
        f"http://{simulated.addresses[0]}/ads/_create/old",
        data=b"{}",
        method="PUT",
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(document).close()
    # The simulated store counts documents a moment later.
    until(lambda: simulated.count("ads") == 1)
    return simulated


@pytest.fixture(params=["bench", "ingest"])
def replace(request: pytest.FixtureRequest, tmp_path: Path, cluster: Cluster) -> Callable[..., None]:
    """Return a function that replaces the data of the cluster from a source."""

    def carry_out(source: str, end: str = "duration: 1s") -> None:
        path = tmp_path / "w.yaml"
        path.write_text(WORKLOAD.format(source=source, end=end))
        loaded = load_workload(str(path), {})
        common: dict[str, Any] = {
            "workload": loaded,
            "path": tmp_path / "new",
            "cluster": lambda: contextlib.nullcontext(cluster),
            "generator": Generator(),
            "replace": True,
        }
        if request.param == "bench":
            Bench(**common, seed=1, override={"arrivals": None}).carry_out(Listener())
        else:
            duration = 1.0 if end.startswith("duration") else None
            Ingest(**common, phase="filling", feed=Feed(), duration=duration).carry_out(Listener())

    return carry_out


@contextlib.contextmanager
def sending(port: int, send: Callable[..., None]) -> Iterator[None]:
    """Call `send` with a connection to the port in another thread; close it, and join the thread, at the end."""
    over = threading.Event()

    def work() -> None:
        with connected(port) as way, contextlib.suppress(OSError):
            send(way)
            over.wait(60)

    sender = threading.Thread(target=work)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join(60)


@pytest.mark.parametrize("limit", ["", ", idle: 500ms", ", idle: 10m", ", wait: 500ms"])
def test_a_port_without_a_sender_keeps_the_data(replace, cluster, limit):
    began = time.monotonic()
    with pytest.raises(BadInput, match="no line arrived at"):
        replace(f'listen: "127.0.0.1:{free_port()}"{limit}')
    # Neither for the 10 minutes, nor without end.
    assert time.monotonic() - began < 60
    assert cluster.count("ads") == 1


@pytest.mark.parametrize("limit", ["", ", idle: 5s", ", wait: 1m"])
def test_an_event_at_a_port_replaces_the_data(replace, cluster, tmp_path, limit):
    port = free_port()
    with sending(port, lambda way: way.sendall(JUNK + EVENTS)):
        replace(f'listen: "127.0.0.1:{port}"{limit}', "duration: 2s")
    source = Run(tmp_path / "new").summary.phases[0].sources["ads"]
    # The simulated store does not count what it stores with an update.
    assert (source.lines, source.indexed, cluster.count("ads")) == (5, 3, 0)


@pytest.fixture
def secured(tmp_path: Path) -> str:
    """The certificate and the key of a port, as keys of `listen`."""
    path = tmp_path / "c.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return f"certificate: {path}, key: {path}"


def encrypted(way, *parts):
    """Complete a TLS handshake and send the parts."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(way) as tls:
        for part in parts:
            tls.sendall(part)
        # Reads what the server sent meanwhile; closing before that resets the connection.
        tls.unwrap()


#: The first bytes of a TLS handshake.
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.mark.parametrize(
    ("send", "what"),
    [
        (lambda way: way.sendall(HELLO), "no event arrived at"),
        (encrypted, "no event arrived at"),
        (lambda way: encrypted(way, JUNK, EVENTS[:20]), "no event arrived at"),
        (lambda way: way.sendall(EVENTS), "TLS handshake with a sender failed"),
    ],
)
def test_a_tls_connection_without_an_event_keeps_the_data(replace, cluster, secured, send, what):
    port = free_port()
    with sending(port, send), pytest.raises(BadInput, match=what):
        replace(f'listen: {{address: "127.0.0.1:{port}", {secured}}}, wait: 1s')
    assert cluster.count("ads") == 1


@pytest.mark.parametrize("junk", [JUNK, JUNK * 20_000])
def test_an_event_over_tls_replaces_the_data(replace, cluster, tmp_path, secured, junk):
    port = free_port()
    with sending(port, lambda way: encrypted(way, junk, EVENTS[:20], EVENTS[20:])):
        replace(f'listen: {{address: "127.0.0.1:{port}", {secured}}}, idle: 5s', "duration: 2s")
    source = Run(tmp_path / "new").summary.phases[0].sources["ads"]
    assert (source.lines, source.indexed) == (junk.count(b"\n") + 3, 3)
    assert cluster.count("ads") == 0
    assert not source.trouble


@pytest.mark.parametrize("replay", ["", ", replay: {time: time, speed: 1000}"])
def test_a_damaged_file_keeps_the_data_or_is_a_failure(replace, cluster, tmp_path, replay):
    path = tmp_path / "e.gz"
    path.write_bytes(gzip.compress(EVENTS)[:-6])
    source = f"files: [{path}]{replay}"
    with pytest.raises(BadInput, match=r"e\.gz: cannot be read beyond line 3: "):
        replace(source, "until: exhausted")
    assert cluster.count("ads") == 1
    # Without data to drop, nothing is checked before.
    cluster.drop_collection("ads")
    with pytest.raises(GeneratorFailed, match=r"cannot be read beyond line 3: .*; 3 of 3 accepted events stored"):
        replace(source, "until: exhausted")
    summary = json.loads((tmp_path / "new" / "summary.json").read_text())
    assert (summary["status"], summary["fault"]) == ("failed", "generator")
