"""The keys of manifest.json, summary.json and of each line of events.jsonl."""

from loadframe.record.schema.field import Field

#: The number in a manifest's `format`. It grows when a reader of the older shape would misread the newer one.
FORMAT = 1

EVENTS = (
    Field("time", "number", "s", "since the run began"),
    Field("wall", "string", "ISO 8601, UTC", "the same instant on the wall clock"),
    Field("kind", "string", "", "what happened, such as `phase started`, `gap`"),
    Field("**", "any", "", "what belongs to the kind"),
)

MANIFEST = (
    Field("format", "int", "", f"version of this layout: {FORMAT}"),
    Field("run", "string", "", "the run's name, which is its folder's name"),
    Field("started", "string", "ISO 8601, UTC", "when the run began"),
    Field(
        "session",
        "string or null",
        "",
        "a name for the command that made the run: runs with the same one were made one after the other",
    ),
    Field("command", "list", "", "the command line that made the run"),
    Field("treatment.FACTOR", "any", "", "the level of each factor"),
    Field("block", "int or null", "", "the block in which the run was randomised"),
    Field("repetition", "int or null", "", "which repetition of the treatment this is"),
    Field("seed", "int", "", "with it the same requests are made again"),
    Field("workload.**", "any", "", "the workload as it was run, parameters filled in"),
    Field(
        "store.**",
        "any",
        "",
        "the cluster as it was asked for: kind, version, nodes, limits, settings; `adapted` are settings that this"
        " machine made necessary, with the reasons",
    ),
    Field("generator.ranks", "int", "processes", "load-generator processes"),
    Field("generator.threads", "int", "threads", "worker threads of each"),
    Field(
        "generator.spread",
        "string",
        "",
        "the node that a request goes to: `fixed` by client, `round_robin`, or the least busy of `all`",
    ),
    Field("generator.connections", "int or null", "", "connections that all clients share; null: one for each"),
    Field(
        "generator.ceiling",
        "number or null",
        "1/s",
        "requests that one worker of this driver managed in calibration",
    ),
    Field("files[].name", "string", "", "a file that went into the run"),
    Field("files[].bytes", "int", "B", "its size"),
    Field("files[].sha256", "string", "hexadecimal", "its hash"),
    Field("versions.loadframe", "string", "", "the package's version"),
    Field("versions.commit", "string or null", "", "its Git commit when it runs from a checkout"),
    Field("versions.modified", "bool or null", "", "whether that checkout had changes on top of the commit"),
    Field("versions.python", "string", "", "interpreter and version"),
    Field("versions.kernel", "string", "", "system, release and build"),
    Field("versions.system", "string", "", "distribution"),
    Field("hardware.hostname", "string", "", "this machine's name"),
    Field("hardware.architecture", "string", "", "instruction set"),
    Field("hardware.cpu", "string", "", "CPU model"),
    Field("hardware.virtual", "bool", "", "whether a hypervisor is announced"),
    Field("hardware.cores", "int or null", "cores", "physical"),
    Field("hardware.threads", "int", "threads", "logical CPUs"),
    Field("hardware.usable", "int", "threads", "logical CPUs that this process may run on"),
    Field("hardware.memory", "int", "B", "physical memory"),
    Field("hardware.swap", "int", "B", "swap space"),
    Field("hardware.clock", "string", "", "the kernel's clock source"),
    Field("hardware.governor", "string or null", "", "CPU frequency governor, where it can be read"),
    Field("hardware.cgroup", "string", "", "control groups: `v1`, `v2`, `hybrid` or `none`"),
    Field("hardware.load", "list", "tasks", "load averages of 1, 5 and 15 minutes when the run began"),
    Field(
        "hardware.yardstick",
        "list",
        "s",
        "CPU time of a fixed computation before and after the load; longer where the machine is slower",
    ),
)

_LATENCY = (
    ("count", "int", "requests", "in the histogram"),
    ("mean", "number or null", "s", "mean; null when the histogram is empty, as are the others"),
    ("p50", "number or null", "s", "median"),
    ("p90", "number or null", "s", "90th percentile"),
    ("p99", "number or null", "s", "99th percentile"),
    ("p999", "number or null", "s", "99.9th percentile"),
    ("max", "number or null", "s", "greatest"),
)

_FIGURES = (
    ("requests", "int", "requests", "scheduled in the measured window and done"),
    ("successes", "int", "requests", "of these, judged good"),
    ("documents", "int", "documents", "that the store took or returned"),
    ("errors.CLASS", "int", "requests", "failed, by error class"),
    (
        "throughput",
        "number",
        "1/s",
        "successes that were answered in the measured window, per second for which their stream ran in it",
    ),
    (
        "documents_per_second",
        "number",
        "1/s",
        "documents that were answered in the measured window, by the same seconds",
    ),
)

SUMMARY = (
    Field("status", "string", "", "`done`, `failed` or `interrupted`"),
    Field("failure", "string", "", "what failed, when the status is `failed`"),
    Field("fault", "string", "", "whose failure that was: `store`, `generator` or `unknown`"),
    Field("phases[].name", "string", "", "the phase's name"),
    Field("phases[].prepares", "bool", "", "whether the phase only prepares the measured ones, as loading data does"),
    Field("phases[].start", "number", "s", "when its load began, since the run began: the zero of its seconds"),
    Field("phases[].clock.started", "number", "s since 1970, UTC", "the same instant, by the wall clock"),
    Field(
        "phases[].clock.uncertainty", "number", "s", "by how much that may be off: the clocks cannot be read at once"
    ),
    Field("phases[].clock.drift", "number", "s", "what the wall clock gained on the monotonic one during the phase"),
    Field("phases[].warmup", "number", "s", "load before the measured window"),
    Field("phases[].duration", "number", "s", "the measured window"),
    Field("phases[].streams[].name", "string", "", "the stream's name"),
    Field("phases[].streams[].pacing.**", "any", "", "closed (clients, think time) or open (rate, arrivals)"),
    Field(
        "phases[].streams[].measured",
        "number",
        "s",
        "of the window in which the stream ran; rates are per second of it",
    ),
    Field("phases[].streams[].ran_out", "bool", "", "whether it ended before its time, having nothing left to send"),
    Field("phases[].set_aside[].corpus", "string", "", "a corpus with lines that are not documents and were not sent"),
    Field("phases[].set_aside[].lines", "int", "lines", "how many; a corpus that only a part is read of may have more"),
    Field("phases[].set_aside[].kept[]", "string", "", "a file with these lines, their numbers and what is wrong"),
    *(
        Field(f"phases[].operations.OPERATION.{name}", kind, unit, says)
        for name, kind, unit, says in (
            *_FIGURES,
            ("dropped", "int", "requests", "never sent, since too many were in flight"),
            ("in_flight_at_end", "int", "requests", "sent and not answered when the phase was over"),
            (
                "recall",
                "number",
                "",
                "share (0 to 1) of the documents that should have been found that were; only where it is asserted",
            ),
            *(
                (f"response.{name}", kind, unit, f"done - scheduled, successes: {says}")
                for name, kind, unit, says in _LATENCY
            ),
            *(
                (f"service.{name}", kind, unit, f"done - sent, successes: {says}")
                for name, kind, unit, says in _LATENCY
            ),
            *(
                (f"failure.{name}", kind, unit, f"done - scheduled, failures: {says}")
                for name, kind, unit, says in _LATENCY
            ),
            *(
                (f"all.{name}", kind, unit, f"done - scheduled, with failures: {says}")
                for name, kind, unit, says in _LATENCY
            ),
        )
    ),
    *(
        Field(f"phases[].operations.OPERATION.parts.PART.{name}", kind, unit, says)
        for name, kind, unit, says in (
            *((name, kind, unit, f"of this part of the operation: {says}") for name, kind, unit, says in _FIGURES),
            *(
                (f"{time}.{name}", kind, unit, f"done - sent of this part: {says}")
                for time in ("response", "service", "failure", "all")
                for name, kind, unit, says in _LATENCY
            ),
        )
    ),
    Field("generator.threads", "int", "threads", "workers"),
    Field("generator.cpu_share", "number", "share", "greatest mean CPU share of a worker in the measured window; 0..1"),
    Field("generator.cpu_share_peak", "number", "share", "greatest CPU share of a worker in one second"),
    Field("generator.waited_share", "number", "share", "greatest mean share of time that a worker waited for a core"),
    Field(
        "generator.throttled_share",
        "number or null",
        "share",
        "time for which the control group of the generator was throttled by its CPU quota; null without control groups",
    ),
    Field(
        "generator.stolen_share",
        "number or null",
        "share",
        "of all processors, taken by the hypervisor in the measured window; null where it was not counted",
    ),
    Field(
        "generator.network_share",
        "number or null",
        "share",
        "of the speed of this machine's busiest interface; null where no speed is known",
    ),
    Field(
        "generator.ceiling_share",
        "number or null",
        "share",
        "requests per second and worker over `generator.ceiling` of the manifest; null without calibration",
    ),
    Field("generator.lateness_p99", "number or null", "s", "99th percentile of how late clients handled due requests"),
    Field("generator.lag_p99", "number or null", "s", "99th percentile of the event loop's lag"),
    Field(
        "generator.longest_stall",
        "number or null",
        "s",
        "greatest lag: the longest stall of an event loop",
    ),
    Field(
        "generator.away_share",
        "number or null",
        "share",
        "greatest mean share of time that a worker's event loop spent in stalls of 50 ms or more",
    ),
    Field("generator.achieved", "number or null", "share", "achieved over offered rate; null for closed pacing"),
    Field("verdict.valid", "bool", "", "whether the run is valid"),
    Field("verdict.reasons[].code", "string", "", "which reason it is"),
    Field("verdict.reasons[].cause", "string", "", "what was seen, with its figures"),
    Field("verdict.reasons[].remedy", "string", "", "what to do about it"),
    Field("verdict.not_judged[]", "string", "", "what could not be judged, and why"),
)
