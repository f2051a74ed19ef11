"""Standard streams of rank 0 that survive the end of its launcher: unreadable output is dropped."""

import io
import os
import sys
from typing import TextIO


class _Outlet(io.FileIO):
    """Descriptor that switches to /dev/null when writing fails."""

    def write(self, data: "bytes | memoryview | bytearray") -> int:  # type: ignore[override]
        try:
            return super().write(data) or 0
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def outlive_readers() -> None:
    """Replace the standard streams, so that this process survives the end of their reader, such as mpirun."""
    sys.stdout, sys.stderr = _outlet(sys.stdout), _outlet(sys.stderr)


def _outlet(stream: TextIO) -> TextIO:
    stream.flush()
    lines = io.BufferedWriter(_Outlet(stream.fileno(), "w", closefd=False))  # type: ignore[type-var]
    return io.TextIOWrapper(lines, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)
