"""Bounded reading of files, pipes and standard input."""

import os
import stat
from pathlib import Path

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
