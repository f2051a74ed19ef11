"""Which collection is on which store, and how one moves to another while users go on.

A collection that moves goes through stages. The next one begins when all instances have the last, and every operation
that began before it is over:

- `still`: it is read and written where it is.
- `copy`: it is read there, and written on the new store and then there; what was there before is copied, batch by
  batch, except for documents that the new store has already, which are newer.
- `switch`: it is read on the new store, which has everything, and still written on both, for those that read the old.
- `moved`: the new store alone is asked, and the old one's documents go.

So a document that was seen is never missing, and a write that was answered is never lost. A document that two write at
the same time may differ on the two stores until it is written again: users write their own.
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
    """Where a collection is (`old`), or was, and where it goes."""

    old: str
    new: str
    stage: str = STAGES[0]

    @property
    def reads(self) -> str:
        """The kind of store that is read."""
        return self.new if self.stage in ("switch", "moved") else self.old

    @property
    def writes(self) -> tuple[str, ...]:
        """The kinds of store that are written, in this order."""
        return {"still": (self.old,), "moved": (self.new,)}.get(self.stage, (self.new, self.old))


def declared(text: str, stores: Sequence[str]) -> dict[str, Place]:
    """Return the place of each collection; `text` says which are not at the usual one, as `COLLECTION=STORE,...`.

    Usual is the first store for what users wait for most, and the last for the rest.
    """
    homes = {name: stores[0] if name in CRITICAL else stores[-1] for name in COLLECTIONS}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = part.partition("=")
        if name not in COLLECTIONS:
            raise SystemExit(f"placement: there is no collection {name!r}; there are {', '.join(COLLECTIONS)}")
        if kind not in stores:
            raise SystemExit(f"placement: {name} cannot be on {kind!r}; the stores are {', '.join(stores)}")
        homes[name] = kind
    return {name: Place(kind, kind) for name, kind in homes.items()}


@dataclass
class _Held:
    """A place, and how many operations are at it."""

    place: Place
    users: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Places:
    """The stores as one, of which each collection has its own: an operation goes to where its collection is now."""

    def __init__(self, stores: Mapping[str, Documents], homes: Mapping[str, Place]) -> None:
        """`stores` by their kinds."""
        self.stores = stores
        self._homes = dict(homes)
        self._held = {name: _Held(place) for name, place in homes.items()}
        self._leaving: dict[str, list[_Held]] = {name: [] for name in homes}

    def home(self, collection: str) -> Place:
        """Return where it was declared to be."""
        return self._homes[collection]

    def of(self, collection: str) -> Place:
        """Return where it is."""
        return self._held[collection].place

    async def take(self, collection: str, place: Place) -> None:
        """Use another place from now on; return when every operation at earlier ones is over."""
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
        """Return an operation that reads, whose first argument is the collection."""

        async def asked(collection: str, *rest: Any) -> Any:
            async with self._at(collection) as place:
                return await getattr(self.stores[place.reads], name)(collection, *rest)

        return asked

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Write, on the new store first, so that it lacks nothing that the old one shows."""
        async with self._at(collection) as place:
            for kind in place.writes:
                await self.stores[kind].put(collection, documents)

    async def prepare(self, collections: Sequence[str]) -> None:
        """Make them where they are."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].prepare(names)

    async def clear(self, collections: Sequence[str]) -> None:
        """Remove their documents where they are."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].clear(names)

    async def refresh(self, collections: Sequence[str]) -> None:
        """Have each store that is written show what it has."""
        for kind, names in self._by_store(collections).items():
            await self.stores[kind].refresh(names)

    def _by_store(self, collections: Sequence[str]) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for name in collections:
            for kind in self.of(name).writes:
                names.setdefault(kind, []).append(name)
        return names
