"""Standard output and errors of rank 0, whose launcher may end before it: what nobody reads any more is dropped."""

import io
import os
import sys
from typing import TextIO


class _Outlet(io.FileIO):
    """A descriptor that takes everything: once it cannot be written to, it leads nowhere."""

    def write(self, data: "bytes | memoryview | bytearray") -> int:  # type: ignore[override]
        try:
            return super().write(data) or 0
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def outlive_readers() -> None:
    """Have this process go on when its standard output and errors can be written no more, as when mpirun has ended."""
    sys.stdout, sys.stderr = _outlet(sys.stdout), _outlet(sys.stderr)


def _outlet(stream: TextIO) -> TextIO:
    stream.flush()
    lines = io.BufferedWriter(_Outlet(stream.fileno(), "w", closefd=False))  # type: ignore[type-var]
    return io.TextIOWrapper(lines, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)
