"""The MPI benchmarker's query files: a list of steps, each with searches, a warm-up, a duration and a pause.

Ranks become clients: each sends a search, waits for the answer, pauses, and sends the next. A rank of the benchmarker
walks through a permutation of a step's searches; here each request draws one, all with the same weight.
"""

import json
from pathlib import Path
from typing import Any

from loadframe.errors import BadInput
from loadframe.workload.importers.imported import Imported, literal, name_of
from loadframe.workload.importers.source import Part, json_of, text_of
from loadframe.yamlfile import shown

#: Seconds; what a step has that does not say.
WARMUP, EXECUTION, SLEEP = 60, 300, 0

_REMARKS = (
    "The format does not describe the documents. Run it on a cluster that holds them, under the name of the parameter "
    "`collection`: loadframe bench THIS_FILE --hosts HOST:PORT --reuse --set collection=NAME",
    "`clients` are the benchmarker's ranks. Each request draws one of its step's searches, all equally often; a rank "
    "of the benchmarker sends them in an order of its own. The request cache is off, as there.",
)


def import_queries(path: Path) -> Imported:
    """Make a workload of a query file; BadInput, with the place, for a file of another format."""
    where = str(path)
    steps = json_of(text_of(path), where)
    if not isinstance(steps, list) or not steps:
        raise BadInput(f"expected a list of steps, not {shown(steps)}", where=where, remedy="give a query file")
    operations: dict[str, Any] = {}
    names: dict[str, str] = {}
    phases = []
    left_out: list[str] = []
    digits = len(str(len(steps)))
    for number, step in enumerate(steps, start=1):
        part = Part(step, f"{where}, step {number}")
        mix: dict[str, int] = {}
        for query in part.parts("search_queries"):
            body = query.mapping("body")
            left_out += [f"{query.where}: {key}" for key in query.rest()]
            known = json.dumps(body, sort_keys=True)
            if known not in names:
                names[known] = name_of(f"query_{len(names) + 1}")
                operations[names[known]] = _search(body)
            mix[names[known]] = mix.get(names[known], 0) + 1
        if not mix:
            raise part.error("search_queries", "the step has no searches", "give it one")
        phases.append(_phase(f"step_{number:0{digits}}", mix, part))
        left_out += [f"step {number}: {key}" for key in part.rest()]
    data = {
        "workload": name_of(path.stem),
        "description": "Searches of a query file of the MPI benchmarker",
        "parameters": {"collection": "documents", "clients": 8},
        "collections": {"${collection}": {}},
        "operations": operations,
        "phases": phases,
    }
    return Imported(data, _REMARKS, tuple(left_out), where)


def _search(body: dict[str, Any]) -> dict[str, Any]:
    return {"search": {"collection": "${collection}", "request_cache": False, "body": literal(body)}}


def _phase(name: str, mix: dict[str, int], step: Part) -> dict[str, Any]:
    warmup = step.number("warmup_time_secs", WARMUP)
    duration = step.number("execution_time_secs", EXECUTION)
    pause = step.number("sleep_between_requests_secs", SLEEP)
    if not duration:
        raise step.error("execution_time_secs", "a step of no time measures nothing", "give it more than 0")
    load = {"operation": next(iter(mix))} if len(mix) == 1 else {"mix": mix}
    think = {"think_time": _seconds(pause)} if pause else {}
    return {
        "name": name,
        **load,
        "clients": "${clients}",
        **think,
        "warmup": _seconds(warmup),
        "duration": _seconds(duration),
    }


def _seconds(number: float | None) -> str:
    return f"{number:.15g}s"
