"""What goes from rank to rank: a line of JSON, and behind it bytes that are not read on the way."""

import json
from typing import Any

#: A message's line: `kind`, and what belongs to the kind.
Header = dict[str, Any]


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Return a message as bytes."""
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + payload


def decode(message: bytes) -> tuple[Header, bytes]:
    """Return the line and the bytes behind it."""
    line, _, payload = message.partition(b"\n")
    header: Header = json.loads(line)
    return header, payload
