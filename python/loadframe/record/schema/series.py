"""Columns of series.parquet and samples.parquet."""

from loadframe.record.schema.model import Field

ERROR_CLASSES = (
    Field("connect", "int64", "requests", "no connection, or it broke"),
    Field("timeout", "int64", "requests", "no answer in time, or an answer that says that it ran out of time"),
    Field("rejected", "int64", "requests", "the store applied back-pressure: 429, overloaded"),
    Field("client", "int64", "requests", "the request was wrong: 4xx"),
    Field("server", "int64", "requests", "the store failed: 5xx, failed shards"),
    Field("item", "int64", "requests", "the request succeeded, some of its items did not"),
    Field("assertion", "int64", "requests", "the answer is not what the workload asserts"),
    Field("unseen", "int64", "requests", "what was written did not become visible in time"),
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
    Field("segment", "string", "", "`warmup` or `measure`, by the instant for which the request was scheduled"),
    Field("second", "int64", "s", "since the phase began; a request belongs to the second in which it was done"),
    Field("requests", "int64", "requests", "done in this second, with any outcome"),
    Field("successes", "int64", "requests", "of these, judged good"),
    Field("documents", "int64", "documents", "that the store took or returned"),
    Field("bytes_sent", "int64", "B", "written, heads included; of every attempt"),
    Field("bytes_received", "int64", "B", "read, heads included; of every attempt"),
    Field("dropped", "int64", "requests", "due and never sent, since too many were in flight (open pacing)"),
    Field("retries", "int64", "requests", "attempts beyond the first, where failed requests are tried again"),
    Field("reconnects", "int64", "connections", "that were lost and opened again"),
    *(Field(f"error_{error.name}", error.type, error.unit, error.says) for error in ERROR_CLASSES),
    Field("response_p50", "double", "s", "median of done - scheduled of the successes; null when there was none"),
    Field("response_p99", "double", "s", "99th percentile of the same"),
    Field("response_max", "double", "s", "greatest of the same"),
    Field("service_p50", "double", "s", "median of done - sent of the successes; null when there was none"),
    Field("service_p99", "double", "s", "99th percentile of the same"),
    Field("service_max", "double", "s", "greatest of the same"),
    Field("failure_p50", "double", "s", "median of done - scheduled of the failures; null when there was none"),
    Field("failure_p99", "double", "s", "99th percentile of the same"),
    Field("failure_max", "double", "s", "greatest of the same"),
    Field("setup_p50", "double", "s", "median time to set up a connection; null when none was opened"),
    Field("setup_p99", "double", "s", "99th percentile of the same"),
    Field("setup_max", "double", "s", "greatest of the same"),
    Field("unanswered", "int64", "requests", "in flight when the second ended; 0 for parts"),
    Field(
        "oldest_unanswered",
        "double",
        "s",
        "how long ago the oldest of these had been scheduled then; null when there was none",
    ),
)

#: Columns that older runs lack; they are read as null, which means that it is not known.
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
    Field("operation", "string", "", "the operation's name, or that of steps of a journey that are timed together"),
    Field("segment", "string", "", "`warmup` or `measure`, by the instant for which the request was scheduled"),
    Field("rank", "int64", "", "the rank that made it; 0 where one process loaded alone"),
    Field(
        "client",
        "int64",
        "",
        "the client that made it, of all ranks; the user, where the stream has users; of an open load its place among"
        " the requests in flight",
    ),
    Field("node", "string", "", "`host:port` of the node that served it; null where that is not known"),
    Field("scheduled", "double", "s", "when it was due, since the run began, to the nanosecond"),
    Field("sent", "double", "s", "when the first byte of its last attempt was written, since the run began"),
    Field("done", "double", "s", "when its answer was there, or it was given up, since the run began"),
    Field("documents", "int64", "documents", "that the store took or returned, in all attempts"),
    Field("error", "string", "", "the class of its failure; null for a success"),
    Field("status", "int64", "", "the HTTP status of its last answer; null where there is none, or no HTTP"),
)
