"""Reading what a user names: a file, a pipe or the standard input, up to a bound."""

import os
import stat
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size


def read_input(path: Path, most: int) -> bytes:
    """Return the content of a file or of a pipe; BadInput for one that cannot be read, or is larger than `most` bytes.

    Devices such as `/dev/zero` are refused, since they have no end; a terminal is read until its user ends it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            device = stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty())
            # That one ends at once, and stands for an empty file everywhere.
            if device and os.fstat(file.fileno()).st_rdev != Path(os.devnull).stat().st_rdev:
                raise BadInput("this is a device, and not a file", where=str(path), remedy="name a file or a pipe")
            content = file.read(most + 1)
    except OSError as error:
        raise BadInput(
            f"cannot read the file: {error.strerror}", where=str(path), remedy="check its name and permissions"
        ) from error
    if len(content) > most:
        raise BadInput(
            f"there is more than {format_size(most)} in it, which is too much", where=str(path), remedy="check its name"
        )
    return content
