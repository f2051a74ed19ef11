"""The other instances: what all of them have to know stands in a store, and is told to each.

An instance that comes puts itself on the list and then reads what stands there; one that has news writes it and then
reads the list: so none is left behind.
"""

import asyncio
from typing import Any

import aiohttp

from documents import Document, Documents

_COLLECTION = "instances"
#: In the place of a user.
_NOBODY = "-"
#: s that another instance may take.
_PATIENCE = 5.0


class SilentError(Exception):
    """An instance that is there has not answered."""


class Peers:
    """What this instance tells the others."""

    def __init__(self, documents: Documents, instance: str, address: str) -> None:
        """`address` is where the others reach this instance."""
        self._documents = documents
        self._instance = instance
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def join(self) -> None:
        """Put this instance on the list."""
        await self._documents.prepare((_COLLECTION,))
        await self.keep(f"instance-{self._instance}", {"address": self._address})

    async def read(self, key: str) -> Document | None:
        """Return what stands there under that name."""
        return await self._documents.get(_COLLECTION, key)

    async def tell(self, key: str, news: Document, path: str) -> None:
        """Keep `news` under `key`, and `PUT` it to every other instance; return when each has answered.

        One that takes no connection is gone, and reads the news if it comes back. SilentError if one does not answer.
        """
        await self.keep(key, news)
        rows = await self._documents.all(_COLLECTION, _NOBODY)
        others = {row["address"] for row in rows if "address" in row} - {self._address}
        await asyncio.gather(*(self._relay(f"http://{address}{path}", news) for address in others))

    async def keep(self, key: str, fields: Document) -> None:
        """Write what all have to know, and tell nobody."""
        await self._documents.put(_COLLECTION, {key: {"user": _NOBODY, "date": 0, **fields}})
        await self._documents.refresh((_COLLECTION,))

    async def _relay(self, url: str, news: dict[str, Any]) -> None:
        self._session = self._session or aiohttp.ClientSession()
        try:
            timeout = aiohttp.ClientTimeout(total=_PATIENCE)
            async with self._session.put(url, json=news, timeout=timeout) as answer:
                answer.raise_for_status()
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, ConnectionError):
            # It is gone.
            pass
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SilentError(f"{url}: {type(error).__name__}") from error

    async def close(self) -> None:
        """Let the connections to the others go."""
        if self._session:
            await self._session.close()
