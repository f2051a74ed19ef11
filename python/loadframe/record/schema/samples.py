"""The columns of samples.parquet: one row per request that ended, where samples were asked for."""

from loadframe.record.schema.field import Field

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
