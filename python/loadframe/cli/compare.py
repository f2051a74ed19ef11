"""`loadframe compare`: compare groups of runs with the first group, as a table, a sentence and a page."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.choices import measure_kinds
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.library.options import require_level, share

_EXAMPLES = """\b
Examples:
  loadframe compare results/old results/new
  loadframe compare 'results/nightly-3.7-*' 'results/nightly-3.8-*' --output versions.html
  loadframe compare results/versions
  loadframe compare old new --measure throughput,p99.9 --least 3% --json
"""


@app.command(epilog=_EXAMPLES)
def compare(
    groups: Annotated[
        list[str],
        typer.Argument(
            help="Run folders, folders of runs, experiments or quoted patterns."
            " A single experiment is split by its variants or treatments."
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Name of the group to compare with, such as 'nodes 1'."
            " Default: the first group, variant or level of each factor."
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            help="Measures, comma-separated: throughput, documents, p50, p90, p99, p99.9, max, mean, errors."
            " The prefix all-, as in all-p99, includes failed requests."
        ),
    ] = "throughput,p50,p99",
    least: Annotated[str, typer.Option(help="Smallest difference that matters.")] = "5%",
    level: Annotated[float, typer.Option(help="Significance level.")] = 0.05,
    session_spread: Annotated[
        str,
        typer.Option(help="Assumed variation between sessions, if the runs are too few to estimate it."),
    ] = "5%",
    output: Annotated[Path | None, typer.Option(help="Also write an HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Compare runs: ratios with intervals, and whether they exceed run-to-run variance."""
    kinds = measure_kinds(measure)
    smallest, spread = share(least, "--least"), share(session_spread, "--session-spread")
    require_level(level)

    # These imports take a second. Help and usage errors do not need them.
    from loadframe.library.answers import Comparison
    from loadframe.library.comparing import compare_groups

    comparison = Comparison(
        compare_groups(groups, kinds, baseline=baseline, least=smallest, level=level, session_spread=spread)
    )
    if len(groups) == 1 and baseline is None:
        tell(f"the baseline is {comparison.baseline}; choose another group with --baseline")
    if output:
        tell(f"report: {comparison.report().save(output)}")
    if as_json:
        print_json(comparison.as_dict())
    else:
        comparison.show(out)
