"""Which machine this is, told apart from others that share a home directory with it, and since when it has been up."""

import hashlib
import os
from pathlib import Path

_MACHINE, _BOOT, _STAT = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id"), Path("/proc/stat")


def machine() -> str:
    """Return ten hexadecimal digits that are this machine's: of its name and, where it has one, its machine-id(5).

    The name alone is not enough where machines are made from one image, nor the id alone where that holds an id.
    """
    try:
        number = _MACHINE.read_text().strip()
    except OSError:
        number = ""
    return hashlib.sha256(f"{os.uname().nodename} {number}".encode()).hexdigest()[:10]


def boot() -> str:
    """Return eight digits that another boot, of this or of any machine, has not."""
    return _BOOT.read_text()[:8]


def up_since() -> float:
    """Return when this machine was booted, in s since the epoch."""
    line = next(line for line in _STAT.read_text().splitlines() if line.startswith("btime "))
    return float(line.split()[1])
