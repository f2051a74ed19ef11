"""PostgreSQL: a primary and its streaming replicas."""

from loadframe.store.postgresql.store import STORE

__all__ = ["STORE"]
