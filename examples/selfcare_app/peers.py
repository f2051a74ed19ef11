"""Distribution of shared state to all instances: a store holds it, and each instance receives changes.

A new instance joins the list and then reads the state. An instance with a change writes the state and then reads the
list. Every change therefore reaches every instance.
"""

import asyncio
from typing import Any

import aiohttp

from documents import Document, Documents

_COLLECTION = "instances"
#: Value of `user` in these documents.
_NOBODY = "-"
#: Time-out of another instance, s.
_PATIENCE = 5.0


class SilentError(Exception):
    """A running instance did not answer."""


class Peers:
    """Sends changes of this instance to the others."""

    def __init__(self, documents: Documents, instance: str, address: str) -> None:
        """`address` is the address of this instance for the others."""
        self._documents = documents
        self._instance = instance
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def join(self) -> None:
        """Add this instance to the list."""
        await self._documents.prepare((_COLLECTION,))
        await self.keep(f"instance-{self._instance}", {"address": self._address})

    async def read(self, key: str) -> Document | None:
        """Return the state with this key."""
        return await self._documents.get(_COLLECTION, key)

    async def tell(self, key: str, news: Document, path: str) -> None:
        """Store `news` under `key`, and `PUT` it to every other instance; return when each has answered.

        An instance that refuses connections is down, and reads the state when it restarts. SilentError for a time-out.
        """
        await self.keep(key, news)
        rows = await self._documents.all(_COLLECTION, _NOBODY)
        others = {row["address"] for row in rows if "address" in row} - {self._address}
        await asyncio.gather(*(self._relay(f"http://{address}{path}", news) for address in others))

    async def keep(self, key: str, fields: Document) -> None:
        """Store state for all instances without sending it."""
        await self._documents.put(_COLLECTION, {key: {"user": _NOBODY, "date": 0, **fields}})
        await self._documents.refresh((_COLLECTION,))

    async def _relay(self, url: str, news: dict[str, Any]) -> None:
        self._session = self._session or aiohttp.ClientSession()
        try:
            timeout = aiohttp.ClientTimeout(total=_PATIENCE)
            async with self._session.put(url, json=news, timeout=timeout) as answer:
                answer.raise_for_status()
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, ConnectionError):
            # The instance is down.
            pass
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SilentError(f"{url}: {type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections to the others."""
        if self._session:
            await self._session.close()
