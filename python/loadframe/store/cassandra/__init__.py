"""Cassandra and ScyllaDB."""

from loadframe.store.cassandra.store import STORE

__all__ = ["STORE"]
