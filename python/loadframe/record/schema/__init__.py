"""Schema of run folders: all columns and keys, with types, units and descriptions.

`python -m docs.generate` writes it to docs/reference/run-folder.md. The writer takes its columns from it, and
`undocumented` finds keys that it lacks.

A `level` is the value of a metric at the time of the sample. A `rate` covers the time since the previous sample, or the
second of the row. The statistics of a store are documented with the store.
"""

import re

from loadframe.record.schema.manifest import FORMAT, Manifest
from loadframe.record.schema.model import Field, documented, undocumented
from loadframe.record.schema.summary import Summary

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
    Field(
        "sent",
        "double",
        "s",
        "time of the first byte of its last attempt, later by the gaps between several exchanges, since the run began",
    ),
    Field("done", "double", "s", "time of its answer, or of the decision to give up, since the run began"),
    Field("documents", "int64", "documents", "documents that the store wrote or returned, in all attempts"),
    Field("error", "string", "", "the error class of a failure; null for a success"),
    Field("status", "int64", "", "the HTTP status of its last answer; null without an answer or without HTTP"),
)

TELEMETRY = (
    Field("time", "double", "s", "since the run began; a rate covers the time since the previous sample"),
    Field(
        "source",
        "string",
        "",
        "the sampled object, such as `node:0`, `generator:0` (or `generator:2.0`, of rank 2), `target:HOST`,"
        " `source:NAME`, `host`",
    ),
    Field("metric", "string", "", "a metric of that source"),
    Field("value", "double", "see metric", "the value"),
    Field(
        "machine",
        "string",
        "",
        "the machine of the source; null if it is unknown, or if the source has no single machine (`cluster`,"
        " `workers`, `target:HOST`, `source:NAME`)",
    ),
)

#: Columns that older runs lack; they are read as null (unknown).
TELEMETRY_LATER = ("machine",)

#: The columns of the engine's `generator.csv` after `second`, `rank` and `worker`.
GENERATOR = (
    Field(
        "cpu_seconds",
        "rate",
        "s",
        "CPU time that the worker thread used in this second of the phase, without `spin_seconds`",
    ),
    Field(
        "waited_seconds",
        "rate",
        "s",
        "time ready to run without a core, because of other processes or a quota",
    ),
    Field("wall_seconds", "rate", "s", "length of the second for the worker; shorter at the end of the phase"),
    Field("lateness_p99", "level", "s", "99th percentile of lateness: delay of due requests in the generator"),
    Field("lateness_max", "level", "s", "maximum of lateness"),
    Field("lag_p99", "level", "s", "99th percentile of event-loop lag: delay of a check that is due every 50 ms"),
    Field("lag_max", "level", "s", "maximum of event-loop lag"),
    Field(
        "away_seconds",
        "rate",
        "s",
        "time in event-loop stalls of 50 ms or more, with a resolution of 50 ms; a stall counts in the seconds that it"
        " spans",
    ),
    Field("in_flight", "level", "requests", "sent and not yet answered, at the end of the second"),
    Field("spin_seconds", "rate", "s", "time that the worker waited awake for due requests; only with `spin`"),
)

#: The columns of the engine's `workers.csv` after `second`. With many workers, only the worst workers of each second
#: have rows in `generator.csv`.
WORKERS = (
    Field("ranks", "level", "ranks", "ranks that generated load in this second of the phase"),
    Field("workers", "level", "workers", "worker threads of these ranks"),
    Field("cpu_seconds", "rate", "s", "CPU time of all worker threads"),
    Field("waited_seconds", "rate", "s", "time ready to run without a core, sum of all worker threads"),
    Field("away_seconds", "rate", "s", "time in event-loop stalls of 50 ms or more, sum of all worker threads"),
    Field("in_flight", "level", "requests", "sent by any of them and not yet answered, at the end of the second"),
)

#: Metrics of the control groups of the generator's process.
OWN_GROUP = (
    Field("cgroup.throttled", "rate", "1/s", "scheduling periods in which a CPU quota of the generator was exhausted"),
    Field("cgroup.throttled_time", "rate", "s/s", "time throttled, sum over CPUs"),
)

#: Metrics of a node's process and control group.
NODES = (
    Field("process.cpu", "rate", "cores", "CPU time per second; 1 is one busy core"),
    Field("process.cpu_user", "rate", "cores", "the part of `process.cpu` outside the kernel"),
    Field("process.cpu_system", "rate", "cores", "the part of `process.cpu` in the kernel"),
    Field("process.resident", "level", "B", "resident memory"),
    Field("process.threads", "level", "threads", "threads of the process"),
    Field("process.read", "rate", "B/s", "read from storage; absent without permission to see it"),
    Field("process.written", "rate", "B/s", "written to storage; absent without permission to see it"),
    Field(
        "jvm.gc",
        "rate",
        "s/s",
        "share of time in garbage-collection pauses, for nodes whose JVM publishes it",
    ),
    Field("cgroup.throttled", "rate", "1/s", "scheduling periods in which the CPU quota was exhausted"),
    Field("cgroup.throttled_time", "rate", "s/s", "time throttled by the quota, sum over CPUs"),
    Field("cgroup.memory", "level", "B", "memory charged to the control group, including page cache"),
    Field(
        "pressure.cpu.some",
        "rate",
        "s/s",
        "share of time in which at least one task waited for a CPU, for limited nodes with control groups v2",
    ),
    Field("pressure.memory.some", "rate", "s/s", "share of time in which at least one task waited for memory"),
    Field("pressure.memory.full", "rate", "s/s", "share of time in which all tasks waited for memory"),
    Field("pressure.io.some", "rate", "s/s", "share of time in which at least one task waited for storage"),
    Field("pressure.io.full", "rate", "s/s", "share of time in which all tasks waited for storage"),
    Field("network.received", "rate", "B/s", "over the node's link; absent if it shares the machine's network"),
    Field("network.sent", "rate", "B/s", "over the node's link; absent if it shares the machine's network"),
)

#: Metrics of a machine.
HOST = (
    Field("cpu.busy", "level", "share", "share of all cores that is busy (not idle, waiting for storage, or stolen)"),
    Field("cpu.stolen", "level", "share", "share of all cores that is stolen by the hypervisor"),
    Field(
        "cpu.programs",
        "rate",
        "share",
        "share of all cores that is used by programs which Loadframe did not start; only on machines with nodes",
    ),
    Field(
        "cpu.program:NAME",
        "rate",
        "share",
        "the part of `cpu.programs` of one program, by name; at most the five busiest with 1 % or more",
    ),
    Field("load.1m", "level", "tasks", "load average over one minute"),
    Field("memory.available", "level", "B", "memory available without swapping"),
    Field("pressure.cpu.some", "rate", "s/s", "share of time in which at least one task waited for a CPU"),
    Field("pressure.memory.some", "rate", "s/s", "share of time in which at least one task waited for memory"),
    Field("pressure.memory.full", "rate", "s/s", "share of time in which all tasks waited for memory"),
    Field("pressure.io.some", "rate", "s/s", "share of time in which at least one task waited for storage"),
    Field("pressure.io.full", "rate", "s/s", "share of time in which all tasks waited for storage"),
    Field("loopback.bytes", "rate", "B/s", "over the loopback interface, each byte once"),
    Field(
        "network.received",
        "rate",
        "B/s",
        "over all interfaces except loopback and nodes' links; a bridge and its members both count",
    ),
    Field(
        "network.sent",
        "rate",
        "B/s",
        "over all interfaces except loopback and nodes' links; a bridge and its members both count",
    ),
    Field(
        "network.share",
        "rate",
        "share",
        "utilisation of the busiest interface with a known speed, in its busier direction",
    ),
    Field("disk.read", "rate", "B/s", "from all disks, each byte once"),
    Field("disk.written", "rate", "B/s", "to all disks, each byte once"),
)

#: Metrics of the cluster, in runs that change it.
CLUSTER = (
    Field("nodes", "level", "nodes", "members that serve data and answer"),
    Field("data.moving", "level", "pieces", "pieces of data (shards, slots, ranges) in transfer to another node"),
    Field("data.missing", "level", "pieces", "replicas of pieces that no node serves"),
    Field("balancing.left", "level", "see event `balancing`", "amount of data left to move"),
)

#: Metrics of a host that serves requests.
TARGETS = (
    Field("requests", "rate", "requests", "served by this host in this second; each attempt counts"),
    Field("documents", "rate", "documents", "stored or returned by this host in this second"),
)

#: Metrics of a source of events while its phase runs.
SOURCES = (
    Field("lines", "rate", "1/s", "lines received"),
    Field("dropped", "rate", "1/s", "events that the transformation dropped"),
    Field("accepted", "rate", "1/s", "events accepted for indexing"),
    Field("indexed", "rate", "1/s", "events acknowledged by the store"),
    Field(
        "visible",
        "rate",
        "1/s",
        "events received no later than the newest probed event that a query has returned; only with visibility probes",
    ),
    Field("dead_letters", "rate", "1/s", "invalid lines, and events that the store rejected"),
    Field("unacknowledged", "level", "events", "accepted events without an answer: waiting, or in a request"),
    Field("waiting", "level", "events", "accepted events that are not in a request"),
    Field("spilled", "level", "events", "waiting events that are on disk because memory was full"),
    Field("reader_cpu", "rate", "cores", "CPU use of the busiest thread that reads the source; 1 is one busy core"),
    Field("unread", "level", "B", "largest receive queue of a connection, or bytes in the pipe: arrived, not read yet"),
)

#: Metrics by source.
METRICS: dict[str, tuple[Field, ...]] = {
    "generator:WORKER": GENERATOR,
    "workers": WORKERS,
    "generator": OWN_GROUP,
    "target:HOST": TARGETS,
    "source:NAME": SOURCES,
    "node:NODE": NODES,
    "cluster": CLUSTER,
    "host": HOST,
    "observer:THREAD": (Field("cpu", "rate", "cores", "CPU use of the sampling thread"),),
}


EVENTS = (
    Field("time", "number", "s", "since the run began"),
    Field("wall", "string", "ISO 8601, UTC", "the time by the wall clock"),
    Field("kind", "string", "", "kind of event, such as `phase started`, `gap`"),
    Field("**", "any", "", "further keys of the kind"),
)

MANIFEST = documented(Manifest)
SUMMARY = documented(Summary)

MANIFEST_FILE = "manifest.json"
SUMMARY_FILE = "summary.json"
SERIES_FILE = "series.parquet"
TELEMETRY_FILE = "telemetry.parquet"
EVENTS_FILE = "events.jsonl"
HISTOGRAMS_FILE = "histograms.hlog"
#: Only in runs with `samples`.
SAMPLES_FILE = "samples.parquet"
MEMBERS = (MANIFEST_FILE, SUMMARY_FILE, SERIES_FILE, TELEMETRY_FILE, EVENTS_FILE, HISTOGRAMS_FILE)
#: Name of the folder of a run that is still recorded, or that was left by a killed process.
PARTIAL = re.compile(r"\.(?P<run>.+)\.partial-(?P<host>.+)-(?P<boot>[0-9a-f]{8})-(?P<unique>[0-9a-f]{12})")

__all__ = [
    "ERROR_CLASSES",
    "EVENTS",
    "EVENTS_FILE",
    "FORMAT",
    "GENERATOR",
    "HISTOGRAMS_FILE",
    "HOST",
    "MANIFEST",
    "MANIFEST_FILE",
    "MEMBERS",
    "METRICS",
    "NODES",
    "OWN_GROUP",
    "PARTIAL",
    "SAMPLES",
    "SAMPLES_FILE",
    "SERIES",
    "SERIES_FILE",
    "SERIES_LATER",
    "SERIES_RECORDED",
    "SUMMARY",
    "SUMMARY_FILE",
    "TARGETS",
    "TELEMETRY",
    "TELEMETRY_FILE",
    "TELEMETRY_LATER",
    "WORKERS",
    "Field",
    "undocumented",
]
