"""A folder of a module's own for clusters, which root's servers may enter too."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def module_state() -> Iterator[Path]:
    """A state folder for the clusters of a whole module."""
    with tempfile.TemporaryDirectory(prefix="loadframe-state-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADFRAME_STATE", name)
            yield Path(name)
