"""`loadframe fit`: fit scalability models to measurements of any tool."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json

_EXAMPLES = """\b
Examples:
  loadframe fit nodes.csv
  loadframe fit published.csv --residuals absolute
  loadframe fit grown.csv --scaling weak
  loadframe fit nodes.csv --json | jq .peak
"""


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
    # This import takes a second. Help and usage errors do not need it.
    from loadframe.library.actions import fit as fit_file

    fitted = fit_file(file, residuals=residuals, scaling=scaling)
    if as_json:
        print_json(fitted.as_dict())
    else:
        fitted.show(out)
