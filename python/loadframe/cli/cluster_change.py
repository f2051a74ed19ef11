"""`loadframe cluster grow|shrink|kill|pause|resume`: changes of a cluster that is up, while load may run on it."""

import contextlib
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.status import Status

from loadframe.cli.app import Json, err, print_json
from loadframe.cli.cluster import Name, cluster, show, step
from loadframe.cluster import Cluster
from loadframe.cluster.events import ClusterEvent
from loadframe.cluster.patience import WITHIN, Tell, describe
from loadframe.store import Balancing
from loadframe.units import format_duration, parse_duration

NodeName = Annotated[str, typer.Argument(help="The node's name, such as node-1.", show_default=False)]
Within = Annotated[
    str, typer.Option(help="How long each node may take to join or leave, and the data to be balanced, such as 10m.")
]
_WITHIN = format_duration(WITHIN)

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


@cluster.command(epilog=_GROW_EXAMPLES)
def grow(
    name: Name,
    nodes: Annotated[int, typer.Option(help="How many nodes to add.")] = 1,
    within: Within = _WITHIN,
    as_json: Json = False,
) -> None:
    """Add nodes like those that it has, and wait until each holds its share of the data."""
    found = Cluster.load(name)
    with _telling(found) as (events, tell):
        found.grow(nodes, step, within=parse_duration(within), tell=tell)
    _result(name, events, as_json)


@cluster.command(epilog=_SHRINK_EXAMPLES)
def shrink(
    name: Name,
    node: Annotated[str | None, typer.Argument(help="The node to take out; those that came last if not given.")] = None,
    nodes: Annotated[int, typer.Option(help="How many nodes to take out, if none is named.")] = 1,
    within: Within = _WITHIN,
    as_json: Json = False,
) -> None:
    """Take nodes out once their data is with the others, and delete their folders.

    The store is asked first: where the others cannot hold as many copies as the data asks for, nothing is changed.
    """
    found = Cluster.load(name)
    with _telling(found) as (events, tell):
        found.shrink(node or nodes, step, within=parse_duration(within), tell=tell)
    _result(name, events, as_json)


@cluster.command(epilog=_KILL_EXAMPLES)
def kill(name: Name, node: NodeName, as_json: Json = False) -> None:
    """End a node's process at once, as a loss of power would. Its data stays; `up` brings it back."""
    _do(name, "kill", node, as_json)


@cluster.command(epilog=_PAUSE_EXAMPLES)
def pause(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Have a node stand still: it keeps its connections and answers nothing, until `resume`."""
    _do(name, "pause", node, as_json)


@cluster.command(epilog=_RESUME_EXAMPLES)
def resume(name: Name, node: NodeName, as_json: Json = False) -> None:
    """Let a paused node go on."""
    _do(name, "resume", node, as_json)


def _do(name: str, what: str, node: str, as_json: bool) -> None:
    found = Cluster.load(name)
    events: list[ClusterEvent] = []
    with found.telling(events.append):
        getattr(found, what)(node)
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
    return {"kind": event.kind, "nodes": list(event.nodes), "wall": event.wall, "monotonic": event.monotonic}


@contextlib.contextmanager
def _telling(found: Cluster) -> Iterator[tuple[list[ClusterEvent], Tell]]:
    """Collect the events, and tell how far the data has come: on one line of a terminal, now and then elsewhere."""
    events: list[ClusterEvent] = []
    began = last = time.monotonic()
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

    with found.telling(hear), line if err.is_terminal else contextlib.nullcontext():
        yield events, tell
