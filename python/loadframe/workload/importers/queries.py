"""Importer for files of the MPI benchmarker: query steps, and optionally an index definition with documents.

Each step becomes a phase, and ranks become clients with a permuted mix. The index definition becomes a collection with
a strict mapping, a disabled request cache, and by default one shard per node.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.importers.imported import Imported, literal, name_of
from loadframe.workload.importers.source import ImportedObject, json_of, text_of
from loadframe.yamlfile import short_json

#: Default times of a step, in seconds.
WARMUP, EXECUTION, SLEEP = 60, 300, 0
#: Default number of documents per bulk request.
BULK_SIZE = 1000
#: Before each step, the benchmarker waits for a green cluster, without a timeout.
READY_WITHIN = "10m"

_ALONE = (
    "The format does not describe the documents. Run the workload on a cluster that holds them, and set the parameter "
    "`collection` to their index: loadframe bench THIS_FILE --hosts HOST:PORT --reuse --set collection=NAME"
)
_LOADED = (
    "`load` sends all documents of the file once, in requests of `bulk_size` documents. The mapping is strict: it "
    "rejects documents with unknown fields."
)
_RANKS = (
    "`clients` is the number of ranks. As in the benchmarker, each client cycles through the searches of a step in its "
    "own order, the request cache is off, and each step waits for the cluster."
)


@dataclass(frozen=True)
class Triple:
    """Input of the benchmarker's ingestion: index definition, documents and options."""

    index: Path
    documents: Path
    bulk_size: int = BULK_SIZE
    #: None: one per node.
    shards: int | None = None


@dataclass(frozen=True)
class StepTimes:
    """Times of all steps, in seconds. None: the times of the file."""

    warmup: float | None = None
    execution: float | None = None
    sleep: float | None = None


def import_queries(path: Path, loaded: Triple | None = None, times: StepTimes = StepTimes()) -> Imported:
    """Return the workload of a query file of the MPI benchmarker; `loaded` adds an index definition and its documents.

    Times that are set in `times` replace those of all steps. Equal searches become one operation. Keys that are not
    imported are in `left_out`. BadInput, with its place, for invalid input, and for two searches that differ only in
    such keys.
    """
    where = str(path)
    steps = json_of(text_of(path), where)
    if not isinstance(steps, list) or not steps:
        what = f"expected a list of steps, not {short_json(steps)}"
        raise BadInput(what, where=where, remedy="name a query file of the MPI benchmarker")
    operations: dict[str, Any] = {}
    names: dict[str, str] = {}
    #: The keys of each search that are not imported, as JSON, by the body of the search.
    dropped: dict[str, str] = {}
    phases = []
    left_out: list[str] = []
    digits = len(str(len(steps)))
    for number, step in enumerate(steps, start=1):
        part = ImportedObject(step, f"{where}, step {number}")
        mix: dict[str, int] = {}
        for query in part.parts("search_queries"):
            if query.get("body") is None:
                raise query.error("body", "missing", "add a body with the query, or {} for all documents")
            body = query.mapping("body")
            left_out += [f"{query.where}: {key}" for key in query.rest()]
            known = json.dumps(body, sort_keys=True)
            lost = json.dumps({key: query.data[key] for key in query.rest()}, sort_keys=True)
            if dropped.setdefault(known, lost) != lost:
                what = "two searches differ only in keys that are not imported"
                raise query.error(", ".join(query.rest()) or "body", what, "remove these keys or the search")
            if known not in names:
                names[known] = name_of(f"query_{len(names) + 1}")
                operations[names[known]] = _search(body)
            mix[names[known]] = mix.get(names[known], 0) + 1
        if not mix:
            raise part.error("search_queries", "the step lacks searches", "add a search")
        phases.append(_phase(f"step_{number:0{digits}}", mix, part, times))
        left_out += [f"step {number}: {key}" for key in part.rest()]
    data: dict[str, Any] = {
        "workload": name_of(path.stem),
        "description": "Searches of a query file of the MPI benchmarker",
        "parameters": {"collection": "documents", "clients": 8},
        "collections": {"${collection}": {}},
        "operations": operations,
        "phases": phases,
    }
    if loaded is None:
        return Imported(data, (_ALONE, _RANKS), tuple(left_out), where)
    mappings, unknown = _mappings(loaded.index)
    return Imported(_with_load(data, loaded, mappings), (_LOADED, _RANKS), (*left_out, *unknown), where)


def _mappings(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of an index definition, with `${` escaped, and its other keys, which the benchmarker ignores.

    The other keys are texts `PATH: KEY`. BadInput for a file that cannot be read, and without fields.
    """
    where = str(path)
    definition = ImportedObject(json_of(text_of(path), where), where)
    fields = definition.mapping("properties")
    if not fields:
        raise definition.error("properties", "the definition lacks fields", "add the fields with their types")
    return literal(fields), [f"{where}: {key}" for key in definition.rest()]


def _with_load(data: dict[str, Any], loaded: Triple, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a workload's data with a collection, a corpus, and phases that load it, before its own phases.

    `fields` are the mapping's properties. BadInput if the file of documents does not exist.
    """
    if not loaded.documents.is_file():
        raise BadInput("the file does not exist", where=str(loaded.documents), remedy="check the path")
    file = str(loaded.documents.resolve())
    definition = {
        "settings": {"number_of_shards": "${shards}", "requests.cache.enable": False},
        "mappings": {"dynamic": "strict", "properties": fields},
    }
    parameters = {
        **data["parameters"],
        "file": literal(file),
        "bulk_size": loaded.bulk_size,
        "shards": loaded.shards or "${nodes}",
    }
    load = {"bulk": {"collection": "${collection}", "corpus": "documents", "size": "${bulk_size}"}}
    refresh = {"refresh": {"collection": "${collection}"}}
    return {
        **data,
        "description": "Documents and searches of the MPI benchmarker",
        "parameters": parameters,
        "collections": {"${collection}": {"elasticsearch": definition}},
        "corpora": {"documents": {"file": "${file}"}},
        "operations": {"load": load, "refresh": refresh, **data["operations"]},
        "phases": [
            {"name": "load", "prepares": True, "operation": "load", "clients": "${clients}", "until": "exhausted"},
            {"name": "refresh", "prepares": True, "operation": "refresh", "clients": 1, "requests": 1},
            *data["phases"],
        ],
    }


def _search(body: dict[str, Any]) -> dict[str, Any]:
    """Return the operation of a search body, with `${` escaped and the request cache off."""
    return {"search": {"collection": "${collection}", "request_cache": False, "body": literal(body)}}


def _phase(name: str, mix: dict[str, int], step: ImportedObject, times: StepTimes) -> dict[str, Any]:
    """Return the phase of a step: its searches, with their frequencies in `mix`, and its times.

    Times in `times` take precedence over those of the step; a missing time has its default. BadInput for an invalid
    time of the step, even if it is replaced, and for an execution time of 0 s.
    """
    warmup, duration, pause = (
        number if given is None else given
        for given, number in (
            (times.warmup, step.number("warmup_time_secs", WARMUP)),
            (times.execution, step.number("execution_time_secs", EXECUTION)),
            (times.sleep, step.number("sleep_between_requests_secs", SLEEP)),
        )
    )
    if not duration:
        raise step.error("execution_time_secs", "the step lasts 0 s", "set a time above 0")
    load = {"operation": next(iter(mix))} if len(mix) == 1 else {"mix": mix, "order": "permuted"}
    think = {"think_time": _seconds(pause)} if pause else {}
    return {
        "name": name,
        **load,
        "clients": "${clients}",
        **think,
        "ready_within": READY_WITHIN,
        "warmup": _seconds(warmup),
        "duration": _seconds(duration),
    }


def _seconds(number: float | None) -> str:
    """Return seconds as a duration of a workload file."""
    return f"{number:.15g}s"
