"""`loadframe history`: measures by commit over time, with change points, as a page and a summary."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli import completion
from loadframe.cli.app import app
from loadframe.cli.choices import measure_kinds, option_name
from loadframe.cli.output import Json, out, print_json, tell

_EXAMPLES = """\b
Examples:
  loadframe gate results/new --history /srv/history --record /srv/history
  loadframe history /srv/history
  loadframe history /srv/history --accept 1f3870be274f --reason 'checksums cost 8 %'
  loadframe history /srv/history --measure throughput,p99.9 --json
"""

#: Measures without --measure.
_MEASURES = "throughput,p50,p99"


@app.command(epilog=_EXAMPLES)
def history(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder that `gate --record` writes, or another folder of runs.", autocompletion=completion.histories
        ),
    ],
    measure: Annotated[
        str,
        typer.Option(
            help="Measures, comma-separated: throughput, documents, p50, p90, p99, p99.9, max, mean."
            " The prefix all-, as in all-p99, includes failed requests."
        ),
    ] = _MEASURES,
    accept: Annotated[
        str | None, typer.Option(help="Accept the changes at this commit, folder or run. Requires --reason.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why the change is accepted.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Page to write. Default: history.html in the folder; with other measures, history-MEASURES.html."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show measures by commit over time, with change points, and write them as a page."""
    kinds = measure_kinds(measure)

    # This import takes a second. Help and usage errors do not need it.
    from loadframe.library.gate_history import history_of
    from loadframe.library.reports import default_file

    result = history_of(folder, kinds, accept, reason, option_name)
    if accept:
        tell(f"accepted: {accept}: {reason}")
    # A page of other measures must not replace the page of the usual ones.
    name = "history.html" if set(kinds) == set(measure_kinds(_MEASURES)) else f"history-{'-'.join(kinds)}.html"
    page = output or default_file(folder, name)
    tell(f"report: {result.report().save(page)}")
    if as_json:
        print_json(result.as_dict())
    else:
        result.show(out)
