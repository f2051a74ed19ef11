"""The application to which each command's module adds itself, the list of commands, and the topics of their options."""

import importlib
import pkgutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from loadframe import __version__
from loadframe.base import interrupts
from loadframe.base.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem
    from typer.models import CommandFunctionType

#: The commands in the order of the help, each with the first sentence of its help. Kept here because importing all
#: commands would take several times as long.
SUMMARIES = {
    "demo": "Start real clusters of one to four nodes, load them, and report how they scale.",
    "bench": "Run one workload on one cluster and record it.",
    "ingest": "Ingest events from a TCP port, files or standard input into a store, and count them there.",
    "run": "Run a designed experiment. Repeat the command to resume an interrupted one.",
    "slurm": "Write a batch script that runs an experiment as a Slurm job; --submit submits it.",
    "plan": "Simulate how precise an experiment will be. Starts nothing.",
    "check": "Send each operation of a workload once and show request, answer and judgement.",
    "report": "Write a self-contained HTML report, and print a summary.",
    "compare": "Compare runs: ratios with intervals, and whether they exceed run-to-run variance.",
    "gate": "Judge new runs by exit code: 0 passed, 1 regression, 2 bad input, 3 inconclusive.",
    "history": "Show measures by commit over time, with change points, and write them as a page.",
    "fit": "Fit linear scaling, Amdahl's law, a hard knee and the USL to measured throughputs.",
    "cluster": "Start and manage named clusters that stay up for other commands.",
    "watch": "Show live metrics of each node, once a second: process, limits and store.",
    "explore": "Serve a page with charts of a recorded run, or of documents in OpenSearch or Elasticsearch.",
    "dashboard": "Print a Grafana dashboard for the metrics of --metrics and --otlp, as JSON to import.",
    "import": "Create a workload from your data, or from the workload of another tool.",
    "new": "Create a workload and an experiment from your documents, and check both.",
    "workloads": "List the built-in workloads, or show the parameters, operations and phases of one.",
    "stores": "List the stores: their versions, and which of them are on this machine.",
    "calibrate": "Measure the load generator's own limits on this machine.",
    "doctor": "Check whether this machine can run clusters and precise measurements.",
}


class GroupedCommand(TyperCommand):
    """A command whose help groups its options by topic if it has many."""

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write arguments and options to the help, the options by topic if there are more than eight besides `--help`.

        `--help` and options without a topic come last.
        """
        arguments: list[tuple[str, str]] = []
        options: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                options.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(record)
        if sum(map(len, options.values())) <= MOST_UNGROUPED + 1:
            options = {"": [record for records in options.values() for record in records]}
        titles = ["Arguments", *Topic, "Options" if len(options) == 1 else "Other options"]
        sections = {"Arguments": arguments, **options, titles[-1]: options.get("", [])}
        for title in titles:
            if records := sections.get(title):
                with formatter.section(title):
                    formatter.write_dl(records)


class Application(typer.Typer):
    """A set of commands whose help groups options by topic."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = GroupedCommand, **settings: Any
    ) -> "Callable[[CommandFunctionType], CommandFunctionType]":
        """Return the decorator that adds a function as a command, by default of the class `GroupedCommand`."""
        return super().command(name, cls=cls, **settings)


class Group(TyperGroup):
    """A group whose help shows the whole first paragraph of each command's help, which Click truncates."""

    def summaries(self, ctx: "Context") -> dict[str, str]:
        """Return the first paragraph of each command's help, by the command's name."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: _first_paragraph(command) for name, command in commands.items() if command}

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the commands and their summaries to the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx).items()))


def _first_paragraph(command: "Command") -> str:
    """Return the first paragraph of a command's help as one line."""
    return (command.help or "").partition("\n\n")[0].replace("\n", " ")


class Commands(Group):
    """The group of all commands, which imports the module of a command on its first use."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the names of all commands, imported or not."""
        return list(SUMMARIES)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Import the modules of the command, `NAME` and `NAME_*`, and return it.

        For an unknown command, import all modules, so that the group can suggest the nearest name, and return None.
        """
        known = cmd_name in SUMMARIES
        # An interrupt that arrives while a module is imported can leave it as another exception.
        with interrupts.deferred():
            needed = [
                f"{__package__}.{module.name}"
                for module in pkgutil.iter_modules([str(Path(__file__).parent)])
                if not known or module.name == cmd_name or module.name.startswith(f"{cmd_name}_")
            ]
            # A group has the commands of modules that were imported before it was created.
            if cmd_name not in self.commands or not all(name in sys.modules for name in needed):
                for name in needed:
                    importlib.import_module(name)
                self.commands = typer.main.get_group(app).commands
        return self.commands.get(cmd_name)

    def summaries(self, ctx: "Context") -> dict[str, str]:
        """Return the summary of each command, by its name, without importing it."""
        return SUMMARIES

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        """Return completions of a prefix: options of `loadframe`, or commands, without importing commands."""
        from typer._click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in SUMMARIES.items() if name.startswith(incomplete)]


_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code:3}  {code.meaning}" for code in ExitCode)

app = Application(
    name="loadframe",
    cls=Commands,
    help="Load-test data stores, and report how far they scale.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Rich would add 0.2 s of CPU to the help.
    rich_markup_mode=None,
)


def _print_version(requested: bool) -> None:
    """Print the version and exit, if `requested` (--version)."""
    if requested:
        print(f"loadframe {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Handle the options of `loadframe` itself."""


class Topic(StrEnum):
    """A heading in the help of a command. Pass it as `rich_help_panel` of an option."""

    WORKLOAD = "Workload"
    EVENTS = "Event source"
    RUNS = "Runs to judge"
    CRITERIA = "Criteria"
    EXPERIMENT = "Experiment"
    DATA = "Sample and generated documents"
    TRACK = "Track"
    SANDBOX = "Limits of the track's code"
    JOB = "Slurm job"
    STORE = "Store to start"
    MACHINES = "Nodes and machines"
    LIMITS = "Limits of each node"
    EXISTING = "Existing cluster"
    CREDENTIALS = "Credentials and TLS (with --hosts)"
    LOAD = "Load"
    GENERATOR = "Load generator"
    OUTPUT = "Output"


#: Commands with more options than this group them by topic.
MOST_UNGROUPED = 8


def option(topic: Topic, *names: str, **settings: Any) -> Any:
    """Return the declaration of an option under a topic, for `Annotated`; the rest is passed to `typer.Option`."""
    return typer.Option(*names, rich_help_panel=topic, **settings)
