"""`spread: nearest`: assignment of clients to near nodes, with equal numbers of clients for all nodes.

The assignment solves a transportation problem. Ranks supply clients, nodes take equal numbers of clients. The cost of a
client is the round trip from its rank to its node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from loadframe.base.errors import BadInput
from loadframe.ranks.coordinator import Rank, present
from loadframe.ranks.liveness import distances

#: Cost of an unreachable node, s; above all real round trips.
_OUT_OF_REACH = 1e3


@dataclass(frozen=True)
class Nearest:
    """Round trips from ranks to hosts, s (None: unreachable), and the number of clients by rank and host."""

    hosts: tuple[str, ...]
    ranks: tuple[int, ...]
    round_trips: tuple[tuple[float | None, ...], ...]
    clients: tuple[tuple[int, ...], ...]

    @classmethod
    def measure(cls, hosts: Sequence[str], ranks: Sequence[Rank], clients: int, threads: int) -> Self:
        """Measure the round trips from the ranks (or from this process) and assign `clients` clients to hosts.

        Blocks until all ranks have measured. `hosts` are `host:port`s. `threads` is the number of workers of each rank.
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
        """Create an assignment from sequences with a row per rank and a column per host.

        `round_trips` are in s, None for an unreachable host; `clients` are numbers of clients.
        """
        return cls(tuple(hosts), tuple(ranks), tuple(map(tuple, round_trips)), tuple(map(tuple, clients)))

    @classmethod
    def again(cls, recorded: Mapping[str, Any], hosts: Sequence[str], ranks: Sequence[Rank]) -> Self:
        """Return the assignment that `describe` wrote to a manifest, for the present hosts and ranks in the same order.

        BadInput if the numbers of ranks or hosts differ from the recorded ones.
        """
        numbers = [rank.rank for rank in ranks] or [0]
        if (len(recorded["hosts"]), len(recorded["ranks"])) != (len(hosts), len(numbers)):
            raise BadInput(
                f"the recorded run has {len(recorded['ranks'])} ranks and {len(recorded['hosts'])} nodes, this one"
                f" {len(numbers)} and {len(hosts)}",
                where="--nearest-as",
                remedy="use the same numbers, or measure again with only --spread nearest",
            )
        return cls.of(numbers, hosts, recorded["round_trips"], recorded["clients"])

    def homes(self, threads: int) -> list[int]:
        """Return each client's host, as an index into `hosts`, in the order of clients.

        Client c belongs to worker c mod (ranks x `threads`), so `threads` must be the same as for `measure`. A rank's
        first clients get its first host.
        """
        left = [[host for host, count in enumerate(row) for _ in range(count)] for row in self.clients]
        return [left[rank].pop(0) for rank in ranks_of(sum(map(len, left)), len(self.ranks), threads)]

    def cost(self, clients: Sequence[Sequence[int]] | None = None) -> float:
        """Return the mean round trip of a client, s, for this or the given assignment; 0 if no client has one.

        `clients` has a row per rank and a column per host. Clients of unreachable hosts are left out: they have no
        round trip.
        """
        reached = np.array([[trip is not None for trip in row] for row in self.round_trips])
        counts = np.where(reached, np.array(self.clients if clients is None else clients, float), 0.0)
        return float((counts * _costs(self.round_trips)).sum() / max(counts.sum(), 1))

    def describe(self, threads: int) -> dict[str, Any]:
        """Return the assignment for a manifest, with its mean round trip and the one of round robin, in s.

        `threads` is the number of workers of each rank.
        """
        in_turn = [[0] * len(self.hosts) for _ in self.ranks]
        for client, rank in enumerate(ranks_of(sum(map(sum, self.clients)), len(self.ranks), threads)):
            # The engine numbers clients over all ranks: with two ranks and two hosts, each rank uses one host.
            in_turn[rank][client % len(self.hosts)] += 1
        return {
            "hosts": list(self.hosts),
            "ranks": list(self.ranks),
            "round_trips": [list(row) for row in self.round_trips],
            "clients": [list(row) for row in self.clients],
            "mean_round_trip": self.cost(),
            "mean_round_trip_in_turn": self.cost(in_turn),
        }


def ranks_of(clients: int, ranks: int, threads: int) -> list[int]:
    """Return the rank of each client, from 0. The engine assigns clients to workers (`threads` per rank) in turn."""
    return [client % (ranks * threads) // threads for client in range(clients)]


def seats(clients: int, ranks: int, threads: int) -> list[int]:
    """Return the number of clients of each rank; see `ranks_of`."""
    placed = ranks_of(clients, ranks, threads)
    return [placed.count(rank) for rank in range(ranks)]


def divide(round_trips: Sequence[Sequence[float | None]], clients: Sequence[int]) -> list[list[int]]:
    """Return the number of clients by rank and host: even over hosts, with the least sum of round trips.

    `round_trips`, s, has a row for each rank, with None for an unreachable host, which counts as 1,000 s and still gets
    its share. `clients` are the clients of each rank. The numbers of two hosts differ by 1 at most. A transportation
    problem with integer supplies and demands has an integer solution, which the simplex method finds.
    """
    from scipy.optimize import linprog  # slow to import, and few commands need it
    from scipy.sparse import coo_array

    ranks, hosts, total = len(clients), len(round_trips[0]), sum(clients)
    costs = _costs(round_trips)
    cells = np.arange(ranks * hosts)
    ones = np.ones(ranks * hosts)
    of_rank = coo_array((ones, (cells // hosts, cells)), (ranks, ranks * hosts)).tocsr()
    of_host = coo_array((ones, (cells % hosts, cells)), (hosts, ranks * hosts)).tocsr()
    most, least = np.full(hosts, -(-total // hosts)), np.full(hosts, total // hosts)
    limits = coo_array(np.vstack([of_host.toarray(), -of_host.toarray()])).tocsr()
    solve: Any = linprog  # its type hints lack sparse matrices
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
    """Return the round trips as a matrix by rank and host, s; unreachable hosts cost 1,000 s."""
    return np.array([[_OUT_OF_REACH if trip is None else trip for trip in row] for row in round_trips], float)
