"""Models of an elastic experiment's file: loads, transitions with their steps, policies, objectives."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict, Tag, model_validator
from pydantic.types import Discriminator

from loadframe.analyze.rates import RateName
from loadframe.base.units import parse_share
from loadframe.experiment.file.factors import is_expression
from loadframe.experiment.file.model import Count, ExperimentFile, Nodes, Phases, Written
from loadframe.workload.pacing import Arrivals, ClientLevel, ClientStage, RateLevel
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, Rate, ResponseBound, Scalar, lasting, quantity, wrong

#: A share from 0 to 1, written `90%` or as a number.
Share = Annotated[float, quantity(parse_share, 1e3), Field(ge=0, le=1)]


class ComingClients(Model):
    """Clients that arrive in groups of `more`, until there are `most` or the first step of the timeline is taken."""

    from_: Annotated[int, Field(ge=1, alias="from")]
    more: Count
    every: Annotated[Duration, Field(gt=0)]
    most: Count

    def level(self) -> ClientLevel:
        """Return the stages from `from_` to `most` clients: each number for `every` s, then `more` more at once."""
        stages = []
        for clients in range(self.from_, self.most, self.more):
            stages.append(ClientStage(to=clients, over=self.every))
            stages.append(ClientStage(to=min(clients + self.more, self.most), over=0.0))
        return ClientLevel.model_construct(from_=self.from_, stages=tuple(stages))


class RateShare(Model):
    """A rate as a share of the capacity: the throughput under the closed load `of`, without the event."""

    share: Annotated[Share, Field(gt=0)]
    of: Name


def _clients_form(value: object) -> str:
    """Return the tag for `clients`: `expression`, `coming` (with `every`), `levels` (other mappings) or `level`."""
    if is_expression(value):
        return "expression"
    if isinstance(value, ComingClients) or (isinstance(value, dict) and "every" in value):
        return "coming"
    return "levels" if isinstance(value, dict | ClientLevel) else "level"


def _rate_form(value: object) -> str:
    """Return the tag for `rate`: `expression`, `a share` (with `share`), `levels` (other mappings) or `level`."""
    if is_expression(value):
        return "expression"
    if isinstance(value, RateShare) or (isinstance(value, dict) and "share" in value):
        return "a share"
    return "levels" if isinstance(value, dict | RateLevel) else "level"


class LoadEntry(Model):
    """A load over the time of a run: clients (closed loop), a rate (open loop), or `as_written` in the workload.

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
        """Whether the load sets a rate (open loop). False for `as_written`, even if the workload's load is open."""
        return self.rate is not None

    @model_validator(mode="after")
    def _check_load_model(self) -> "LoadEntry":
        """Refuse other than one of clients, rate, as_written; and `arrivals` or `max_in_flight` without a rate."""
        keys = [key for key in ("clients", "rate", "as_written") if getattr(self, key) is not None]
        if len(keys) != 1:
            problem = f"both {keys[0]} and {keys[1]}" if keys else "neither clients nor a rate"
            raise wrong(f"the load has {problem}", "set exactly one: clients (closed), rate (open) or as_written: true")
        for key in ("arrivals", "max_in_flight"):
            if not self.is_open and getattr(self, key) is not None:
                raise wrong(f"{key} requires a rate", "remove it, or set a rate", key=key)
        return self


class Overload(Model):
    """Thresholds of overload: a node is busy and throughput has dropped. See `triggers.Overloaded`."""

    cpu: Share = 0.9
    drop: Share = 0.05
    seconds: Annotated[int, Field(ge=2, le=600)] = 10


#: `overloaded: true` selects the default thresholds.
_OverloadOrTrue = Annotated[Overload, BeforeValidator(lambda value: {} if value is True else value)]
Positive = Annotated[Duration, Field(gt=0)]


class Step(Model):
    """One trigger and one change, after the step before. `within` limits the wait for the trigger."""

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
    def _check_trigger_and_change(self) -> "Step":
        """Refuse other than exactly one trigger and one change; refuse `within` beside `at`."""
        for part, keys in (("trigger", TRIGGERS), ("change", CHANGES)):
            present = [key for key in keys if getattr(self, key) is not None]
            if len(present) != 1:
                got = " and ".join(present) if present else f"no {part}"
                raise wrong(f"a step needs exactly one {part}; got {got}", f"set one of {', '.join(keys)}")
        if self.at is not None and self.within is not None:
            raise wrong("within cannot be combined with at", "remove within", key="within")
        return self


TRIGGERS = ("at", "overloaded", "slo_broken", "balanced")
CHANGES = ("add", "remove", "kill", "start", "pause", "resume", "cut", "restore", "set")


class Thresholds(Model):
    """Rule that adds a node above a mean CPU share of the nodes, and removes one below another share."""

    below: Share
    above: Share

    @model_validator(mode="after")
    def _check_order(self) -> "Thresholds":
        """Refuse `below` that is not less than `above`."""
        if self.below >= self.above:
            what = f"below must be less than above ({self.above:g}); got {self.below:g}"
            raise wrong(what, "lower it", key="below")
        return self


class PolicyEntry(Model):
    """Scaling policy: a rule for the number of nodes, its bounds, and the seconds between decisions."""

    thresholds: Thresholds | None = None
    target: Annotated[Share, Field(gt=0)] | None = None
    python: str | None = None
    least: Nodes = 1
    most: Nodes
    every: Positive = 5.0
    cooldown: Duration = 30.0

    @model_validator(mode="after")
    def _check_rule_and_bounds(self) -> "PolicyEntry":
        """Refuse a policy without exactly one of thresholds, target and python, or with `most` not above `least`."""
        rules = [key for key in ("thresholds", "target", "python") if getattr(self, key) is not None]
        if len(rules) != 1:
            got = " and ".join(rules) if rules else "none"
            raise wrong(f"a policy needs exactly one rule; got {got}", "set one of thresholds, target and python")
        if self.least >= self.most:
            raise wrong(f"most must be above least ({self.least}); got {self.most}", "raise it", key="most")
        return self


class Transition(Model):
    """Changes of a cluster that starts with `nodes` nodes: the steps of a timeline, or the decisions of a policy.

    Runs under every load, or under the loads that it names.
    """

    nodes: Nodes | None = None
    loads: Annotated[Phases, NOT_EMPTY] | None = None
    timeline: Annotated[tuple[Step, ...], Strict(False), NOT_EMPTY] | None = None
    policy: PolicyEntry | None = None

    @model_validator(mode="after")
    def _check_timeline_or_policy(self) -> "Transition":
        """Refuse both or neither of timeline and policy."""
        if (self.timeline is None) == (self.policy is None):
            both = "both a timeline and a policy" if self.timeline else "neither a timeline nor a policy"
            raise wrong(f"the transition has {both}", "set exactly one of them")
        return self


class Objective(Model):
    """Service level objective per second: maximum p99 of response times, s, and maximum share of failed requests."""

    p99: ResponseBound | None = None
    errors: Share | None = None

    @model_validator(mode="after")
    def _check_not_empty(self) -> "Objective":
        """Refuse an objective with neither p99 nor errors."""
        if self.p99 is None and self.errors is None:
            raise wrong("the objective is empty", "set p99, errors, or both")
        return self


class Capacity(Model):
    """The highest rate, 1/s in units of the objective, that a number of nodes can serve."""

    nodes: Nodes
    rate: Rate


class ElasticFile(ExperimentFile):
    """File of an elastic experiment: every transition under every load, with and without the event.

    `objective` selects the unit of throughput, requests or documents.
    """

    transitions: Annotated[dict[Name, Transition], NOT_EMPTY]
    loads: Annotated[dict[Name, LoadEntry], NOT_EMPTY]
    objective: RateName = "throughput"
    control: bool = True
    window: Annotated[Duration, Field(ge=5), lasting(5)] = 60.0
    slo: Objective | None = None
    capacity: Annotated[tuple[Capacity, ...], Strict(False)] = ()

    @model_validator(mode="after")
    def _check_allow_bad(self) -> "ElasticFile":
        """Refuse `allow_bad`, which elastic experiments always imply."""
        if self.allow_bad:
            what = "elastic experiments always accept unavailable replicas while the cluster changes"
            raise wrong(what, "remove allow_bad", key="allow_bad")
        return self

    def under(self, transition: str) -> tuple[str, ...]:
        """Return the names of the loads of a transition, in its order; if it names none, all loads of the file."""
        return self.transitions[transition].loads or tuple(self.loads)
