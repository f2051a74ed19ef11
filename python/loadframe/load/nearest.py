"""`spread: nearest`: which node each client asks, so that ways are short and every node has as many clients.

Clients are divided over nodes by a transportation problem: ranks have clients, nodes take equal numbers of them, and a
client's cost is the round trip from its rank to its node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from loadframe.base.errors import BadInput
from loadframe.ranks.coordinator import Rank, present
from loadframe.ranks.reach import distances

#: The cost of a node that a rank does not reach, s: more than any way there is.
_OUT_OF_REACH = 1e3


@dataclass(frozen=True)
class Nearest:
    """Round trips from ranks to hosts, s (None: out of reach), and how many of a rank's clients ask each host."""

    hosts: tuple[str, ...]
    ranks: tuple[int, ...]
    round_trips: tuple[tuple[float | None, ...], ...]
    clients: tuple[tuple[int, ...], ...]

    @classmethod
    def measure(cls, hosts: Sequence[str], ranks: Sequence[Rank], clients: int, threads: int) -> Self:
        """Measure the ways from these ranks (none: from this process) and divide the clients.

        RankLost if a rank does not answer.
        """
        hub = present()
        if hub is not None and ranks:
            answers = hub.ask("distances", list(hosts))
            trips = [answers[rank.rank] for rank in ranks]
        else:
            trips = [distances(hosts)]
        rows = divide(trips, seats(clients, len(trips), threads))
        return cls.of([rank.rank for rank in ranks] or [0], hosts, trips, rows)

    @classmethod
    def of(
        cls,
        ranks: Sequence[int],
        hosts: Sequence[str],
        round_trips: Sequence[Sequence[float | None]],
        clients: Sequence[Sequence[int]],
    ) -> Self:
        """Return a division as it was measured."""
        return cls(tuple(hosts), tuple(ranks), tuple(map(tuple, round_trips)), tuple(map(tuple, clients)))

    @classmethod
    def again(cls, recorded: Mapping[str, Any], hosts: Sequence[str], ranks: Sequence[Rank]) -> Self:
        """Return the division that a manifest has, for hosts in the same order. BadInput if their numbers differ."""
        numbers = [rank.rank for rank in ranks] or [0]
        if (len(recorded["hosts"]), len(recorded["ranks"])) != (len(hosts), len(numbers)):
            raise BadInput(
                f"that run spread {len(recorded['ranks'])} ranks over {len(recorded['hosts'])} nodes, and here are"
                f" {len(numbers)} and {len(hosts)}",
                where="--nearest-as",
                remedy="give the same numbers, or have the ways measured anew with --spread nearest alone",
            )
        return cls.of(numbers, hosts, recorded["round_trips"], recorded["clients"])

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
