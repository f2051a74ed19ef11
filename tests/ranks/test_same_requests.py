"""For one seed any number of ranks and threads sends a real store the same requests, and counts the same documents."""

import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from commands import loadframe, open_folder
from loadframe.record import Run

pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed"),
]

WORKLOAD = """\
workload: inserting
collections: {usertable: {redis: {index: true}}}
variables:
  loaded: {sequential: {from: 0}}
  loaded_key: {hash: {of: loaded}}
  inserted: {counter: {from: 400}}
  inserted_key: {hash: {of: inserted}}
  popular: {zipfian: {items: 400, expected: 1, form: ycsb, scrambled: true}}
  popular_key: {hash: {of: popular}}
  text: {text: {length: 20}}
operations:
  load: {insert: {collection: usertable, id: "user${loaded_key}", document: {number: "${loaded}", field0: "${text}"}}}
  read: {read: {collection: usertable, id: "user${popular_key}"}}
  update: {update: {collection: usertable, id: "user${popular_key}", document: {field0: "${text}"}}}
  insert: {insert: {collection: usertable, id: "user${inserted_key}", document: {number: "${inserted}"}}}
phases:
  - {name: load, prepares: true, operation: load, clients: 24, requests: 400}
  - {name: some, mix: {read: 0.5, update: 0.2, insert: 0.3}, clients: 24, requests: 1200}
"""
#: The load's requests. A script's text is sent once, by the first client that finds it missing.
_REQUEST = re.compile(r'"(hset|hgetall|zadd|evalsha)".*user', re.IGNORECASE)


class Redis:
    """A Redis server of the test, and the commands that it received."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self._folder = folder

    def __enter__(self) -> "Redis":
        command = ["redis-server", "--port", str(self.port), "--save", ""]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while self.ask("ping") != "PONG":
            assert time.monotonic() < end
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.wait()

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def told(self, *words: object) -> Counter[str]:
        """Run the command; return the requests that arrived during it."""
        log = self._folder / "log"
        with log.open("w") as lines:
            monitor = subprocess.Popen(["redis-cli", "-p", str(self.port), "monitor"], stdout=lines)
        try:
            self._seen(log, "begin")
            done = loadframe(*words)
            assert done.returncode == 0, done.stderr
            self._seen(log, "end")
        finally:
            monitor.kill()
            monitor.wait()
        said = (line.partition("] ")[2] for line in log.read_text().splitlines())
        return Counter(request for request in said if _REQUEST.match(request))

    def _seen(self, log: Path, word: str) -> None:
        """Wait until the server's log has this word."""
        end = time.monotonic() + 60
        while f'"{word}"' not in log.read_text():
            assert time.monotonic() < end
            self.ask("echo", word)
            time.sleep(0.05)


def test_ranks_and_threads_send_redis_the_same_requests_and_count_the_same_documents():
    pytest.importorskip("mpi4py")
    with open_folder("same-requests") as folder, Redis(folder) as redis:
        workload = folder / "w.yaml"
        workload.write_text(WORKLOAD)
        told, counted = [], []
        for ranks, threads in ((1, 8), (8, 1), (3, 2)):
            redis.ask("flushall")
            output = folder / f"{ranks}x{threads}"
            words = ("bench", workload, "--store", "redis", "--hosts", f"127.0.0.1:{redis.port}", "--seed", 5)
            told.append(redis.told(*words, "--ranks", ranks, "--threads", threads, "--output", output))
            run = Run(output)
            figures = {
                name: (operation.requests, operation.successes, operation.documents)
                for phase in run.summary.phases
                for name, operation in phase.operations.items()
            }
            keys = redis.ask("--scan", "--pattern", "*user*").splitlines()
            counted.append((figures, sorted(keys)))
            assert max(len(run.manifest.generator.members), 1) == ranks
        figures, keys = counted[0]
        assert sum(figures[name][0] for name in ("read", "update", "insert")) == 1200
        assert len([key for key in keys if "user" in key]) >= 400 + figures["insert"][0]
        assert told[0].total() >= 1600
        assert told[1] == told[0] and told[2] == told[0]
        assert counted[1] == counted[0] and counted[2] == counted[0]
