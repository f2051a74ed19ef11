"""Topics of options: the headings of a command's help, in the order of printing."""

from enum import StrEnum
from typing import Any

import typer


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
    """Return the declaration of an option under a topic, for `Annotated`; the rest as for `typer.Option`."""
    return typer.Option(*names, rich_help_panel=topic, **settings)
