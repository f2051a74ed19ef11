"""The keys of an elastic experiment's file, as models: loads, transitions with their steps, policies, objectives."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict, Tag, model_validator
from pydantic.types import Discriminator

from loadframe.analyze.rates import RateName
from loadframe.base.units import parse_share
from loadframe.experiment.file.expression import is_expression
from loadframe.experiment.file.model import Count, ExperimentFile, Nodes, Phases, Written
from loadframe.workload.pacing import Arrivals, ClientLevel, ClientStage, RateLevel
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, Rate, Scalar, quantity, wrong

#: A share from 0 to 1, written `90%` or as a number.
Share = Annotated[float, quantity(parse_share, 1e3), Field(ge=0, le=1)]


class ComingClients(Model):
    """Clients that come a few at a time, until there are `most` or the first step of the timeline is taken."""

    from_: Annotated[int, Field(ge=1, alias="from")]
    more: Count
    every: Annotated[Duration, Field(gt=0)]
    most: Count

    def level(self) -> ClientLevel:
        """Return the growing number as steps."""
        stages = []
        for clients in range(self.from_, self.most, self.more):
            stages.append(ClientStage(to=clients, over=self.every))
            stages.append(ClientStage(to=min(clients + self.more, self.most), over=0.0))
        return ClientLevel.model_construct(from_=self.from_, stages=tuple(stages))


class RateShare(Model):
    """A rate that is a share of what the cluster could do under another load, a closed one, without the event."""

    share: Annotated[Share, Field(gt=0)]
    of: Name


def _clients_form(value: object) -> str:
    if is_expression(value):
        return "expression"
    if isinstance(value, ComingClients) or (isinstance(value, dict) and "every" in value):
        return "coming"
    return "levels" if isinstance(value, dict | ClientLevel) else "level"


def _rate_form(value: object) -> str:
    if is_expression(value):
        return "expression"
    if isinstance(value, RateShare) or (isinstance(value, dict) and "share" in value):
        return "a share"
    return "levels" if isinstance(value, dict | RateLevel) else "level"


class LoadEntry(Model):
    """A load over the time of a run: clients (closed), a rate (open), or the phase's own, as the workload has it.

    `with` sets parameters of the workload in its runs.
    """

    as_written: Literal[True] | None = None
    with_: dict[str, Scalar] = Field(default_factory=dict, alias="with")

    clients: (
        Annotated[
            Annotated[Count, Tag("level")]
            | Annotated[ClientLevel, Tag("levels")]
            | Annotated[ComingClients, Tag("coming")]
            | Annotated[Written, Tag("expression")],
            Discriminator(_clients_form),
        ]
        | None
    ) = None
    rate: (
        Annotated[
            Annotated[Rate, Tag("level")]
            | Annotated[RateLevel, Tag("levels")]
            | Annotated[RateShare, Tag("a share")]
            | Annotated[Written, Tag("expression")],
            Discriminator(_rate_form),
        ]
        | None
    ) = None
    arrivals: Arrivals | None = None
    max_in_flight: Count | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests are due at a rate, whatever the answers do."""
        return self.rate is not None

    @model_validator(mode="after")
    def _one(self) -> "LoadEntry":
        given = [key for key in ("clients", "rate", "as_written") if getattr(self, key) is not None]
        if len(given) != 1:
            told = f"both {given[0]} and {given[1]}" if given else "neither clients nor a rate"
            raise wrong(f"the load has {told}", "say one of them: clients (closed), rate (open) or as_written: true")
        for key in ("arrivals", "max_in_flight"):
            if not self.is_open and getattr(self, key) is not None:
                raise wrong(f"{key} goes with a rate", "remove it or say a rate", key=key)
        return self


class Overload(Model):
    """A node is busy and throughput has fallen: see `triggers.Overloaded`."""

    cpu: Share = 0.9
    drop: Share = 0.05
    seconds: Annotated[int, Field(ge=2, le=600)] = 10


#: `overloaded: true` takes the usual thresholds.
_OverloadOrTrue = Annotated[Overload, BeforeValidator(lambda value: {} if value is True else value)]
Positive = Annotated[Duration, Field(gt=0)]


class Step(Model):
    """One trigger and one change. The step before must have been taken; `within` says how long the trigger may wait."""

    at: Duration | None = None
    overloaded: _OverloadOrTrue | None = None
    slo_broken: Positive | None = None
    balanced: Duration | None = None
    within: Positive | None = None
    add: Nodes | None = None
    remove: Nodes | Name | None = None
    kill: Name | None = None
    start: Name | None = None
    pause: Name | None = None
    resume: Name | None = None
    cut: Name | None = None
    restore: Name | None = None
    set: Annotated[dict[str, Scalar], NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> "Step":
        for what, keys in (("trigger", TRIGGERS), ("change", CHANGES)):
            given = [key for key in keys if getattr(self, key) is not None]
            if len(given) != 1:
                told = " and ".join(given) if given else f"no {what}"
                raise wrong(f"a step has one {what}, and this one has {told}", f"say one of {', '.join(keys)}")
        if self.at is not None and self.within is not None:
            raise wrong("what happens at a time needs no time limit", "remove it", key="within")
        return self


TRIGGERS = ("at", "overloaded", "slo_broken", "balanced")
CHANGES = ("add", "remove", "kill", "start", "pause", "resume", "cut", "restore", "set")


class Thresholds(Model):
    """One node more above a mean CPU share of the nodes, one less below another."""

    below: Share
    above: Share

    @model_validator(mode="after")
    def _apart(self) -> "Thresholds":
        if self.below >= self.above:
            what = "nodes are removed below a share that lies under the one above which they are added"
            raise wrong(what, "lower it", key="below")
        return self


class PolicyEntry(Model):
    """Who decides on the number of nodes while the load runs, between which bounds and how often."""

    thresholds: Thresholds | None = None
    target: Annotated[Share, Field(gt=0)] | None = None
    python: str | None = None
    least: Nodes = 1
    most: Nodes
    every: Positive = 5.0
    cooldown: Duration = 30.0

    @model_validator(mode="after")
    def _one(self) -> "PolicyEntry":
        given = [key for key in ("thresholds", "target", "python") if getattr(self, key) is not None]
        if len(given) != 1:
            told = " and ".join(given) if given else "no rule"
            raise wrong(f"a policy has one rule, and this one has {told}", "say one of thresholds, target and python")
        if self.least >= self.most:
            raise wrong("there is nothing to decide between least and most", "raise it", key="most")
        return self


class Transition(Model):
    """What happens to a cluster with that number of nodes: the steps of a timeline, or what a policy decides.

    It is made under every load, or under those that it names.
    """

    nodes: Nodes | None = None
    loads: Annotated[Phases, NOT_EMPTY] | None = None
    timeline: Annotated[tuple[Step, ...], Strict(False), NOT_EMPTY] | None = None
    policy: PolicyEntry | None = None

    @model_validator(mode="after")
    def _one(self) -> "Transition":
        if (self.timeline is None) == (self.policy is None):
            both = "both a timeline and a policy" if self.timeline else "neither a timeline nor a policy"
            raise wrong(f"the transition has {both}", "say one of them")
        return self


class Objective(Model):
    """A service level objective, judged each second: the 99th percentile of response times, the share that failed."""

    p99: Annotated[Duration, Field(gt=0)] | None = None
    errors: Share | None = None

    @model_validator(mode="after")
    def _something(self) -> "Objective":
        if self.p99 is None and self.errors is None:
            raise wrong("the objective asks for nothing", "say p99, errors, or both")
        return self


class Capacity(Model):
    """The load, 1/s of what the experiment counts, that a number of nodes can serve."""

    nodes: Nodes
    rate: Rate


class ElasticFile(ExperimentFile):
    """An elastic experiment as it is written: every transition under every load, with the event and without.

    `objective` is what throughput counts, requests or documents.
    """

    transitions: Annotated[dict[Name, Transition], NOT_EMPTY]
    loads: Annotated[dict[Name, LoadEntry], NOT_EMPTY]
    objective: RateName = "throughput"
    control: bool = True
    window: Annotated[Duration, Field(ge=5)] = 60.0
    slo: Objective | None = None
    capacity: Annotated[tuple[Capacity, ...], Strict(False)] = ()

    @model_validator(mode="after")
    def _at_rest(self) -> "ElasticFile":
        if self.allow_bad:
            what = "nodes that join and leave take copies out of service anyway"
            raise wrong(what, "remove it: only copies that are still missing in the end count", key="allow_bad")
        return self

    def under(self, transition: str) -> tuple[str, ...]:
        """Return the names of the loads under which a transition is made."""
        return self.transitions[transition].loads or tuple(self.loads)
