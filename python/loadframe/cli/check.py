"""`loadframe check`: send each operation of a workload once and print request, answer and judgement.

With --offline: print the requests without a store.
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

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_count, format_duration
from loadframe.base.untrusted import without_compressed
from loadframe.cli import access
from loadframe.cli.app import app
from loadframe.cli.choices import (
    ClusterHosts,
    Parameters,
    Ranks,
    StoreKind,
    WorkloadName,
    assignments,
    exclude,
    start_ranks,
)
from loadframe.cli.output import Json, out, print_json
from loadframe.cli.topics import Topic, option

if TYPE_CHECKING:
    from loadframe.workload import ResolvedWorkload

_EXAMPLES = """\b
Examples:
  loadframe check nyc_taxis
  loadframe check ./my-workload.yaml --hosts 127.0.0.1:9200
  loadframe check ./my-workload.yaml --set size=50 --json | jq '.[] | select(.error)'
  loadframe check ./my-workload.yaml --offline
"""

_REMEDY = "see the answers above; a measurement would count these errors"
_REMEDY_FOR_JOURNEYS = (
    "see the answers above. `check` sends each operation once, in the order of the file, without the conditions and"
    " loops of its journey. An operation that depends on a later answer, or on many requests, can fail here and"
    " succeed in a run. Run a whole journey with `loadframe bench` and one user"
)
#: Enough documents for every operation to match some, few enough to load in seconds.
_DOCUMENTS = "1000"


@app.command(epilog=_EXAMPLES)
@access.with_options
def check(
    context: typer.Context,
    workload: WorkloadName,
    store: StoreKind = "opensearch",
    hosts: ClusterHosts = None,
    offline: Annotated[
        bool, option(Topic.WORKLOAD, "--offline", help="Show the requests without a store. Send nothing.")
    ] = False,
    ranks: Ranks = None,
    set_: Parameters = [],
    as_json: Json = False,
) -> None:
    """Send each operation of a workload once and show request, answer and judgement.

    Loadframe starts a node and loads a few documents first. With --hosts it uses the data of an existing cluster,
    creates nothing, and skips phases that prepare data. With --offline it checks the workload without a store and
    prints the requests of all operations. With several ranks, the first sends the operations, once all ranks have
    reached the nodes.
    """
    from loadframe.workload import load_workload

    exclude({"--offline": offline, "--hosts": hosts}, ["--offline"], ["--hosts"], "--offline sends nothing")
    exclude({"--offline": offline, "--ranks": ranks}, ["--offline"], ["--ranks"], "--offline sends nothing")
    start_ranks(ranks)

    overrides = assignments(set_)
    loaded = load_workload(workload, overrides)
    if not hosts and "documents" in loaded.parameters and "documents" not in overrides:
        loaded = load_workload(workload, overrides | {"documents": _DOCUMENTS})
    addresses, reached = access.existing(context.params)

    from loadframe.cli.console import Console
    from loadframe.cluster import Cluster, ClusterSpec
    from loadframe.experiment.runner.session import Session
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
            _require_reachable(live.addresses)
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
    _raise_for_failures(shown, journeys)


def _raise_for_failures(shown: Sequence[Mapping[str, Any]], journeys: set[str]) -> None:
    """Raise LoadframeError if an operation failed. `journeys` names the phases that run journeys."""
    failed = [answer for answer in shown if answer["error"]]
    if failed:
        names = ", ".join(str(answer["operation"]) for answer in failed)
        remedy = _REMEDY_FOR_JOURNEYS if journeys & {answer["phase"] for answer in failed} else _REMEDY
        raise LoadframeError(f"{len(failed)} of {len(shown)} operations failed: {names}", remedy=remedy)


def _require_reachable(hosts: Sequence[str]) -> None:
    """Raise BadInput if a rank cannot reach a node."""
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
                remedy="bind nodes to addresses that every rank's machine can reach, and check firewalls",
            )


def _offline(workload: "ResolvedWorkload", driver: str, seed: int, scratch: Path, as_json: bool) -> None:
    """Show the request of each operation of each phase. BadInput if the engine would refuse it.

    A corpus that is not on this machine is replaced by one document in the scratch folder.
    """
    from loadframe.load import render_operations

    missing = [name for name, corpus in workload.corpora.items() if _is_missing(corpus)]
    shown: list[dict[str, Any]] = []
    for phase in workload.phases:
        # A placeholder: nothing is sent.
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
        out.print(escape(rendered["request"] or "this protocol creates the request when it sends it"), style="dim")
    for name in missing:
        words = "not on this machine; --offline downloads nothing"
        out.print(f"[yellow]corpus {escape(name)}[/yellow] · {words}")
    out.print(f"[green]good[/green] · {len(shown)} operations, valid for {workload.family}; nothing was sent")


def _is_missing(corpus: Mapping[str, Any]) -> bool:
    """Tell whether a corpus, or the one that is encrypted for it, has no file here."""
    read = corpus.get("encrypted", {}).get("of", corpus)
    return bool(read.get("files", read.get("columns")) == [])


def _placeholder(scratch: Path, plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a corpus of one document that has the fields in use and says that the corpus is missing."""
    text = f"of the corpus {name}, which is not on this machine"
    # The id of a row of vectors is its number.
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
    """Return the plan without operations that were sent: inserting a document twice fails.

    Journeys stay whole, because a step may depend on an earlier answer.
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


#: Operations that return documents.
_READS = (
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
    """Whether a successful answer is empty. An aggregation returns no hits, but counts the documents it saw."""
    if not form.keys() & set(_READS):
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
    setup = "" if answer["setup_time"] is None else f" · connection setup {format_duration(answer['setup_time'])}"
    out.print(f"[{style}]{escape(verdict)}[/{style}] · {documents}{setup}")
    if answer["empty"]:
        words = "0 hits: is the data loaded, and does the operation match it?"
        out.print(f"[yellow]{words}[/yellow]")
