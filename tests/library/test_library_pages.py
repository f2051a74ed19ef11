"""Pages about the library: the reference is complete, and the code of the how-to runs."""

import re
from pathlib import Path

import pytest
from docs.generate.library import SECTIONS, page

import loadframe
from commands import open_folder

TOP = Path(__file__).parents[2]
HOW_TO = TOP / "docs" / "how-to" / "python.md"


def test_the_reference_describes_every_public_name():
    described = [name for names in SECTIONS.values() for name in names]
    assert sorted([*described, "__version__"]) == sorted(loadframe.__all__)
    assert "Stability" in page()


@pytest.mark.store
def test_the_code_of_the_how_to_runs(monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    with open_folder("library") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        monkeypatch.chdir(folder)
        names: dict[str, object] = {}
        for block in blocks:
            exec(compile(block, str(HOW_TO), "exec"), names)
        assert {"clients.html", "clients.svg", "tail.pdf"} <= {path.name for path in folder.iterdir()}
        rates, frame = names["rates"], names["frame"]
        assert rates.height > 1
        assert rates["successes"].sum() == frame["successes"].sum()
