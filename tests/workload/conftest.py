"""Workloads in files of their own."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from loadframe.errors import BadInput
from loadframe.workload import Workload, load_workload

Load = Callable[..., Workload]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a workload from its text."""

    def load(text: str, **parameters: str) -> Workload:
        path = tmp_path / "w.yaml"
        path.write_text(dedent(text))
        return load_workload(str(path), parameters)

    return load


@pytest.fixture
def refused(load: Load) -> Callable[..., BadInput]:
    """Load a workload that is wrong, and return what is said about it, with `w.yaml` for its path."""

    def refused(text: str, **parameters: str) -> BadInput:
        with pytest.raises(BadInput) as caught:
            load(text, **parameters)
        error = caught.value
        return BadInput(error.what, where=str(error.where).rsplit("/", 1)[-1], remedy=error.remedy)

    return refused
