"""The load of an elastic run: the measured phase's own requests, in the pacing that the experiment asks for."""

from dataclasses import replace

from loadframe.experiment.elastic.file import Arrivals, LoadEntry, RateShare
from loadframe.workload import ResolvedPhase
from loadframe.workload.phases import Stream
from loadframe.workload.resolved import paced


def loaded(phase: ResolvedPhase, entry: LoadEntry, capacity: float) -> ResolvedPhase:
    """Return the phase under a load; `capacity` (1/s) is what a share of a rate is a share of.

    BadInput where the phase has no one stream that could take it.
    """
    clients = entry.clients.level() if isinstance(entry.clients, Arrivals) else entry.clients
    rate = entry.rate.share * capacity if isinstance(entry.rate, RateShare) else entry.rate
    streams = paced(phase.streams, clients, rate, phase.name)
    more = {key: getattr(entry, key) for key in ("arrivals", "max_in_flight") if getattr(entry, key) is not None}

    def finished(before: Stream, after: Stream) -> Stream:
        return after if after is before else after.model_copy(update=more)

    return replace(phase, streams=tuple(finished(*pair) for pair in zip(phase.streams, streams, strict=True)))
