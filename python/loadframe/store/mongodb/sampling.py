"""Random documents of a MongoDB collection as extended JSON, with its indexes."""

import json
from typing import Any

from loadframe.store.base import Sample
from loadframe.store.mongodb.client import Client, MongoError

_BATCH = 1000
#: Error code of a collection that does not exist.
_NO_COLLECTION = 26


def read(server: Client, name: str, documents: int, database: str) -> Sample:
    """Return up to `documents` random documents. Ids that the server created are left out."""
    from bson import json_util

    pipeline = [{"$sample": {"size": documents}}]
    cursor = server.ask({"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": _BATCH}}, database)["cursor"]
    batches = list(cursor["firstBatch"])
    while cursor["id"]:
        cursor = server.ask({"getMore": cursor["id"], "collection": name, "batchSize": _BATCH}, database)["cursor"]
        batches += cursor["nextBatch"]
    own_ids = all(isinstance(document.get("_id"), str | int) for document in batches)
    for document in batches:
        if not own_ids:
            document.pop("_id", None)
    text = json_util.dumps(batches, json_options=json_util.RELAXED_JSON_OPTIONS)
    key = "_id" if own_ids and batches else None
    return Sample(json.loads(text), _definition(server, name, database), key)


def _definition(server: Client, name: str, database: str) -> dict[str, Any]:
    """Return the keys of a collection's indexes; text indexes and conditions are left out."""
    try:
        indexes = server.ask({"listIndexes": name, "cursor": {"batchSize": _BATCH}}, database)["cursor"]["firstBatch"]
    except MongoError as error:
        if error.code != _NO_COLLECTION:
            raise
        return {}
    keys = [dict(index["key"]) for index in indexes if index["name"] != "_id_" and "_fts" not in index["key"]]
    whole = [{field: int(way) if isinstance(way, float) else way for field, way in key.items()} for key in keys]
    return {"indexes": whole} if whole else {}
