"""Couchbase clusters."""

from loadframe.store.couchbase.store import STORE

__all__ = ["STORE"]
