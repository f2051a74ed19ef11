"""Takes secrets out of what is about to be written down.

A value is blanked when its key says that it is a secret, wherever it stands: in a mapping, in `name=value` inside a
text, in JSON, in a statement or in a header's line there, after an option in a command line, before the `@` of an
address. A mapping under such a key is looked into and not
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
_HEADER = re.compile(r"^(\s*[\w.-]+): *\S.*$", re.MULTILINE)
#: The name of a JSON object's member; in a JSON text within JSON its quotes are escaped.
_NAME = re.compile(r'(\\*)"([\w .$-]+)\1"\s*:\s*')
#: What follows it, up to its end or to where the text was cut: a text, a list, a number or a word.
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)|\[[^\[\]]*(?:\]|$)|[-\w][\w.+-]*', re.DOTALL)
_ESCAPED = re.compile(r'(\\+")(?:(?!\1).)*(?:\1|$)|\[[^\[\]]*(?:\]|$)|[-\w][\w.+-]*', re.DOTALL)
#: As in `CREATE ROLE ann WITH PASSWORD = 'x'`.
_QUOTED = re.compile(r"([\w.-]+)(\s*=\s*|\s+)'(?:[^']|'')*(?:'|$)")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


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


def command(text: str) -> str:
    """Return a command of words, as of Redis, with its secrets blanked: what follows `AUTH`, and a secret's name."""
    words = _WORD.findall(text)
    if [word.upper() for word in words[:1]] == ["AUTH"]:
        return " ".join([words[0], *[HIDDEN] * (len(words) - 1)])
    hide, left = 0, []
    for word in words:
        left.append(HIDDEN if hide else _text(word))
        # HELLO has the user's name before the password.
        hide = hide - 1 if hide else int(is_secret(word.strip('"'))) or 2 * (word.upper() == "AUTH")
    return " ".join(left)


def _text(text: str) -> str:
    text = _ADDRESS.sub(rf"\1:{HIDDEN}", text)
    text = _members(text)
    text = _QUOTED.sub(lambda match: f"{match[1]}{match[2]}'{HIDDEN}'" if is_secret(match[1]) else match[0], text)
    text = _ASSIGNMENT.sub(lambda match: f"{match[1]}={HIDDEN}" if is_secret(match[1]) else match[0], text)
    return _HEADER.sub(lambda match: f"{match[1]}: {HIDDEN}" if is_secret(match[1]) else match[0], text)


def _members(text: str) -> str:
    """Blank the values of JSON members whose names say that they are secrets."""
    pieces, at = [], 0
    for name in _NAME.finditer(text):
        value = (_ESCAPED if name[1] else _VALUE).match(text, name.end())
        if name.start() >= at and value and is_secret(name[2]):
            pieces += [text[at : name.end()], f'{name[1]}"{HIDDEN}{name[1]}"']
            at = value.end()
    return "".join([*pieces, text[at:]])
