"""The pages of the built-in workloads name all of their parameters and phases."""

import re
from pathlib import Path

import pytest

from loadframe.workload import load_workload
from loadframe.workload.workload import library_names

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "workloads"


def test_each_workload_has_a_page_that_the_index_links():
    index = (PAGES / "index.md").read_text()
    assert {page.stem for page in PAGES.glob("*.md")} == {"index", *library_names()}
    for name in library_names():
        assert f"| [{name}]({name}.md) |" in index


@pytest.mark.parametrize("name", library_names())
def test_the_page_has_all_parameters_with_their_defaults_and_all_phases(name):
    text = (PAGES / f"{name}.md").read_text()
    workload = load_workload(name)
    for parameter, default in workload.defaults.items():
        assert re.search(rf"^\| .*`{parameter}`.* \|", text, re.MULTILINE), parameter
        if isinstance(default, int) and not isinstance(default, bool) and f"| `{parameter}` |" in text:
            assert re.search(rf"^\| `{parameter}` \| {default} \|", text, re.MULTILINE), parameter
    for phase in workload.file.phases:
        assert f"`{phase.name}`" in text or f"`_{phase.name.rsplit('_', 1)[1]}`" in text, phase.name
