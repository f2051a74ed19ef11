"""--json: every command has it, prints only the result to standard output, and has the documented keys."""

import json
import re
from pathlib import Path

import pytest
import typer

from commands import commands_of, within
from loadframe.cli.app import app

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"

#: Commands without a result that a program could use, each with the reason.
WITHOUT_RESULT = {"dashboard": "it prints JSON only"}

#: Calls that start no store, by the name of their row in the documentation.
CALLS = {
    "check --offline": "check ycsb --offline",
    "fit": "fit n.csv",
    "import ycsb": "import ycsb properties",
    "workloads": "workloads",
    "workloads NAME": "workloads ycsb",
    "stores": "stores",
}
REFUSED = ("fit none.csv", "workloads none", "cluster status none", "import ycsb none", "cluster up x --json -- true")


COMMANDS = dict(commands_of(typer.main.get_group(app)))


def documented() -> dict[str, list[set[str]]]:
    """Return the keys of each documented call; a list may have several kinds of entries, separated by `;`."""
    section = DOCS.read_text().partition("## JSON")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*?) ?\|$", section, re.MULTILINE)
    return {
        call: [set(re.findall(r"(?<!\[)`(\w+)`", entry)) for entry in keys.split(";")]
        for calls, keys in rows
        for call in re.findall(r"`(.*?)`", calls)
    }


@pytest.fixture
def folder(tmp_path, monkeypatch, state):
    monkeypatch.chdir(tmp_path)
    Path("n.csv").write_text("n,throughput\n1,100\n2,190\n4,350\n1,101\n2,188\n4,355\n")
    Path("properties").write_text("recordcount=10\n")
    return tmp_path


def test_every_command_has_json_and_documents_its_result():
    without = {name for name, command in COMMANDS.items() if "as_json" not in {p.name for p in command.params}}
    assert without == WITHOUT_RESULT.keys()
    calls = {re.sub(r" (--.*|[A-Z]+)$", "", call) for call in documented()}
    assert calls == COMMANDS.keys() - WITHOUT_RESULT.keys()


@pytest.mark.parametrize("name", CALLS)
def test_the_result_alone_is_on_standard_output_with_the_documented_keys(folder, name):
    status, output, _ = within(*CALLS[name].split(), "--json")
    assert status == 0
    result = json.loads(output)
    for entry in result if isinstance(result, list) else [result]:
        assert entry.keys() in documented()[name]


@pytest.mark.parametrize("words", REFUSED)
def test_an_error_leaves_standard_output_empty_and_keeps_its_code(folder, words):
    arguments = words.split() if "--json" in words else [*words.split(), "--json"]
    status, output, errors = within(*arguments)
    assert (status, output) == (2, "")
    assert errors.startswith("loadframe: ")


def test_an_imported_workload_is_in_the_result_and_in_its_file(folder):
    status, output, _ = within("import", "ycsb", "properties", "--output", "w.yaml", "--json")
    assert status == 0
    result = json.loads(output)
    assert result["file"] == "w.yaml"
    assert result["text"] == Path("w.yaml").read_text()
