"""The files of an application: what its instances run, and what tells one build of it from another."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadframe.errors import BadInput

#: Bytes of all files together; more are taken for data, and not for a program.
_MOST = 16 * 2**20


def read(folder: Path, patterns: Sequence[str], without: Sequence[str]) -> Mapping[str, str]:
    """Return the text files below a folder that match one of the patterns, by their paths in it; BadInput for others.

    What is hidden, and what Python compiles, is left out, and so is what one of `without` matches.
    """
    texts: dict[str, str] = {}
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    for path in paths:
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        if hidden or any(name.match(pattern) for pattern in without):
            continue
        try:
            texts[str(name)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"this file of the application cannot be read as text: {error}",
                where=str(path),
                remedy="leave it out of `files`, or make it readable",
            ) from error
    size = sum(map(len, texts.values()))
    if not texts or size > _MOST:
        what = f"has {size:,} bytes in the files that its instances run" if texts else "has no file that it could run"
        raise BadInput(f"the application {what}", where=str(folder), remedy=f"change `files`: {', '.join(patterns)}")
    return texts


def digest(texts: Mapping[str, str], *further: str) -> str:
    """Return 8 letters that are others for other files."""
    whole = hashlib.sha256(repr((sorted(texts.items()), further)).encode())
    return whole.hexdigest()[:8]
