"""Files of other tools, and their import."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadframe.workload import Workload, load_workload
from loadframe.workload.importers.imported import Imported


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a file; data that is not text becomes JSON."""

    def written(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return written


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., Workload]:
    """Load the workload file that an import makes."""

    def loaded(imported: Imported, **parameters: str) -> Workload:
        path = tmp_path / "imported.yaml"
        path.write_text(imported.text(), encoding="utf-8")
        return load_workload(str(path), parameters)

    return loaded
