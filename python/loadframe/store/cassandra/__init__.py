"""Cassandra, and whatever else speaks its protocol."""

from loadframe.store.cassandra.store import STORE

__all__ = ["STORE"]
