"""Couchbase, and clusters of it."""

from loadframe.store.couchbase.store import STORE

__all__ = ["STORE"]
