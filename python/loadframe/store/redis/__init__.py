"""Redis and Valkey: standalone servers and clusters."""

from loadframe.store.redis.store import STORE

__all__ = ["STORE"]
