"""`loadframe watch`: what a cluster's nodes do, or on a page how a run goes, once a second, until Ctrl-C."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count as counting
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live as Screen
from rich.table import Table

from loadframe import interrupts
from loadframe.cli.app import app
from loadframe.cli.choices import exclude
from loadframe.cli.output import out
from loadframe.cli.web import WebAddress, require_web, serving
from loadframe.cluster import Cluster
from loadframe.errors import BadInput
from loadframe.units import format_count, format_share, format_size

if TYPE_CHECKING:
    from loadframe.observe.live import Look

_EXAMPLES = """\b
Examples:
  loadframe watch trial
  loadframe watch trial --count 10
  loadframe watch trial --json | jq -c '[.time, .nodes[]."process.cpu"]'
  loadframe watch --web
  loadframe watch nodes --web --web-address 0.0.0.0:8350
"""

#: Title, metric, how it is written. Of every node, whatever its store.
_PROCESS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("cpu", "process.cpu", "{:.2f}".format),
    ("throttled", "cgroup.throttled_time", "{:.2f}".format),
    ("memory", "process.resident", format_size),
    ("read/s", "process.read", format_size),
    ("written/s", "process.written", format_size),
)

#: Between columns.
_GAP = 2


@app.command(epilog=_EXAMPLES)
def watch(
    name: Annotated[
        str | None, typer.Argument(help="The cluster's name; with --web, that of a run or an experiment.")
    ] = None,
    count: Annotated[int | None, typer.Option(help="Stop after so many looks, one a second.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each look as one line of JSON.")] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Serve a page of the run that goes on on this machine, the newest if several.")
    ] = False,
    web_address: WebAddress = None,
) -> None:
    """Show what each node does, once a second: its process, its limits, and what its store says. Ctrl-C ends it.

    cpu is in cores; throttled is the time that threads stood still for the CPU quota, in s/s. The nodes' traffic goes
    over the loopback interface, whose bytes are the machine's, not a node's.

    With --web a page in a browser shows the run that goes on: throughput, response times, errors, the nodes' CPU, data
    in motion and events.
    """
    given = {"--web": web, "--count": count, "--json": as_json}
    exclude(given, ["--web"], ["--count", "--json"], "a page prints nothing")
    page = require_web(web, web_address)
    if page:
        _serve(name, page)
        return
    if name is None:
        raise BadInput("no cluster is named", remedy="name one, or say --web for the run that goes on")
    cluster = Cluster.load(name)
    try:
        if as_json:
            for at, look in _looks(cluster, count):
                print(json.dumps(_plain(at, look)), flush=True)
        elif out.is_terminal:
            with Screen(console=out, auto_refresh=False) as screen:
                for _, look in _looks(cluster, count):
                    screen.update(_screen(cluster, look), refresh=True)
        else:
            for _, look in _looks(cluster, count):
                out.print(_screen(cluster, look))
    except KeyboardInterrupt:
        # That is how one stops watching.
        interrupts.answer()


def _serve(name: str | None, page: tuple[str, int]) -> None:
    """Serve the page of the newest run, and of those that follow it, until Ctrl-C; BadInput if no run goes on."""
    from loadframe.live.following import commands
    from loadframe.live.relay import Relay

    going_on = commands(name)
    if not going_on:
        others = ", ".join(dict.fromkeys(command["name"] for _, command in commands()))
        start = "start one with `loadframe bench` or `loadframe run`, as the same user, with the same LOADFRAME_STATE"
        raise BadInput(
            f"no run of the name {name} is going on here" if name else "no run is going on here",
            remedy=f"these are: {others}" if others else start,
        )
    with serving(page, Relay(lambda: [path for path, _ in commands(name)])) as served:
        out.print(f"{going_on[-1][1]['name']}: {served.url}; Ctrl-C ends the page", markup=False, highlight=False)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            interrupts.answer()


def _looks(cluster: Cluster, most: int | None) -> "Iterator[tuple[float, Look]]":
    """Yield an instant, s since the epoch, and what was seen; the first has no rates yet and is left out."""
    from loadframe.experiment.watching import samplers
    from loadframe.observe.live import Live

    live = Live(
        samplers(cluster),
        totals=[figure.metric for figure in cluster.store.watched if figure.total],
    )
    live.look(time.monotonic())
    due = time.monotonic()
    for _ in range(most) if most else counting():
        # A look that took longer than a second skips the seconds that it missed.
        due = max(due + 1.0, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0.0))
        yield time.time(), live.look(time.monotonic())


#: Sources of figures that are not those of a node.
_NO_NODES = ("host", "cluster")


def _plain(at: float, look: "Look") -> dict[str, object]:
    nodes = {
        source.removeprefix("node:"): figures for source, figures in look.figures.items() if source not in _NO_NODES
    }
    return {"time": at, "nodes": nodes, "host": look.figures.get("host", {}), "gaps": look.gaps}


def _screen(cluster: Cluster, look: "Look") -> Group:
    """Return a line for each node; columns that do not fit beside the others stand below, in a table of their own."""
    names = ["node", *(node.name if node.alive else f"{node.name} (gone)" for node in cluster.nodes)]
    most = out.width - max(map(len, names))
    tables: list[list[list[str]]] = []
    room = 0
    for column in _columns(cluster, look):
        width = _GAP + max(map(len, column))
        if not tables or width > room:
            tables.append([names])
            room = most
        tables[-1].append(column)
        room -= width
    return Group(*map(_table, tables), _machine(look))


def _columns(cluster: Cluster, look: "Look") -> Iterator[list[str]]:
    """Yield a title and what stands below it, by node: of the processes, then of what the store says."""
    nodes = [look.figures.get(f"node:{node.name}", {}) for node in cluster.nodes]
    for title, metric, write in _PROCESS:
        yield [title, *(write(figures[metric]) if metric in figures else "-" for figures in nodes)]
    for figure in cluster.store.watched:
        metric = f"{figure.metric}/s" if figure.total else figure.metric
        write = format_size if figure.size else format_count
        yield [figure.title, *(write(figures[metric]) if metric in figures else "-" for figures in nodes)]


def _table(columns: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for at, (title, *_) in enumerate(columns):
        table.add_column(title, justify="right" if at else "left", no_wrap=True)
    for row in zip(*(cells for _, *cells in columns), strict=True):
        table.add_row(*row)
    return table


def _machine(look: "Look") -> str:
    host = look.figures.get("host", {})
    loopback = format_size(host.get("loopback.bytes", 0.0))
    return f"machine: {format_share(host.get('cpu.busy', 0.0))} busy, loopback {loopback}/s" + "".join(
        f"; {source}: {cause}" for source, cause in look.gaps.items()
    )
