"""The other generators, each in a folder of its own below the cache: `python -m benchmarks.peers NAME` fetches one.

Nothing is fetched unless it is asked for so.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError

#: What each is fetched by: the program that it is, and the registry's own client.
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
    """Return the program; BadInput if it is not here, with the command that fetches it."""
    ours = _folder(name) / "bin" / name
    result = str(ours) if ours.exists() else shutil.which(name)
    if result is None:
        raise BadInput(f"{name} is not installed", remedy=f"python -m benchmarks.peers {name}")
    return Path(result)


def fetch(name: str) -> None:
    """Fetch a program from its registry."""
    if name not in _FETCH:
        raise BadInput(f"{name!r} is not among the peers", remedy=f"there are {', '.join(_FETCH)}")
    folder = _folder(name)
    for words in _FETCH[name]:
        # uv comes with this environment.
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
