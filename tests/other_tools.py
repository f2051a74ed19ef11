"""Other tools from PyPI, each in a separate environment, because their dependencies conflict with Loadframe."""

import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from commands import PATIENCE

#: Messages of uv if the registry cannot be reached, or lacks a package.
_UNREACHABLE = (
    "Failed to fetch",
    "error sending request",
    "not found in the package registry",
    "there is no version of",
)
_UV = shutil.which("uv") or Path(__file__).parents[1] / ".tools" / "bin" / "uv"


class Tool:
    """An environment with packages. It skips the test if they cannot be installed."""

    def __init__(self, folder: Path, *packages: str) -> None:
        self.bin = folder / "bin"
        self._uv("venv", "--python", sys.executable, folder)
        self.install(*packages)

    def install(self, *packages: str) -> None:
        """Install further packages."""
        self._uv("pip", "install", "--python", self.bin / "python", *packages)

    def _uv(self, *words: object) -> None:
        command = [str(_UV), "--quiet", *map(str, words)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"cannot install packages: {error}")
        if any(words in done.stderr for words in _UNREACHABLE):
            pytest.skip(f"cannot install packages: {done.stderr}")
        assert done.returncode == 0, done.stderr

    def run(self, program: str, *words: object, **more: Any) -> CompletedProcess[str]:
        """Run a program of the environment, which must succeed."""
        command = [str(self.bin / program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done
