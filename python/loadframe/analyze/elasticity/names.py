"""What each measure is called, and in which unit it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """A measure's words. `unit` is s, seconds (of a response time), share, bytes, bytes/s, rate (of what throughput
    counts), or a word for others. In `says`, `{counted}` stands for what throughput counts.
    """

    title: str
    unit: str
    says: str


MEASURES: dict[str, Named] = {
    "join_delay": Named("join delay", "s", "from asking for the node to its being a member"),
    "departure": Named("departure", "s", "from telling the node to leave to its having left"),
    "redistribution": Named("redistribution", "s", "from joining, or from being told to leave, to all data in place"),
    "pieces_moved": Named("moved", "pieces", "shards, slots or whatever the change counted down while data moved"),
    "pieces_rate": Named("moved in a second", "pieces/s", "the same, by the time in which it was counted down"),
    "bytes_moved": Named("moved", "bytes", "what the change counted down while data moved"),
    "bytes_rate": Named("moved in a second", "bytes/s", "the same, by the time in which it was counted down"),
    "stabilisation": Named("stabilisation", "s", "until throughput and p99 hold their last level for a window"),
    "disturbance": Named("disturbance", "share", "how far the 10-s median of throughput fell below x0"),
    "slowdown": Named(
        "slowdown", "ratio", "the greatest p99 of a second, against L0; noise alone makes it more than 1"
    ),
    "lost_work": Named("lost work", "s", "seconds of complete outage that would have lost as many {counted}"),
    "latency_debt": Named("latency debt", "s", "what p99 was above its ideal during the disturbance, in units of L0"),
    "unknown_latency": Named(
        "unknown p99", "s", "seconds without an answer of which nothing says how long users waited"
    ),
    "violation": Named("violation", "s", "seconds outside the objective"),
    "errors": Named("errors", "requests", "failed, or never sent since too many were in flight"),
    "longest_gap": Named("longest gap", "s", "the most seconds in succession in which no {counted} succeeded"),
    "break_even": Named("break-even", "s", "until more was done than without the change"),
    "growth": Named("growth", "ratio", "throughput after the change by what it was before, x1/x0"),
    "realised_gain": Named("realised gain", "share", "growth of throughput, x1/x0, by growth of nodes"),
    "capacity_reached": Named("capacity reached", "share", "x1 against the capacity of as many nodes, where given"),
    "elastic_efficiency": Named("elastic efficiency", "share", "work done, against x1 from the beginning"),
    "exposure": Named("exposure", "s", "seconds in which some data had fewer copies than asked for"),
    "dory": Named("Dory's score", "", "area of excess response time and deviation over their levels; 0 is unnoticed"),
    "x0": Named("x0", "rate", "throughput before"),
    "x1": Named("x1", "rate", "throughput in the last window"),
    "l0": Named("L0", "seconds", "99th percentile of response times before"),
    "l1": Named("L1", "seconds", "99th percentile in the last window"),
}

#: Measures that are shown where they are not 0 only.
UNUSUAL = frozenset({"unknown_latency"})
