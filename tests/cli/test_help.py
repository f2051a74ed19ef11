"""Help: every command has it, with examples; it and messages about slips of the pen come at once."""

import pkgutil
import re
import subprocess
import sys

import pytest
import typer

from commands import loadframe
from loadframe import __version__, cli
from loadframe.cli.app import SUMMARIES, Commands, _first_paragraph, app
from loadframe.cluster.patience import WITHIN
from loadframe.units import parse_duration

#: What scripts and documents rely on.
COMMANDS = {"bench", "check", "cluster", "demo", "doctor", "fit", "report", "run", "stores", "workloads"}

#: What takes long to import, and help needs none of.
HEAVY = ("httpx", "jgo", "jinja2", "numpy", "pyarrow", "requests", "scipy", "yaml")
#: What the list of commands does without, too.
NOT_FOR_THE_LIST = (*HEAVY, "rich", "loadframe.cli.bench", "loadframe.store")


def listed(*group: str) -> list[str]:
    """Return the commands that the help of a group lists; none for a command that is not a group."""
    commands = loadframe(*group, "--help").stdout.partition("Commands")[2]
    return re.findall(r"^  ([a-z-]+) ", commands, re.MULTILINE)


def every_command() -> list[str]:
    return [f"{name} {subcommand}".strip() for name in listed() for subcommand in listed(name) or [""]]


def test_the_patience_that_help_shows_can_be_asked_for():
    shown = re.findall(r"\[default: (\w+)\]", loadframe("cluster", "grow", "--help").stdout)
    assert parse_duration(shown[-1]) == WITHIN


def test_the_commands_are_there():
    assert set(listed()) >= COMMANDS
    changes = {"grow", "shrink", "kill", "link", "pause", "resume"}
    assert set(listed("cluster")) == {"up", "status", "down"} | changes


def test_the_list_of_commands_says_what_each_command_says_of_itself():
    group = typer.main.get_group(app)
    context = typer.Context(group)
    assert isinstance(group, Commands)
    modules = {module.name for module in pkgutil.iter_modules(cli.__path__)}
    helpers = {"access", "app", "choices", "clusters", "console", "event_words", "loss", "output", "web"}
    assert {name.partition("_")[0] for name in modules - helpers} == set(group.list_commands(context))
    for name, summary in SUMMARIES.items():
        command = group.get_command(context, name)
        assert command is not None
        assert _first_paragraph(command).startswith(summary.rstrip(".")), name


def test_help_shows_summaries_whole():
    assert "..." not in loadframe("cluster", "--help").stdout.partition("Commands:")[2]


def test_a_misspelt_command_gets_the_nearest_one():
    done = loadframe("bnech")
    assert done.returncode == 2
    assert "Did you mean 'bench'" in done.stderr


def test_without_a_command_the_help_is_shown():
    done = loadframe()
    assert done.returncode == 2
    assert "bench" in done.stdout + done.stderr


def test_the_version_is_said():
    assert loadframe("--version").stdout == f"loadframe {__version__}\n"


def test_every_command_explains_itself_with_examples_that_it_understands():
    for command in every_command():
        done = loadframe(*command.split(), "--help")
        assert (done.returncode, done.stderr) == (0, ""), command
        options, _, examples = done.stdout.partition("Examples:")
        shown = re.findall(rf"^\s*loadframe {command}\b.*", examples, re.MULTILINE)
        assert shown, f"{command} has no example"
        used = {option for example in shown for option in re.findall(r"--[a-z][a-z-]*", example.partition("|")[0])}
        assert used <= set(re.findall(r"--[a-z][a-z-]*", options)), command


@pytest.mark.parametrize(
    "words", [["--help"], ["bench", "--help"], ["run", "--help"], ["bench"], ["bench", "--nods", "2"], ["bnech"]]
)
def test_help_and_usage_errors_import_nothing_heavy(words):
    heavy = NOT_FOR_THE_LIST if words == ["--help"] else HEAVY
    program = f"""
import sys
from loadframe.cli import main
try:
    main({words!r})
except SystemExit:
    pass
print("imported:", *(name for name in {heavy!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"


@pytest.mark.parametrize("words", ["", "bnech", "bench", "bench nyc_taxis --nods 2", "fit", "cluster", "cluster upp x"])
def test_a_slip_of_the_pen_is_bad_input(words):
    done = loadframe(*words.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
