"""The columns of telemetry.parquet, and the metrics of each source.

A `level` is the value at the sample's instant; a `rate` covers the time since the sample before, or the
second that the row is about. A store's own statistics are not here: each store documents them.
"""

from loadframe.record.schema.model import Field

TELEMETRY = (
    Field("time", "double", "s", "since the run began; a rate covers the time since the sample before"),
    Field(
        "source",
        "string",
        "",
        "what was watched, such as `node:0`, `generator:0` (or `generator:2.0`, of rank 2), `target:HOST`,"
        " `source:NAME`, `host`",
    ),
    Field("metric", "string", "", "see the metrics of that source"),
    Field("value", "double", "see metric", "the sample"),
    Field(
        "machine",
        "string",
        "",
        "the machine that the source is on: a node's, a rank's, or the one that loadframe itself ran on; null where"
        " that is not known, or no one machine (`cluster`, `workers`, `target:HOST`, `source:NAME`)",
    ),
)

#: Columns that older runs lack; they are read as null, which means that it is not known.
TELEMETRY_LATER = ("machine",)

#: The columns of the engine's `generator.csv` after `second`, `rank` and `worker`.
GENERATOR = (
    Field("cpu_seconds", "rate", "s", "CPU time that the worker thread used in this second of the phase"),
    Field(
        "waited_seconds",
        "rate",
        "s",
        "how long it was ready to run but did not: other processes used the cores, or a quota applied",
    ),
    Field("wall_seconds", "rate", "s", "how long that second was for the worker; shorter when the phase ended in it"),
    Field("lateness_p99", "level", "s", "99th percentile of how late clients handled requests that were due"),
    Field("lateness_max", "level", "s", "greatest of the same"),
    Field(
        "lag_p99",
        "level",
        "s",
        "99th percentile of the event loop's lag: how late a check that is due every 50 ms ran",
    ),
    Field("lag_max", "level", "s", "greatest of the same"),
    Field(
        "away_seconds",
        "rate",
        "s",
        "how long the event loop was stalled, in stalls of 50 ms or more, to 50 ms; a stall belongs to the seconds over"
        " which it lasted",
    ),
    Field("in_flight", "level", "requests", "sent and not yet answered, at the second's end"),
)

#: The columns of the engine's `workers.csv` after `second`. Several ranks may have so many workers that only the worst
#: of each second have rows of their own.
WORKERS = (
    Field("ranks", "level", "ranks", "those that still loaded in this second of the phase"),
    Field("workers", "level", "workers", "the same, their worker threads"),
    Field("cpu_seconds", "rate", "s", "CPU time of all worker threads"),
    Field("waited_seconds", "rate", "s", "how long they were ready to run but did not, added up"),
    Field("away_seconds", "rate", "s", "how long their event loops were stalled, as above, added up"),
    Field("in_flight", "level", "requests", "sent by any of them and not yet answered, at the second's end"),
)

#: What watching the control groups of the generator's own process gives.
OWN_GROUP = (
    Field("cgroup.throttled", "rate", "1/s", "scheduling periods in which a CPU quota of the generator was exhausted"),
    Field("cgroup.throttled_time", "rate", "s/s", "time for which its threads were throttled, summed over CPUs"),
)

#: What watching a node's process and control group gives.
NODES = (
    Field("process.cpu", "rate", "cores", "CPU time per second; 1 is one core, busy throughout"),
    Field("process.resident", "level", "B", "resident memory"),
    Field("process.threads", "level", "threads", "threads of the process"),
    Field("process.read", "rate", "B/s", "read from storage; absent without permission to see it"),
    Field("process.written", "rate", "B/s", "written to storage; absent without permission to see it"),
    Field(
        "jvm.gc",
        "rate",
        "s/s",
        "share of time for which a Java server stood still to collect garbage; of nodes whose JVM publishes it",
    ),
    Field("cgroup.throttled", "rate", "1/s", "scheduling periods in which the CPU quota was exhausted"),
    Field(
        "cgroup.throttled_time", "rate", "s/s", "time for which threads were throttled by the quota, summed over CPUs"
    ),
    Field("cgroup.memory", "level", "B", "memory charged to the control group, page cache included"),
    Field(
        "pressure.cpu.some",
        "rate",
        "s/s",
        "share of time in which one of its tasks waited for a CPU; of limited nodes, in control groups of version 2",
    ),
    Field("pressure.memory.some", "rate", "s/s", "share of time in which one of its tasks waited for memory"),
    Field("pressure.memory.full", "rate", "s/s", "share of time in which all its tasks waited for memory"),
    Field("pressure.io.some", "rate", "s/s", "share of time in which one of its tasks waited for storage"),
    Field("pressure.io.full", "rate", "s/s", "share of time in which all its tasks waited for storage"),
    Field("network.received", "rate", "B/s", "over the node's own link; absent where it shares the machine's network"),
    Field("network.sent", "rate", "B/s", "over the node's own link; absent where it shares the machine's network"),
)

#: What watching this machine gives.
HOST = (
    Field("cpu.busy", "level", "share", "of all cores, at work: not idle, waiting for storage, or stolen; 0..1"),
    Field("cpu.stolen", "level", "share", "of all cores, taken by the hypervisor; 0..1"),
    Field("load.1m", "level", "tasks", "load average of one minute"),
    Field("memory.available", "level", "B", "memory that can be given out without swapping"),
    Field("pressure.cpu.some", "rate", "s/s", "share of time in which some task waited for a CPU"),
    Field("pressure.memory.some", "rate", "s/s", "share of time in which some task waited for memory"),
    Field("pressure.memory.full", "rate", "s/s", "share of time in which all tasks waited for memory"),
    Field("pressure.io.some", "rate", "s/s", "share of time in which some task waited for storage"),
    Field("pressure.io.full", "rate", "s/s", "share of time in which all tasks waited for storage"),
    Field("loopback.bytes", "rate", "B/s", "over the loopback interface, each byte once"),
    Field(
        "network.received",
        "rate",
        "B/s",
        "over all other interfaces but nodes' own links; a bridge and its members count each",
    ),
    Field(
        "network.sent",
        "rate",
        "B/s",
        "over all other interfaces but nodes' own links; a bridge and its members count each",
    ),
    Field(
        "network.share", "rate", "share", "of the speed of the busiest interface that says its speed, greater direction"
    ),
    Field("disk.read", "rate", "B/s", "from all disks"),
    Field("disk.written", "rate", "B/s", "to all disks"),
)

#: What is seen of the cluster as a whole, in runs in which it is changed.
CLUSTER = (
    Field("nodes", "level", "nodes", "members that serve data and answer"),
    Field(
        "data.moving", "level", "pieces", "pieces of data that are being moved to another node: shards, slots, ranges"
    ),
    Field("data.missing", "level", "pieces", "copies of pieces that no node serves, or not yet"),
    Field("balancing.left", "level", "see event `balancing`", "what is left to be moved, as the change counts it"),
)

#: What is told of a source of events while its phase runs.
SOURCES = (
    Field("lines", "rate", "1/s", "lines that came"),
    Field("accepted", "rate", "1/s", "events that were taken to be indexed"),
    Field("indexed", "rate", "1/s", "events that the store acknowledged"),
    Field(
        "visible",
        "rate",
        "1/s",
        "events that came no later than the newest one that was looked for and that a query has seen; only where events"
        " are looked for",
    ),
    Field("dead_letters", "rate", "1/s", "lines that are not events, and events that the store refused"),
    Field("waiting", "level", "events", "accepted, and carried by no request at that instant"),
    Field("spilled", "level", "events", "of these, those on disk, since memory had no room for them"),
    Field("reader_cpu", "rate", "cores", "CPU use of the busiest thread that reads it; 1 is one core, busy throughout"),
)

#: Metrics by source.
METRICS: dict[str, tuple[Field, ...]] = {
    "generator:WORKER": GENERATOR,
    "workers": WORKERS,
    "generator": OWN_GROUP,
    "target:HOST": (
        Field(
            "requests", "rate", "requests", "that this host of the store served in this second; every attempt is one"
        ),
    ),
    "source:NAME": SOURCES,
    "node:NODE": NODES,
    "cluster": CLUSTER,
    "host": HOST,
    "observer:THREAD": (Field("cpu", "rate", "cores", "CPU use of the thread that takes these samples"),),
}
