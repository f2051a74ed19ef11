"""Untrusted input: bounded reading of files and pipes. Untrusted output: safe text for terminals, streams that end."""

import io
import os
import re
import select
import stat
from pathlib import Path
from typing import TextIO

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size


def read_input(path: Path, most: int) -> bytes:
    """Return the content of a file or pipe; BadInput if it cannot be read, or is larger than `most` bytes.

    Devices such as `/dev/zero` are refused, because they are endless. `/dev/null` and terminals are read.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            device = stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty())
            # /dev/null is allowed: it is an empty file.
            if device and os.fstat(file.fileno()).st_rdev != Path(os.devnull).stat().st_rdev:
                raise BadInput("this is a device", where=str(path), remedy="give a file or a pipe")
            content = file.read(most + 1)
    except OSError as error:
        raise BadInput(
            f"cannot read the file: {error.strerror}", where=str(path), remedy="check its name and permissions"
        ) from error
    if len(content) > most:
        raise BadInput(f"the file is larger than {format_size(most)}", where=str(path), remedy="check its name")
    return content


#: Escape sequences (ECMA-48) as a whole: CSI, then strings such as OSC up to their end, then all others.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|"
    r"\x1b[ -/]*[0-~]?"
)
#: C0 but tab and newline, delete, C1, the marks and overrides of text direction, halves of surrogate pairs, and the
#: two characters that XML does not allow besides these.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


#: A gzip stream decoded as UTF-8.
_GZIP = re.compile("\x1f[\x8b\ufffd]\x08.*", re.DOTALL)


def without_compressed(text: str) -> str:
    """Return a text with a remark instead of a gzip stream (decoded as UTF-8), from its magic number to the end."""
    return _GZIP.sub("(gzip data, not decompressed; configure the server to send uncompressed answers)", text)


def printable(text: str) -> str:
    """Return text without escape sequences and control characters; tabs and newlines stay.

    Use it for answers of stores and for texts from run folders: both are untrusted.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


class _Outlet(io.FileIO):
    """Descriptor that switches to /dev/null when writing fails, and waits if it is full."""

    def write(self, data: "bytes | memoryview | bytearray") -> int:  # type: ignore[override]
        """Write data, waiting if the descriptor is full; return the number of bytes.

        After an OSError, this and all further data go to /dev/null, and no error is raised.
        """
        try:
            # Other programs make a shared terminal non-blocking; the buffer above would try again without a pause.
            while (count := super().write(data)) is None:
                select.select((), (self,), ())
            return count
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def outlet(stream: TextIO) -> TextIO:
    """Flush `stream`, and return a line-buffered text stream on its descriptor that never fails; see `_Outlet`.

    Closing the new stream leaves the descriptor open.
    """
    stream.flush()
    lines = io.BufferedWriter(_Outlet(stream.fileno(), "w", closefd=False))  # type: ignore[type-var]
    return io.TextIOWrapper(lines, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)
