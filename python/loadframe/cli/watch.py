"""`loadframe watch`: show live metrics of a cluster or, on a web page, of a run."""

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

from loadframe.base import interrupts
from loadframe.base.errors import BadInput
from loadframe.base.units import format_count, format_share, format_size
from loadframe.cli import completion
from loadframe.cli.app import app
from loadframe.cli.output import out
from loadframe.cli.web import WebAddress, require_web, serving
from loadframe.cluster import Cluster
from loadframe.library.options import exclude

if TYPE_CHECKING:
    from loadframe.observe.observer import Look

_EXAMPLES = """\b
Examples:
  loadframe watch trial
  loadframe watch trial --count 10
  loadframe watch trial --json | jq -c '[.time, .nodes[]."process.cpu"]'
  loadframe watch --web
  loadframe watch nodes --web --web-address 0.0.0.0:8350
"""

#: Title, metric and format of figures that nodes of all stores have.
_PROCESS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("cpu", "process.cpu", "{:.2f}".format),
    ("throttled", "cgroup.throttled_time", "{:.2f}".format),
    ("memory", "process.resident", format_size),
    ("read/s", "process.read", format_size),
    ("written/s", "process.written", format_size),
)

#: Spaces between columns.
_GAP = 2


@app.command(epilog=_EXAMPLES)
def watch(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of the cluster. With --web: name of the run or experiment.", autocompletion=completion.clusters
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(help="Stop after this number of polls, one each second.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each poll as one line of JSON.")] = False,
    web: Annotated[bool, typer.Option("--web", help="Serve a live page of the newest run on this machine.")] = False,
    web_address: WebAddress = None,
) -> None:
    """Show live metrics of each node, once a second: process, limits and store. Press Ctrl-C to stop.

    cpu is in cores. throttled is the time that threads waited for the CPU quota, in s/s. Nodes communicate over the
    loopback interface, whose bytes are counted for the machine.

    With --web, a page shows the current run: throughput, response times, errors, the nodes' CPU, data movement and
    events.
    """
    given = {"--web": web, "--count": count, "--json": as_json}
    exclude(given, ["--web"], ["--count", "--json"], "the page replaces the terminal")
    page = require_web(web, web_address)
    if page:
        _serve(name, page)
        return
    if name is None:
        raise BadInput("the name of a cluster is missing", remedy="give it, or --web for the current run")
    cluster = Cluster.load(name)
    try:
        if as_json:
            for at, look in _polls(cluster, count):
                print(json.dumps(_document(at, look)), flush=True)
        elif out.is_terminal:
            with Screen(console=out, auto_refresh=False) as screen:
                for _, look in _polls(cluster, count):
                    screen.update(_screen(cluster, look), refresh=True)
        else:
            for _, look in _polls(cluster, count):
                out.print(_screen(cluster, look))
    except KeyboardInterrupt:
        # Ctrl-C is the normal end.
        interrupts.finish()


def _serve(name: str | None, page: tuple[str, int]) -> None:
    """Serve the page at host and port `page`, for the newest run and later ones, until Ctrl-C.

    `name`, of a workload, experiment or output folder, limits them to runs of it. BadInput if no such run is active.
    """
    from loadframe.live.feed import Relay, commands

    active = commands(name)
    if not active:
        others = ", ".join(dict.fromkeys(command["name"] for _, command in commands()))
        start = "start one with `loadframe bench` or `loadframe run`, as the same user, with the same LOADFRAME_STATE"
        raise BadInput(
            f"no active run is named {name}" if name else "no run is active on this machine",
            remedy=f"active runs: {others}" if others else start,
        )
    with serving(page, Relay(lambda: [path for path, _ in commands(name)])) as served:
        out.print(f"{active[-1][1]['name']}: {served.url}; press Ctrl-C to stop", markup=False, highlight=False)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            interrupts.finish()


def _polls(cluster: Cluster, limit: int | None) -> "Iterator[tuple[float, Look]]":
    """Yield the time, s since the epoch, and the metrics of each poll, one each second.

    `limit` is the number of polls, unlimited if None. The first poll lacks rates and is left out.
    """
    from loadframe.experiment.runner.node_samplers import samplers
    from loadframe.observe.observer import Live

    live = Live(
        samplers(cluster),
        totals=[figure.metric for figure in cluster.store.watched if figure.total],
    )
    live.look(time.monotonic())
    due = time.monotonic()
    for _ in range(limit) if limit else counting():
        # A poll that takes longer than a second skips the missed seconds.
        due = max(due + 1.0, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0.0))
        yield time.time(), live.look(time.monotonic())


#: Sources of figures other than nodes.
_NO_NODES = ("host", "cluster")


def _document(at: float, look: "Look") -> dict[str, object]:
    """Return one poll for --json: `time` (s since 1970), metrics by node, metrics of the machine (`host`), and gaps.

    Node names lack the prefix `node:`. Metrics of the source `cluster` are left out.
    """
    nodes = {
        source.removeprefix("node:"): figures for source, figures in look.figures.items() if source not in _NO_NODES
    }
    return {"time": at, "nodes": nodes, "host": look.figures.get("host", {}), "gaps": look.gaps}


def _screen(cluster: Cluster, look: "Look") -> Group:
    """Return a table with a line for each node, and a line on the machine.

    Columns that do not fit follow in further tables. Ended nodes are marked as gone.
    """
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
    """Yield the columns, title first, then a cell for each node: metrics of processes, then of the store.

    A cell is `-` if the metric is missing.
    """
    nodes = [look.figures.get(f"node:{node.name}", {}) for node in cluster.nodes]
    for title, metric, write in _PROCESS:
        yield [title, *(write(figures[metric]) if metric in figures else "-" for figures in nodes)]
    for figure in cluster.store.watched:
        metric = f"{figure.metric}/s" if figure.total else figure.metric
        write = format_size if figure.size else format_count
        yield [figure.title, *(write(figures[metric]) if metric in figures else "-" for figures in nodes)]


def _table(columns: list[list[str]]) -> Table:
    """Return a table from columns, each a title followed by its cells."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for at, (title, *_) in enumerate(columns):
        table.add_column(title, justify="right" if at else "left", no_wrap=True)
    for row in zip(*(cells for _, *cells in columns), strict=True):
        table.add_row(*row)
    return table


def _machine(look: "Look") -> str:
    """Return a line with the machine's CPU use and loopback traffic, and the sources that could not be sampled."""
    host = look.figures.get("host", {})
    loopback = format_size(host.get("loopback.bytes", 0.0))
    return f"machine: {format_share(host.get('cpu.busy', 0.0))} busy, loopback {loopback}/s" + "".join(
        f"; {source}: {cause}" for source, cause in look.gaps.items()
    )
