"""The nodes' queues as numbers that all processes of a cluster can share: when each server is free, who is present.

A request is admitted once, at its arrival, and its end is known from then on: first come, first served needs no more
than the instant at which each server is free (the recursion of Kiefer and Wolfowitz).
"""

import mmap
import random

import numpy as np
import numpy.typing as npt

from loadframe.store.sim.model import MOST_QUEUED, MOST_SERVERS, SimModel

MOST_NODES = 64
#: Of each node: when each server is free, when each request that is present ends, and its sums.
_ENDS = MOST_SERVERS + MOST_QUEUED
_SUMS = 4
_ROW = MOST_SERVERS + _ENDS + _SUMS
SIZE = MOST_NODES * _ROW * 8
COMPLETED, REJECTED, BUSY = range(3)


class Stations:
    """The queues of up to MOST_NODES nodes in a buffer of SIZE bytes, which may be shared under a lock."""

    def __init__(self, buffer: bytearray | mmap.mmap, model: SimModel) -> None:
        """Use a buffer that is zero where it is new."""
        numbers = np.frombuffer(buffer, dtype=np.float64, count=MOST_NODES * _ROW)
        self._rows: npt.NDArray[np.float64] = numbers.reshape(MOST_NODES, _ROW)
        self._model = model
        self._most = model.servers + model.queue

    def clear(self, station: int) -> None:
        """Empty a node's queue, and forget what it has done."""
        self._rows[station] = 0.0

    def admit(self, station: int, now: float, nodes: int, source: random.Random, *, moving: bool) -> float | None:
        """Return when a request that comes now will be done; None when the queue is full and it is rejected."""
        row = self._rows[station]
        free = row[: self._model.servers]
        ends = row[MOST_SERVERS : MOST_SERVERS + self._most]
        sums = row[-_SUMS:]
        present = int(np.count_nonzero(ends > now)) + 1
        if present > self._most:
            sums[REJECTED] += 1
            return None
        server = int(free.argmin())
        work = self._model.draw(source) * self._model.slowdown(nodes, present, moving=moving)
        end = self._model.finish(max(now, float(free[server])), work)
        free[server] = end
        ends[int(ends.argmin())] = end
        sums[COMPLETED] += 1
        sums[BUSY] += work
        return end

    def load(self, station: int, now: float) -> tuple[int, int]:
        """Return how many requests are served and how many wait."""
        row = self._rows[station]
        served = int(np.count_nonzero(row[: self._model.servers] > now))
        present = int(np.count_nonzero(row[MOST_SERVERS : MOST_SERVERS + self._most] > now))
        return served, max(present - served, 0)

    def sums(self, station: int) -> tuple[float, float, float]:
        """Return a node's requests admitted and rejected, and s of work, since it started."""
        completed, rejected, busy, _ = self._rows[station, -_SUMS:].tolist()
        return completed, rejected, busy
