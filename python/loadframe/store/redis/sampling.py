"""Values of Redis keys with a common prefix, as documents."""

import json
from collections.abc import Sequence
from typing import Any

from loadframe.store.base import Sample
from loadframe.store.redis.client import Client

#: Keys per pipeline.
_BATCH = 500


def read(masters: Sequence[Client], name: str, documents: int) -> Sample:
    """Return up to `documents` hashes, and texts that are JSON objects, of keys `NAME:...`.

    SCAN returns keys in the order of their hashes, which is random. Other types of values are left out.
    """
    per_node = -(-documents // len(masters))
    sampled: list[dict[str, Any]] = []
    for master in masters:
        sampled += _of(master, name, per_node)
    return Sample(sampled[:documents], {})


def _of(master: Client, name: str, most: int) -> list[dict[str, Any]]:
    keys: dict[str, None] = {}
    for batch in master.keys(name):
        keys.update(dict.fromkeys(batch))
        if len(keys) >= most:
            break
    documents = []
    names = list(keys)[:most]
    for begin in range(0, len(names), _BATCH):
        batch = names[begin : begin + _BATCH]
        types = master.ask_all([("TYPE", key) for key in batch])
        readers = {"hash": "HGETALL", "string": "GET"}
        commands = [(readers[type_], key) for key, type_ in zip(batch, types, strict=True) if type_ in readers]
        for reply in master.ask_all(commands):
            document = _value(reply) if isinstance(reply, str) else _hash(reply)
            if isinstance(document, dict) and document:
                documents.append(document)
    return documents


def _hash(reply: Sequence[str]) -> dict[str, Any]:
    return {_text(field): _value(value) for field, value in zip(reply[::2], reply[1::2], strict=True)}


def _value(text: str) -> Any:
    """Return a number, list or object that a text holds as JSON, or the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _text(text)
    is_data = isinstance(value, list | dict) or (isinstance(value, int | float) and value - value == 0)
    return value if is_data else _text(text)


def _text(text: str) -> str:
    # Bytes that are not UTF-8 are surrogates, which JSON files cannot hold.
    return text.encode(errors="surrogateescape").decode(errors="replace")
