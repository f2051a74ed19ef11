"""Moves of collections between stores: one batch per request, on any instance; a store holds the progress.

Only one client may move at a time. After a failed request or instance, the next request continues.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from documents import COLLECTIONS, Document
from peers import Peers
from places import Place, Places


class RefusedMoveError(Exception):
    """The collection cannot be moved to this store."""


@dataclass(frozen=True)
class _Move:
    """Progress of the move of a collection."""

    place: Place
    agreed: bool = False  #: all instances have this place
    after: str = ""  #: all documents up to this id are copied
    emptied: bool = False  #: the old store is empty

    def document(self) -> Document:
        return {**asdict(self.place), "agreed": self.agreed, "after": self.after, "emptied": self.emptied}


def _key(collection: str) -> str:
    return f"place-{collection}"


class Moves:
    """The moves of all collections."""

    def __init__(self, places: Places, peers: Peers) -> None:
        """Take the places to change, and the instances to inform."""
        self._places = places
        self._peers = peers

    async def begin(self) -> None:
        """Read the state of the other instances."""
        for name in COLLECTIONS:
            if (move := await self._read(name)) is not None:
                await self._places.take(name, move.place)

    async def next(self, collection: str, to: str, batch: int) -> dict[str, Any]:
        """Move up to so many documents, and return the number `left` and the stage.

        The number left is the difference of the counts on the old and the new store, and at least 1 until the end.
        """
        if collection not in COLLECTIONS or to not in self._places.stores:
            raise RefusedMoveError(f"unknown collection {collection}, or no store {to}")
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
        """Set a place on all instances, including this one."""
        await self._places.take(collection, move.place)
        await self._peers.tell(_key(collection), move.document(), f"/placement/{collection}")
        if move.place.stage == "copy":
            # Copies include all earlier writes; later writes go to both stores.
            await self._places.stores[move.place.old].refresh((collection,))
        move = replace(move, agreed=True)
        await self._keep(collection, move)
        return move

    async def reset(self) -> None:
        """Reset every moved collection to its declared store, without its documents."""
        for name in COLLECTIONS:
            if (move := await self._read(name)) is not None and move.place != self._places.home(name):
                await self._agree(name, _Move(self._places.home(name), emptied=True))
                for kind in (move.place.old, move.place.new):
                    await self._places.stores[kind].clear((name,))

    async def told(self, collection: str) -> dict[str, Any]:
        """Return the store of a collection, and its number of documents on each store."""
        if collection not in COLLECTIONS:
            raise RefusedMoveError(f"unknown collection {collection}")
        place = self._places.of(collection)
        sizes = {}
        for kind, store in self._places.stores.items():
            await store.prepare((collection,))
            await store.refresh((collection,))
            sizes[kind] = await store.size(collection)
        here = sizes[place.reads]
        return {"store": place.reads, "stage": place.stage, "here": here, "elsewhere": sum(sizes.values()) - here}

    async def hear(self, collection: str, said: Document) -> None:
        """Set a place on behalf of another instance."""
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
