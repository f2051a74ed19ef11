"""Masking of secrets in data to be written.

A value is masked if its key names a secret: in mappings, and within texts in `name=value`, JSON, statements, header
lines, command-line options and addresses (before `@`). A mapping under such a key is not masked, only searched: a
collection may have a field called `password`, and its mapping is needed to repeat the run.

`without` masks known secrets wherever they occur.
"""

import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, takewhile
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

HIDDEN = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ENDINGS = ("password", "passwd", "passphrase", "pwd", "secret", "secrets", "apikey", "authorization", "credentials")
_KEYS = {"api", "access", "private", "secret", "auth", "encryption", "signing"}
#: Cassandra's positions on its ring, which are not secret.
_HARMLESS = {"initial_token"}

_ADDRESS = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_ASSIGNMENT = re.compile(r"([\w.-]+)=([^\s&;,'\"]+)")
_HEADER = re.compile(r"^(\s*[\w.-]+): *\S.*$", re.MULTILINE)
#: The name of a JSON member; in JSON text within JSON its quotes are escaped.
_NAME = re.compile(r'(\\*)"([\w .$-]+)\1"\s*:\s*')
#: The value of a JSON member, possibly truncated: a string, list, number or word.
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)|\[[^\[\]]*(?:\]|$)|[-\w][\w.+-]*', re.DOTALL)
_ESCAPED = re.compile(r'(\\+")(?:(?!\1).)*(?:\1|$)|\[[^\[\]]*(?:\]|$)|[-\w][\w.+-]*', re.DOTALL)
#: As in `CREATE ROLE ann WITH PASSWORD = 'x'`.
_QUOTED = re.compile(r"([\w.-]+)(\s*=\s*|\s+)'(?:[^']|'')*(?:'|$)")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


def is_secret(key: str) -> bool:
    """Return whether a key names a secret, such as `password`, `keyStorePassword` or `auth-token`, not `num_tokens`.

    The key is split into words at capitals, digits and punctuation. It names a secret if a word ends with `password`,
    `passwd`, `passphrase`, `pwd`, `secret`, `secrets`, `apikey`, `authorization` or `credentials`, or the last one with
    `token`, or if `key` follows `api`, `access`, `private`, `secret`, `auth`, `encryption` or `signing`.
    `initial_token` does not.
    """
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or key in _HARMLESS:
        return False
    named = any(word.endswith(_ENDINGS) for word in words) or words[-1].endswith("token")
    return named or any(second == "key" and first in _KEYS for first, second in pairwise(words))


def plain(value: Any) -> Any:
    """Return a copy of `value` with secrets masked, in JSON types.

    Tuples become lists, keys and paths texts, NaN and infinity None. Values of other types stay unchanged.
    """
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


#: Leading characters of a secret that are masked without the rest: a text may be cut within a secret.
_RECOGNIZED = 8
#: Shorter secrets are masked only as whole words.
_WORD_LENGTH = 4


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text with the secrets masked, each in all of its spellings.

    These are the secret itself, escaped for JSON, HTML or a URL, and cut off after eight characters or more. Secrets
    of less than four characters are masked only as whole words, and empty ones are ignored.
    """
    forms = {form for secret in secrets if secret for form in _escaped_forms(secret)}
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        text = _mask(text, form)
    return text


def _escaped_forms(secret: str) -> set[str]:
    """Return the spellings of a secret: as it is, and escaped for JSON, HTML and URLs."""
    in_json = json.dumps(secret)[1:-1]
    in_url = quote(secret, safe="")
    return {secret, in_json, in_json.replace("/", "\\/"), html.escape(secret), in_url, in_url.lower()}


def _mask(text: str, secret: str) -> str:
    """Replace a secret in a text by `HIDDEN`, also where it is cut off after at least eight characters.

    A secret of less than four characters is masked only as a whole word.
    """
    if len(secret) < _WORD_LENGTH:
        return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    pieces, at = [], 0
    while (start := text.find(secret[:_RECOGNIZED], at)) >= 0:
        pieces += [text[at:start], HIDDEN]
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(secret, text[start : start + len(secret)], strict=False))
        at = start + sum(1 for _ in equal)
    return "".join([*pieces, text[at:]])


def _under(key: str, value: Any) -> Any:
    """Return the value of a key, with secrets in it masked; `***` instead if the key names a secret.

    Under such a key, None is not masked, and mappings are searched.
    """
    if not is_secret(key) or value is None or isinstance(value, Mapping):
        return plain(value)
    return HIDDEN


def _elements(values: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    """Yield list elements with secrets in them masked.

    An element becomes `***` if the one before is an option (begins with `-`, without `=`) that names a secret.
    """
    hide = False
    for value in values:
        yield HIDDEN if hide else plain(value)
        # In a command line, the secret is the word after its option.
        hide = isinstance(value, str) and value.startswith("-") and "=" not in value and is_secret(value)


def command(text: str) -> str:
    """Return a command of words, as of Redis, with secrets replaced by `***`; words are separated by one space.

    Replaced are all words after AUTH as the first word, two words after AUTH elsewhere, and one word after a name of a
    secret. Quoted words count as one.
    """
    words = _WORD.findall(text)
    if [word.upper() for word in words[:1]] == ["AUTH"]:
        return " ".join([words[0], *[HIDDEN] * (len(words) - 1)])
    hide, left = 0, []
    for word in words:
        left.append(HIDDEN if hide else _text(word))
        # In HELLO, AUTH is followed by user and password.
        hide = hide - 1 if hide else int(is_secret(word.strip('"'))) or 2 * (word.upper() == "AUTH")
    return " ".join(left)


def _text(text: str) -> str:
    """Return a text with secrets masked: passwords in URLs, and values after a secret name.

    Such values are JSON members, `NAME = 'value'`, `NAME 'value'`, `NAME=value` and header lines `NAME: value`.
    """
    text = _ADDRESS.sub(rf"\1:{HIDDEN}", text)
    text = _members(text)
    text = _QUOTED.sub(lambda match: f"{match[1]}{match[2]}'{HIDDEN}'" if is_secret(match[1]) else match[0], text)
    text = _ASSIGNMENT.sub(lambda match: f"{match[1]}={HIDDEN}" if is_secret(match[1]) else match[0], text)
    return _HEADER.sub(lambda match: f"{match[1]}: {HIDDEN}" if is_secret(match[1]) else match[0], text)


def _members(text: str) -> str:
    """Return a text with masked values of JSON members with secret names, also in JSON within JSON."""
    pieces, at = [], 0
    for name in _NAME.finditer(text):
        value = (_ESCAPED if name[1] else _VALUE).match(text, name.end())
        if name.start() >= at and value and is_secret(name[2]):
            pieces += [text[at : name.end()], f'{name[1]}"{HIDDEN}{name[1]}"']
            at = value.end()
    return "".join([*pieces, text[at:]])
