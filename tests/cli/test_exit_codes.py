"""Exit codes: one table in the code, printed by the help and documented; no other numbers in the code of commands."""

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import loadframe as package
from commands import LOADFRAME, loadframe
from loadframe.base.errors import ExitCode
from loadframe.cli import main

SOURCES = Path(package.__file__).parent
DOCS = SOURCES.parents[1] / "docs" / "reference" / "command-line.md"

#: Helper processes: commands ignore their exit codes. Some run on machines without loadframe.
HELPERS = {"host/agent.py", "host/supervisor.py", "workload/importers/rally/isolated.py"}
EXITS = {"exit", "_exit", "Exit", "SystemExit"}
CODE_NAMES = {"exit_status", "exit_code"}


def literal_codes(source: str) -> Iterator[int]:
    """Yield the lines that exit with a number, or assign a number to an exit code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            values = [*node.args, *(keyword.value for keyword in node.keywords)] if name in EXITS else []
        elif isinstance(node, ast.Assign):
            names = {ast.unparse(target).rpartition(".")[2] for target in node.targets}
            values = [node.value] if names & CODE_NAMES else []
        else:
            continue
        if any(
            isinstance(part, ast.Constant) and type(part.value) is int for value in values for part in ast.walk(value)
        ):
            yield node.lineno


@pytest.mark.slow
def test_code_exits_with_named_codes_only():
    modules = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    assert modules.keys() >= HELPERS
    literal = {name: list(literal_codes(text)) for name, text in modules.items() if name not in HELPERS}
    assert not {name: lines for name, lines in literal.items() if lines}


@pytest.mark.parametrize(
    ("source", "is_literal"),
    [
        ("sys.exit(3)", True),
        ("raise typer.Exit(code=1)", True),
        ("os._exit(128 + signal.SIGTERM)", True),
        ("class E:\n    exit_status = 4", True),
        ("self.exit_status = 75 if some else OTHER", True),
        ("sys.exit(run())", False),
        ("raise typer.Exit(ExitCode.FAILED)", False),
        ("self.exit_status = ExitCode.TRY_AGAIN", False),
    ],
)
def test_the_search_finds_literal_codes(source, is_literal):
    assert bool(list(literal_codes(source))) is is_literal


def test_the_help_prints_every_code_with_its_meaning():
    printed = loadframe("--help").stdout.partition("Exit codes:")[2]
    assert dict(re.findall(r"^ +(\d+)  (.*)$", printed, re.MULTILINE)) == {str(int(c)): c.meaning for c in ExitCode}


def test_the_documentation_lists_every_code_with_its_meaning():
    section = DOCS.read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", section, re.MULTILINE)
    assert dict(rows) == {str(int(code)): code.meaning for code in ExitCode}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["workloads", "nyc_taxis"], ["stores", "--json"], ["bench", "--help"]])
def test_an_output_without_a_reader_has_its_own_code(words, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [LOADFRAME, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env=environment
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (ExitCode.OUTPUT_CLOSED, "")


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_closed_standard_streams_are_opened_on_the_null_device(closed, tmp_path):
    path = tmp_path / "command"
    words = [LOADFRAME, "workloads", "nyc_taxis", "--json"]
    shut = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(["/bin/sh", "-c", f'"$@" {shut}', path, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.OK, "", "")


def test_an_unexpected_error_of_gate_is_no_regression(monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("defect")

    monkeypatch.setattr("loadframe.cli._attempt", fail)
    with pytest.raises(SystemExit) as ended:
        main(["gate", "results"])
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "RuntimeError: defect" in capsys.readouterr().err
    with pytest.raises(RuntimeError):
        main(["report", "results"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], ExitCode.FAILED),
        (["workloads", "nyc_taxis"], ExitCode.FAILED),
        # 1 would be a regression.
        (["gate", "--help"], ExitCode.BAD_INPUT),
    ],
)
def test_a_full_disk_behind_the_output_is_one_message(words, code):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([LOADFRAME, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.splitlines() == [
        "loadframe: No space left on device",
        "  free some space, or write to another disk",
    ]


@pytest.mark.slow
def test_a_broken_standard_error_does_not_lose_the_run(tmp_path):
    (tmp_path / "w.yaml").write_text(
        """\
workload: w
collections: {things: {}}
corpora: {things: {generate: nyc_taxi_trip, documents: 50}}
operations:
  fill: {bulk: {collection: things, corpus: things, size: 10}}
phases:
  - {name: fill, operation: fill, clients: 1, until: exhausted}
"""
    )
    words = ["bench", tmp_path / "w.yaml", "--store", "sim", "--output", tmp_path / "run"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([LOADFRAME, *words], stdout=subprocess.PIPE, stderr=full, check=False)
    assert done.returncode == ExitCode.OK
    assert (tmp_path / "run" / "summary.json").exists()
