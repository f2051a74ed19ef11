"""`loadframe fit`: fit scalability models to measurements of any tool."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from loadframe.base.errors import BadInput
from loadframe.base.untrusted import read_input
from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json

_EXAMPLES = """\b
Examples:
  loadframe fit nodes.csv
  loadframe fit published.csv --residuals absolute
  loadframe fit grown.csv --scaling weak
  loadframe fit nodes.csv --json | jq .peak
"""


#: Maximum size of the file, bytes.
_MOST = 16 << 20


@app.command(epilog=_EXAMPLES)
def fit(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV file with a header and the columns n and throughput. Repeated n are repetitions. A third column,"
            " `block`, names the block of each run."
        ),
    ],
    residuals: Annotated[
        Literal["relative", "absolute"],
        typer.Option(help="relative: noise grows with throughput. absolute: it does not, as in most published fits."),
    ] = "relative",
    scaling: Annotated[
        Literal["strong", "weak"],
        typer.Option(help="strong: the work was fixed while n grew. weak: it grew with n; also fits Gustafson's law."),
    ] = "strong",
    as_json: Json = False,
) -> None:
    """Fit linear scaling, Amdahl's law, a hard knee and the USL to measured throughputs."""
    from loadframe.analyze.scalability import fit as fit_models
    from loadframe.analyze.scalability.observations import parse_table
    from loadframe.report.fit import print_fit

    content = read_input(file, _MOST)
    table = parse_table(content, str(file))
    try:
        result = fit_models(table.pairs, residuals=residuals, over=table.over, scaling=scaling, blocks=table.blocks)
    except BadInput as error:
        raise BadInput(
            error.what, where=f"{file}, {error.where}" if error.where else str(file), remedy=error.remedy
        ) from error
    if as_json:
        print_json(result.as_dict())
    else:
        print_fit(out, result)
