"""A TLS proxy on loopback for a server without TLS: it makes the server look like a secured cluster."""

import asyncio
import contextlib
import json
import ssl
import threading
from types import TracebackType
from typing import Self

import trustme

_REFUSED = json.dumps({"error": {"type": "security_exception", "reason": "missing authentication"}, "status": 401})


class Front:
    """Context manager that decrypts for `backend` (`host:port`).

    `authorization`: header value that every request must have. `clients`: certificate authority of the clients.
    """

    def __init__(
        self,
        backend: str,
        identity: trustme.LeafCert,
        *,
        authorization: str | None = None,
        clients: trustme.CA | None = None,
    ) -> None:
        self._backend = backend.rsplit(":", 1)
        self._authorization = authorization
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        identity.configure_cert(self._context)
        if clients:
            clients.configure_trust(self._context)
            self._context.verify_mode = ssl.CERT_REQUIRED
        #: How many connections were let in.
        self.admitted = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        server = self._loop.run_until_complete(serving)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        server.close()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
            sent = {name.lower(): value for name, value in fields.items()}.get("authorization")
            if self._authorization is not None and sent != self._authorization:
                answer = f"HTTP/1.1 401 Unauthorized\r\ncontent-length: {len(_REFUSED)}\r\n\r\n{_REFUSED}"
                writer.write(f"{answer}".encode())
                await writer.drain()
                writer.close()
                return
            self.admitted += 1
            ours, theirs = await asyncio.open_connection(*self._backend)
            theirs.write(head)
            await asyncio.gather(_pipe(reader, theirs), _pipe(ours, writer))


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(1 << 16):
        sink.write(piece)
        await sink.drain()
    sink.close()
