"""The simulated store's law: how long a request takes; what throughput, response times and capacity follow from it.

The served form (`server`) and the one in virtual time (`loadframe.simulate`) both take it from here. With m nodes in
the cluster and q requests present at the node that serves it, itself among them, a request's service time is

    S = B * D(m; sigma, kappa) * D(q; client_sigma, client_kappa) / (1 - c)     D(n; s, k) = 1 + s (n-1) + k n (n-1)

where B is drawn from the distribution with mean `service`, and c is `move_cost` while its node sends or takes data,
else 0. Each node has `servers` servers and one queue, first come first served; q is counted when a request comes. So:

- **Over nodes**, every server busy and client_sigma = client_kappa = 0: each server completes 1/(service D(m)) requests
  per second whatever the distribution is, so X(m) = L m / D(m) with L = servers/service. That is the Universal
  Scalability Law (Gunther) with exactly these sigma and kappa.
- **Over clients**, one node, no think time, and N <= servers clients: a client sends again as soon as it is answered,
  so every request finds q = N; X(N) = N / (service D(N)). That is the law with L = 1/service.
- **Open** Poisson arrivals at rate r to m nodes of one exponential server each, split at random: each node is an M/M/1
  queue with mu = 1/(service D(m)), whose response time is exponential with mean 1/(mu - r/m). Its quantile p stays
  within t up to r = m (mu - ln(1/(1-p))/t): the capacity, known without a search.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_duration, parse_size

#: The one version of the simulated store.
VERSION = "1"
#: The folder that its nodes share, beside their own.
FOLDER = "shared"

DISTRIBUTIONS = ("exponential", "constant", "lognormal")
_DURATIONS = ("service", "stall", "stall_every", "join_delay")
_SIZES = ("shard_size", "bandwidth")
#: More servers than this, or requests at a node, are not kept track of.
MOST_SERVERS, MOST_QUEUED = 256, 4096


@dataclass(frozen=True)
class SimModel:
    """A store's parameters, which are also the settings of a simulated node. Times in s, sizes in bytes."""

    service: float = 0.005  #: mean service time of a request that is alone on a cluster of one node
    distribution: str = "exponential"  #: of the service time
    variation: float = 1.0  #: standard deviation over mean, of a lognormal one
    servers: int = 1  #: requests that a node serves at once
    queue: int = 1000  #: requests that wait at a node; more are rejected
    sigma: float = 0.0  #: contention over nodes
    kappa: float = 0.0  #: coherency over nodes
    client_sigma: float = 0.0  #: contention over the requests that are present at a node
    client_kappa: float = 0.0  #: coherency over them
    stall: float = 0.0  #: how long a node stands still, at its `stall_every`
    stall_every: float = 0.0  #: between the beginnings of two stalls; 0 for none
    join_delay: float = 0.0  #: from a node's start until it is a member
    shard_size: int = 0  #: bytes of a copy of a shard; 0 for what was really sent to it
    bandwidth: int = 100 * 2**20  #: bytes per second that a node takes in when data is moved to it
    move_cost: float = 0.0  #: share of a node's speed that sending or taking data costs

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise BadInput(
                f"there is no distribution {self.distribution!r}", remedy=f"take one of {', '.join(DISTRIBUTIONS)}"
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
        """Read a node's settings; BadInput for an unknown one, or one that cannot be."""
        known = {field.name: field.type for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in settings.items():
            if name not in known:
                raise BadInput(
                    f"the simulated store has no setting {name!r}", remedy=f"it has {', '.join(sorted(known))}"
                )
            if name in _DURATIONS:
                values[name] = parse_duration(value)
            elif name in _SIZES:
                values[name] = parse_size(value)
            elif name == "distribution":
                values[name] = str(value)
            else:
                _require(name, isinstance(value, int | float) and not isinstance(value, bool), "a number")
                values[name] = int(value) if name in ("servers", "queue") else float(value)
        return cls(**values)

    def draw(self, source: random.Random) -> float:
        """Return a service time for a request that is alone on a cluster of one node, s."""
        if self.distribution == "constant":
            return self.service
        if self.distribution == "exponential":
            return source.expovariate(1 / self.service)
        spread = math.log1p(self.variation**2)
        return source.lognormvariate(math.log(self.service) - spread / 2, math.sqrt(spread))

    def slowdown(self, nodes: int, present: int, *, moving: bool = False) -> float:
        """Return what a service time is multiplied by."""
        over_clients = inflation(present, self.client_sigma, self.client_kappa)
        cost = 1 - self.move_cost if moving else 1.0
        return inflation(nodes, self.sigma, self.kappa) * over_clients / cost

    def finish(self, start: float, work: float) -> float:
        """Return when a request is done that begins at `start` and needs `work` s: a node does nothing while stalled.

        Stalls begin at the multiples of `stall_every`.
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
        """The share of time in which a node does not stand still."""
        return 1 - self.stall / self.stall_every if self.stall else 1.0

    def throughput(self, nodes: int) -> float:
        """Return requests per second of that many nodes with balanced data, every server always busy."""
        return self.up * nodes * self.servers / (self.service * inflation(nodes, self.sigma, self.kappa))

    def capacity(self, nodes: int, limit: float, quantile: float = 0.99) -> float:
        """Return the greatest rate of Poisson arrivals at which that quantile of response times is within `limit` s.

        0 when no rate is. Only of exponential service times, one server and no stalls: BadInput for others.
        """
        if self.distribution != "exponential" or self.servers != 1 or self.stall or self.client_sigma:
            raise BadInput("this store's capacity is not known in closed form", remedy="simulate it")
        speed = 1 / (self.service * inflation(nodes, self.sigma, self.kappa))
        return max(nodes * (speed + math.log1p(-quantile) / limit), 0.0)


def inflation(size: float, sigma: float, kappa: float) -> float:
    """Return D of the Universal Scalability Law: by how much `size` that share work slow each other down."""
    return 1 + sigma * (size - 1) + kappa * size * (size - 1)


def _require(name: str, holds: bool, what: str) -> None:
    if not holds:
        raise BadInput(f"the setting {name} of the simulated store is to be {what}")
