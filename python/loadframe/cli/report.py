"""`loadframe report`: report on a run or an experiment, as one HTML file and as a summary on the terminal.

--format query-results and --format queries write a run as the MPI benchmarker writes its results, other formats as
Rally, OpenSearch Benchmark, YCSB and k6 do, or for Otava, HdrHistogram, JUnit and others.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.cli import access
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import ClusterHosts, StoreKind, Strict
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.library.options import USUAL_EXPORT, ExportFormat, OfRun, OtherTool, RecordsOf

if TYPE_CHECKING:
    from loadframe.library.reports import Report

_EXAMPLES = """\b
Examples:
  loadframe report results/demo
  loadframe report results/nyc_taxis-20260102-030405 --output run.html
  loadframe report results/nyc_taxis-20260102-030405 --bands 100ms,1s,10s
  loadframe report results/demo --bands 100ms,1s,10s
  loadframe report results/demo --json | jq '.curves[0].speedups'
  loadframe report results/strong results/weak
  loadframe report results/steps-20260102-030405 --format query-results --output steps.json
  loadframe report results/steps-20260102-030405 --format statistics --output nodes.csv
  loadframe report results/demo --export figures --format pdf,latex
  loadframe report results/demo --format markdown
  loadframe report results/nyc_taxis-20260102-030405 --format rally --output race.json
  loadframe report results/nyc_taxis-20260102-030405 --format osb --into benchmark-metrics-2026-01 --hosts metrics:9200
"""
#: Formats of one run's requests or statistics, and those of other tools.
_OF_RUN: Mapping[str, OfRun] = {word: word for word in get_args(OfRun)}
_CONVERTED: Mapping[str, OfRun | OtherTool] = {**_OF_RUN, **{word: word for word in get_args(OtherTool)}}
#: Formats with metrics records.
_RECORDS: Mapping[str, RecordsOf] = {word: word for word in get_args(RecordsOf)}
#: Exported formats by the words of --format; html is the default.
_EXPORTED: Mapping[str, tuple[ExportFormat, ...]] = {
    "html": USUAL_EXPORT,
    **{word: (word,) for word in get_args(ExportFormat)},
}
_FORMATS = tuple(dict.fromkeys((*_EXPORTED, *_CONVERTED)))


@app.command(epilog=_EXAMPLES)
@access.with_options()
def report(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="Folder of a run or an experiment.")],
    other: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of a second scale experiment, to show a strong and a weak scaling curve side by side."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            Topic.OUTPUT,
            help="File to write. Default: report.html in the folder; strong-and-weak.html for two folders; standard"
            " output for the formats of other tools.",
        ),
    ] = None,
    format_: Annotated[
        str,
        option(
            Topic.OUTPUT,
            "--format",
            metavar="FORMAT[,FORMAT]",
            autocompletion=lambda incomplete: [word for word in _FORMATS if word.startswith(incomplete)],
            help="html; query-results or queries (requests, in the format of the MPI benchmarker's document or of its"
            " program); statistics (of the nodes, as CSV); with --export: pdf, svg or png for plots, csv or latex for"
            " tables, several as pdf,latex. Others are formats of other tools: rally, osb, ycsb, k6"
            " and hdr (HdrHistogram log) hold a run; otava, jsonl, junit and markdown also the runs of an experiment or"
            " a folder.",
        ),
    ] = "html",
    export: Annotated[
        Path | None,
        option(
            Topic.OUTPUT,
            help="Folder for all plots, tables, the answer and BibTeX entries. Without --format: svg, csv and latex.",
        ),
    ] = None,
    bands: Annotated[
        str | None,
        option(
            Topic.OUTPUT,
            help="Upper bounds of latency buckets, such as 100ms,1s,10s. The report gives each bucket's share of"
            " requests by operation, and for an experiment by treatment. Failures are counted separately.",
        ),
    ] = None,
    into: Annotated[
        str | None,
        option(
            Topic.EXISTING,
            help="Write the metrics records of --format rally or osb to this index of the store at --hosts.",
        ),
    ] = None,
    store: StoreKind = access.DEFAULT_STORE,
    hosts: ClusterHosts = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Write a self-contained HTML report, and print a summary.

    Exit code 4: no run of the experiment is valid.
    """
    bounds = _bounds(bands)
    formats = _formats(format_)
    first = formats[0]

    attach = access.existing(context.params, loads=False)
    if into is not None or attach:
        if into is None or not attach or first not in _RECORDS or other or output or export:
            raise BadInput(
                "--into requires --hosts, and --format rally or osb, without --output",
                remedy="write --format rally --into INDEX --hosts HOST:9200",
            )
        # These imports take half a second. Help and usage errors do not need them.
        from loadframe.library.reports import send_records

        sent = send_records(path, into, _RECORDS[first], attach)
        if as_json:
            print_json(sent)
        else:
            tell(f"{counted(sent['records'], 'record')} in {into}, race {sent['race']}")
        return
    if bounds and (other is not None or first in _CONVERTED):
        raise BadInput("--bands requires an HTML report on one run or experiment", remedy="leave it out")
    if export is not None:
        if other is not None or output is not None or not _EXPORTED.keys() >= set(formats):
            raise BadInput(
                "--export takes one run or experiment and has no --output", remedy="name its folder with --export only"
            )
        from loadframe.library.reports import export_report, require_usable

        chosen = [it for word in formats for it in _EXPORTED[word]]
        exported = export_report(path, export, list(dict.fromkeys(chosen)), bounds)
        if as_json:
            print_json(exported.as_dict())
        else:
            exported.show(out)
            tell(f"{counted(len(exported.files), 'file')} in {export}")
        require_usable(path, strict=strict)
        return
    if len(formats) > 1:
        raise BadInput("--format takes one format without --export", remedy="add --export FOLDER, or name one format")
    if first not in ("html", *_CONVERTED):
        raise BadInput(f"--format {first} requires --export", remedy="add --export FOLDER")
    if other is not None:
        if first != "html":
            raise BadInput(f"--format {first} requires one run", remedy="name one run, or leave --format out")
        from loadframe.library.reports import default_file, strong_weak_report

        target = output or default_file(path, "strong-and-weak.html")
        _show(strong_weak_report(path, other), target, as_json=as_json)
    elif first == "html":
        write_report(path, output=output, as_json=as_json, bands=bounds)
    else:
        _convert(path, _CONVERTED[first], output, as_json=as_json)
    from loadframe.library.reports import require_usable

    for folder in (path, *([other] if other else [])) if strict or first == "html" else ():
        require_usable(folder, strict=strict)


def _formats(text: str) -> tuple[str, ...]:
    """Return the formats in a comma-separated list, each once, in their order. BadInput for an unknown one."""
    from loadframe.yamlfile import did_you_mean

    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in _FORMATS:
            raise BadInput(f"unknown format {word!r} in --format", remedy=did_you_mean(word, _FORMATS))
    return tuple(dict.fromkeys(words))


def _bounds(text: str | None) -> tuple[float, ...]:
    """Return the upper bounds of latency buckets in --bands, s; empty without the option.

    BadInput unless they are durations above 0 and ascending.
    """
    if text is None:
        return ()
    from loadframe.analyze.percentiles import check_bounds
    from loadframe.base.units import parse_duration

    return check_bounds([parse_duration(part.strip()) for part in text.split(",")])


def _convert(path: Path, form: OfRun | OtherTool, output: Path | None, *, as_json: bool) -> None:
    """Write the run or runs at `path` in the format `form` to the file `output`, and print its path.

    By default, a format of one run is written into the run's folder, and any other to standard output. Names runs that
    are left out. With `as_json`, also prints the formats `queries` and `query-results` of a file.
    """
    from loadframe.library.reports import converted, default_file, only_run

    if output is None and form in _OF_RUN:
        folder = only_run(path, _OF_RUN[form])
        output = default_file(folder, "statistics.csv" if form == "statistics" else f"{form}.json")
    result = converted(path, form)
    if result.left_out:
        why = "failed, invalid, limited by the generator, or with other operations"
        tell(f"left out ({why}): {', '.join(result.left_out)}", style="yellow")
    if output is None:
        print(result.text, end="")
        return
    for file in result.save(output):
        tell(f"report: {file}")
    if as_json and form in ("query-results", "queries"):
        print_json(json.loads(result.text))


def write_report(path: Path, *, output: Path | None, as_json: bool, bands: tuple[float, ...] = ()) -> Path:
    """Report on a folder: write the page, print the answer, and return the path of the page.

    The page is `output`, by default report.html in the folder. `bands` are upper bounds of latency buckets, s. A run
    that was killed is recovered first. BadInput if the folder is neither a run nor an experiment, or cannot be read or
    written. BadInput, after the report, if no run could have answered the experiment's question.
    """
    from loadframe.library.reports import default_file, read_report

    report = read_report(path, bands)
    target = output or default_file(path, "report.html")
    _show(report, target, as_json=as_json)
    if report.unanswerable:
        raise report.unanswerable
    return target


def _show(report: "Report", target: Path, *, as_json: bool) -> None:
    """Write the page of a report to a file, and print its path, and the summary or JSON."""
    tell(f"report: {report.save(target)}")
    if as_json:
        print_json(report.as_dict())
    else:
        report.show(out)
