"""`loadframe import ycsb`: properties files of YCSB."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.choices import assignments
from loadframe.cli.import_ import Output, commands, write_or_print
from loadframe.cli.output import Json

_EXAMPLES = """\b
Examples:
  loadframe import ycsb workloada --output ycsb-a.yaml
  loadframe import ycsb workloade --property recordcount=100000 --property threadcount=16
"""


@commands.command(epilog=_EXAMPLES)
def ycsb(
    file: Annotated[Path, typer.Argument(help="Properties file.")],
    property_: Annotated[
        list[str], typer.Option("--property", "-p", help="Property as key=value, which overrides the file. Repeatable.")
    ] = [],
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Import a properties file of YCSB's core workload, for all stores."""
    from loadframe.workload.importers.ycsb import import_ycsb

    write_or_print(import_ycsb(file, assignments(property_, option="-p")), output, as_json)
