"""Time that a phase's requests took: the maximum over ranks, and the sum over ranks.

Publications of MPI programs give the first as wall time and the second as CPU time. A rank of such a program sends one
request at a time, as a client of a closed loop does.
"""

from collections import defaultdict
from dataclasses import dataclass

import pyarrow.compute as pc

from loadframe.record import Run
from loadframe.record.schema import SAMPLES_FILE
from loadframe.record.schema.summary import PhaseSummary

_TIMES = ("service", "failure")


@dataclass(frozen=True)
class RequestTime:
    """Time of a phase's requests, s.

    `exact`: `wall` is the maximum over clients of their summed request times. Otherwise the run did not record single
    requests, and `wall` is the length of the measured window, which pauses and the generator make longer.
    """

    wall: float
    summed: float
    exact: bool

    def as_dict(self) -> dict[str, float | bool]:
        """Return the times for JSON, s."""
        return dict(vars(self))


def request_time(run: Run, phase: PhaseSummary) -> RequestTime:
    """Return the time of the requests in a phase's measured window, without aggregates of several operations."""
    if (run.path / SAMPLES_FILE).exists():
        clients: dict[tuple[int, str, int], float] = defaultdict(float)
        for piece in run.samples():
            rows = piece.filter(pc.and_(pc.equal(piece["phase"], phase.name), pc.equal(piece["segment"], "measure")))
            keys = zip(*(rows[name].to_pylist() for name in ("rank", "stream", "client")), strict=True)
            for key, time in zip(keys, pc.subtract(rows["done"], rows["sent"]).to_pylist(), strict=True):
                clients[key] += time
        if clients:
            return RequestTime(max(clients.values()), sum(clients.values()), exact=True)
    known = run.histograms.tags()
    tags = [tag for name in phase.single for time in _TIMES if (tag := f"{phase.name}/{name}/{time}") in known]
    totals = [run.histograms.total(tag) for tag in tags]
    return RequestTime(phase.duration, sum(total.count * (total.mean or 0.0) for total in totals), exact=False)
