"""`loadframe compare`: compare groups of runs with the first group, as a table, a sentence and a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base.errors import BadInput
from loadframe.cli.app import app
from loadframe.cli.choices import measure_kinds, share
from loadframe.cli.output import Json, out, print_json, tell

if TYPE_CHECKING:
    from loadframe.analyze.compare import Group

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
            help="Run folders, folders of runs, experiments or quoted patterns. The first is the baseline."
            " A single experiment is split by its variants or treatments."
        ),
    ],
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
    smallest = share(least, "--least")
    if not 0 < level < 1:
        raise BadInput(
            f"--level must be above 0 and below 1; got {level:g}", remedy="give a significance level such as 0.05"
        )

    from loadframe.analyze.compare import compare as compare_groups
    from loadframe.report.kinds.compare import print_comparison

    comparison = compare_groups(
        # A single experiment compares its own treatments, so their differences are intended.
        _groups(groups),
        kinds,
        least=smallest,
        level=level,
        session_spread=share(session_spread, "--session-spread"),
        intended=len(groups) == 1,
    )
    if output:
        from loadframe.report.kinds.compare import comparison_page

        try:
            output.write_text(comparison_page(comparison), encoding="utf-8")
        except OSError as error:
            raise BadInput(
                f"the page cannot be written: {error.strerror}", where=str(output), remedy="name another file"
            ) from error
        tell(f"report: {output}")
    if as_json:
        print_json(comparison.as_dict())
    else:
        print_comparison(comparison, out)


def _groups(arguments: list[str]) -> "tuple[Group, ...]":
    from loadframe.analyze.compare import (
        read_groups,
        read_runs,
        read_variants,
        split_by_treatment,
        uses_robust_estimate,
    )

    if len(arguments) > 1:
        return read_groups(arguments)
    split = read_variants(arguments[0]) or split_by_treatment(
        read_runs(arguments[0]), robust=uses_robust_estimate(arguments[0])
    )
    if len(split) == 1:
        raise BadInput(
            "all its runs have the same treatment",
            where=arguments[0],
            remedy="name two or more folders",
        )
    return split
