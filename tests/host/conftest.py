"""Processes that tests start on this machine: real ones, and none of them outlives its test."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from commands import open_folder
from loadframe.host import Command, Limits
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess

NO_LIMITS = Limits()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may enter."""
    with open_folder("host") as folder:
        yield folder


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., LocalProcess]]:
    """Start a Python program as a node would be."""
    running: list[LocalProcess] = []

    def starter(program: str, limits: Limits = NO_LIMITS, **more: object) -> LocalProcess:
        command = Command(
            name=f"loadframe-test-{token_hex(4)}",
            argv=(more.pop("python", sys.executable), "-S", "-c", program),
            environment={},
            folder=folder,
            log=folder / "node.log",
            **more,
        )
        running.append(LocalHost().start(command, limits))
        return running[-1]

    yield starter
    for process in running:
        process.stop()
