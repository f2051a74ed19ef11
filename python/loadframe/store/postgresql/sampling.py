"""Random rows of a table as JSON, with its columns, primary key and indexes."""

import json
from collections.abc import Mapping

from loadframe.base.errors import BadInput
from loadframe.store.base import Sample
from loadframe.store.postgresql.client import SLOW, Client, PostgresError

#: A table with more rows than this per sampled row is sampled by blocks, not read whole.
_MANY = 20
_COLUMNS = """SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
WHERE attrelid = to_regclass(:table) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_KEY = """SELECT a.attname AS name FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
AND a.attnum = ANY (i.indkey) WHERE i.indrelid = to_regclass(:table) AND i.indisprimary"""
_INDEXES = """SELECT pg_get_indexdef(indexrelid) AS text FROM pg_index
WHERE indrelid = to_regclass(:table) AND NOT indisprimary"""
_SIZE = "SELECT reltuples AS rows, relkind IN ('r', 'm') AS plain FROM pg_class WHERE oid = to_regclass(:table)"


def read(server: Client, name: str, documents: int, database: str, whole: Mapping[str, str]) -> Sample:
    """Return up to `documents` random rows of `[SCHEMA.]TABLE`. BadInput if it does not exist.

    `whole` are the columns of a table that holds whole documents.
    """
    table = ".".join('"' + part.replace('"', '""') + '"' for part in name.split(".", 1))
    try:
        columns = {str(row["name"]): str(row["type"]) for row in server.ask(_COLUMNS, database, table=table)}
    except PostgresError as error:
        if not error.no_database:
            raise
        columns = {}
    if not columns:
        what = f"the database {database} does not have the table {name}"
        raise BadInput(what, where=server.address, remedy="check --collection and --database")
    key = [str(row["name"]) for row in server.ask(_KEY, database, table=table)]
    indexes = [str(row["text"]) for row in server.ask(_INDEXES, database, table=table)]
    (size,) = server.ask(_SIZE, database, table=table)
    rows = table
    if size["plain"] and size["rows"] > _MANY * documents:
        rows = f"{table} TABLESAMPLE SYSTEM ({min(100.0, 300.0 * documents / size['rows'])})"
    whole_documents = columns == whole
    column = "document" if whole_documents else "to_jsonb(sampled)"
    statement = f"SELECT {column}::text AS json FROM (SELECT * FROM {rows} ORDER BY random() LIMIT {documents}) sampled"
    sampled = [json.loads(row["json"]) for row in server.ask(statement, database, within=SLOW)]
    if whole_documents:
        return Sample(sampled, {})
    only = key[0] if len(key) == 1 else None
    definition = {"columns": columns, "key": only, "indexes": [f"USING {i.partition(' USING ')[2]}" for i in indexes]}
    return Sample(sampled, definition, only)
