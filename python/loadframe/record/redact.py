"""Takes secrets out of what is about to be written down.

A value is blanked when its key says that it is a secret, wherever it stands: in a mapping, in `name=value` inside a
text, after an option in a command line, before the `@` of an address. A mapping under such a key is looked into and not
blanked: a collection may well have a field called `password`, and its mapping is needed to repeat the run.
"""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Any

HIDDEN = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ENDINGS = ("password", "passwd", "passphrase", "pwd", "secret", "secrets", "apikey", "authorization", "credentials")
_KEYS = {"api", "access", "private", "secret", "auth", "encryption", "signing"}
#: Cassandra's places on its ring, which repeat a run and open nothing.
_HARMLESS = {"initial_token"}

_ADDRESS = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_ASSIGNMENT = re.compile(r"([\w.-]+)=([^\s&;,'\"]+)")
_HEADER = re.compile(r"\s*([\w.-]+):\s*\S.*", re.DOTALL)


def is_secret(key: str) -> bool:
    """Say whether a key names a secret: `password`, `api_key`, `keyStorePassword`, `auth-token`; not `num_tokens`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or key in _HARMLESS:
        return False
    named = any(word.endswith(_ENDINGS) for word in words) or words[-1].endswith("token")
    return named or any(second == "key" and first in _KEYS for first, second in pairwise(words))


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it, secrets blanked: tuples as lists, paths as text, NaN and infinity as null."""
    match value:
        case Mapping():
            return {str(key): _under(str(key), below) for key, below in value.items()}
        case list() | tuple():
            return list(_elements(value))
        case str() | PurePath():
            return _text(str(value))
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _under(key: str, value: Any) -> Any:
    if not is_secret(key) or value is None or isinstance(value, Mapping):
        return plain(value)
    return HIDDEN


def _elements(values: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    hide = False
    for value in values:
        yield HIDDEN if hide else plain(value)
        # In a command line the secret is the word that follows its option.
        hide = isinstance(value, str) and value.startswith("-") and "=" not in value and is_secret(value)


def _text(text: str) -> str:
    text = _ADDRESS.sub(rf"\1:{HIDDEN}", text)
    text = _ASSIGNMENT.sub(lambda found: f"{found[1]}={HIDDEN}" if is_secret(found[1]) else found[0], text)
    header = _HEADER.fullmatch(text)
    return f"{header[1]}: {HIDDEN}" if header and is_secret(header[1]) else text
