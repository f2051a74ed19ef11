"""`loadframe cluster grow|shrink|kill|pause|resume|link`: changes of a cluster that is up, while load may run on it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from loadframe.cli.choices import exclude
from loadframe.cli.cluster import Name, cluster, show, step
from loadframe.cli.output import Json, err, print_json
from loadframe.cluster import Cluster
from loadframe.cluster.events import ClusterEvent
from loadframe.cluster.patience import WITHIN, Tell, describe
from loadframe.errors import BadInput
from loadframe.ranges import MOST_NODES
from loadframe.store import Balancing
from loadframe.units import parse_bandwidth, parse_duration, parse_share

NodeName = Annotated[str, typer.Argument(help="The node's name, such as node-1.", show_default=False)]
Within = Annotated[
    str, typer.Option(help="How long each node may take to join or leave, and the data to be balanced, such as 10m.")
]
_WITHIN = f"{WITHIN / 3600:g}h"

#: Seconds between two lines of progress where there is no terminal to draw on.
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
  loadframe cluster up trial                     # brings it back
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
  loadframe cluster link apart node-1 --restore  # as it was made: neither cut nor shaped
"""


@cluster.command(epilog=_GROW_EXAMPLES)
def grow(
    name: Name,
    nodes: Annotated[int, typer.Option(min=1, max=MOST_NODES, help="How many nodes to add.")] = 1,
    within: Within = _WITHIN,
    as_json: Json = False,
) -> None:
    """Add nodes like those that it has, and wait until each holds its share of the data."""
    running = Cluster.load(name)
    with _telling(running) as (events, tell):
        running.grow(nodes, step, within=parse_duration(within), tell=tell)
    _result(name, events, as_json)


@cluster.command(epilog=_SHRINK_EXAMPLES)
def shrink(
    name: Name,
    node: Annotated[str | None, typer.Argument(help="The node to take out; those that came last if not given.")] = None,
    nodes: Annotated[
        int, typer.Option(min=1, max=MOST_NODES, help="How many nodes to take out, if none is named.")
    ] = 1,
    within: Within = _WITHIN,
    as_json: Json = False,
) -> None:
    """Take nodes out once their data is with the others, and delete their folders.

    The store is asked first: where the others cannot hold as many copies as the data asks for, nothing is changed.
    """
    running = Cluster.load(name)
    with _telling(running) as (events, tell):
        running.shrink(node or nodes, step, within=parse_duration(within), tell=tell)
    _result(name, events, as_json)


@cluster.command(epilog=_KILL_EXAMPLES)
def kill(name: Name, node: NodeName, as_json: Json = False) -> None:
    """End a node's process at once, as a loss of power would. Its data stays; `up` brings it back."""
    _done(name, lambda running: running.kill(node), as_json)


@cluster.command(epilog=_PAUSE_EXAMPLES)
def pause(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Have a node stand still: it keeps its connections and answers nothing, until `resume`."""
    _done(name, lambda running: running.pause(node, step), as_json)


@cluster.command(epilog=_RESUME_EXAMPLES)
def resume(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Let a paused node go on."""
    _done(name, lambda running: running.resume(node, step), as_json)


@cluster.command(epilog=_LINK_EXAMPLES)
def link(
    name: Name,
    node: NodeName,
    delay: Annotated[str | None, typer.Option(help="What each packet takes longer one way, such as 20ms.")] = None,
    loss: Annotated[str | None, typer.Option(help="Share of packets that get lost in each direction, as 1%.")] = None,
    rate: Annotated[str | None, typer.Option(help="Bandwidth in each direction, such as 100mbit.")] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Let nothing through any more.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Undo the cut, and the shape that is not given.")] = False,
    as_json: Json = False,
) -> None:
    """Shape or cut the link of a node that has a network of its own (--host netns).

    Delay, loss and rate take the place of what was asked for before. A cut is silent: connections stay open.
    """
    shaped = delay is not None or loss is not None or rate is not None
    exclude({"--cut": cut, "--restore": restore}, ["--cut"], ["--restore"], "one undoes the other")
    if not (shaped or cut or restore):
        raise BadInput("nothing is asked of the link", remedy="give --delay, --loss, --rate, --cut or --restore")
    slow, lossy = parse_duration(delay or "0"), parse_share(loss or "0")
    width = None if rate is None else parse_bandwidth(rate)

    def change(running: Cluster) -> None:
        if shaped or restore:
            running.shape(node, delay=slow, loss=lossy, rate=width)
        if cut:
            running.cut(node)
        if restore:
            running.restore(node)

    _done(name, change, as_json)


def _done(name: str, change: Callable[[Cluster], None], as_json: bool) -> None:
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


def _result(name: str, events: list[ClusterEvent], as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "events": [_plain(event) for event in events]})
    else:
        show(name, as_json)


def _plain(event: ClusterEvent) -> dict[str, Any]:
    known = {"kind": event.kind, "nodes": list(event.nodes), **event.detail}
    return {**known, "wall": event.wall, "monotonic": event.monotonic}


@contextlib.contextmanager
def _telling(running: Cluster) -> Iterator[tuple[list[ClusterEvent], Tell]]:
    """Collect the events, and tell how far the data has come: on one line of a terminal, now and then elsewhere."""
    events: list[ClusterEvent] = []
    began = last = time.monotonic()
    # Here and not above: most commands of this module end at once.
    from rich.status import Status

    line = Status("", console=err)

    def hear(event: ClusterEvent) -> None:
        events.append(event)
        step(f"{time.monotonic() - began:5.1f} s  {event.kind} {', '.join(event.nodes)}")

    def tell(what: str, balancing: Balancing) -> None:
        nonlocal last
        text = f"{what}: {describe(balancing)}"
        if err.is_terminal:
            line.update(text)
        elif time.monotonic() - last > _LINE_EVERY:
            last = time.monotonic()
            step(text)

    with running.telling(hear), line if err.is_terminal else contextlib.nullcontext():
        yield events, tell
    # What other commands did meanwhile was told last.
    events.sort(key=lambda event: event.monotonic)
