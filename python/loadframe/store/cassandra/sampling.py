"""Rows of a Cassandra table as JSON, with its columns and primary key."""

import json
from collections.abc import Callable
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store.base import Sample

#: Timeout of the statement that reads the rows, s.
_TIMEOUT = 120.0


def read(ask: Callable[..., list[dict[str, Any]]], name: str, documents: int, keyspace: str) -> Sample:
    """Return up to `documents` rows in the order of their tokens, which is random. BadInput without the table.

    `ask(statement, timeout=...)` returns the rows of a statement.
    """
    for word in (name, keyspace):
        if not word.replace("_", "").isalnum():
            raise BadInput(f"{word!r} is not a name of a table or keyspace", remedy="check --collection and --database")
    statement = "SELECT column_name, kind, position, type FROM system_schema.columns"
    columns = ask(f"{statement} WHERE keyspace_name = '{keyspace}' AND table_name = '{name}'")
    if not columns:
        what = f"the keyspace {keyspace} does not have the table {name}"
        raise BadInput(what, remedy="check --collection and --database")
    parts = sorted((c for c in columns if c["kind"] in _KEYS), key=lambda c: (_KEYS.index(c["kind"]), c["position"]))
    key = [str(column["column_name"]) for column in parts]
    rows = ask(f'SELECT JSON * FROM "{keyspace}"."{name}" LIMIT {documents}', timeout=_TIMEOUT)
    # JSON keys of names with capital letters are quoted.
    sampled = [{k.strip('"'): v for k, v in json.loads(row["[json]"]).items() if v is not None} for row in rows]
    types = {str(column["column_name"]): str(column["type"]) for column in columns}
    only = key[0] if len(key) == 1 else None
    return Sample(sampled, {"columns": types, "key": only or key}, only)


_KEYS = ("partition_key", "clustering")
