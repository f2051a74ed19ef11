"""CouchbaseMock, the vendor's simulated server: two nodes in one process, with one bucket.

The user must be named like the bucket. It does not support durable writes, and answers only one statement.
"""

import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from loadframe.base.errors import LoadframeError
from loadframe.cluster import artefacts, java
from loadframe.store.access import Access, Auth
from loadframe.store.distribution import Distribution, Jar

BUCKET = "things"
#: Credentials for documents.
USER = Access(auth=Auth("basic", "", user=BUCKET))
#: Credentials for the administration.
ADMINISTRATOR = Access(auth=Auth("basic", "password", user="Administrator"))

_MOCK = Distribution(
    store="couchbase-mock",
    version="1.5.27",
    java=11,
    jars=(
        Jar(
            "com.couchbase.mock:CouchbaseMock:1.5.27",
            place="lib",
            size=3_938_441,
            sha256="69aad2c1b3e538120bc89425682f27facfb219094645906a63c411b2c46a8b9c",
        ),
    ),
    modules=(),
)
_PATIENCE = 240.0


@contextmanager
def running() -> Iterator[str]:
    """Serve the bucket; yield the address of the administration. LoadframeError if the server does not start."""
    home = artefacts.install(_MOCK, lambda _: None)
    runtime = java.find(_MOCK.java, None, None, lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [runtime.home / "bin" / "java", "-Xmx128m", "-jar", home / _MOCK.jars[0].path]
    options = ["--port", str(port), "--host", "127.0.0.1", "--nodes", "2", "--vbuckets", "64", "--replicas", "1"]
    process = subprocess.Popen([*command, *options, "--buckets", f"{BUCKET}:"], stdout=subprocess.DEVNULL)
    try:
        _wait(process, f"http://127.0.0.1:{port}/pools/default/b/{BUCKET}")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until the result is true; return it."""
    credentials = ADMINISTRATOR.authenticate("GET", urllib.parse.urlsplit(url).path, {}, b"")
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=credentials)):
                return
        except OSError:
            time.sleep(0.1)
    raise LoadframeError("CouchbaseMock did not come up", remedy="its words are above")
