"""The MPI benchmarker's result formats, for its analysis scripts: a list of steps with the results of each rank.

Its document (appendix A.4) has `[{"query_result": [{"body": ..., "responses": [[{"latency": s, "docs": n},
{"error_code": 429}, ...], ...]}], "warmup_time_secs": ..., "execution_time_secs": ..., "sleep_between_requests_secs":
...}]`, with a step for each measured phase, and in `responses` a list for each rank. Its program writes
`{"search_results": [{"query": {"body": ...}, "responses": ...}], ...}` instead.

A rank of the benchmarker corresponds to a closed-loop client, and its latency to the service time. If the run recorded
single requests, each is in the list of its client, in the order of answers; an error has the status code of its answer,
if any.

Other runs record only histograms. Latencies are then reconstructed from the histogram of each second, to three digits
and in ascending order within the second. `docs` is the mean of that second, and requests are assigned to clients round
robin.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.record import Run
from loadframe.record.reader import SAMPLES_SCHEMA
from loadframe.record.schema import ERROR_CLASSES, SAMPLES_FILE
from loadframe.record.schema.summary import PhaseSummary

Request = dict[str, float | int]
#: The benchmarker's code of each error class: the usual HTTP status of the class, -1 for a timeout, 0 for none.
CODES = {
    "connect": 0,
    "timeout": -1,
    "rejected": 429,
    "client": 400,
    "server": 500,
    "item": 207,
    "assertion": 422,
    "unseen": 404,
}


def appendix(run: Run) -> list[dict[str, Any]]:
    """Return a run in the format of the benchmarker's document: a step for each measured phase, times in s.

    `query_result` of a step has the keys of each query, and its `responses`, in one object. Errors have an HTTP code,
    or one of `CODES`.
    """
    return [
        {
            "query_result": [
                {**result["query"], "responses": result["responses"]} for result in step.pop("search_results")
            ],
            **step,
        }
        for step in queries(run)
    ]


def queries(run: Run) -> list[dict[str, Any]]:
    """Return a run in the format of the benchmarker's program: a step for each measured phase, times in s.

    `search_results` of a step has an object with `query` and `responses` for each query. Errors have an HTTP code, or
    one of `CODES`.
    """
    rows = [row for row in run.series.to_pylist() if row["segment"] == "measure"]
    planned = {phase.get("name"): phase for phase in run.manifest.workload.phases}
    sampled = _sampled(run)
    return [_step(run, phase, planned.get(phase.name, {}), rows, sampled) for phase in run.summary.measured]


def _step(
    run: Run, phase: PhaseSummary, planned: Mapping[str, Any], rows: list[dict[str, Any]], sampled: pa.Table | None
) -> dict[str, Any]:
    """Return a measured phase as a step: responses of each operation, and times in s.

    `planned` is the phase in the workload. `rows` are the run's seconds of the measured segment, and `sampled` its
    requests in the order of answers; None if not recorded.
    """
    ranks = sum(stream.clients for stream in phase.streams if isinstance(stream.clients, int)) or 1
    forms = planned.get("operations", {})

    def responses(operation: str) -> list[list[Request]]:
        """Return the requests of an operation as latencies (s) or error codes, a list for each client."""
        if sampled is not None:
            return _by_client(sampled, phase, operation)
        return _round_robin(list(_requests(run, phase, operation, rows)), ranks)

    return {
        "search_results": [
            {"query": _query(name, forms.get(name, {})), "responses": responses(name)} for name in phase.single
        ],
        "warmup_time_secs": phase.warmup,
        "execution_time_secs": phase.duration,
        "sleep_between_requests_secs": max((_think_time(stream.pacing) for stream in phase.streams), default=0.0),
    }


def _query(name: str, form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a search, with the search's `size` in it if given; for other operations `{"operation": name}`.

    `form` is the operation's definition in the workload.
    """
    search = form.get("search")
    if not isinstance(search, Mapping):
        return {"operation": name}
    # The benchmarker's files have the number of hits in the body.
    return {"body": {**(search.get("body") or {}), **{key: search[key] for key in ("size",) if key in search}}}


def _think_time(pacing: Mapping[str, Any]) -> float:
    """Return the fixed think time of a closed loop, s; 0 for a random one or none."""
    think_time = pacing.get("closed", {}).get("think_time", 0.0)
    return float(think_time) if isinstance(think_time, int | float) else 0.0


def _sampled(run: Run) -> pa.Table | None:
    """Return the recorded requests of the measured segment in the order of answers; None if none were recorded."""
    if not (run.path / SAMPLES_FILE).exists():
        return None
    pieces = [piece.filter(pc.equal(piece["segment"], "measure")) for piece in run.samples()]
    return pa.Table.from_batches(pieces, SAMPLES_SCHEMA).sort_by("done")


def _by_client(sampled: pa.Table, phase: PhaseSummary, operation: str) -> list[list[Request]]:
    """Return the requests of one operation as latencies (s) or error codes, a list for each client of the phase.

    `sampled` are the run's requests in the order of answers. Clients are sorted by stream and number; a client without
    requests of this operation has an empty list. An error has its status from 300 up, else one of `CODES`.
    """
    of_phase = sampled.filter(pc.equal(sampled["phase"], phase.name))
    clients: dict[tuple[str, int], list[Request]] = {}
    columns = ("stream", "client", "operation", "sent", "done", "documents", "error", "status")
    for stream, client, name, sent, done, documents, error, status in zip(
        *(of_phase[column].to_pylist() for column in columns), strict=True
    ):
        requests = clients.setdefault((stream, client), [])
        if name != operation:
            continue
        if error is None:
            requests.append({"latency": done - sent, "docs": documents})
        else:
            # An answer that failed an assertion may have the status of a success.
            requests.append({"error_code": status if status and status >= 300 else CODES[error]})
    return [clients[client] for client in sorted(clients)]


def _round_robin(requests: list[Request], ranks: int) -> list[list[Request]]:
    """Distribute requests to `ranks` lists: one request to each in turn. Some are empty if there are fewer requests."""
    return [requests[rank::ranks] for rank in range(ranks)]


def _requests(run: Run, phase: PhaseSummary, operation: str, rows: list[dict[str, Any]]) -> Iterator[Request]:
    """Yield the requests of an operation in a phase: successes from the histograms by second, then errors by class.

    Latencies are service times, s, ascending within a second; `docs` is the mean of that second. Errors have only a
    code of `CODES`. `rows` are the run's seconds of the measured segment.
    """
    seconds = [row for row in rows if row["phase"] == phase.name and row["operation"] == operation]
    documents = {second: _mean_documents(seconds, second) for second in {row["second"] for row in seconds}}
    tag = f"{phase.name}/{operation}/service"
    if tag in run.histograms.tags():
        for start, histogram in run.histograms.seconds(tag):
            docs = documents.get(round(start - phase.start), 0.0)
            for index in range(histogram.count):
                latency = histogram.quantile((index + 0.5) / histogram.count)
                yield {"latency": latency or 0.0, "docs": docs}
    for error in ERROR_CLASSES:
        for _ in range(sum(row[f"error_{error.name}"] or 0 for row in seconds)):
            yield {"error_code": CODES[error.name]}


def _mean_documents(rows: list[dict[str, Any]], second: int) -> float:
    """Return the mean number of documents of the successful requests in a second of a phase; 0 without any.

    `rows` are the seconds of one operation in one phase.
    """
    documents = sum(row["documents"] for row in rows if row["second"] == second)
    successes = sum(row["successes"] for row in rows if row["second"] == second)
    return documents / successes if successes else 0.0
