"""`loadframe report`: report on a run or an experiment, as one HTML file and as a summary on the terminal.

--format query-results and --format queries write a run as the MPI benchmarker writes its results, other formats as
Rally, OpenSearch Benchmark, YCSB and k6 do, or for Otava, HdrHistogram, JUnit and others.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.cli import access
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import ClusterHosts, StoreKind, Strict
from loadframe.cli.output import Json, out, print_json, tell

if TYPE_CHECKING:
    from loadframe.cluster import Cluster

#: Exported formats without --format.
_USUAL = ("svg", "csv", "latex")

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


class Format(StrEnum):
    """File format of a report, or of exported plots and tables."""

    html = "html"
    query_results = "query-results"
    queries = "queries"
    statistics = "statistics"
    pdf = "pdf"
    svg = "svg"
    png = "png"
    csv = "csv"
    latex = "latex"
    rally = "rally"
    osb = "osb"
    ycsb = "ycsb"
    k6 = "k6"
    otava = "otava"
    hdr = "hdr"
    jsonl = "jsonl"
    junit = "junit"
    markdown = "markdown"


#: Formats of one run's requests or statistics.
_OF_RUN = (Format.query_results, Format.queries, Format.statistics)
#: Formats of other tools.
_OTHER = (
    Format.rally, Format.osb, Format.ycsb, Format.k6, Format.otava, Format.hdr, Format.jsonl, Format.junit,
    Format.markdown,
)  # fmt: skip


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
            autocompletion=lambda incomplete: [word for word in Format if word.startswith(incomplete)],
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
        if into is None or not attach or first not in (Format.rally, Format.osb) or other or output or export:
            raise BadInput(
                "--into requires --hosts, and --format rally or osb, without --output",
                remedy="write --format rally --into INDEX --hosts HOST:9200",
            )
        from loadframe.report.formats.rally import require_index

        require_index(into)
        _write_records(path, into, str(first), attach(), as_json=as_json)
        return
    if bounds and (other is not None or first in (*_OF_RUN, *_OTHER)):
        raise BadInput("--bands requires an HTML report on one run or experiment", remedy="leave it out")
    if export is not None:
        if other is not None or output is not None or set(formats) & {*_OF_RUN, *_OTHER}:
            raise BadInput(
                "--export takes one run or experiment and has no --output", remedy="name its folder with --export only"
            )
        chosen = [it for word in formats for it in (_USUAL if word == Format.html else (str(word),))]
        _export(path, export, tuple(dict.fromkeys(chosen)), bounds, as_json=as_json)
        _require_usable([path], strict=strict)
        return
    if len(formats) > 1:
        raise BadInput("--format takes one format without --export", remedy="add --export FOLDER, or name one format")
    if first not in (Format.html, *_OF_RUN, *_OTHER):
        raise BadInput(f"--format {first} requires --export", remedy="add --export FOLDER")
    if other is not None:
        if first != Format.html:
            raise BadInput(f"--format {first} requires one run", remedy="name one run, or leave --format out")
        _write_strong_and_weak(path, other, output=output, as_json=as_json)
    elif first in _OTHER:
        _write_format(path, str(first), output)
    elif first == Format.statistics:
        _write_statistics(path, output)
    elif first in (Format.query_results, Format.queries):
        _write_queries(path, output, first, as_json=as_json)
    else:
        write_report(path, output=output, as_json=as_json, bands=bounds)
    if strict or first == Format.html:
        _require_usable([path, *([other] if other else [])], strict=strict)


def _require_usable(paths: Sequence[Path], *, strict: bool) -> None:
    """Raise NothingUsable if an experiment among the paths has no valid run, or with `strict` if it has an invalid one.

    Runs that the store failed count as valid.
    """
    from loadframe.library.reports import require_usable

    for path in paths:
        require_usable(path, strict=strict)


def _export(path: Path, folder: Path, formats: tuple[str, ...], bands: tuple[float, ...], *, as_json: bool) -> None:
    """Write plots and tables of a report to `folder` in these formats, and print the answer.

    With `as_json`, print the answer and the paths of the files as JSON. `bands` are upper bounds of latency buckets, s.
    """
    from loadframe.analyze.experiment import EXPERIMENT_FILE, read_experiment
    from loadframe.analyze.percentiles import percentiles_of
    from loadframe.record import Run
    from loadframe.report.export import export
    from loadframe.report.kinds import read_report
    from loadframe.report.run.page import run_page
    from loadframe.report.run_status import standing_of, trust

    if (path / EXPERIMENT_FILE).is_file():
        page, experiment = read_report(path, bands).page, read_experiment(path)
        runs, caveat = [recorded.run for recorded in experiment.runs if recorded.run], trust(experiment)
    else:
        runs = [Run(path)]
        page, (_, caveat) = run_page(runs[0], bands), standing_of(runs[0], percentiles_of(runs[0]))
    files, quotation = export(page, [run.manifest for run in runs], caveat, folder, formats)
    if as_json:
        print_json({"files": [str(file) for file in files], "answer": list(page.answer)})
        return
    out.print(quotation, markup=False, highlight=False)
    tell(f"{counted(len(files), 'file')} in {folder}")


def _formats(text: str) -> tuple[Format, ...]:
    """Return the formats in a comma-separated list, each once, in their order. BadInput for an unknown one."""
    from loadframe.yamlfile import did_you_mean

    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in list(Format):
            raise BadInput(
                f"unknown format {word!r} in --format", remedy=did_you_mean(word, [str(it) for it in Format])
            )
    return tuple(dict.fromkeys(map(Format, words)))


def _bounds(text: str | None) -> tuple[float, ...]:
    """Return the upper bounds of latency buckets in --bands, s; empty without the option.

    BadInput unless they are durations above 0 and ascending.
    """
    if text is None:
        return ()
    from loadframe.analyze.percentiles import check_bounds
    from loadframe.base.units import parse_duration

    return check_bounds([parse_duration(part.strip()) for part in text.split(",")])


def _write_queries(path: Path, output: Path | None, form: Format, *, as_json: bool) -> None:
    """Write a run in the format of the MPI benchmarker: `query-results` of its document, or `queries` of its program.

    The file is `output`, by default FORM.json in the run's folder `path`. With `as_json`, also print it.
    """
    from loadframe.library.reports import default_file
    from loadframe.record import Run
    from loadframe.report.run.queries import appendix, queries

    run = Run(path)
    target = output or default_file(path, f"{form}.json")
    steps = (appendix if form == Format.query_results else queries)(run)
    _write(target, json.dumps(steps) + "\n")
    if as_json:
        print_json(steps)


def _write_format(path: Path, name: str, output: Path | None) -> None:
    """Write a run, or runs, in the format of another tool to `output`, or print them if it is None.

    For Otava, also write its configuration next to the file, and print the names of runs that are left out.
    """
    from loadframe.report.formats import formatted, runs_at
    from loadframe.report.formats.otava import config, config_file, omitted

    # Writing refuses an output without a name, which is a folder.
    settings = config_file(output) if output and output.name and name == Format.otava else None
    text = formatted(path, name)
    if name == Format.otava and (names := omitted(runs_at(path))):
        tell(
            f"left out (failed, invalid, limited by the generator, or with other operations): {', '.join(names)}",
            style="yellow",
        )
    if output is None:
        print(text, end="")
        return
    _write(output, text)
    if settings:
        _write(settings, config(runs_at(path), output))


def _write_records(path: Path, index: str, name: str, cluster: "Cluster", *, as_json: bool) -> None:
    """Write the metrics records of a run to an index of a cluster; print their number and the race's identifier.

    `name` is the format, rally or osb. BadInput if the store is not a search engine, or if the run is damaged.
    """
    from loadframe.record import Run
    from loadframe.report.formats.rally import mapping, race_id, records
    from loadframe.store.search import SearchStore

    if not isinstance(cluster.store, SearchStore):
        raise BadInput(
            f"--into cannot write to {cluster.store.kind}", remedy="give an Elasticsearch or OpenSearch cluster"
        )
    run = Run(path)
    run.require_whole()
    count = cluster.store.write_documents(cluster.addresses, index, mapping(name), records(run, name))
    if as_json:
        print_json({"index": index, "records": count, "race": race_id(run)})
        return
    tell(f"{counted(count, 'record')} in {index}, race {race_id(run)}")


def _write_statistics(path: Path, output: Path | None) -> None:
    """Write the store's statistics of a run as CSV to `output`, by default `statistics.csv` in the run's folder `path`.

    The columns are those that the store exports; all recorded metrics for a user's own store. Prints the file's path.
    BadInput without statistics.
    """
    from loadframe.library.reports import default_file
    from loadframe.record import Run
    from loadframe.report.run.document import Column, statistics
    from loadframe.store import stores

    run = Run(path)
    target = output or default_file(path, "statistics.csv")
    kind = run.manifest.store.kind
    # A user's own store is a file, which may be absent here; its statistics are exported unchanged.
    known = stores().get(kind or "")
    figures = (known.exported or known.watched) if known else ()
    _write(target, statistics(run, [Column(figure.title, figure.metric, rate=figure.total) for figure in figures]))


def _write_strong_and_weak(first: Path, second: Path, *, output: Path | None, as_json: bool) -> None:
    """Write a page that compares a strong and a weak scale experiment, and print a summary or JSON.

    The page is `output`, by default strong-and-weak.html in the folder `first`.
    """
    from loadframe.analyze.scale.strong_weak import read_strong_and_weak
    from loadframe.library.reports import default_file
    from loadframe.report.strong_weak import print_strong_weak, strong_weak_page

    pair = read_strong_and_weak(first, second)
    _write(output or default_file(first, "strong-and-weak.html"), strong_weak_page(pair))
    if as_json:
        print_json(pair.as_dict())
    else:
        print_strong_weak(pair, out)


def write_report(path: Path, *, output: Path | None, as_json: bool, bands: tuple[float, ...] = ()) -> Path:
    """Report on a folder: write the page, print the answer, and return the path of the page.

    The page is `output`, by default report.html in the folder. `bands` are upper bounds of latency buckets, s. A run
    that was killed is recovered first. BadInput if the folder is neither a run nor an experiment, or cannot be read or
    written. BadInput, after the report, if no run could have answered the experiment's question.
    """
    from loadframe.library.reports import default_file, read_report

    if not path.exists():
        from loadframe.experiment.runner.recover_run import recover_runs

        # A killed run left its records under another name.
        recover_runs(path.parent, lambda run: run == path.name)
    report = read_report(path, bands)
    target = output or default_file(path, "report.html")
    _write(target, report.html)
    if as_json:
        print_json(report.as_dict())
    else:
        report.show(out)
    if report.unanswerable:
        raise report.unanswerable
    return target


def _write(target: Path, text: str) -> None:
    """Write a text to a file and print its path to standard error. BadInput if the file cannot be written."""
    from loadframe.library.reports import save_file

    save_file(text, target)
    tell(f"report: {target}")
