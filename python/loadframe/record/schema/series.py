"""Columns of series.parquet and samples.parquet."""

from loadframe.record.schema.model import Field

ERROR_CLASSES = (
    Field("connect", "int64", "requests", "no connection, or it broke"),
    Field("timeout", "int64", "requests", "no answer in time, or the answer reports a timeout"),
    Field("rejected", "int64", "requests", "the store applied back-pressure: 429, overloaded"),
    Field("client", "int64", "requests", "the request was wrong: 4xx"),
    Field("server", "int64", "requests", "the store failed: 5xx, failed shards"),
    Field("item", "int64", "requests", "the request succeeded, but some of its items failed"),
    Field("assertion", "int64", "requests", "the answer does not meet an assertion of the workload"),
    Field("unseen", "int64", "requests", "written data did not become visible in time"),
)

_PHASE = Field("phase", "string", "", "the phase's name")
_TIME = Field("time", "double", "s", "start of the second, since the run began")

#: The columns of the engine's `series.csv`, in its order.
SERIES_RECORDED = (
    Field("stream", "string", "", "the stream's name"),
    Field(
        "operation",
        "string",
        "",
        "the operation's name; `OPERATION.PART` for a part of one, such as a page of a scroll",
    ),
    Field("segment", "string", "", "`warmup` or `measure`, by the scheduled time of the request"),
    Field("second", "int64", "s", "since the phase began; a request counts in the second in which it was done"),
    Field("requests", "int64", "requests", "requests that were done in this second, with any outcome"),
    Field("successes", "int64", "requests", "successful requests"),
    Field("documents", "int64", "documents", "documents that the store wrote or returned"),
    Field("bytes_sent", "int64", "B", "bytes sent in all attempts, including headers"),
    Field("bytes_received", "int64", "B", "bytes received in all attempts, including headers"),
    Field("dropped", "int64", "requests", "due requests that were not sent, because too many were in flight"),
    Field("retries", "int64", "requests", "attempts after the first"),
    Field("reconnects", "int64", "connections", "connections that were lost and reopened"),
    *(Field(f"error_{error.name}", error.type, error.unit, error.says) for error in ERROR_CLASSES),
    Field("response_p50", "double", "s", "median of done - scheduled of the successes; null without any"),
    Field("response_p99", "double", "s", "99th percentile of done - scheduled of the successes"),
    Field("response_max", "double", "s", "maximum of done - scheduled of the successes"),
    Field("service_p50", "double", "s", "median of done - sent of the successes; null without any"),
    Field("service_p99", "double", "s", "99th percentile of done - sent of the successes"),
    Field("service_max", "double", "s", "maximum of done - sent of the successes"),
    Field("failure_p50", "double", "s", "median of done - scheduled of the failures; null without any"),
    Field("failure_p99", "double", "s", "99th percentile of done - scheduled of the failures"),
    Field("failure_max", "double", "s", "maximum of done - scheduled of the failures"),
    Field("setup_p50", "double", "s", "median time to set up a connection; null without any"),
    Field("setup_p99", "double", "s", "99th percentile of the time to set up a connection"),
    Field("setup_max", "double", "s", "maximum time to set up a connection"),
    Field("unanswered", "int64", "requests", "requests in flight at the end of the second; 0 for parts"),
    Field(
        "oldest_unanswered",
        "double",
        "s",
        "age of the oldest unanswered request at the end of the second, since its scheduled time; null without any",
    ),
)

#: Columns that older runs lack; they are read as null (unknown).
SERIES_LATER = (
    "reconnects",
    "error_unseen",
    "failure_p50",
    "failure_p99",
    "failure_max",
    "setup_p50",
    "setup_p99",
    "setup_max",
    "unanswered",
    "oldest_unanswered",
)

SERIES = (_PHASE, *SERIES_RECORDED[:3], _TIME, *SERIES_RECORDED[3:])

SAMPLES = (
    Field("phase", "string", "", "the phase's name"),
    Field("stream", "string", "", "the stream's name"),
    Field("operation", "string", "", "the name of the operation, or of a group of journey steps timed together"),
    Field("segment", "string", "", "`warmup` or `measure`, by the scheduled time of the request"),
    Field("rank", "int64", "", "the rank that sent it; 0 for a single process"),
    Field(
        "client",
        "int64",
        "",
        "the client that sent it, numbered over all ranks; the user, if the stream has users; in an open loop its slot"
        " among the requests in flight",
    ),
    Field("node", "string", "", "`host:port` of the node that served it; null if unknown"),
    Field("scheduled", "double", "s", "due time, since the run began, to the nanosecond"),
    Field("sent", "double", "s", "time of the first byte of its last attempt, since the run began"),
    Field("done", "double", "s", "time of its answer, or of the decision to give up, since the run began"),
    Field("documents", "int64", "documents", "documents that the store wrote or returned, in all attempts"),
    Field("error", "string", "", "the error class of a failure; null for a success"),
    Field("status", "int64", "", "the HTTP status of its last answer; null without an answer or without HTTP"),
)
