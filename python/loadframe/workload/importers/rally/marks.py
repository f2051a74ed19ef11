"""Marks in templates that survive rendering, and tell which line of which file a piece of the result came from.

A mark stands before the first character of a line that is neither white space nor within a tag, so that the removal of
white space around tags works as without marks. What templates keep for later (macros, blocks that are set, called or
filtered) has no marks, because templates may look into it.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass

#: Characters for private use, which no track has.
_BEGIN, _END = "\ue000", "\ue001"
_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_KEEPS = re.compile(r"\{%[-+]?\s*(macro\b|call\b|filter\b|set\b(?!.*=))", re.DOTALL)
_KEPT = re.compile(r"\{%[-+]?\s*end(macro|call|filter|set)\b")
_MARK = re.compile(f"{_BEGIN}([0-9]+):([0-9]+){_END}")


def marked(text: str, file: int) -> str:
    """Return a template with marks of the file of that number; unchanged if it has the characters of marks itself."""
    if _BEGIN in text or _END in text:
        return text
    pieces: list[str] = []
    at, line, keeping = 0, 1, 0
    for tag in _TAG.finditer(text):
        pieces.append(_marked_data(text[at : tag.start()], file, line) if not keeping else text[at : tag.start()])
        pieces.append(tag[0])
        keeping = max(0, keeping + bool(_KEEPS.match(tag[0])) - bool(_KEPT.match(tag[0])))
        line += text.count("\n", at, tag.end())
        at = tag.end()
    rest = text[at:]
    return "".join([*pieces, rest if keeping else _marked_data(rest, file, line)])


def _marked_data(data: str, file: int, line: int) -> str:
    pieces = []
    for number, piece in enumerate(data.split("\n"), start=line):
        blank = len(piece) - len(piece.lstrip())
        pieces.append(f"{piece[:blank]}{_BEGIN}{file}:{number}{_END}{piece[blank:]}" if piece.strip() else piece)
    return "\n".join(pieces)


@dataclass(frozen=True)
class Origins:
    """Where a rendered text came from: its pieces begin at `offsets`, each with its file's number and its line."""

    offsets: list[int]
    places: list[tuple[int, int]]

    def place(self, offset: int) -> tuple[int, int] | None:
        """Return the file's number and the line that a character of the text came from; None if no mark is before."""
        index = bisect_right(self.offsets, offset) - 1
        return self.places[index] if index >= 0 else None


def unmarked(text: str) -> tuple[str, Origins]:
    """Return a rendered text without its marks, and where it came from."""
    pieces, offsets, places = [], [], []
    at = length = 0
    for mark in _MARK.finditer(text):
        pieces.append(text[at : mark.start()])
        length += mark.start() - at
        offsets.append(length)
        places.append((int(mark[1]), int(mark[2])))
        at = mark.end()
    pieces.append(text[at:])
    return "".join(pieces), Origins(offsets, places)
