"""`loadframe gate`: new runs against earlier ones and against bounds; its exit status is for pipelines."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.choices import Strict, assignments, exclude, measure_kinds, share
from loadframe.cli.output import Json, out, print_json
from loadframe.errors import BadInput, NothingUsable
from loadframe.units import parse_duration, parse_rate

if TYPE_CHECKING:
    from loadframe.analyze.gate import Bound

#: The exit status where neither passing nor a regression can be told; 2 is wrong usage.
CANNOT_TELL = 3

_EXAMPLES = """\b
Examples:
  loadframe gate results/new --baseline results/main
  loadframe gate results/new --history 'results/nightly-*' --junit gate.xml --markdown gate.md
  loadframe gate results/new --bound 'p99<=50ms' --bound 'errors<=0.1%'
  loadframe gate results/versions             # an experiment of kind compare: its second variant against its first
  loadframe gate results/new --baseline results/main --measure throughput --least 3% --catch 10%

Exit status: 0 passed, 1 a regression or a broken bound, 2 bad input or wrong usage, 3 cannot tell (too few runs, runs
that cannot be believed, or noise that hides what must be caught), 4 with --strict if a run is left out for another
reason than a failure of the store.
"""


@app.command(epilog=_EXAMPLES)
def gate(
    new: Annotated[str, typer.Argument(help="The new runs: a folder, experiment or quoted pattern.")],
    baseline: Annotated[
        str | None, typer.Option(help="The runs of one earlier version: a folder, experiment or quoted pattern.")
    ] = None,
    history: Annotated[
        str | None, typer.Option(help="Runs of many earlier versions; only those since the last change count.")
    ] = None,
    bound: Annotated[
        list[str],
        typer.Option(help="An absolute bound, such as 'p99<=50ms', 'all-p99<=1s' or 'throughput>=1000/s'; repeatable."),
    ] = [],
    measure: Annotated[
        str,
        typer.Option(
            help="What to hold against earlier runs, comma-separated: throughput, documents, errors, p50, p90, p99,"
            " p99.9, max, mean; all-p99 and the like are of all requests, failed ones too."
        ),
    ] = "throughput,p50,p99,errors",
    least: Annotated[
        list[str],
        typer.Option(help="The least worsening that matters: 5%, or p99=10% for one measure; may be repeated."),
    ] = [],
    catch: Annotated[
        list[str],
        typer.Option(help="The worsening that must not slip through: 20%, or p99=50%; may be repeated."),
    ] = [],
    watch: Annotated[
        list[str],
        typer.Option(
            help="An operation that you name before you see the runs: its checks get nine tenths of their kind's share"
            " of the level, and the others divide the rest; may be repeated."
        ),
    ] = [],
    across_treatments: Annotated[
        bool, typer.Option(help="Judge runs of one treatment by those of another: that is what is to be judged.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown here.")] = None,
    session_spread: Annotated[
        str,
        typer.Option(help="By how much sessions differ when nothing has changed, where the runs cannot say it."),
    ] = "5%",
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Let new runs pass, or not: 0 passed, 1 regression, 2 bad input, 3 cannot tell."""
    exclude(
        {"--baseline": baseline, "--history": history}, ["--baseline"], ["--history"], "each is what to hold against"
    )
    earlier = baseline or history
    kinds = measure_kinds(measure)

    from loadframe.analyze.comparison import read_groups, read_variants
    from loadframe.analyze.gate import Thresholds, judge_gate
    from loadframe.report.gate.files import junit as junit_text
    from loadframe.report.gate.files import markdown as markdown_text
    from loadframe.report.gate.terminal import print_gate

    thresholds = Thresholds(
        least=_shares(least, "--least", kinds),
        catch=_shares(catch, "--catch", kinds),
        bounds=[_bound(text) for text in bound],
    )
    variants = () if earlier else read_variants(new)
    if len(variants) > 2:
        listed = ", ".join(variant.label for variant in variants)
        raise BadInput(
            f"{listed}: a gate holds one variant against one",
            where=new,
            remedy="compare two of them, or read its report",
        )
    if not variants and not earlier and not bound:
        raise BadInput(
            "there is nothing to hold the runs against",
            remedy="give --baseline, --history or --bound, or the folder of an experiment that compares two variants",
        )
    groups = variants[::-1] or read_groups([new, earlier] if earlier else [new])
    judged = judge_gate(
        groups[0],
        groups[1] if len(groups) > 1 else None,
        thresholds,
        kinds=kinds,
        history=history is not None,
        session_spread=share(session_spread, "--session-spread"),
        across=across_treatments or bool(variants),
        watch=watch,
    )
    for path, text in ((junit, junit_text), (markdown, markdown_text)):
        if path:
            _write(path, text(judged))
    if as_json:
        print_json(judged.as_dict())
    else:
        print_gate(judged, out)
    if judged.standing == "regression":
        raise typer.Exit(1)
    unusable = [run for group in groups for run in group.left_out if not run.store_failed]
    if strict and unusable:
        raise NothingUsable(
            f"{len(unusable)} run{'s' * (len(unusable) > 1)} left out: {unusable[0].id}: {unusable[0].why}",
            remedy="remove the reason and repeat these runs, or leave --strict out",
        )
    if judged.standing != "passed":
        raise typer.Exit(CANNOT_TELL)


def _shares(texts: Sequence[str], option: str, kinds: Sequence[str]) -> dict[str, float]:
    """Return shares by measure: a text without a name is for all of them, and one with a name stands above it."""
    general = [text for text in texts if "=" not in text]
    if len(general) > 1:
        raise BadInput(f"{option} is given for all measures twice", remedy=f"write {option} MEASURE={general[1]}")
    shares = {kind: share(text, option) for text in general for kind in kinds}
    for name, text in assignments([text for text in texts if "=" in text], option).items():
        (kind,) = measure_kinds(name)
        if kind not in kinds:
            raise BadInput(f"{option} is about {kind}, which is not measured", remedy="add it to --measure, or drop it")
        shares[kind] = share(text, option)
    return shares


def _bound(text: str) -> "Bound":
    from loadframe.analyze.gate import Bound
    from loadframe.analyze.rates import RATES

    match = re.fullmatch(r"\s*([a-z0-9.-]+)\s*(<=|>=)\s*(\S+)\s*", text)
    if not match:
        raise BadInput(
            f"--bound {text!r} is not a bound", remedy="write it as 'p99<=50ms' or 'throughput>=1000/s', quoted"
        )
    (kind,) = measure_kinds(match[1])
    wanted = ">=" if kind in RATES else "<="
    if match[2] != wanted:
        raise BadInput(f"--bound {text!r} bounds {kind} on its good side", remedy=f"write {kind}{wanted}{match[3]}")
    readers: dict[str, Callable[[str], float]] = {**dict.fromkeys(RATES, parse_rate), "errors": _error_share}
    return Bound(kind, readers.get(kind, parse_duration)(match[3]))


def _error_share(text: str) -> float:
    return 0.0 if text in ("0", "0%") else share(text, "--bound errors<=")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"the file cannot be written: {error.strerror}", where=str(path), remedy="name another"
        ) from error
