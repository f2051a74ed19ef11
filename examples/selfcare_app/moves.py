"""How a collection is moved: a batch for each request, by any instance; how far it is stands in a store.

One mover at a time. A request that fails, or an instance that dies in it, is made up for by the next request.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from documents import COLLECTIONS, Document
from peers import Peers
from places import Place, Places


class RefusedMoveError(Exception):
    """A collection that cannot be moved there."""


@dataclass(frozen=True)
class _Move:
    """Where a collection's move stands."""

    place: Place
    agreed: bool = False  #: all instances have this place
    after: str = ""  #: the id up to which all are copied
    emptied: bool = False  #: the old store has none left

    def document(self) -> Document:
        return {**asdict(self.place), "agreed": self.agreed, "after": self.after, "emptied": self.emptied}


def _key(collection: str) -> str:
    return f"place-{collection}"


class Moves:
    """The moves of all collections."""

    def __init__(self, places: Places, peers: Peers) -> None:
        """Change these places, and tell these instances."""
        self._places = places
        self._peers = peers

    async def begin(self) -> None:
        """Take up what the other instances have."""
        for name in COLLECTIONS:
            if (move := await self._read(name)) is not None:
                await self._places.take(name, move.place)

    async def next(self, collection: str, to: str, batch: int) -> dict[str, Any]:
        """Move so many documents, and return how many are `left` and the stage.

        Left are those that the old store counts and the new one does not yet: at least 1 until all is done.
        """
        if collection not in COLLECTIONS or to not in self._places.stores:
            raise RefusedMoveError(f"there is no collection {collection}, or no store {to}")
        move = await self._read(collection)
        if move is None or (move.emptied and move.place.new != to):
            if self._places.of(collection).reads == to:
                return {"left": 0, "moved": 0, "stage": "still"}
            move = await self._start(collection, to)
        if move.place.new != to:
            raise RefusedMoveError(f"{collection} is on its way to {move.place.new}")
        if move.emptied:
            return {"left": 0, "moved": 0, "stage": "moved"}
        if not move.agreed:
            move = await self._agree(collection, move)
        old, new = self._places.stores[move.place.old], self._places.stores[to]
        count = 0
        if move.place.stage == "copy":
            rows = await old.after(collection, move.after, batch)
            await new.add(collection, rows)
            count = len(rows)
            if count == batch:
                await self._keep(collection, replace(move, after=next(reversed(rows))))
                await new.refresh((collection,))
                left = max(1, await old.size(collection) - await new.size(collection))
                return {"left": left, "moved": count, "stage": "copy"}
            await new.refresh((collection,))
            move = await self._agree(collection, _Move(replace(move.place, stage="switch")))
        if move.place.stage == "switch":
            move = await self._agree(collection, _Move(replace(move.place, stage="moved")))
        await old.clear((collection,))
        await self._keep(collection, replace(move, emptied=True))
        return {"left": 0, "moved": count, "stage": "moved"}

    async def _start(self, collection: str, to: str) -> _Move:
        new = self._places.stores[to]
        await new.prepare((collection,))
        await new.refresh((collection,))
        if await new.size(collection):
            raise RefusedMoveError(f"{to} has documents of {collection} already")
        return _Move(Place(self._places.of(collection).reads, to, "copy"))

    async def _agree(self, collection: str, move: _Move) -> _Move:
        """Have all instances take a place, this one as well."""
        await self._places.take(collection, move.place)
        await self._peers.tell(_key(collection), move.document(), f"/placement/{collection}")
        if move.place.stage == "copy":
            # What was written before this is found by the copies; what comes later is written on both.
            await self._places.stores[move.place.old].refresh((collection,))
        move = replace(move, agreed=True)
        await self._keep(collection, move)
        return move

    async def reset(self) -> None:
        """Bring every collection that has moved back to where it was declared to be, without its documents."""
        for name in COLLECTIONS:
            if (move := await self._read(name)) is not None and move.place != self._places.home(name):
                await self._agree(name, _Move(self._places.home(name), emptied=True))
                for kind in (move.place.old, move.place.new):
                    await self._places.stores[kind].clear((name,))

    async def told(self, collection: str) -> dict[str, Any]:
        """Return where a collection is, and how many documents of it are there and on the other stores."""
        if collection not in COLLECTIONS:
            raise RefusedMoveError(f"there is no collection {collection}")
        place = self._places.of(collection)
        sizes = {}
        for kind, store in self._places.stores.items():
            await store.prepare((collection,))
            await store.refresh((collection,))
            sizes[kind] = await store.size(collection)
        here = sizes[place.reads]
        return {"store": place.reads, "stage": place.stage, "here": here, "elsewhere": sum(sizes.values()) - here}

    async def hear(self, collection: str, said: Document) -> None:
        """Take a place from another instance."""
        await self._places.take(collection, _place(said))

    async def _keep(self, collection: str, move: _Move) -> None:
        await self._peers.keep(_key(collection), move.document())

    async def _read(self, collection: str) -> _Move | None:
        said = await self._peers.read(_key(collection))
        if said is None:
            return None
        return _Move(_place(said), bool(said["agreed"]), str(said["after"]), bool(said["emptied"]))


def _place(said: Document) -> Place:
    return Place(str(said["old"]), str(said["new"]), str(said["stage"]))
