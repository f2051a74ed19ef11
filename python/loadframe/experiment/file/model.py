"""Models of the keys that all experiment files share."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    Tag,
    model_serializer,
    model_validator,
)
from pydantic.types import Discriminator

from loadframe.analyze.levels import SIZES, Spacing, numeric_levels
from loadframe.base.errors import BadInput
from loadframe.base.units import (
    MOST_FIRST_SEED,
    MOST_NODES,
    MOST_RANKS,
    MOST_THREADS,
    parse_cores,
    parse_share,
    parse_throughput,
)
from loadframe.base.units import Cores as CoreSets
from loadframe.cluster import SCALED_WITHIN, is_path, parse_machine
from loadframe.experiment.file.factors import expression, is_expression
from loadframe.load.phase import Spread
from loadframe.workload.forms import Text
from loadframe.workload.pacing import Arrivals, Length, Warmup
from loadframe.yamlfile import (
    NOT_EMPTY,
    QUANTITY,
    Bandwidth,
    Duration,
    Model,
    Name,
    Rate,
    ResponseBound,
    Scalar,
    Size,
    did_you_mean,
    quantity,
    short_json,
    wrong,
)

Nodes = Annotated[int, Field(ge=1, le=MOST_NODES)]


def _cores(value: Any) -> CoreSets:
    """Parse cores such as `0-3` or `1 each`; refuse other values, with an error for pydantic."""
    try:
        return parse_cores(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None


#: Cores shared by all nodes (`2`, `0-3`, `0,2`) or exclusive to each node (`1 each`, `2 each of 0-5`).
Cores = Annotated[CoreSets, BeforeValidator(_cores, json_schema_input_type=str | int)]


#: Disk throughput, bytes/s.
Throughput = Annotated[int, quantity(parse_throughput, 2**63)]


class DiskEntry(Model):
    """Limits of each node's data disk: bytes/s and operations/s."""

    read: Throughput | None = None
    write: Throughput | None = None
    read_operations: Annotated[Rate, Field(ge=1)] | None = None
    write_operations: Annotated[Rate, Field(ge=1)] | None = None


class LimitsEntry(Model):
    """Resource limits of each node: CPUs, bytes of memory, cores, disk."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    memory: Size | None = None
    cores: Cores | None = None
    disk: DiskEntry = DiskEntry()


class LinkEntry(Model):
    """Emulated network link of each node, per direction: delay in s, share of lost packets, bytes/s."""

    delay: Duration = 0.0
    loss: Annotated[float, quantity(parse_share, 1.0)] = 0.0
    rate: Bandwidth | None = None


#: Values of `host` with separate machines for nodes. With other values, nodes run on the generator's machine.
REMOTE_HOSTS = ("ssh", "slurm", "mpi")
#: Keys that are only valid with these hosts.
PLACEMENT_KEYS = ("machines", "placement", "scratch")


class PlacementEntry(Model):
    """Placement of nodes: number per machine, whether the generator may share a machine, and their network."""

    per_machine: Annotated[int, Field(ge=1)] | None = None
    share: bool = True
    network: str | None = None


#: Connections of the cluster that use TLS.
EncryptionWord = Literal["none", "http", "transport", "both"]


def _machine(value: Any) -> Any:
    """Return the value unchanged; refuse a text other than `NAME` or `NAME:NODES`."""
    try:
        if isinstance(value, str):
            parse_machine(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None
    return value


#: Name of a machine, with an optional number of nodes after a colon.
MachineName = Annotated[str, BeforeValidator(_machine, json_schema_input_type=str)]


def _kind(value: Any) -> Any:
    """Return the value unchanged; refuse a text that is neither a path (with a slash) nor a name.

    A name has up to 80 letters, digits, `_`, `.` and `-`. Whether such a store exists is not checked.
    """
    if isinstance(value, str) and not is_path(value) and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", value):
        raise wrong(
            f"{short_json(value)} is not a kind of store", "see `loadframe stores`; a path must contain a slash"
        )
    return value


#: A kind of store, or the path of a file or folder with its definition, relative to the experiment's folder.
StoreKind = Annotated[str, BeforeValidator(_kind)]


#: Keys of `store` that describe how Loadframe starts a cluster.
STARTING_KEYS = (
    *("limits", "home", "host", "machines", "placement", "scratch", "racks"),
    *("image", "runtime", "link", "encryption"),
)
#: Keys of `store` for the access to an existing cluster, and keys for any cluster that the experiment does not start.
ACCESS_KEYS = (
    *("user", "password_file", "api_key_file", "token_file", "aws_service", "aws_region", "aws_profile"),
    *("ca", "cert", "key", "insecure", "compress"),
    *("scale_command", "scale_within"),
)
EXISTING_KEYS = (*ACCESS_KEYS, "prefix", "data")


def _prefix(value: Any) -> Any:
    """Return the value unchanged; refuse a text that is not a prefix (up to 16 of a-z, 0-9 and `_`, a letter first)."""
    if isinstance(value, str) and not re.fullmatch(r"[a-z][a-z0-9_]{0,15}", value):
        raise wrong(
            f"{short_json(value)} is not valid as a prefix",
            "use up to 16 lower-case letters, digits and _, beginning with a letter; or none",
        )
    return value


class StoreEntry(Model):
    """The store under test, with its state where no factor sets it.

    `hosts` or `cluster` select an existing cluster. `version` and `nodes` are then the expected ones. `kind` may be
    empty if `cluster` or each run names it.
    """

    kind: StoreKind = ""
    version: str | None = None
    nodes: Nodes = 1
    limits: LimitsEntry = LimitsEntry()
    home: str | None = None
    host: Literal["local", "netns", "container", "ssh", "slurm", "mpi"] = "local"
    machines: Annotated[tuple[MachineName, ...], Strict(False)] = ()
    placement: PlacementEntry = PlacementEntry()
    scratch: str | None = None
    racks: Annotated[tuple[Name, ...], Strict(False)] = ()
    image: str | None = None
    runtime: str | None = None
    link: LinkEntry = LinkEntry()
    encryption: EncryptionWord = "none"
    settings: dict[str, Scalar] = Field(default_factory=dict)
    hosts: Annotated[
        tuple[str, ...],
        Strict(False),
        NOT_EMPTY,
        BeforeValidator(
            lambda value: value.split(",") if isinstance(value, str) else value, json_schema_input_type=str | list[str]
        ),
    ] = ()
    cluster: str | None = None
    user: str | None = None
    password_file: str | None = None
    api_key_file: str | None = None
    token_file: str | None = None
    aws_service: str | None = None
    aws_region: str | None = None
    aws_profile: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    compress: bool = False
    scale_command: Annotated[str, Field(min_length=1)] | None = None
    scale_within: Annotated[Duration, Field(gt=0)] = SCALED_WITHIN
    prefix: Annotated[str, BeforeValidator(_prefix)] | None = None
    data: Literal["new", "keep", "reuse"] = "new"

    @property
    def exists(self) -> bool:
        """Whether `hosts` or `cluster` names a cluster, which then exists before the experiment."""
        return bool(self.hosts or self.cluster)

    @property
    def expected_nodes(self) -> int | None:
        """`nodes` if the file sets it, otherwise None instead of the default."""
        return self.nodes if "nodes" in self.model_fields_set else None

    @model_validator(mode="after")
    def _check_existing(self) -> "StoreEntry":
        """Refuse `hosts` with `cluster`, `ACCESS_KEYS` with `cluster`, and `STARTING_KEYS` with either.

        Also refuse a prefix with `data: reuse`. For keys that require an existing cluster, see
        `existing.check_existing`.
        """
        given = self.model_fields_set
        if self.hosts and self.cluster:
            raise wrong("hosts and cluster both name a cluster", "remove one of them", key="cluster")
        for key in ACCESS_KEYS:
            if key in given and self.cluster:
                raise wrong(f"{key} requires hosts", f"remove it: Loadframe knows the cluster {self.cluster}", key=key)
        for key in STARTING_KEYS:
            if key in given and self.exists:
                raise wrong(
                    f"{key} cannot be set: the cluster exists already",
                    "remove it, or remove hosts and cluster, so that Loadframe starts a cluster",
                    key=key,
                )
        if self.data == "reuse" and self.prefix not in (None, "none"):
            raise wrong("data: reuse uses collections by their names in the workload", "remove prefix", key="prefix")
        return self

    @model_validator(mode="after")
    def _check_placement(self) -> "StoreEntry":
        """Refuse `PLACEMENT_KEYS` (nodes on other machines) if `host` is not one of `REMOTE_HOSTS`."""
        for key in PLACEMENT_KEYS:
            if self.host not in REMOTE_HOSTS and key in self.model_fields_set:
                raise wrong(
                    f"{key} requires nodes on other machines", f"set host: {' or '.join(REMOTE_HOSTS)}", key=key
                )
        return self


Count = Annotated[int, Field(ge=1)]
#: Names of phases; a single name needs no list.
Phases = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]
#: The levels of a factor, and factors by name.
Levels = Annotated[tuple[Scalar, ...], Strict(False), NOT_EMPTY]
Factors = dict[str, Levels]


def _expression(value: str) -> str:
    """Return the text unchanged; refuse it if it is not a valid expression."""
    try:
        expression(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None
    return value


#: An expression as written.
Written = Annotated[
    str,
    BeforeValidator(
        _expression, json_schema_input_type=Annotated[str, Field(json_schema_extra={QUANTITY: "expression"})]
    ),
]
#: Selects the model of a number: an expression or a level.
BY_FORM = Discriminator(lambda value: "expression" if is_expression(value) else "level")
#: A number of clients, or a rate (1/s), or an expression for one, for all runs.
Clients = Annotated[Annotated[Count, Tag("level")] | Annotated[Written, Tag("expression")], BY_FORM]


_OF_CAPACITY = re.compile(r"\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s+of\s+capacity\s*")


def share_of_capacity(rate: object) -> float | None:
    """Return the share, 0.7 for the rate `70 % of capacity`, without a check of its range; None for other rates."""
    matched = _OF_CAPACITY.fullmatch(rate) if isinstance(rate, str) else None
    return float(matched["percent"]) / 100 if matched else None


def _check_share(value: str) -> str:
    """Return a text such as `70 % of capacity` unchanged; refuse other forms, 0 % and more than 1000 %."""
    if not 0 < (share_of_capacity(value) or 0.0) <= 10:
        raise wrong("the share of the capacity must be above 0 and at most 1000 %", "write 70 % of capacity")
    return value


def _rate_form(value: object) -> str:
    """Return the tag of the model for a rate: share, expression or level."""
    if share_of_capacity(value) is not None:
        return "share"
    return "expression" if is_expression(value) else "level"


#: A rate, 1/s, an expression for one, or a share of an earlier capacity.
SharedRate = Annotated[
    Annotated[Rate, Tag("level")]
    | Annotated[Written, Tag("expression")]
    | Annotated[str, BeforeValidator(_check_share), Tag("share")],
    Discriminator(_rate_form),
]


#: A share, written `5%` or 0.05.
Share = Annotated[float, quantity(parse_share, 100), Field(gt=0)]


#: Estimator of ratios between groups: trimmed means; means if left out.
Estimate = Literal["robust"]


class Until(Model):
    """End of repetitions: the relative half-width of 95 % intervals to reach, and the maximum number."""

    relative_interval: Share
    most: Annotated[int, Field(ge=2, le=1000)]


Percentile = Literal["p50", "p90", "p99", "p999"]
Subject = Literal["successes", "all", "failures"]


class OwnSlo(Model):
    """Bounds of one operation; missing keys are taken from the general SLO."""

    response: ResponseBound | None = None
    percentile: Percentile | None = None
    errors: Share | None = None
    of: Subject | None = None


class SloEntry(Model):
    """Service level objective: a percentile of response times, and a maximum share of failed requests.

    `of` selects the requests for the percentile: failed requests have response times, too. `operations` override the
    bounds for some operations; without a general `response`, the others have no bound on response times.
    """

    response: ResponseBound | None = None
    percentile: Percentile = "p99"
    errors: Share = 0.01
    of: Subject = "successes"
    operations: Annotated[dict[Text, OwnSlo], NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _check_response(self) -> "SloEntry":
        """Refuse an SLO without a general `response`, unless each of its `operations`, at least one, has a response."""
        if self.response is None:
            if self.operations is None:
                raise wrong("'response' is missing", "set response: 100ms, or a response for each of operations")
            for name, bounds in self.operations.items():
                if bounds.response is None:
                    raise wrong(f"the operation {name!r} needs a response, because the slo has none", key="operations")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields without `operations` if unset, so that folders of older versions can be resumed."""
        return {key: value for key, value in dump(self).items() if key != "operations" or value is not None}


Price = Annotated[float, Field(gt=0)]


class PriceSlo(Model):
    """Short form of a service level objective: `p99` stands for `response`, the maximum p99 of response times, s."""

    p99: ResponseBound


def _slo_form(value: object) -> str:
    """Return the tag of the model for an SLO: `p99` if it has that key (the short form), otherwise `slo`."""
    short = isinstance(value, PriceSlo) or (isinstance(value, Mapping) and "p99" in value)
    return "p99" if short else "slo"


class Prices(Model):
    """Prices of the nodes and their storage, for the costs in reports.

    `node_hour` is one price, or a price for each level of the factor `by`, such as `store.limits.cpus`.
    """

    node_hour: Annotated[
        Annotated[Price, Tag("price")] | Annotated[dict[str, Price], NOT_EMPTY, Tag("prices")],
        Discriminator(lambda value: "prices" if isinstance(value, dict) else "price"),
    ]
    by: str | None = None
    storage: Size | None = None
    gb_month: Price | None = None
    currency: Annotated[str, Field(min_length=1, max_length=8)] = "USD"
    slo: (
        Annotated[
            Annotated[SloEntry, Tag("slo")] | Annotated[PriceSlo, Tag("p99")],
            Discriminator(_slo_form),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _check_pairs(self) -> "Prices":
        """Refuse `by` without a mapping as `node_hour`, `storage` without `gb_month`, and the reverse of both."""
        if isinstance(self.node_hour, dict) != (self.by is not None):
            what = "node_hour has a price for each level of a factor, and by names that factor"
            raise wrong(what, "give both or neither", key="by" if self.by else "node_hour")
        if (self.storage is None) != (self.gb_month is None):
            given, lacking = ("storage", "gb_month") if self.storage else ("gb_month", "storage")
            raise wrong(f"{given} requires {lacking}", f"add {lacking}", key=given)
        return self

    def of_levels(self, factors: Mapping[str, Sequence[Any]]) -> list[float] | None:
        """Return the price of a node hour for each level of `by`, in the order of `factors`, or None without `by`.

        `factors` has the levels of each factor. Raise pydantic's error for an unknown `by`, for levels without a
        price, and for other factors with several levels that change the size of the nodes or the number of processes
        beside them. These are further members, routers, config servers, and nodes behind an application.
        """
        for name, levels in factors.items():
            beside = re.fullmatch(r"store\.settings\.([^.]+\.nodes|config_members|routers)", name)
            if beside and name == self.by and len(factors.get("nodes", ())) > 1:
                what = f"a price is multiplied by nodes, but {name} counts processes beside them"
                raise wrong(what, f"write an experiment for each level of nodes or {name}", key="prices")
            more = beside or name == "store.settings.members"
            if (more or name.startswith("store.limits.")) and name != self.by and len(levels) > 1:
                changed = "number of processes" if more else "size of the nodes"
                what = f"node_hour has no price for each level of {name}, which changes the {changed}"
                if self.by is None:
                    remedy = f"set by: {name}, and in node_hour a price for each level (equal prices are possible)"
                else:
                    remedy = f"write an experiment for each level of {name} or {self.by}"
                raise wrong(what, remedy, key="prices")
        if self.by is None or not isinstance(self.node_hour, dict):
            return None
        if self.by not in factors:
            raise wrong(f"{self.by} is not a factor", did_you_mean(self.by, factors), key="prices")
        missing = [level for level in factors[self.by] if str(level) not in self.node_hour]
        if missing:
            levels = ", ".join(map(str, missing))
            raise wrong(f"node_hour lacks a price for {self.by} {levels}", "add it", key="prices")
        return [self.node_hour[str(level)] for level in factors[self.by]]


#: Kinds of experiments whose reports have no costs.
_WITHOUT_COSTS = ("compare", "elastic")
#: Value of `prepare` that keeps filled collections between runs that need the same data.
ONCE = "once"


class ExperimentFile(Model):
    """Keys of an experiment file of any kind."""

    experiment: Name
    question: str = ""
    published: Annotated[str, Field(min_length=1)] | None = None
    store: StoreEntry = StoreEntry()
    workload: Annotated[str, Field(min_length=1)]
    with_: dict[str, Scalar] = Field(default_factory=dict, alias="with")
    kind: str
    prepare: Phases | None = None
    measure: Annotated[Phases, NOT_EMPTY] | None = None
    finish: Annotated[Phases, NOT_EMPTY] | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    until: Until | None = None
    warmup: Warmup | None = None
    duration: Length | None = None
    ready_within: Annotated[Duration, Field(gt=0)] | None = None
    arrivals: Arrivals | None = None
    seed: Annotated[int, Field(ge=0, le=MOST_FIRST_SEED)] = 1
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 1
    ranks: Annotated[int, Field(ge=1, le=MOST_RANKS)] | None = None
    spread: Spread = "fixed"
    connections: Annotated[int, Field(ge=1)] | None = None
    samples: bool = False
    spin: bool = False
    kernel_timestamps: bool = False
    allow_bad: bool = False
    prices: Prices | None = None

    @property
    def fills_once(self) -> bool:
        """Whether runs with the same data share it, even after other runs: by `prepare: once` or `data: keep`."""
        return self.prepare == (ONCE,) or self.store.data == "keep"

    @model_validator(mode="after")
    def _check_prices(self) -> "ExperimentFile":
        """Refuse prices in kinds without costs or refused by `of_levels`, and a second SLO in capacity experiments."""
        if self.prices:
            if self.kind in _WITHOUT_COSTS:
                raise wrong(f"experiments of kind {self.kind} do not support prices", "remove prices", key="prices")
            self.prices.of_levels(self.levels)
            if self.prices.slo and self.kind == "capacity":
                raise wrong("a capacity experiment has an slo of its own", "remove slo from prices", key="prices")
        return self

    @property
    def levels(self) -> Mapping[str, Sequence[Any]]:
        """The levels of each factor as written, with the sizes (`at`) of a settings experiment."""
        return {**getattr(self, "factors", {}), **getattr(self, "at", {})}

    @model_validator(mode="after")
    def _check_until(self) -> "ExperimentFile":
        """Refuse `until.most` below `repetitions`."""
        if self.until and self.until.most < self.repetitions:
            raise wrong("most must be at least repetitions", "raise most, or lower repetitions",
                        key="until")  # fmt: skip
        return self


class PacedFile(ExperimentFile):
    """Experiment file that may set clients or a rate for all runs.

    `crash` names a node that is killed and restarted after the load of each run. `capacity` is the folder of a capacity
    experiment, for a rate that is a share of its result.
    """

    clients: Clients | None = None
    rate: SharedRate | None = None
    capacity: Annotated[str, Field(min_length=1)] | None = None
    crash: Annotated[str, Field(pattern=r"node-\d+")] | None = None

    @model_validator(mode="after")
    def _check_capacity(self) -> "PacedFile":
        """Refuse a rate that is a share of the capacity without `capacity`, and `capacity` without such a rate."""
        share = share_of_capacity(self.rate)
        if share is not None and self.capacity is None:
            raise wrong("rate is a share of the capacity, and capacity is missing",
                        "add capacity: results/NAME, the folder of a capacity experiment", key="rate")  # fmt: skip
        if share is None and self.capacity is not None:
            raise wrong("capacity requires a rate such as 70 % of capacity", "remove it, or add rate", key="capacity")
        return self


class CurvesFile(PacedFile):
    """Experiment file whose report has a curve over each numeric factor.

    `axes` sets the spacing of a factor's axis, which otherwise depends on its levels.
    """

    factors: Annotated[Factors, NOT_EMPTY]
    axes: dict[str, Spacing] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_axes(self) -> "CurvesFile":
        """Refuse axes of unknown factors, of `SIZES`, and of factors without two numeric levels.

        The axes of `SIZES` are fixed, because their curves are fitted. Also refuse `log` for levels of 0 or below.
        """
        for name, spacing in self.axes.items():
            if name not in self.factors:
                raise wrong(f"{name} is not a factor", did_you_mean(name, self.factors), key="axes")
            if name in SIZES:
                raise wrong(f"the axis of {name} is fixed, because its curve is fitted", "remove it", key="axes")
            levels = numeric_levels(self.factors[name])
            if levels is None:
                raise wrong(f"{name} needs at least two numeric levels to have an axis",
                            "remove it", key="axes")  # fmt: skip
            if spacing == "log" and min(levels.numbers.values()) <= 0:
                raise wrong(
                    f"{name} has a level of 0 or below, which a logarithmic axis cannot show", "set linear", key="axes"
                )
        return self
