"""Check of a workload: each operation is sent once, or its request is rendered without a store."""

import bz2
import gzip
import json
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from loadframe.base.errors import BadInput
from loadframe.base.untrusted import without_compressed
from loadframe.load import Generator, check_operations, present, preview_lines, render_operations
from loadframe.store import find

if TYPE_CHECKING:
    from loadframe.cluster import Cluster
    from loadframe.experiment.runner.listener import Listener
    from loadframe.workload import Workload

#: Enough documents for every operation to match some, few enough to load in seconds.
_DOCUMENTS = "1000"
#: Number of lines to show with their transformation.
_LINES = 5

#: Bytes of a line that do not count in its length, and one more: a byte order mark and a line end.
_MARGIN = 6


def small_workload(workload: "Workload", given: Mapping[str, Any]) -> "Workload":
    """Return the workload with 1,000 documents if `documents` is one of its parameters and `given` does not set it."""
    if "documents" in workload.parameters and "documents" not in given:
        return workload.with_parameters({"documents": _DOCUMENTS})
    return workload


def answers(
    workload: "Workload",
    store: str,
    attach: "Callable[[], AbstractContextManager[Cluster]] | None",
    listener: "Listener",
) -> tuple[list[dict[str, Any]], set[str]]:
    """Send each operation once; return the answers in their order, and the names of phases that run journeys.

    An operation outside journeys is sent only in its first phase. Starts a node and loads the data, unless `attach`
    returns an existing cluster, on which nothing is created. Answers hold `phase`, the fields of `check_operations`,
    and `empty`: whether a successful read returned nothing. LoadframeError if the cluster or the load of data fails;
    operations that fail are answers.
    """
    from loadframe.cluster import Cluster, ClusterSpec

    seed = secrets.randbits(32)
    shown: list[dict[str, Any]] = []
    journeys: set[str] = set()
    workload.for_family(find(store).family, 1, listener.step)
    started = attach() if attach else Cluster.start(ClusterSpec(store), listener.step)
    with started as live:
        _require_reachable(live.addresses)
        resolved = workload.for_family(live.store.family, nodes=live.size)
        if not attach:
            # A session analyses its records, with libraries that take a quarter of a second to import.
            from loadframe.experiment.runner.session import Session

            session = Session(live, resolved, seed=seed, generator=Generator(), listener=listener)
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
    return shown, journeys


@dataclass(frozen=True)
class Rendered:
    """Requests of operations that were not sent, corpora that are not on this machine, and results of lines."""

    requests: list[dict[str, Any]]
    missing: list[str]
    #: Lines of sources that transform them, each with its outcome.
    lines: list[dict[str, Any]]


def rendered_requests(workload: "Workload", store: str, listener: "Listener", lines: Path | None = None) -> Rendered:
    """Return the request of each operation of each phase without a store. BadInput if the engine would refuse it.

    A corpus that is not on this machine is replaced by one document. Sources that transform their lines show the first
    five lines of the file `lines`, by default of their own first file. BadInput for `lines` without such a source.
    """
    kind, seed = find(store), secrets.randbits(32)
    resolved = workload.for_family(kind.family, 1, listener.step, offline=True)
    missing = [name for name, corpus in resolved.corpora.items() if _is_missing(corpus)]
    requests: list[dict[str, Any]] = []
    previews: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="loadframe-check-") as scratch:
        for phase in resolved.phases:
            # A placeholder: nothing is sent.
            plan = phase.plan(seed=seed, hosts=["127.0.0.1:9"], driver=kind.driver)
            for name in set(plan["corpora"]) & set(missing):
                plan["corpora"][name] = _placeholder(Path(scratch), plan, name)
            requests += [
                {"phase": phase.name, "operation": operation, "request": request}
                for operation, request in render_operations(plan)
            ]
            for name in plan.get("sources", {}):
                previews += [{"phase": phase.name, **result} for result in _previews(plan, name, lines)]
    if lines is not None and not previews:
        raise BadInput("no source transforms lines", where="--lines", remedy="add transform, or remove --lines")
    return Rendered(requests, missing, previews)


def _previews(plan: Mapping[str, Any], name: str, lines: Path | None) -> list[dict[str, Any]]:
    """Return the first five lines of source `name` with their outcomes, from the file `lines` or its first file.

    Omits empty lines. Returns [] if the source does not transform lines, has no file, or its file is .zst. BadInput if
    the file is unreadable.
    """
    source = plan["sources"][name]
    events = source["events"]
    changes = "format" in events or any("transform" in one for one in (events, *events["kinds"].values()))
    file = lines or next((Path(file) for file in source.get("files", ())), None)
    if not changes or file is None or file.suffix.lower() == ".zst":
        return []
    ways: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    opened = ways.get(file.suffix.lower(), open)
    try:
        with opened(file, "rb") as content:
            first = list(islice(_lines(content, source["longest_line"]), _LINES))
    except (OSError, EOFError, zlib.error) as error:
        remedy = "give a readable file with lines of the source"
        raise BadInput(f"cannot read {file}: {getattr(error, 'strerror', None) or error}", remedy=remedy) from None
    return [
        {"source": name, "line": line.strip().decode(errors="replace"), "outcome": outcome, "result": result}
        for line, (outcome, result) in zip(first, preview_lines(plan, name, first), strict=True)
    ]


def _lines(content: IO[bytes], longest: int) -> Iterator[bytes]:
    """Yield the lines of a file that are not empty. Lines longer than `longest` bytes are cut, a few bytes above it."""
    while line := content.readline(longest + _MARGIN):
        if line.strip():
            yield line
        while line and not line.endswith(b"\n"):
            line = content.readline(longest + _MARGIN)


def _require_reachable(hosts: Sequence[str]) -> None:
    """Raise BadInput if a rank cannot reach a node (`host:port`). Do nothing without ranks."""

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


def _is_missing(corpus: Mapping[str, Any]) -> bool:
    """Return whether this machine lacks the files of a corpus, or of the source of an encrypted corpus."""
    read = corpus.get("encrypted", {}).get("of", corpus)
    return bool(read.get("files", read.get("columns")) == [])


def _placeholder(scratch: Path, plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Write a file to `scratch`, and return it as a corpus instead of the missing corpus `name`, with one document.

    The document has the fields that `plan` uses; their text says that the corpus is missing.
    """
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
    """Return the plan without the operations `sent`: inserting a document twice fails.

    Journeys stay whole, because a step may depend on an earlier answer. Mixes lose their order: each operation is sent
    once. Streams without operations are removed.
    """
    left = [
        {**stream, "mix": [[name, weight] for name, weight in stream["mix"] if name not in sent], "order": "drawn"}
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
    "knn",
    "esql",
    "eql",
)
#: Operations that return documents or change them.
_QUERIES = ("sql", "query", "aggregate")


def _is_empty(answer: dict[str, Any], form: Mapping[str, Any]) -> bool:
    """Return whether a read succeeded without documents. An aggregation returns no hits, but counts documents.

    `form` is the definition of the operation. Operations that do not read are never empty.
    """
    from loadframe.workload.collection_use import only_reads

    if not form.keys() & set(_READS) and not (form.keys() & set(_QUERIES) and only_reads(form)):
        return False
    seen = re.search(r'"total":\s*\{\s*"value":\s*([0-9]+)', answer["answer"])
    if "count" in form:
        seen = re.search(r'"count":\s*([0-9]+)', answer["answer"])
    return not answer["error"] and not answer["documents"] and not (seen and int(seen[1]))
