"""`loadframe gate`: judge new runs against earlier runs and bounds, with an exit code for pipelines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from loadframe.base.errors import BadInput, ExitCode, NothingUsable
from loadframe.base.units import counted
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import Strict, assignments, measure_kinds, option_name
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.library.options import exclude, share

_EXAMPLES = """\b
Examples:
  loadframe gate results/new --baseline results/main
  loadframe gate results/new --history 'results/nightly-*' --junit gate.xml --markdown gate.md
  loadframe gate results/new --history /srv/history --record /srv/history
  loadframe gate results/new --bound 'p99<=50ms' --bound 'errors<=0.1%'
  loadframe gate results/versions             # kind compare: its second variant against its first
  loadframe gate results/new --baseline results/main --measure throughput --least 3% --catch 10%

Exit codes: 0 passed; 1 a regression or a broken bound; 2 bad input; 3 inconclusive (too few runs, invalid runs, or too
much run-to-run variance); 4 with --strict, if a run is invalid for a reason other than the store.
"""


@app.command(epilog=_EXAMPLES)
def gate(
    new: Annotated[str, typer.Argument(help="New runs: a folder, an experiment or a quoted pattern.")],
    baseline: Annotated[
        str | None,
        option(Topic.RUNS, help="Runs of one earlier version: a folder, an experiment or a quoted pattern."),
    ] = None,
    history: Annotated[
        str | None, option(Topic.RUNS, help="Runs of many earlier versions. Only those since the last change count.")
    ] = None,
    across_treatments: Annotated[
        bool, option(Topic.RUNS, help="Compare runs of different treatments, if the treatment is the change to judge.")
    ] = False,
    bound: Annotated[
        list[str],
        option(
            Topic.CRITERIA,
            help="Absolute bound, such as 'p99<=50ms', 'all-p99<=1s' or 'throughput>=1000/s'. Repeatable.",
        ),
    ] = [],
    measure: Annotated[
        str,
        option(
            Topic.CRITERIA,
            help="Measures to compare, comma-separated: throughput, documents, errors, p50, p90, p99, p99.9, max, mean."
            " The prefix all-, as in all-p99, includes failed requests.",
        ),
    ] = "throughput,p50,p99,errors",
    least: Annotated[
        list[str],
        option(Topic.CRITERIA, help="Smallest worsening that matters: 5%, or p99=10% for one measure. Repeatable."),
    ] = [],
    catch: Annotated[
        list[str],
        option(
            Topic.CRITERIA, help="Worsening that the gate must detect: 20%, or p99=50% for one measure. Repeatable."
        ),
    ] = [],
    watch: Annotated[
        list[str],
        option(
            Topic.CRITERIA,
            help="Operation that you choose before you see the runs. Its checks get nine tenths of the significance "
            "level of their kind; the other operations share the rest. Repeatable.",
        ),
    ] = [],
    session_spread: Annotated[
        str,
        option(Topic.CRITERIA, help="Assumed variation between sessions, if the runs are too few to estimate it."),
    ] = "5%",
    junit: Annotated[Path | None, option(Topic.OUTPUT, help="Write JUnit XML to this file.")] = None,
    markdown: Annotated[Path | None, option(Topic.OUTPUT, help="Write Markdown to this file.")] = None,
    record: Annotated[
        Path | None,
        option(Topic.OUTPUT, help="History folder: copy the new runs and the outcome there, for `loadframe history`."),
    ] = None,
    commit: Annotated[
        str | None,
        option(
            Topic.OUTPUT,
            help="Commit of the new runs, for --record. Default: GITHUB_SHA, CI_COMMIT_SHA or GIT_COMMIT, if set.",
        ),
    ] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Judge new runs by exit code: 0 passed, 1 regression, 2 bad input, 3 inconclusive."""
    exclude({"--baseline": baseline, "--history": history}, ["--baseline"], ["--history"], "both name the earlier runs")
    earlier = baseline or history
    kinds = measure_kinds(measure)
    if commit is not None and record is None:
        raise BadInput("--commit requires --record", remedy="add --record FOLDER, or leave --commit out")
    if commit == "":
        raise BadInput("--commit is an empty text", remedy="give a commit, or leave --commit out")

    from loadframe.analyze.gate import Thresholds
    from loadframe.library.answers import Gate
    from loadframe.library.comparing import gate_groups, parse_bound
    from loadframe.library.gate_history import pipeline_commit
    from loadframe.library.reports import save_file
    from loadframe.report import gate as gate_report

    thresholds = Thresholds(
        least=_shares(least, "--least", kinds),
        catch=_shares(catch, "--catch", kinds),
        bounds=[parse_bound(text) for text in bound],
    )
    outcome, groups = gate_groups(
        new,
        earlier,
        thresholds,
        kinds,
        history=history is not None,
        session_spread=share(session_spread, "--session-spread"),
        across=across_treatments,
        watch=watch,
        written=option_name,
    )
    judged = Gate(outcome, groups)
    # The texts of the library name its parameters.
    for path, text in ((junit, gate_report.junit), (markdown, gate_report.markdown)):
        if path:
            save_file(text(outcome), path)
    if record:
        tell(f"recorded: {judged.record(record, commit)}")
        if not (commit or pipeline_commit()):
            tell("recorded without a commit: `loadframe history` names this point by its folder; give --commit")
    if as_json:
        print_json(judged.as_dict())
    else:
        judged.show(out)
    if judged.standing == "regression":
        raise typer.Exit(ExitCode.FAILED)
    unusable = [run for run in outcome.left_out if not run.store_failed]
    if strict and unusable:
        raise NothingUsable(
            f"{counted(len(unusable), 'run')} left out: {unusable[0].id}: {unusable[0].why}",
            remedy="remove the cause and repeat these runs, or leave --strict out",
        )
    if judged.standing != "passed":
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _shares(texts: Sequence[str], option: str, kinds: Sequence[str]) -> dict[str, float]:
    """Return shares by measure: `MEASURE=5%` overrides `5%`, which applies to all measures in `kinds`.

    BadInput for two shares of all measures, and for invalid shares or measures; `option` is named in errors.
    """
    from loadframe.library.comparing import shares_by_measure

    general = [text for text in texts if "=" not in text]
    if len(general) > 1:
        raise BadInput(f"{option} is given twice for all measures", remedy=f"write {option} MEASURE={general[1]}")
    shares = {kind: share(text, option) for text in general for kind in kinds}
    named = assignments([text for text in texts if "=" in text], option)
    return shares | shares_by_measure(named, kinds, option)
