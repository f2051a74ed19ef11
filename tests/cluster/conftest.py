"""A folder of a module's own for clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import open_folder


@pytest.fixture(scope="module")
def module_state() -> Iterator[Path]:
    """A state folder for the clusters of a whole module."""
    with open_folder("state") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(folder))
        yield folder
