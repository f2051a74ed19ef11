"""MongoDB: replica sets, and shards behind routers."""

from loadframe.store.mongodb.store import STORE

__all__ = ["STORE"]
