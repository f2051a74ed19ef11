"""The load of an elastic run: the measured phase's own requests, in the pacing that the experiment asks for."""

from loadframe.experiment.elastic.file import ComingClients, LoadEntry, RateShare
from loadframe.workload.pacing import Arrivals
from loadframe.workload.phases import Stream
from loadframe.workload.resolved import arriving, paced


def loaded(
    streams: tuple[Stream, ...], entry: LoadEntry, capacity: float, arrivals: Arrivals | None, phase: str
) -> tuple[Stream, ...]:
    """Return a phase's streams under a load; `capacity` (1/s) is what a share of a rate is a share of.

    `arrivals` are those of open streams where the load says nothing. BadInput where the phase has no one stream that
    could take the load.
    """
    if entry.as_written:
        return arriving(streams, arrivals)
    clients = entry.clients.level() if isinstance(entry.clients, ComingClients) else entry.clients
    rate = entry.rate.share * capacity if isinstance(entry.rate, RateShare) else entry.rate
    assert not isinstance(clients, str) and not isinstance(rate, str), "expressions are worked out before"
    more = {key: getattr(entry, key) for key in ("arrivals", "max_in_flight") if getattr(entry, key) is not None}
    before = arriving(streams, arrivals)
    after = paced(before, clients, rate, phase)
    spaced = arriving(after, arrivals)
    return tuple(
        stream if now is then else stream.model_copy(update=more)
        for then, now, stream in zip(before, after, spaced, strict=True)
    )
