"""The application object that each command's module adds itself to, and the list of commands that its help prints."""

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from loadframe import __version__, interrupts

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

#: The commands in the order of the help, each with the first sentence of its own help. Help that had to import every
#: command to ask it for this sentence would take several times as long.
SUMMARIES = {
    "demo": "Start real clusters of one to four nodes, load them, and say how they scale.",
    "bench": "Run one workload on one cluster and record it.",
    "ingest": "Take events from a TCP port, files or standard input into a store, and count them there.",
    "run": "Run a designed experiment. The same command goes on where an earlier one stopped.",
    "slurm": "Write a batch script that runs an experiment as a job of Slurm, and submit it if asked.",
    "plan": "Say what a design can know, by making it many times in virtual time. Starts nothing.",
    "check": "Send each operation of a workload once and show request, answer and judgement.",
    "report": "Write a self-contained HTML report, and print it in brief.",
    "compare": "Compare runs: their ratio with its interval, and whether it is more than noise.",
    "gate": "Let new runs pass, or not: 0 passed, 1 regression, 2 bad input, 3 cannot tell.",
    "fit": "Fit linear scaling, Amdahl's law, a hard knee and the USL to measured throughputs.",
    "cluster": "Keep a cluster up for other commands, under a name.",
    "watch": "Show what each node does, once a second: its process, its limits, and what its store says.",
    "import": "Make a workload file of another tool's: queries, ycsb, rally.",
    "workloads": "List the built-in workloads, or show the parameters, operations and phases of one.",
    "stores": "List the stores: their versions, and which of them are on this machine already.",
    "calibrate": "Measure what the generator itself is good for on this machine.",
    "doctor": "Say what this machine can do for clusters and measurements, and what it lacks.",
}


class Group(TyperGroup):
    """A group whose help shows the whole first paragraph of each command's help, where Click cuts it short."""

    def summaries(self, ctx: "Context") -> dict[str, str]:
        """Return what the help says of each command."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: _first_paragraph(command) for name, command in commands.items() if command}

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx).items()))


def _first_paragraph(command: "Command") -> str:
    return (command.help or "").partition("\n\n")[0].replace("\n", " ")


class Commands(Group):
    """The group of all commands, which imports the module of a command when that command is asked for."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the names of all commands, imported or not."""
        return list(SUMMARIES)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Import the modules of the command, `NAME` and `NAME_*`, and return it.

        If the command does not exist, all modules are imported, so that the group can suggest the nearest name, and
        None is returned.
        """
        known = cmd_name in SUMMARIES
        # An interrupt that arrives while a module is imported can leave it as another exception.
        with interrupts.deferred():
            for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
                if not known or module.name == cmd_name or module.name.startswith(f"{cmd_name}_"):
                    importlib.import_module(f"{__package__}.{module.name}")
            self.commands = typer.main.get_group(app).commands
        return self.commands.get(cmd_name)

    def summaries(self, ctx: "Context") -> dict[str, str]:
        """Return what the help says of each command, without importing them."""
        return SUMMARIES


app = typer.Typer(
    name="loadframe",
    cls=Commands,
    help="A testing machine for data stores: it brings a cluster up, loads it, measures it, says what to believe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Rich's help takes 0.2 s of CPU more.
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"loadframe {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Take the options of `loadframe` itself."""
