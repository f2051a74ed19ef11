"""Installation of other generators into the cache: `python -m benchmarks.peers NAME` installs one.

Benchmarks never install them automatically.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError

#: The program of each generator, and the registry client that installs it.
_FETCH = {
    "latte": [["cargo", "install", "latte-cli", "--locked", "--root", "{folder}"]],
    "oha": [["cargo", "install", "oha", "--locked", "--root", "{folder}"]],
    "opensearch-benchmark": [
        ["uv", "venv", "--quiet", "{folder}"],
        ["uv", "pip", "install", "--quiet", "--python", "{folder}/bin/python", "opensearch-benchmark"],
    ],
    "esrally": [
        ["uv", "venv", "--quiet", "{folder}"],
        ["uv", "pip", "install", "--quiet", "--python", "{folder}/bin/python", "esrally"],
    ],
}


def find(name: str) -> Path:
    """Return the path of the program; BadInput, with the command to install it, if it is missing."""
    ours = _folder(name) / "bin" / name
    result = str(ours) if ours.exists() else shutil.which(name)
    if result is None:
        raise BadInput(f"{name} is not installed", remedy=f"python -m benchmarks.peers {name}")
    return Path(result)


def fetch(name: str) -> None:
    """Install a program from its registry."""
    if name not in _FETCH:
        raise BadInput(f"{name!r} is not among the peers", remedy=f"there are {', '.join(_FETCH)}")
    folder = _folder(name)
    for words in _FETCH[name]:
        # uv is part of this environment.
        program = shutil.which(words[0]) or shutil.which(words[0], path=str(Path(sys.executable).parent))
        if program is None:
            raise BadInput(f"{words[0]} is not installed, by which {name} is fetched")
        done = subprocess.run([program, *(word.format(folder=folder) for word in words[1:])], check=False)
        if done.returncode:
            raise LoadframeError(f"{name} could not be fetched")


def _folder(name: str) -> Path:
    return folders.cache() / "peers" / name


if __name__ == "__main__":
    try:
        for asked in sys.argv[1:]:
            fetch(asked)
    except LoadframeError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
