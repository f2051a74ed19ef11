"""The statements that make the table of a collection."""

from collections.abc import Iterator, Mapping
from typing import Any

#: The columns of a table that is defined by nothing: an id, and the document as it is.
ID, DOCUMENT = "id", "document"


def create(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statements that make the table and its indexes. A key that is not among the columns is a text."""
    columns: Mapping[str, str] = definition.get("columns") or {DOCUMENT: "jsonb NOT NULL"}
    key = definition.get("key", ID)
    if key is not None:
        columns = {key: "text", **columns}
    parts = [f"{quoted(column)} {kind}" for column, kind in columns.items()]
    if key is not None:
        parts.append(f"PRIMARY KEY ({quoted(key)})")
    unlogged = "UNLOGGED " if definition.get("unlogged") else ""
    options = f" WITH ({definition['with']})" if definition.get("with") else ""
    yield f"CREATE {unlogged}TABLE {quoted(name)} ({', '.join(parts)}){options}"
    for index in definition.get("indexes") or []:
        yield f"CREATE INDEX ON {quoted(name)} {index}"


def quoted(name: str) -> str:
    """Return an identifier as statements have it."""
    return '"' + name.replace('"', '""') + '"'
