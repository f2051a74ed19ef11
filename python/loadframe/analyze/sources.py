"""What the generator did for sources of events: how busy their readers were, and whether events came at their rate."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.generator import between, done_in_window


def reader_share(name: str, outcome: dict[str, Any], telemetry: pa.Table) -> float | None:
    """Return the mean CPU share of the busiest thread that read a source, in the measured window; None if not known.

    Where the window was too short for a sample it is the share of the whole phase.
    """
    start = outcome["offset"] + outcome["warmup"]
    watched = between(telemetry, start, start + outcome["measured"])
    of_it = pc.and_(pc.equal(watched["source"], f"source:{name}"), pc.equal(watched["metric"], "reader_cpu"))
    mean: float | None = pc.mean(watched.filter(of_it)["value"]).as_py()
    spent, whole = outcome["sources"][name].get("reader_cpu"), outcome["warmup"] + outcome["measured"]
    if mean is None and spent and whole:
        return float(max(spent) / whole)
    return mean


def offered_share(outcome: dict[str, Any], series: pa.Table) -> float | None:
    """Return events done over events due, of sources whose events have instants of their own; None without any.

    That is a generator, or a log that is replayed. Counted are the events of the measured window, up to the last
    instant at which one was due: a source that takes longer than that has fallen behind. Those that were due and were
    never made, since the source was behind when the phase ended, are in proportion to the time by which it was behind.
    At the end those may be left that no request was sent with yet: as many as come in the time in which one fills.
    """
    shares = []
    for stream in outcome["streams"]:
        source = stream["pacing"].get("source", {}).get("source")
        said = outcome.get("sources", {}).get(source) or {}
        offered = said.get("offered")
        if not offered or offered["until"] <= outcome["warmup"]:
            continue
        until = min(offered["until"], outcome["warmup"] + outcome["measured"])
        parts = [f"{part['operation']}.{part['part']}" for part in outcome["parts"] if part["stream"] == stream["name"]]
        rows = series.filter(
            pc.and_(pc.equal(series["stream"], stream["name"]), pc.is_in(series["operation"], pa.array(parts)))
        )
        made = (offered["made"] - outcome["warmup"]) / (offered["until"] - outcome["warmup"])
        measured = until - outcome["warmup"]
        done = done_in_window(rows, said["left_over"], outcome["warmup"], measured, waiting=offered["flush"])
        shares.append(done * max(made, 0.0) if done is not None else None)
    known = [share for share in shares if share is not None]
    return min(known, default=None)


def both(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two shares, of which either may not apply."""
    return min((share for share in (one, other) if share is not None), default=None)
