"""A search server on loopback, in a separate process, with controlled response times.

Every answer takes `delay`; with `slow`, only answers to paths with that prefix do. With a stall, the answers due within
it are sent at its end, as after a garbage collection or of a stopped process. It logs the time of each answer.
"""

import asyncio
import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

_FOUND = b'{"took":1,"timed_out":false,"_shards":{"total":1,"failed":0},"hits":{"total":{"value":0},"hits":[]}}'
_ITEM = b'{"index":{"_id":"0123456789abcdefghij","result":"created","_shards":{"failed":0},"status":201}}'


class Answering:
    """The server, while it is entered. Durations in s; the stall begins so long after the first request."""

    def __init__(self, *, delay: float = 0.0, stall_after: float = 0.0, stall_for: float = 0.0, slow: str = "/"):
        self._arguments = [*(str(duration) for duration in (delay, stall_after, stall_for)), slow]

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = f"127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> dict[str, float]:
        """End the server; return when it answered each path, s since the epoch."""
        said, _ = self._process.communicate()
        return json.loads(said)


class _Connection(asyncio.Protocol):
    def __init__(self, server: "_Server"):
        self._server = server
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        end = self._read.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._read[:end].decode()
        lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
        length = int(lengths[0]) if lengths else 0
        if len(self._read) < end + 4 + length:
            return
        path = head.split(" ")[1]
        body = self._read[end + 4 :]
        self._read = b""
        answer = _FOUND
        if path.split("?")[0].endswith("/_bulk"):
            items = b",".join([_ITEM] * (body.count(b"\n") // 2))
            answer = b'{"took":1,"errors":false,"items":[' + items + b"]}"
        asyncio.get_running_loop().call_later(self._server.wait(path), self._answer, path, answer)

    def _answer(self, path: str, body: bytes) -> None:
        self._server.answered[path] = time.time()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


class _Server:
    def __init__(self, delay: float, stall_after: float, stall_for: float, slow: str):
        self.answered: dict[str, float] = {}
        self._slow = slow
        self._delay, self._after, self._for = delay, stall_after, stall_for
        self._first: float | None = None

    def wait(self, path: str) -> float:
        """Return how long the answer to a request that has just come takes."""
        now = time.monotonic()
        self._first = self._first or now
        answer = now + (self._delay if path.startswith(self._slow) else 0.0)
        begin = self._first + self._after
        return (begin + self._for if begin <= answer < begin + self._for else answer) - now

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        # The pipe breaks when the test ends, however it ends.
        await loop.run_in_executor(None, sys.stdin.read)
        print(json.dumps(self.answered), flush=True)


if __name__ == "__main__":
    asyncio.run(_Server(*map(float, sys.argv[1:-1]), sys.argv[-1]).serve())
