"""`loadframe cluster grow|shrink|kill|pause|resume|link`: change a running cluster, also under load."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_NODES, parse_bandwidth, parse_duration, parse_share
from loadframe.cli import completion
from loadframe.cli.cluster import Name, cluster, show, step
from loadframe.cli.output import Json, err, print_json
from loadframe.cluster import Cluster
from loadframe.cluster.change import WITHIN, Tell, describe
from loadframe.cluster.events import ClusterEvent
from loadframe.library.options import exclude
from loadframe.store import Balancing

NodeName = Annotated[
    str, typer.Argument(help="Name of the node, such as node-1.", show_default=False, autocompletion=completion.nodes)
]
Within = Annotated[
    str, typer.Option(help="Time limit for each node to join or leave, and for balancing the data, such as 10m.")
]
_WITHIN = f"{WITHIN / 3600:g}h"

#: Seconds between two lines of progress without a terminal.
_LINE_EVERY = 10.0

_GROW_EXAMPLES = """\b
Examples:
  loadframe cluster grow trial
  loadframe cluster grow trial --nodes 2 --within 10m
  loadframe cluster grow trial --json | jq '.events[] | [.kind, .wall]'
"""
_SHRINK_EXAMPLES = """\b
Examples:
  loadframe cluster shrink trial
  loadframe cluster shrink trial node-0
  loadframe cluster shrink trial --nodes 2
"""
_KILL_EXAMPLES = """\b
Examples:
  loadframe cluster kill trial node-1
  loadframe cluster up trial                     # starts it again
"""
_PAUSE_EXAMPLES = """\b
Examples:
  loadframe cluster pause trial node-1
"""
_RESUME_EXAMPLES = """\b
Examples:
  loadframe cluster resume trial node-1
"""
_LINK_EXAMPLES = """\b
Examples:
  loadframe cluster link apart node-1 --delay 20ms --loss 1% --rate 100mbit
  loadframe cluster link apart node-1 --cut
  loadframe cluster link apart node-1 --restore  # undoes the cut and all shaping
"""


@cluster.command(epilog=_GROW_EXAMPLES)
def grow(
    name: Name,
    nodes: Annotated[int, typer.Option(min=1, max=MOST_NODES, help="Number of nodes to add.")] = 1,
    within: Within = _WITHIN,
    as_json: Json = False,
) -> None:
    """Add nodes with the same settings, and wait until each holds its share of the data."""
    running = Cluster.load(name)
    with _collecting(running) as (events, tell):
        running.grow(nodes, step, within=parse_duration(within), tell=tell)
    _show_result(name, events, as_json)


@cluster.command(epilog=_SHRINK_EXAMPLES)
def shrink(
    name: Name,
    node: Annotated[
        str | None, typer.Argument(help="Node to remove. Default: the newest.", autocompletion=completion.nodes)
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, max=MOST_NODES, help="Number of nodes to remove, if you name none.")] = 1,
    within: Within = _WITHIN,
    as_json: Json = False,
) -> None:
    """Move the data of nodes to the other nodes, then remove them and delete their folders.

    If the remaining nodes cannot hold all replicas, nothing changes.
    """
    running = Cluster.load(name)
    with _collecting(running) as (events, tell):
        running.shrink(node or nodes, step, within=parse_duration(within), tell=tell)
    _show_result(name, events, as_json)


@cluster.command(epilog=_KILL_EXAMPLES)
def kill(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Kill a node's process with SIGKILL. The node keeps its files; `cluster up` starts it again.

    Writes in the operating system's cache survive the kill. A power failure can lose them.
    """
    _apply(name, lambda running: running.kill(node), as_json)


@cluster.command(epilog=_PAUSE_EXAMPLES)
def pause(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Pause a node: it keeps its connections and does not answer until `cluster resume`."""
    _apply(name, lambda running: running.pause(node, step), as_json)


@cluster.command(epilog=_RESUME_EXAMPLES)
def resume(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Resume a paused node."""
    _apply(name, lambda running: running.resume(node, step), as_json)


@cluster.command(epilog=_LINK_EXAMPLES)
def link(
    name: Name,
    node: NodeName,
    delay: Annotated[str | None, typer.Option(help="Delay added to each packet, one way, such as 20ms.")] = None,
    loss: Annotated[str | None, typer.Option(help="Share of packets to drop in each direction, such as 1%.")] = None,
    rate: Annotated[str | None, typer.Option(help="Bandwidth in each direction, such as 100mbit.")] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Drop all packets.")] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Undo the cut, and shaping that you do not give again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Shape or cut the network link of a node that runs with --host netns.

    --delay, --loss and --rate replace earlier values. A cut closes no connections.
    """
    shaped = delay is not None or loss is not None or rate is not None
    exclude({"--cut": cut, "--restore": restore}, ["--cut"], ["--restore"], "one undoes the other")
    if not (shaped or cut or restore):
        raise BadInput("no change of the link is given", remedy="give --delay, --loss, --rate, --cut or --restore")
    slow, lossy = parse_duration(delay or "0"), parse_share(loss or "0")
    width = None if rate is None else parse_bandwidth(rate)

    def change(running: Cluster) -> None:
        """Shape, cut or restore the node's link, as the options say."""
        if shaped or restore:
            running.shape(node, delay=slow, loss=lossy, rate=width)
        if cut:
            running.cut(node)
        if restore:
            running.restore(node)

    _apply(name, change, as_json)


def _apply(name: str, change: Callable[[Cluster], None], as_json: bool) -> None:
    """Load a running cluster by name, call `change` with it, then print the events in order of time.

    They are JSON on standard output, or one line each on standard error. BadInput if the cluster does not run.
    """
    running = Cluster.load(name)
    events: list[ClusterEvent] = []
    with running.telling(events.append):
        change(running)
    events.sort(key=lambda event: event.monotonic)
    if as_json:
        print_json({"name": name, "events": [_plain(event) for event in events]})
    else:
        for event in events:
            step(f"{event.kind}: {', '.join(event.nodes)}")


def _show_result(name: str, events: list[ClusterEvent], as_json: bool) -> None:
    """Print the events of a change as JSON, or the cluster's new state as text, to standard output."""
    if as_json:
        print_json({"name": name, "events": [_plain(event) for event in events]})
    else:
        show(name, as_json)


def _plain(event: ClusterEvent) -> dict[str, Any]:
    """Return an event for --json: kind, nodes and details, `wall` (s since 1970), and `monotonic` time in s."""
    known = {"kind": event.kind, "nodes": list(event.nodes), **event.detail}
    return {**known, "wall": event.wall, "monotonic": event.monotonic}


@contextlib.contextmanager
def _collecting(running: Cluster) -> Iterator[tuple[list[ClusterEvent], Tell]]:
    """Collect the events of a cluster; yield their list, and a callback that shows the progress of balancing.

    Progress is one line of a terminal, or a line every 10 s without one. On exit, the list is sorted by time.
    """
    events: list[ClusterEvent] = []
    began = last = time.monotonic()
    # Imported here because most commands of this module do not need it.
    from rich.status import Status

    line = Status("", console=err)

    def on_event(event: ClusterEvent) -> None:
        events.append(event)
        step(f"{time.monotonic() - began:5.1f} s  {event.kind} {', '.join(event.nodes)}")

    def on_progress(step_name: str, balancing: Balancing) -> None:
        """Show the progress of balancing: on a terminal at each call, else at most every 10 s."""
        nonlocal last
        text = f"{step_name}: {describe(balancing)}"
        if err.is_terminal:
            line.update(text)
        elif time.monotonic() - last > _LINE_EVERY:
            last = time.monotonic()
            step(text)

    with running.telling(on_event), line if err.is_terminal else contextlib.nullcontext():
        yield events, on_progress
    # Events of other commands arrive last.
    events.sort(key=lambda event: event.monotonic)
