"""Reads options that several commands share."""

from collections.abc import Sequence

from loadframe.errors import BadInput


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Return `name=value` texts as a mapping; BadInput for a text without `=` or a name given twice."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(f"--set {text!r} sets nothing", remedy="write --set name=value")
        if name in pairs:
            raise BadInput(f"--set gives {name} twice", remedy="give it once")
        pairs[name] = value
    return pairs
