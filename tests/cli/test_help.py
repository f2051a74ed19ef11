"""Help: every command has it, with examples; it and messages about slips of the pen come at once."""

import pkgutil
import re
import subprocess
import sys

import pytest
import typer
from typer.core import TyperOption

from commands import commands_of, loadframe
from loadframe import __version__, cli
from loadframe.base.units import parse_duration
from loadframe.cli.app import MOST_UNGROUPED, SUMMARIES, Commands, Topic, _first_paragraph, app
from loadframe.cluster.change import WITHIN

#: Commands that scripts and documents rely on.
COMMANDS = {"bench", "check", "cluster", "demo", "doctor", "fit", "report", "run", "stores", "workloads"}

#: Slow imports that help must avoid.
HEAVY = ("httpx", "jgo", "jinja2", "numpy", "pyarrow", "requests", "scipy", "yaml")
#: Imports that the list of commands must avoid, too.
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


def test_the_list_of_commands_has_each_commands_own_summary():
    group = typer.main.get_group(app)
    context = typer.Context(group)
    assert isinstance(group, Commands)
    modules = {module.name for module in pkgutil.iter_modules(cli.__path__)}
    helpers = {"access", "app", "choices", "console", "event_words", "completion", "output", "web"}
    assert {name.partition("_")[0] for name in modules - helpers} == set(group.list_commands(context))
    for name, summary in SUMMARIES.items():
        command = group.get_command(context, name)
        assert command is not None
        assert _first_paragraph(command).startswith(summary.rstrip(".")), name


EVERY_COMMAND = dict(commands_of(typer.main.get_group(app)))


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_help_of_a_command_with_many_options_groups_them_by_topic(name):
    options = [
        parameter
        for parameter in EVERY_COMMAND[name].params
        if isinstance(parameter, TyperOption) and not parameter.hidden
    ]
    help_text = EVERY_COMMAND[name].get_help(typer.Context(EVERY_COMMAND[name], info_name=name))
    sections = re.split(r"^(\S.*):$", help_text.partition("Examples:")[0], flags=re.MULTILINE)
    shown = {
        title: set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
        if title not in ("Usage", "Arguments")
    }
    if len(options) <= MOST_UNGROUPED:
        assert list(shown) == ["Options"]
        return
    assert list(shown)[-1] == "Other options"
    assert shown.pop("Other options") == {"--help"}
    assert list(shown) == [topic for topic in Topic if topic in shown], "topics are in one order everywhere"
    assert len(shown) > 1
    for option in options:
        assert set(option.opts) & shown[option.rich_help_panel], option.opts


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


def test_the_version_is_printed():
    assert loadframe("--version").stdout == f"loadframe {__version__}\n"


@pytest.mark.slow
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


@pytest.mark.slow
def test_commands_that_measure_and_report_import_no_optimiser():
    program = """
import sys
import loadframe.analyze.gate, loadframe.cli.compare, loadframe.experiment.runner.session, loadframe.report.run.terminal
print("imported:", *(name for name in ("scipy.optimize", "scipy.signal", "scipy.stats") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"


@pytest.mark.parametrize("words", ["", "bnech", "bench", "bench nyc_taxis --nods 2", "fit", "cluster", "cluster upp x"])
def test_a_slip_of_the_pen_is_bad_input(words):
    done = loadframe(*words.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
