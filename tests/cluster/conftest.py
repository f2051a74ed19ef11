"""Folders of a test's own for clusters and downloads, which root's servers may enter too."""

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


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder for the clusters of one test."""
    with tempfile.TemporaryDirectory(prefix="loadframe-state-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("LOADFRAME_STATE", name)
        yield Path(name)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache."""
    with tempfile.TemporaryDirectory(prefix="loadframe-cache-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("LOADFRAME_CACHE", name)
        yield Path(name)
