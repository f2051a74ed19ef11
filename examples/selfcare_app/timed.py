"""Time that a request spends in the stores, returned in its answer and logged with its identifier.

`Server-Timing: store;dur=12.3, app;dur=1.9` (ms); the two are all of the time from the request's head to the answer's.
Other names, such as `recommend`, are parts of `app`.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, TextIO

from documents import Documents


@dataclass
class Spent:
    """Time of a request in stores so far, and in named parts of the application."""

    seconds: float = 0.0
    calls: int = 0
    parts: dict[str, float] = field(default_factory=dict)


_spent: ContextVar[Spent] = ContextVar("spent")


@contextmanager
def timed_part(name: str) -> Iterator[None]:
    """Add the time of the block to a named part of the current request."""
    began = time.perf_counter()
    try:
        yield
    finally:
        if (spent := _spent.get(None)) is not None:
            spent.parts[name] = spent.parts.get(name, 0.0) + time.perf_counter() - began


class Timed:
    """Wrapper of a store that adds the time of each operation to the current request."""

    def __init__(self, documents: Documents) -> None:
        """Time this one."""
        self._documents = documents

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return a timed operation of the store."""
        operation = getattr(self._documents, name)

        async def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return await operation(*args, **kwargs)
            finally:
                if (spent := _spent.get(None)) is not None:
                    spent.seconds += time.perf_counter() - began
                    spent.calls += 1

        # Cached for the next call.
        self.__dict__[name] = timed
        return timed


class Records:
    """Middleware: identifiers, times, and optionally a log line per request."""

    def __init__(self, app: Callable[..., Awaitable[None]], instance: str, path: Path | None) -> None:
        """Write to `path`, a line each."""
        self._app = app
        self._instance = instance.encode()
        self._file: TextIO | None = path.open("a", buffering=1) if path else None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, spent = time.perf_counter(), Spent()
        _spent.set(spent)
        name = next((value for key, value in scope["headers"] if key == b"x-request-id"), b"")
        name = name or token_hex(8).encode()
        status = 0

        async def answer(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                store, rest = spent.seconds, time.perf_counter() - began - spent.seconds
                times = {"store": store, "app": rest, **spent.parts}
                timing = ", ".join(f"{part};dur={seconds * 1e3:.3f}" for part, seconds in times.items()).encode()
                added = [(b"x-request-id", name), (b"x-instance", self._instance), (b"server-timing", timing)]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            if self._file:
                line = {
                    "id": name.decode("latin-1"),
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "store_ms": round(spent.seconds * 1e3, 3),
                    "store_calls": spent.calls,
                    "total_ms": round((time.perf_counter() - began) * 1e3, 3),
                }
                self._file.write(json.dumps(line) + "\n")
