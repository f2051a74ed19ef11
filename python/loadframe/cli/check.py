"""`loadframe check`: send each operation of a workload once and print request, answer and judgement.

With --offline: print the requests without a store.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_duration
from loadframe.cli import access
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import (
    ClusterHosts,
    Parameters,
    Ranks,
    StoreKind,
    WorkloadName,
    assignments,
    start_ranks,
)
from loadframe.cli.output import Json, out, print_json
from loadframe.library.options import exclude

if TYPE_CHECKING:
    from loadframe.library.checking import Rendered

_EXAMPLES = """\b
Examples:
  loadframe check nyc_taxis
  loadframe check ./my-workload.yaml --hosts 127.0.0.1:9200
  loadframe check ./my-workload.yaml --set size=50 --json | jq '.[] | select(.error)'
  loadframe check ./my-workload.yaml --offline
  loadframe check ./my-workload.yaml --offline --lines access.log
"""

#: Longest request or answer on the terminal.
_MOST_CHARACTERS = 1_500
_REMEDY = "see the answers above; a measurement would count these errors"
_REMEDY_FOR_JOURNEYS = (
    "see the answers above. `check` sends each operation once, in the order of the file, without the conditions and"
    " loops of its journey. An operation that depends on a later answer, or on many requests, can fail here and"
    " succeed in a run. Run a whole journey with `loadframe bench` and one user"
)


@app.command(epilog=_EXAMPLES)
@access.with_options()
def check(
    context: typer.Context,
    workload: WorkloadName,
    store: StoreKind = "opensearch",
    hosts: ClusterHosts = None,
    offline: Annotated[
        bool, option(Topic.WORKLOAD, "--offline", help="Show the requests without a store. Send nothing.")
    ] = False,
    lines: Annotated[
        Path | None,
        option(Topic.WORKLOAD, "--lines", help="With --offline: file with lines, to show their transformation."),
    ] = None,
    ranks: Ranks = None,
    set_: Parameters = [],
    as_json: Json = False,
) -> None:
    """Send each operation of a workload once and show request, answer and judgement.

    Loadframe starts a node and loads a few documents first. With --hosts it uses the data of an existing cluster,
    creates nothing, and skips phases that prepare data. With --offline it checks the workload without a store and
    prints the requests of all operations. It also prints what a source with `transform` makes of the first five lines
    of its file, or of --lines. With several ranks, the first sends the operations, once all ranks have
    reached the nodes.
    """
    exclude({"--offline": offline, "--hosts": hosts}, ["--offline"], ["--hosts"], "--offline sends nothing")
    if lines is not None and not offline:
        raise BadInput("--lines requires --offline", where="--lines", remedy="add --offline")
    exclude({"--offline": offline, "--ranks": ranks}, ["--offline"], ["--ranks"], "--offline sends nothing")
    start_ranks(ranks)

    from loadframe.workload import load_workload

    overrides = assignments(set_)
    loaded = load_workload(workload, overrides)
    # A refused workload needs neither the engine nor the progress on the terminal.
    from loadframe.cli.console import Console
    from loadframe.library.checking import answers, rendered_requests, small_workload
    from loadframe.store import find

    if not hosts:
        loaded = small_workload(loaded, overrides)
    attach = access.existing(context.params)
    if offline:
        with Console() as console:
            rendered = rendered_requests(loaded, store, console, lines)
        if as_json:
            print_json([*rendered.requests, *rendered.lines])
        else:
            _print_requests(rendered, find(store).family)
        return
    with Console() as console:
        shown, journeys = answers(loaded, store, attach, console)
    if as_json:
        print_json(shown)
    else:
        for answer in shown:
            _print(answer)
    _raise_for_failures(shown, journeys)


def _raise_for_failures(shown: Sequence[Mapping[str, Any]], journeys: set[str]) -> None:
    """Raise LoadframeError if one of the answers `shown` has an `error`.

    `journeys` names the phases that run journeys, which changes the remedy.
    """
    failed = [answer for answer in shown if answer["error"]]
    if failed:
        names = ", ".join(str(answer["operation"]) for answer in failed)
        remedy = _REMEDY_FOR_JOURNEYS if journeys & {answer["phase"] for answer in failed} else _REMEDY
        raise LoadframeError(f"{len(failed)} of {counted(len(shown), 'operation')} failed: {names}", remedy=remedy)


def _print_requests(rendered: "Rendered", family: str) -> None:
    """Print the request of each operation and the result of each line to standard output.

    Also names corpora that are not on this machine. `family` is the store's.
    """
    for request in rendered.requests:
        out.rule(f"[bold]{escape(request['phase'])}[/bold] · {escape(request['operation'])}", align="left")
        shown = _first_lines(request["request"] or "")
        out.print(escape(shown or "this protocol creates the request when it sends it"), style="dim")
    for line in rendered.lines:
        out.rule(f"[bold]{escape(line['phase'])}[/bold] · source {escape(line['source'])}", align="left")
        out.print(escape(_first_lines(line["line"])), style="dim")
        style = {"event": "green", "dropped": "yellow"}.get(line["outcome"], "red")
        result = f" · {_first_lines(line['result'])}" if line["result"] else ""
        out.print(f"[{style}]{escape(line['outcome'])}[/{style}]{escape(result)}", soft_wrap=True)
    for name in rendered.missing:
        words = "not on this machine; --offline downloads nothing"
        out.print(f"[yellow]corpus {escape(name)}[/yellow] · {words}")
    out.print(
        f"[green]good[/green] · {counted(len(rendered.requests), 'operation')}, valid for {family}; nothing was sent"
    )


def _print(answer: dict[str, Any]) -> None:
    """Print an operation's request, answer and judgement to standard output; long texts are cut."""
    failed, received = answer["error"], _first_lines(answer["answer"])
    style = "red" if failed else "green"
    verdict = f"{failed}: {_without_repetition(answer['message'], received)}" if failed else "good"
    out.rule(f"[bold]{escape(answer['phase'])}[/bold] · {escape(answer['operation'])}", align="left")
    out.print(escape(_first_lines(answer["request"])), style="dim")
    out.print(escape(received))
    documents = f"{counted(answer['documents'], 'document')} in {format_duration(answer['service_time'])}"
    setup = "" if answer["setup_time"] is None else f" · connection setup {format_duration(answer['setup_time'])}"
    out.print(f"[{style}]{escape(verdict)}[/{style}] · {documents}{setup}")
    if answer["empty"]:
        words = "0 hits: is the data loaded, and does the operation match it?"
        out.print(f"[yellow]{words}[/yellow]")


def _first_lines(text: str) -> str:
    """Return a text, cut after about 1,500 characters with the number of the omitted ones if it is longer.

    The cut is at the end of a line if one ends in the second half.
    """
    if len(text) <= _MOST_CHARACTERS:
        return text
    kept = text[:_MOST_CHARACTERS]
    kept = kept[: kept.rfind("\n")] if "\n" in kept[_MOST_CHARACTERS // 2 :] else kept
    return f"{kept}\n... {counted(len(text) - len(kept), 'more character')}; --json prints all"


def _without_repetition(message: str, received: str) -> str:
    """Return the message of a failure, `CAUSE: EXCERPT`; only CAUSE if the printed answer `received` has the excerpt.

    White space does not count.
    """
    cause, _, excerpt = message.partition(": ")
    return cause if "".join(excerpt.removesuffix(" ...").split()) in "".join(received.split()) else message
