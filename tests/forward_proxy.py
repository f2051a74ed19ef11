"""An HTTP proxy in a process of its own: `python forward_proxy.py LOG NAME=HOST:PORT ... [--login USER:PASSWORD]`.

It prints its port, knows only the given names, and appends the first line of each request to the log.
"""

import asyncio
import base64
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit


@contextlib.contextmanager
def running(log: Path, *words: str) -> Iterator[str]:
    """Start the proxy; yield its `host:port`, and end it."""
    command = [sys.executable, __file__, str(log), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(1 << 16):
            sink.write(piece)
            await sink.drain()
    sink.close()


class _Proxy:
    def __init__(self, log: Path, names: dict[str, str], login: str | None) -> None:
        self._log, self._names = log, names
        self._expected = login and f"Basic {base64.b64encode(login.encode()).decode()}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await self._serve_one(reader, writer):
                pass
        writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve a request; return whether the connection stays open."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().removesuffix("\r\n\r\n").split("\r\n")
        with self._log.open("a") as log:
            log.write(f"{first}\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        method, target, version = first.split(" ")
        url = urlsplit(target)
        name = target if method == "CONNECT" else url.netloc
        if self._expected and fields.get("proxy-authorization") != self._expected:
            return self._refuse(writer, "407 Proxy Authentication Required")
        if name not in self._names:
            return self._refuse(writer, "502 Bad Gateway")
        host, port = self._names[name].rsplit(":", 1)
        answers, requests = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pipe(reader, requests), _pipe(answers, writer))
            return False
        path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
        requests.write("\r\n".join([f"{method} {path} {version}", "Connection: close", *kept, "", ""]).encode())
        requests.write(await reader.readexactly(int(fields.get("content-length", 0))))
        writer.write(await answers.read(-1))
        requests.close()
        return True

    @staticmethod
    def _refuse(writer: asyncio.StreamWriter, status: str) -> bool:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        return False


async def _main(log: str, *words: str) -> None:
    login = words[words.index("--login") + 1] if "--login" in words else None
    names = dict(word.split("=", 1) for word in words if "=" in word)
    server = await asyncio.start_server(_Proxy(Path(log), names, login).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
