"""Performance model of the simulated store, from which its throughput, response times and capacity follow.

Both the served store (`server`) and the simulation in virtual time (`loadframe.simulate`) use it. In a cluster of m
nodes, the service time of a request at a node with q requests, including itself, is

    S = B * D(m; sigma, kappa) * D(q; client_sigma, client_kappa) / (1 - c)     D(n; s, k) = 1 + s (n-1) + k n (n-1)

B is drawn from the distribution with mean `service`. c is `move_cost` while the node sends or receives data, else 0.
Each node has `servers` servers and one first-come-first-served queue; q is counted on arrival. So:

- **Over nodes**, with all servers busy and client_sigma = client_kappa = 0: each server completes 1/(service D(m))
  requests per second for any distribution, so X(m) = L m / D(m) with L = servers/service. That is the Universal
  Scalability Law (Gunther) with exactly these sigma and kappa.
- **Over clients**, with one node, no think time, and N <= servers clients: each client sends its next request
  immediately, so every request finds q = N; X(N) = N / (service D(N)). That is the law with L = 1/service.
- **Open loop** with Poisson arrivals at rate r, split at random over m nodes of one exponential server each: each node
  is an M/M/1 queue with mu = 1/(service D(m)), and its response time is exponential with mean 1/(mu - r/m). Quantile p
  stays within t up to r = m (mu - ln(1/(1-p))/t), which is the exact capacity.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_duration, parse_size
from loadframe.store.base import nearest_first

#: The only version of the simulated store.
VERSION = "1"
#: The folder that the nodes share, next to their own folders.
FOLDER = "shared"

DISTRIBUTIONS = ("exponential", "constant", "lognormal")
_DURATIONS = ("service", "stall", "stall_every", "join_delay")
_SIZES = ("shard_size", "bandwidth")
#: Limits of servers and queued requests per node, which fix the size of the shared buffer.
MOST_SERVERS, MOST_QUEUED = 256, 4096


@dataclass(frozen=True)
class SimModel:
    """Model parameters, which are also the settings of a simulated node. Times in s, sizes in bytes."""

    service: float = 0.005  #: mean service time of a single request on a cluster of one node
    distribution: str = "exponential"  #: of the service time
    variation: float = 1.0  #: standard deviation over mean, for lognormal service times
    servers: int = 1  #: requests that a node serves in parallel
    queue: int = 1000  #: requests that wait at a node; further ones are rejected
    sigma: float = 0.0  #: contention over nodes
    kappa: float = 0.0  #: coherency over nodes
    client_sigma: float = 0.0  #: contention over the requests at a node
    client_kappa: float = 0.0  #: coherency over the requests at a node
    stall: float = 0.0  #: duration of a node's stalls
    stall_every: float = 0.0  #: time from the start of a stall to the next; 0 for no stalls
    join_delay: float = 0.0  #: time from a node's start until it is a member
    shard_size: int = 0  #: bytes of a shard copy; 0 for the bytes that were sent to it
    bandwidth: int = 100 * 2**20  #: bytes per second that a node receives when data moves to it
    move_cost: float = 0.0  #: share of a node's speed that sending or receiving data costs

    def __post_init__(self) -> None:
        """Raise BadInput for parameters outside their ranges."""
        if self.distribution not in DISTRIBUTIONS:
            raise BadInput(
                f"unknown distribution {self.distribution!r}", remedy=f"use one of {', '.join(DISTRIBUTIONS)}"
            )
        for name in ("sigma", "kappa", "client_sigma", "client_kappa", "stall", "stall_every", "join_delay"):
            _require(name, getattr(self, name) >= 0, "0 or more")
        for name in ("service", "variation", "bandwidth"):
            _require(name, getattr(self, name) > 0, "more than 0")
        _require("servers", 1 <= self.servers <= MOST_SERVERS, f"from 1 to {MOST_SERVERS}")
        _require("queue", 0 <= self.queue <= MOST_QUEUED, f"from 0 to {MOST_QUEUED}")
        _require("move_cost", 0 <= self.move_cost < 1, "from 0 to less than 1")
        _require("stall", not self.stall or self.stall < self.stall_every, "shorter than stall_every")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "SimModel":
        """Return the model of a node's settings; BadInput for an unknown or invalid one.

        Durations and sizes may be texts with a unit, or numbers of s and bytes; missing settings have their defaults.
        """
        known = {field.name: field.type for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in settings.items():
            if name not in known:
                raise BadInput(
                    f"unknown setting {name!r} of the simulated store",
                    remedy=f"use one of {nearest_first(name, known)}",
                )
            if name in _DURATIONS:
                values[name] = parse_duration(value)
            elif name in _SIZES:
                values[name] = parse_size(value)
            elif name == "distribution":
                values[name] = str(value)
            else:
                _require(name, isinstance(value, int | float) and not isinstance(value, bool), "a number")
                if name in ("servers", "queue"):
                    _require(name, isinstance(value, int) or value.is_integer(), "a whole number")
                values[name] = int(value) if name in ("servers", "queue") else float(value)
        return cls(**values)

    def draw(self, source: random.Random) -> float:
        """Draw from `source` the service time of a single request on a cluster of one node, s."""
        if self.distribution == "constant":
            return self.service
        if self.distribution == "exponential":
            return source.expovariate(1 / self.service)
        spread = math.log1p(self.variation**2)
        return source.lognormvariate(math.log(self.service) - spread / 2, math.sqrt(spread))

    def slowdown(self, nodes: int, present: int, *, moving: bool = False) -> float:
        """Return the factor on a service time with `nodes` members and `present` requests, with this one, at the node.

        `moving` is whether the node sends or receives data, which multiplies the factor by 1 / (1 - `move_cost`).
        """
        over_clients = inflation(present, self.client_sigma, self.client_kappa)
        cost = 1 - self.move_cost if moving else 1.0
        return inflation(nodes, self.sigma, self.kappa) * over_clients / cost

    def finish(self, start: float, work: float) -> float:
        """Return the end of a request that starts at `start` and needs `work` s, during which stalls stop the node.

        Start and end are in s on the same clock. Stalls start at its multiples of `stall_every`.
        """
        if not self.stall:
            return start + work
        between = self.stall_every - self.stall
        into = start % self.stall_every
        if into < self.stall:
            start, into = start - into + self.stall, self.stall
        stalls = math.floor((into - self.stall + work) / between)
        return start + work + stalls * self.stall

    @property
    def up(self) -> float:
        """The share of time without stalls, above 0 and at most 1."""
        return 1 - self.stall / self.stall_every if self.stall else 1.0

    def throughput(self, nodes: int) -> float:
        """Return the requests per second of `nodes` nodes with balanced data and all servers busy."""
        return self.up * nodes * self.servers / (self.service * inflation(nodes, self.sigma, self.kappa))

    def capacity(self, nodes: int, limit: float, quantile: float = 0.99) -> float:
        """Return the highest rate of Poisson arrivals at which that quantile of response times is within `limit` s.

        The rate is in requests per second, for all `nodes` together, with data and requests spread evenly; `quantile`
        is between 0 and 1. 0 if no rate suffices. BadInput unless service times are exponential, with one server,
        without stalls, and independent of the number of requests at the node (`client_sigma` and `client_kappa` are 0).
        """
        crowded = self.client_sigma or self.client_kappa
        if self.distribution != "exponential" or self.servers != 1 or self.stall or crowded:
            raise BadInput("the capacity of this model has no closed form", remedy="simulate it")
        speed = 1 / (self.service * inflation(nodes, self.sigma, self.kappa))
        return max(nodes * (speed + math.log1p(-quantile) / limit), 0.0)


def inflation(size: float, sigma: float, kappa: float) -> float:
    """Return D of the Universal Scalability Law: the factor by which `size` concurrent parties prolong service times.

    It is `1 + sigma * (size - 1) + kappa * size * (size - 1)`: 1 for one party.
    """
    return 1 + sigma * (size - 1) + kappa * size * (size - 1)


def _require(name: str, holds: bool, what: str) -> None:
    """Raise BadInput unless `holds`; `what` are the allowed values of the setting, as text."""
    if not holds:
        raise BadInput(f"the setting {name} of the simulated store must be {what}")
