"""Positions of objects and keys in a JSON text, by their path in messages.

The path of the key `size` in the third entry of the list under `operations` is `, operations[2], size`.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

#: Nesting levels with recorded positions; deeper parts have the position of the innermost recorded one.
_DEPTH = 8
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[\[\]{},]')


def offsets(text: str) -> dict[str, int]:
    """Return the offset in characters of each object and key of a JSON text, by path."""
    places = {"": 0}
    #: Enclosing levels: path, and for a list the index of the current entry.
    around: list[tuple[str, int | None]] = []
    path = ""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if token[2] is not None:
            path = f"{around[-1][0]}, {token[1]}" if around else f", {token[1]}"
            if len(around) <= _DEPTH:
                places.setdefault(path, token.start())
        elif mark in ("{", "["):
            outer, entry = around[-1] if around else ("", None)
            path = path if entry is None else f"{outer}[{entry}]"
            if mark == "{" and len(around) <= _DEPTH:
                places[path] = token.start()
            around.append((path, 0 if mark == "[" else None))
        elif mark in ("}", "]") and around:
            path, _ = around.pop()
        elif mark == "," and around:
            outer, entry = around[-1]
            around[-1] = (outer, None if entry is None else entry + 1)
    return places


def lines(text: str) -> dict[str, int]:
    """Return the line of each object and key of a JSON text, by path."""
    begins = list(accumulate((len(line) for line in text.splitlines(keepends=True)), initial=0))
    return {path: bisect_right(begins, offset) for path, offset in offsets(text).items()}


def nearest(path: str, places: Mapping[str, str]) -> str | None:
    """Return the place of a path, or of the innermost enclosing part that has one; None without one."""
    while path not in places:
        if not path:
            return None
        cut = max(path.rfind(", "), path.rfind("["))
        path = path[: max(cut, 0)]
    return places[path]
