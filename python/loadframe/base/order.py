"""Order of names that hold numbers, such as `node-2` before `node-10`."""

import re

_NUMBER = re.compile(r"([0-9]+)")


def by_number(name: str) -> list[str | int]:
    """Return the sort key of a name: its numbers count as numbers, and the rest as text."""
    return [int(part) if index % 2 else part for index, part in enumerate(_NUMBER.split(name))]
