"""`spread: nearest`: which node each client asks, so that ways are short and every node has as many clients.

Clients are divided over nodes by a transportation problem: ranks have clients, nodes take equal numbers of them, and a
client's cost is the round trip from its rank to its node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

#: The cost of a node that a rank does not reach, s: more than any way there is.
_OUT_OF_REACH = 1e3


@dataclass(frozen=True)
class Nearest:
    """Round trips from ranks to hosts, s (None: out of reach), and how many of a rank's clients ask each host."""

    hosts: tuple[str, ...]
    ranks: tuple[int, ...]
    round_trips: tuple[tuple[float | None, ...], ...]
    clients: tuple[tuple[int, ...], ...]

    def homes(self, threads: int) -> list[int]:
        """Return each client's host by its number: client c belongs to worker c mod all workers (threads a rank)."""
        left = [[host for host, count in enumerate(row) for _ in range(count)] for row in self.clients]
        total, workers = sum(map(len, left)), len(self.ranks) * threads
        return [left[client % workers // threads].pop(0) for client in range(total)]

    def cost(self, clients: Sequence[Sequence[int]] | None = None) -> float:
        """Return the mean round trip of a client, s; of another division if one is given."""
        counts = np.array(self.clients if clients is None else clients, float)
        return float((counts * _costs(self.round_trips)).sum() / max(counts.sum(), 1))

    def describe(self) -> dict[str, Any]:
        """Return it for a manifest, with what turns over the nodes would have cost."""
        return {
            "hosts": list(self.hosts),
            "ranks": list(self.ranks),
            "round_trips": [list(row) for row in self.round_trips],
            "clients": [list(row) for row in self.clients],
            "mean_round_trip": self.cost(),
            "mean_round_trip_in_turn": self.cost([_in_turn(sum(row), len(self.hosts)) for row in self.clients]),
        }


def seats(clients: int, ranks: int, threads: int) -> list[int]:
    """Return how many of the clients each rank has."""
    counts = [0] * ranks
    for client in range(clients):
        counts[client % (ranks * threads) // threads] += 1
    return counts


def divide(round_trips: Sequence[Sequence[float | None]], clients: Sequence[int]) -> list[list[int]]:
    """Return how many of each rank's clients ask each host: evenly over hosts, at the least total of round trips.

    A transportation problem with whole numbers on its sides has a solution in whole numbers, which the simplex method
    finds.
    """
    ranks, hosts, total = len(clients), len(round_trips[0]), sum(clients)
    costs = _costs(round_trips)
    cells = np.arange(ranks * hosts)
    ones = np.ones(ranks * hosts)
    of_rank = coo_array((ones, (cells // hosts, cells)), (ranks, ranks * hosts)).tocsr()
    of_host = coo_array((ones, (cells % hosts, cells)), (hosts, ranks * hosts)).tocsr()
    most, least = np.full(hosts, -(-total // hosts)), np.full(hosts, total // hosts)
    limits = coo_array(np.vstack([of_host.toarray(), -of_host.toarray()])).tocsr()
    solve: Any = linprog  # its types know no sparse matrices
    solved = solve(
        costs.ravel(),
        A_ub=limits,
        b_ub=np.concatenate([most, -least]),
        A_eq=of_rank,
        b_eq=np.array(clients, float),
        method="highs-ds",
    )
    whole: list[list[int]] = np.rint(solved.x).astype(int).reshape(ranks, hosts).tolist()
    return whole


def _costs(round_trips: Sequence[Sequence[float | None]]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return np.array([[_OUT_OF_REACH if trip is None else trip for trip in row] for row in round_trips], float)


def _in_turn(clients: int, hosts: int) -> list[int]:
    return [clients // hosts + (host < clients % hosts) for host in range(hosts)]
