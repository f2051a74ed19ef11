"""Processes for the samplers to observe."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def spawn() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start Python processes that print a line when they are up; all of them end with the test."""
    children: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", f"print(flush=True)\n{script}"], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
