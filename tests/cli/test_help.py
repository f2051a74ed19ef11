"""Help: every command has it, with examples; it and messages about slips of the pen come at once."""

import re
import subprocess
import sys

import pytest

from commands import loadframe

COMMANDS = ["bench", "check", "cluster", "demo", "doctor", "fit", "report", "run", "stores", "workloads"]
ONE_OF_A_GROUP = ["cluster up", "cluster status", "cluster down"]

#: What takes long to import, and help needs none of.
HEAVY = ("httpx", "jgo", "jinja2", "numpy", "plotly", "pyarrow", "requests", "scipy", "yaml")


def test_the_commands_are_those():
    listed = re.findall(r"^. ([a-z]+) ", loadframe("--help").stdout, re.MULTILINE)
    assert sorted(listed) == COMMANDS


def test_without_a_command_the_help_is_shown():
    done = loadframe()
    assert done.returncode == 2
    assert "bench" in done.stdout + done.stderr


@pytest.mark.parametrize("command", [*COMMANDS, *ONE_OF_A_GROUP])
def test_a_command_has_a_sentence_and_examples_that_it_understands(command):
    done = loadframe(*command.split(), "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    if command == "cluster":
        return
    examples = re.findall(rf"^\s*loadframe {command}\b.*", done.stdout.partition("Examples:")[2], re.MULTILINE)
    assert examples
    offered = set(re.findall(r"(--[a-z][a-z-]*)", done.stdout.partition("Examples:")[0]))
    used = {option for example in examples for option in re.findall(r"(--[a-z][a-z-]*)", example.partition("|")[0])}
    assert used <= offered


@pytest.mark.parametrize(
    "words", [["--help"], ["bench", "--help"], ["run", "--help"], ["bench"], ["bench", "--nods", "2"], ["bnech"]]
)
def test_help_and_usage_errors_import_nothing_heavy(words):
    program = f"""
import sys
from loadframe.cli import main
try:
    main({words!r})
except SystemExit:
    pass
print("imported:", *(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"


@pytest.mark.parametrize("words", ["", "bnech", "bench", "bench nyc_taxis --nods 2", "fit", "cluster", "cluster upp x"])
def test_a_slip_of_the_pen_is_bad_input(words):
    done = loadframe(*words.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
