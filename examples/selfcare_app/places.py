"""Assignment of collections to stores, and moves under load.

A move has stages. The next stage begins when all instances have reached the last one and all operations of earlier
stages have ended:

- `still`: the old store is read and written.
- `copy`: the old store is read, and writes go to the new store first and then to the old one. Older documents are
  copied in batches, unless the new store already has a newer version.
- `switch`: the new store, now complete, is read. Writes still go to both, for instances that read the old one.
- `moved`: only the new store is used, and the documents of the old one are deleted.

Visible documents therefore stay visible, and acknowledged writes are kept. Concurrent writes to one document may differ
between the stores until the next write; in practice, users only write their own documents.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from documents import COLLECTIONS, CRITICAL, Document, Documents

STAGES = ("still", "copy", "switch", "moved")


@dataclass(frozen=True)
class Place:
    """The current or former store of a collection (`old`), and the target of its move."""

    old: str
    new: str
    stage: str = STAGES[0]

    @property
    def reads(self) -> str:
        """The store that is read."""
        return self.new if self.stage in ("switch", "moved") else self.old

    @property
    def writes(self) -> tuple[str, ...]:
        """The stores that are written, in order."""
        return {"still": (self.old,), "moved": (self.new,)}.get(self.stage, (self.new, self.old))


def declared(text: str, stores: Sequence[str]) -> dict[str, Place]:
    """Return the place of each collection; `text` overrides the defaults, as `COLLECTION=STORE,...`.

    By default, the most used collections are on the first store, the others on the last.
    """
    homes = {name: stores[0] if name in CRITICAL else stores[-1] for name in COLLECTIONS}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = part.partition("=")
        if name not in COLLECTIONS:
            raise SystemExit(f"placement: unknown collection {name!r}; there are {', '.join(COLLECTIONS)}")
        if kind not in stores:
            raise SystemExit(f"placement: {name} cannot be on {kind!r}; the stores are {', '.join(stores)}")
        homes[name] = kind
    return {name: Place(kind, kind) for name, kind in homes.items()}


@dataclass
class _Held:
    """A place with its number of running operations."""

    place: Place
    users: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Places:
    """All stores as one: each operation goes to the current store of its collection."""

    def __init__(self, stores: Mapping[str, Documents], homes: Mapping[str, Place]) -> None:
        """`stores` by their kinds."""
        self.stores = stores
        self._homes = dict(homes)
        self._held = {name: _Held(place) for name, place in homes.items()}
        self._leaving: dict[str, list[_Held]] = {name: [] for name in homes}

    def home(self, collection: str) -> Place:
        """Return the declared place."""
        return self._homes[collection]

    def of(self, collection: str) -> Place:
        """Return the current place."""
        return self._held[collection].place

    async def take(self, collection: str, place: Place) -> None:
        """Use another place from now on; return when all operations at earlier places have ended."""
        held, leaving = self._held[collection], self._leaving[collection]
        if held.place != place:
            self._held[collection] = _Held(place)
            leaving.append(held)
        leaving[:] = [before for before in leaving if before.users]
        await asyncio.gather(*(before.idle.wait() for before in leaving))

    @asynccontextmanager
    async def _at(self, collection: str) -> AsyncIterator[Place]:
        held = self._held[collection]
        held.users += 1
        held.idle.clear()
        try:
            yield held.place
        finally:
            held.users -= 1
            if not held.users:
                held.idle.set()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return a reading operation; its first argument is the collection."""

        async def asked(collection: str, *rest: Any) -> Any:
            async with self._at(collection) as place:
                return await getattr(self.stores[place.reads], name)(collection, *rest)

        return asked

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Write to the new store first, so that it has every document of the old one."""
        async with self._at(collection) as place:
            for kind in place.writes:
                await self.stores[kind].put(collection, documents)

    async def prepare(self, collections: Sequence[str]) -> None:
        """Create them on their stores."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].prepare(names)

    async def clear(self, collections: Sequence[str]) -> None:
        """Remove their documents from their stores."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].clear(names)

    async def refresh(self, collections: Sequence[str]) -> None:
        """Refresh each store that is written."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].refresh(names)

    async def merge(self, collections: Sequence[str]) -> None:
        """Merge them on each store that is written."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].merge(names)

    def _by_store(self, collections: Sequence[str]) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for name in collections:
            for kind in self.of(name).writes:
                names.setdefault(kind, []).append(name)
        return names
