"""Java's properties files, the part that YCSB uses: `key=value`, comments, lines continued after a backslash."""

import re
from collections.abc import Mapping

from loadframe.errors import BadInput
from loadframe.units import parse_rate
from loadframe.yamlfile import did_you_mean, shown


def parse(text: str, where: str) -> dict[str, tuple[str, str]]:
    """Return each key's value and its place, `file:line`; the last value of a key holds, as in Java.

    BadInput for a line that sets nothing.
    """
    properties: dict[str, tuple[str, str]] = {}
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, first in lines:
        pieces = [first.strip()]
        while pieces[-1].endswith("\\"):
            pieces[-1] = pieces[-1][:-1]
            pieces.append(next(lines, (0, ""))[1].strip())
        line = "".join(pieces)
        if not line or line[0] in "#!":
            continue
        pair = re.fullmatch(r"([\w./-]+)\s*[=:\s]\s*(.*)", line)
        if pair is None:
            what = f"{shown(line)} sets nothing"
            raise BadInput(what, where=f"{where}:{number}", remedy="write key=value")
        properties[pair[1]] = (pair[2].strip(), f"{where}:{number}")
    return properties


class Properties:
    """Properties with their places. Each is read with its type; those that were read are remembered."""

    def __init__(self, given: Mapping[str, tuple[str, str]]) -> None:
        self._given = given
        self._read: set[str] = set()

    def text(self, key: str, default: str) -> str:
        """Return a property's text."""
        self._read.add(key)
        return self._given.get(key, (default, ""))[0]

    def number(self, key: str, default: float) -> float:
        """Return a number of at least 0; BadInput for anything else."""
        try:
            number = parse_rate(float(self.text(key, str(default))))
        except (BadInput, ValueError, OverflowError):
            raise self.error(key, "expected a number of at least 0", f"its default is {default:g}") from None
        return number

    def whole(self, key: str, default: int, *, least: int = 0) -> int:
        """Return a whole number below 2^53; BadInput for anything else."""
        number = self.number(key, default)
        if not number.is_integer() or not least <= number < 2**53:
            raise self.error(key, f"expected a whole number of at least {least}", f"its default is {default}")
        return int(number)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false; BadInput for anything else."""
        return self.word(key, str(default).lower(), ("true", "false")) == "true"

    def word(self, key: str, default: str, words: tuple[str, ...]) -> str:
        """Return one of some words; BadInput with the nearest for anything else."""
        word = self.text(key, default).lower()
        if word not in words:
            raise self.error(key, "is not valid here", did_you_mean(word, words))
        return word

    def error(self, key: str, what: str, remedy: str) -> BadInput:
        """Return the error to raise for a property."""
        value, where = self._given.get(key, ("nothing", None))
        return BadInput(f"{key}={value}: {what}", where=where, remedy=remedy)

    def rest(self) -> list[str]:
        """Return the properties that were not read, as they were written."""
        return [f"{key}={value}" for key, (value, _) in self._given.items() if key not in self._read]
