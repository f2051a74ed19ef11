"""An importer from outside: declared in its own module, it is found everywhere."""

import json
import sys

import pytest
from docs.generate import command_line

from commands import within
from loadframe.cli import import_
from loadframe.workload import load_workload

TOY = '''
from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.import_ import Output, commands, write_or_print
from loadframe.cli.output import Json
from loadframe.workload.importers.imported import Imported

_EXAMPLES = """\\b
Examples:
  loadframe import toy names.txt --output toy.yaml
"""


@commands.command(epilog=_EXAMPLES)
def toy(
    file: Annotated[Path, typer.Argument(help="Names, one on each line.")],
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Import the names of toys."""
    operations = {name: {"request": {"method": "GET", "path": f"/{name}"}} for name in file.read_text().split()}
    phases = [{"name": name, "operation": name, "clients": 1, "requests": 1} for name in operations]
    data = {"workload": file.stem, "operations": operations, "phases": phases}
    write_or_print(Imported(data, (), (), file.name), output, as_json)
'''


@pytest.fixture
def toy_importer(tmp_path, monkeypatch):
    """Add an importer as a module of a folder that is searched for importers."""
    folder = tmp_path / "importers"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY)
    monkeypatch.setattr(import_, "__path__", [*import_.__path__, str(folder)])
    monkeypatch.setattr(import_.commands, "registered_commands", [*import_.commands.registered_commands])
    yield
    if sys.modules.pop(f"{import_.__name__}.toy", None):
        del import_.toy


def test_an_importer_from_outside_is_listed_explained_and_run(toy_importer, tmp_path):
    assert "Import the names of toys." in within("import", "--help")[1]
    assert "loadframe import toy names.txt" in within("import", "toy", "--help")[1]
    assert "Did you mean 'toy'" in within("import", "toi")[2]
    assert "import toy" in command_line.page()
    names, workload = tmp_path / "names.txt", tmp_path / "toy.yaml"
    names.write_text("bear\ntrain\n")
    status, output, errors = within("import", "toy", names, "--output", workload, "--json")
    assert (status, json.loads(output)["left_out"]) == (0, []), errors
    assert set(load_workload(str(workload)).file.operations) == {"bear", "train"}
