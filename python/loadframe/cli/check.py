"""`loadframe check`: each operation of a workload once on a live store, request and answer printed, judged.

Without a store, each operation's request as it would be sent.
"""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from loadframe.cli import access
from loadframe.cli.app import app
from loadframe.cli.choices import Parameters, Ranks, assignments, exclude, start_ranks
from loadframe.cli.output import Json, out, print_json
from loadframe.errors import BadInput, LoadframeError
from loadframe.printable import without_compressed
from loadframe.units import format_count, format_duration

if TYPE_CHECKING:
    from loadframe.workload import ResolvedWorkload

_EXAMPLES = """\b
Examples:
  loadframe check nyc_taxis
  loadframe check ./my-workload.yaml --hosts 127.0.0.1:9200
  loadframe check ./my-workload.yaml --set size=50 --json | jq '.[] | select(.error)'
  loadframe check ./my-workload.yaml --offline
"""

_COUNTED = "see the answers above; a measurement of them would count errors"
_ONCE = (
    "see the answers above. Each operation was sent once, in the order of the file, without the conditions and loops of"
    " its journey: one that needs what a later answer gives, or asserts what many requests leave behind, fails here and"
    " need not fail in a run. `loadframe bench` with one user makes a whole journey"
)
#: Enough for every operation to find something, few enough to be loaded at once.
_DOCUMENTS = "1000"


@app.command(epilog=_EXAMPLES)
def check(
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A workload of the library, or a workload file.")],
    store: Annotated[str, typer.Option(help="The store to start.")] = "opensearch",
    hosts: Annotated[
        str | None, typer.Option(help="Use the cluster and its data at these host:port or https://host:port.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Start and ask no store: show the request of each operation.")
    ] = False,
    ranks: Ranks = None,
    set_: Parameters = [],
    user: access.User = None,
    password_file: access.PasswordFile = None,
    api_key_file: access.ApiKeyFile = None,
    token_file: access.TokenFile = None,
    ca: access.Ca = None,
    cert: access.Cert = None,
    key: access.Key = None,
    insecure: access.Insecure = False,
    compress: access.Compress = False,
    as_json: Json = False,
) -> None:
    """Send each operation of a workload once and show request, answer and judgement.

    On a node that is started for it the collections are filled with a few documents first; on an existing cluster
    nothing is created, and only operations of phases that do not prepare are sent. Offline, the workload is checked as
    far as it can be without a store, and the requests of all its operations are shown. Of several ranks the first sends
    the operations; whether the others reach the nodes is looked at first.
    """
    from loadframe.workload import load_workload

    exclude({"--offline": offline, "--hosts": hosts}, ["--offline"], ["--hosts"], "offline nobody is asked")
    exclude({"--offline": offline, "--ranks": ranks}, ["--offline"], ["--ranks"], "offline nobody is asked")
    start_ranks(ranks)

    overrides = assignments(set_)
    loaded = load_workload(workload, overrides)
    if not hosts and "documents" in loaded.parameters and "documents" not in overrides:
        loaded = load_workload(workload, overrides | {"documents": _DOCUMENTS})
    addresses, reached = access.existing(context.params)

    from loadframe.cli.console import Console
    from loadframe.cluster import Cluster, ClusterSpec
    from loadframe.experiment.session import Session
    from loadframe.load import Generator, check_operations
    from loadframe.store import find

    seed = secrets.randbits(32)
    if offline:
        with Console() as console:
            kind = find(store)
            resolved = loaded.for_family(kind.family, 1, console.step, offline=True)
            with TemporaryDirectory(prefix="loadframe-check-") as scratch:
                _offline(resolved, kind.driver, seed, Path(scratch), as_json)
        return
    shown: list[dict[str, Any]] = []
    journeys: set[str] = set()
    with Console() as console:
        loaded.for_family(find(store).family, 1, console.step)
        started: AbstractContextManager[Cluster]
        started = (
            Cluster.attach(addresses, store, reached) if hosts else Cluster.start(ClusterSpec(store), console.step)
        )
        with started as live:
            _require_ways(live.addresses)
            resolved = loaded.for_family(live.store.family, nodes=live.size)
            if not hosts:
                session = Session(live, resolved, seed=seed, generator=Generator(), listener=console)
                session.create_collections()
                with TemporaryDirectory(prefix="loadframe-check-") as scratch:
                    session.prepare([phase for phase in resolved.phases if phase.prepares], Path(scratch))
            for phase in resolved.phases:
                plan = phase.plan(seed=seed, hosts=live.addresses, driver=live.store.driver, target=live.target())
                left = _without(plan, {answer["operation"] for answer in shown})
                if phase.prepares or not left["streams"]:
                    continue
                if any("mix" not in stream for stream in plan["streams"]):
                    journeys.add(phase.name)
                shown += [
                    {"phase": phase.name, **answer, "empty": _is_empty(answer, phase.operations[answer["operation"]])}
                    for answer in check_operations(left)
                ]
    for answer in shown:
        answer |= {key: without_compressed(answer[key] or "") for key in ("answer", "message")}
    if as_json:
        print_json(shown)
    else:
        for answer in shown:
            _print(answer)
    _judge(shown, journeys)


def _judge(shown: Sequence[Mapping[str, Any]], journeys: set[str]) -> None:
    """LoadframeError if an operation failed; `journeys` are the phases in which users or clients walk one."""
    failed = [answer for answer in shown if answer["error"]]
    if failed:
        names = ", ".join(str(answer["operation"]) for answer in failed)
        remedy = _ONCE if journeys & {answer["phase"] for answer in failed} else _COUNTED
        raise LoadframeError(f"{len(failed)} of {len(shown)} operations failed: {names}", remedy=remedy)


def _require_ways(hosts: Sequence[str]) -> None:
    """BadInput if one of several ranks does not reach a node."""
    from loadframe.load import present

    hub = present()
    if hub is None:
        return
    machines = {rank.rank: rank.machine for rank in hub.ranks()}
    for rank, ways in hub.ask("distances", list(hosts)).items():
        missed = [host for host, way in zip(hosts, ways, strict=True) if way is None]
        if missed:
            raise BadInput(
                f"rank {rank} on {machines[rank]} cannot reach the node {missed[0]}",
                remedy="bind nodes to addresses that all machines of the ranks reach, and look at firewalls",
            )


def _offline(workload: "ResolvedWorkload", driver: str, seed: int, scratch: Path, as_json: bool) -> None:
    """Show the request of each operation of each phase; BadInput at what the engine would refuse.

    One document in the scratch folder stands for a corpus that has not been fetched.
    """
    from loadframe.load import render_operations

    missing = [name for name, corpus in workload.corpora.items() if _is_missing(corpus)]
    shown: list[dict[str, Any]] = []
    for phase in workload.phases:
        # Nothing is sent to this address. A real cluster's address takes its place.
        plan = phase.plan(seed=seed, hosts=["127.0.0.1:9"], driver=driver)
        for name in set(plan["corpora"]) & set(missing):
            plan["corpora"][name] = _placeholder(scratch, plan, name)
        shown += [
            {"phase": phase.name, "operation": operation, "request": request}
            for operation, request in render_operations(plan)
        ]
    if as_json:
        print_json(shown)
        return
    for rendered in shown:
        out.rule(f"[bold]{escape(rendered['phase'])}[/bold] · {escape(rendered['operation'])}", align="left")
        out.print(escape(rendered["request"] or "this protocol makes its request only when it sends it"), style="dim")
    for name in missing:
        words = "its documents are not on this machine, and --offline fetches nothing"
        out.print(f"[yellow]corpus {escape(name)}[/yellow] · {words}")
    out.print(f"[green]good[/green] · {len(shown)} operations, none of them sent; {workload.family} can carry them out")


def _is_missing(corpus: Mapping[str, Any]) -> bool:
    """Tell whether a corpus, or the one that is encrypted for it, has no file here."""
    read = corpus.get("encrypted", {}).get("of", corpus)
    return bool(read.get("files", read.get("columns")) == [])


def _placeholder(scratch: Path, plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a corpus of one document, which says that the real ones were not fetched, with the fields in use."""
    text = f"of the corpus {name}, which is not on this machine"
    # Documents that are rows of vectors have their number as their id.
    document: dict[str, Any] = {"a document": text, **({"id": 0} if "columns" in plan["corpora"][name] else {})}
    variables: Mapping[str, Any] = plan["variables"]
    rows = {key for key, form in variables.items() if form.get("document", {}).get("corpus") == name}
    fields = [form["field"]["field"] for form in variables.values() if form.get("field", {}).get("corpus") == name]
    fields += [form["part"]["field"] for form in variables.values() if form.get("part", {}).get("of") in rows]
    for field in fields:
        inner = document
        *outer, last = field.split(".")
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = f"{field} {text}"
    actions = plan["corpora"][name].get("actions", False)
    lines = [{"index": {}}, document] if actions else [document]
    file = scratch / f"{len(list(scratch.iterdir()))}.json"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return {"files": [str(file)], "actions": actions}


def _without(plan: dict[str, Any], sent: set[str]) -> dict[str, Any]:
    """Return a plan without operations that were sent already: to insert a document twice would fail the second time.

    Journeys stay whole, since a step may need what an earlier one's answer gave.
    """
    left = [
        {**stream, "mix": [[name, weight] for name, weight in stream["mix"] if name not in sent]}
        if "mix" in stream
        else stream
        for stream in plan["streams"]
    ]
    return {
        **plan,
        "streams": [stream for stream in left if stream.get("mix") or stream.get("journey") or stream.get("steps")],
    }


#: What asks for documents; of the rest nobody expects any, or knows what one would be.
_ASKING = (
    "search",
    "get",
    "read",
    "scan",
    "multi_search",
    "scroll",
    "search_after",
    "composite",
    "count",
    "find",
    "cql",
)


def _is_empty(answer: dict[str, Any], form: Mapping[str, Any]) -> bool:
    """Whether a good answer has nothing. A search that only aggregates returns no hits, and says how many it saw."""
    if not form.keys() & set(_ASKING):
        return False
    seen = re.search(r'"total":\s*\{\s*"value":\s*([0-9]+)', answer["answer"])
    if "count" in form:
        seen = re.search(r'"count":\s*([0-9]+)', answer["answer"])
    return not answer["error"] and not answer["documents"] and not (seen and int(seen[1]))


def _print(answer: dict[str, Any]) -> None:
    failed = answer["error"]
    style = "red" if failed else "green"
    verdict = f"{failed}: {answer['message']}" if failed else "good"
    out.rule(f"[bold]{escape(answer['phase'])}[/bold] · {escape(answer['operation'])}", align="left")
    out.print(escape(answer["request"]), style="dim")
    out.print(escape(answer["answer"]))
    documents = f"{format_count(answer['documents'])} documents in {format_duration(answer['service_time'])}"
    out.print(f"[{style}]{escape(verdict)}[/{style}] · {documents}")
    if answer["empty"]:
        words = "0 hits: is the data loaded, and does the operation ask for what it holds?"
        out.print(f"[yellow]{words}[/yellow]")
