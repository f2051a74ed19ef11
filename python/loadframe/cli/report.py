"""`loadframe report`: what a run or an experiment says, as one HTML file and in brief on the terminal."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.app import Json, app, err, out, print_json
from loadframe.errors import BadInput

_EXAMPLES = """\b
Examples:
  loadframe report results/demo
  loadframe report results/nyc_taxis-20260102-030405 --output run.html
  loadframe report results/demo --json | jq '.curves[0].speedups'
"""


@app.command(epilog=_EXAMPLES)
def report(
    path: Annotated[Path, typer.Argument(help="The folder of a run or of an experiment.")],
    output: Annotated[Path | None, typer.Option(help="The HTML file; report.html in the folder if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Write a self-contained HTML report, and print it in brief."""
    write_report(path, output=output, as_json=as_json)


def write_report(path: Path, *, output: Path | None, as_json: bool) -> None:
    """Report on a folder; BadInput where it is neither a run nor an experiment, or cannot be read or written."""
    from loadframe.analyze.sweep import EXPERIMENT_FILE, read_sweep
    from loadframe.record import Run
    from loadframe.record.schema import MANIFEST_FILE
    from loadframe.report.html import run_page, sweep_page
    from loadframe.report.sweep_terminal import print_sweep
    from loadframe.report.terminal import print_run

    if (path / EXPERIMENT_FILE).is_file():
        sweep = read_sweep(path)
        page, document = sweep_page(sweep), sweep.as_dict()
    elif path.is_dir() and not (path / MANIFEST_FILE).is_file():
        raise BadInput(
            "this is neither a run nor an experiment",
            where=str(path),
            remedy=f"name a folder that holds a {MANIFEST_FILE} or an {EXPERIMENT_FILE}",
        )
    else:
        run = Run(path)
        page, document = run_page(run), {"run": str(path), **run.summary}
    target = output or path / "report.html"
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"the report cannot be written: {error.strerror}",
            where=str(target),
            remedy="name another file with --output",
        ) from error
    if as_json:
        print_json(document)
    elif (path / EXPERIMENT_FILE).is_file():
        print_sweep(sweep, out)
    else:
        print_run(run, out)
    err.print(f"report: {target}", markup=False, highlight=False)
