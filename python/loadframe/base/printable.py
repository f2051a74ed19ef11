"""Safe text for terminals: without control characters, escape sequences and marks of text direction."""

import re

#: Escape sequences (ECMA-48) as a whole: CSI, then strings such as OSC up to their end, then all others.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|"
    r"\x1b[ -/]*[0-~]?"
)
#: C0 but tab and newline, delete, C1, the marks and overrides of text direction, and halves of surrogate pairs.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


#: A gzip stream decoded as UTF-8.
_GZIP = re.compile("\x1f[\x8b\ufffd]\x08.*", re.DOTALL)


def without_compressed(text: str) -> str:
    """Replace a gzip stream in a text by a remark."""
    return _GZIP.sub("(gzip data, not decompressed; configure the server to send uncompressed answers)", text)


def printable(text: str) -> str:
    """Return text without escape sequences and control characters; tabs and newlines stay.

    Use it for answers of stores and for texts from run folders: both are untrusted.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))
