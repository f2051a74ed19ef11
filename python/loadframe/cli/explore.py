"""`loadframe explore`: a page with charts of a recorded run, or of the documents of a store."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.base import interrupts
from loadframe.base.errors import BadInput
from loadframe.cli import access, completion
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import ClusterHosts, ClusterName
from loadframe.cli.output import Json, out, print_json
from loadframe.cli.web import DEFAULT_ADDRESS

if TYPE_CHECKING:
    from loadframe.live.exploration import Source

_EXAMPLES = """\b
Examples:
  loadframe explore results/first
  loadframe explore --hosts 127.0.0.1:9200
  loadframe explore --store elasticsearch --hosts https://search.example:9200 --user ann --ca ca.pem
  loadframe explore --cluster trial --web-address 8351
"""


@app.command(epilog=_EXAMPLES)
@access.with_options()
def explore(
    context: typer.Context,
    run: Annotated[Path | None, typer.Argument(help="Run folder. Or give --hosts or --cluster.")] = None,
    hosts: ClusterHosts = None,
    cluster: ClusterName = None,
    store: Annotated[
        str,
        option(
            Topic.EXISTING,
            autocompletion=completion.stores,
            help="Kind of the store at --hosts: opensearch or elasticsearch.",
        ),
    ] = access.DEFAULT_STORE,
    web_address: Annotated[
        str | None,
        option(
            Topic.OUTPUT,
            help="[HOST:]PORT of the page, on a loopback address. Port 0: any free port. Default: 127.0.0.1:8350.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve a page with charts of a recorded run, or of documents in OpenSearch or Elasticsearch.

    Select a collection, a time field, another field, a filter and a time range. The page shows counts over time,
    frequent values, statistics and the newest documents. It changes nothing, and only this machine can open it. Press
    Ctrl-C to stop.
    """
    from loadframe.live.exploration import Exploration
    from loadframe.live.server import Server, parse_address

    page = parse_address(web_address or DEFAULT_ADDRESS, "the page")
    source = _source(context, run)
    with Server(*page, Exploration(source)) as server:
        if as_json:
            print_json({"source": source.title, "url": server.url})
            sys.stdout.flush()
        else:
            out.print(f"{source.title}: {server.url}; press Ctrl-C to stop", markup=False, highlight=False)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            # Ctrl-C is the normal end.
            interrupts.finish()


def _source(context: typer.Context, run: Path | None) -> "Source":
    """Return the run or the store to explore.

    BadInput unless exactly one is given, and for stores that cannot be explored.
    """
    from loadframe.store import find

    given: Mapping[str, Any] = context.params
    named = [name for name in ("hosts", "cluster") if given[name] is not None]
    if (run is not None) + len(named) != 1:
        raise BadInput("expected one of: a run folder, --hosts, --cluster", remedy="give exactly one of them")
    if named == ["hosts"]:
        find(given["store"]).require_explored()
    attach = access.existing(given, loads=False)
    if run is not None:
        from loadframe.live.recorded_run import RecordedRun
        from loadframe.record import Run

        return RecordedRun(Run(run))

    from loadframe.live.exploration import StoreSource

    if attach:
        live = attach()
    else:
        live = access.named_cluster(given["cluster"], given["store"], context)
        live.store.require_explored()
    return StoreSource(live.store, live.addresses)
