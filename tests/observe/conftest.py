"""Processes for the samplers to observe."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start Python processes that print a line when they are up; all of them end with the test.

    The second parameter is their standard input, as for `Popen`.
    """
    children: list[subprocess.Popen[bytes]] = []

    def start(script: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", f"print(flush=True)\n{script}"]
        child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
