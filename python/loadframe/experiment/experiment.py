"""A checked experiment, with the cluster, workload and load of each treatment."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import parse_cores
from loadframe.cluster import below
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.file.factors import (
    COLLECTIONS,
    HOSTS,
    RANKS_PER_NODE,
    SETTINGS,
    WITH,
    Expression,
    Factor,
    Level,
    expression,
    is_expression,
    require_names,
)
from loadframe.experiment.file.model import (
    EXISTING_KEYS,
    PLACEMENT_KEYS,
    REMOTE_HOSTS,
    ExperimentFile,
    Levels,
    share_of_capacity,
)
from loadframe.load import Generator
from loadframe.workload import ResolvedPhase, ResolvedWorkload, Workload
from loadframe.workload.collection_use import with_prefix
from loadframe.workload.collections import redefined
from loadframe.workload.pacing import Arrivals
from loadframe.yamlfile import Document, Place

if TYPE_CHECKING:
    from loadframe.analyze.published import PublishedFigure


#: The key of published figures in experiment.json.
PUBLISHED = "published"


@dataclass(frozen=True)
class MeasuredRate:
    """Mean rate of a phase in recorded runs, 1/s."""

    requests: float
    documents: float


class ExperimentKind(Protocol):
    """Methods of a kind of experiment; `kinds.base.Kind` documents them and has the defaults."""

    model: type[ExperimentFile]
    open_ended: bool
    uneven: bool
    grown: bool
    entries: tuple[str, str]
    searches: bool

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors and their levels as written in the file."""

    def place(self, file: ExperimentFile, name: str, index: int | None) -> Place:
        """Return the position in the file of the factor `name`, or of its level `index` (from 0)."""

    def check(self, experiment: "Experiment") -> None:
        """Raise BadInput, with a position, for values that contradict each other."""

    def parameters(self, experiment: "Experiment", treatment: Mapping[str, Level]) -> Mapping[str, Level]:
        """Return the workload parameters, by name, that the kind computes from a treatment; empty if none."""

    def design(self, experiment: "Experiment") -> Design:
        """Return the planned runs in their order; BadInput for more than the maximum number of runs."""

    def largest_design(self, experiment: "Experiment") -> Design:
        """Return the design with the largest number of runs that the experiment may have, for estimates."""

    def most_nodes(self, experiment: "Experiment") -> int:
        """Return the number of nodes of the largest cluster."""

    def code(self, experiment: "Experiment") -> dict[str, str]:
        """Return digests of user code that runs execute, by description; empty without such code."""

    def next_runs(self, experiment: "Experiment", runs_path: Path) -> Sequence[PlannedRun]:
        """Return the runs to add, given the runs recorded in `runs_path`; empty at the end of the experiment."""

    def first_trial(self, experiment: "Experiment", run: PlannedRun) -> str:
        """Return the identifier of the first trial of the run's search, or of the run itself."""

    def share_left(self, experiment: "Experiment", first: PlannedRun, runs_path: Path) -> float:
        """Return the least time that the search with first trial `first` still needs, as a share of `seconds`."""

    def phases(
        self, experiment: "Experiment", workload: ResolvedWorkload, treatment: Mapping[str, Level]
    ) -> list[ResolvedPhase]:
        """Return the phases of a run: the measured ones, with the levels of the treatment, then the finishing ones."""

    def arrivals(self, experiment: "Experiment") -> Iterable[Arrivals]:
        """Return the arrival process of each open load, with repeats; empty if all loads are closed."""

    def seconds(self, experiment: "Experiment", workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return the estimated duration of the load of one run, or of all trials of one search, s."""

    def record(self, stage: Any, run: PlannedRun) -> None:
        """Execute one run on the cluster of `stage` (`kinds.base.Stage`) and record it; LoadframeError if it fails."""


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: everything that its file names exists. Created by `load_experiment`."""

    document: Document
    #: The model of the kind.
    file: ExperimentFile
    kind: "ExperimentKind"
    #: With the parameters that are equal in every run.
    workload: Workload
    factors: tuple[Factor, ...]
    #: Names of the phases that fill the store once per cluster state, and of the phases that each run measures.
    prepared: tuple[str, ...]
    measured: tuple[str, ...]
    #: Names of the phases after the measured ones; reports exclude their figures.
    finished: tuple[str, ...] = ()
    #: Published figures that the report shows beside the measured ones.
    published: tuple["PublishedFigure", ...] = ()
    #: Rates (1/s) that an earlier experiment found, with their treatments, for a rate that is a share of them.
    capacities: tuple[tuple[Mapping[str, Level], float], ...] = ()
    #: Rates of the phases in runs recorded before, for estimates of the time that is left.
    measured_rates: Mapping[str, MeasuredRate] = field(default_factory=dict)
    #: Number of nodes of the existing cluster, once it is known.
    found_nodes: int | None = None
    #: Prefix of the names of its collections on an existing cluster.
    prefix: str = ""
    #: Share of the HTTP requests to trace.
    trace: float | None = None

    @property
    def exists(self) -> bool:
        """Whether the cluster exists before the experiment, by the file's store or by `store.hosts` as a factor."""
        return self.file.store.exists or any(factor.name == HOSTS for factor in self.factors)

    def hosts(self, treatment: Mapping[str, Level]) -> str:
        """Return the addresses of a treatment's existing cluster, separated by commas; empty without addresses."""
        return str(treatment.get(HOSTS) or ",".join(self.file.store.hosts))

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.file.experiment

    @property
    def seed(self) -> int:
        """Seed of the run order and of the load."""
        return self.file.seed

    def generator(self, treatment: Mapping[str, Level]) -> Generator:
        """Return the load generator of a treatment: by default with one thread and no ranks.

        Levels of `threads` and `ranks` replace the file's; `ranks_per_node` replaces `ranks`.
        """
        threads, ranks = (treatment.get(name, getattr(self.file, name)) for name in ("threads", "ranks"))
        ranks = self.ranks_by_node(treatment) or ranks
        return Generator(
            int(threads or 1),
            self.file.spread,
            self.file.connections,
            int(ranks) if ranks else None,
            samples=self.file.samples,
            trace=self.trace,
            spin=self.file.spin,
            kernel_timestamps=self.file.kernel_timestamps,
        )

    def with_measured_rates(self, path: Path) -> "Experiment":
        """Return a copy with the mean rate (requests and documents, 1/s) of each phase in the folder's recorded runs.

        `path` is the experiment's folder. Windows weigh by their length. Runs of any status count, except unreadable
        ones.
        """
        from loadframe.record import Run

        totals: dict[str, list[float]] = {}
        for run in sorted((path / "runs").glob("*/summary.json")):
            try:
                phases = Run(run.parent).summary.phases
            except LoadframeError:
                # An unreadable run leaves the estimate as it is.
                continue
            for phase in phases:
                sums = totals.setdefault(phase.name, [0.0, 0.0, 0.0])
                sums[0] += phase.throughput * phase.duration
                sums[1] += phase.documents_per_second * phase.duration
                sums[2] += phase.duration
        rates = {name: MeasuredRate(sums[0] / sums[2], sums[1] / sums[2]) for name, sums in totals.items() if sums[2]}
        return replace(self, measured_rates=rates)

    def with_samples(self) -> "Experiment":
        """Return a copy with `samples` on: every request is also recorded individually."""
        return replace(self, file=self.file.model_copy(update={"samples": True}))

    @property
    def repetitions(self) -> int:
        """Number of runs of each treatment."""
        return self.file.repetitions

    def cluster_spec(self, treatment: Mapping[str, Level]) -> dict[str, Any]:
        """Return the arguments of `ClusterSpec` for a treatment, with parts as mappings; `loop.spec_of` converts these.

        Levels of the treatment replace values of the file; expressions are evaluated; settings of None are omitted.
        Memory is in bytes. BadInput for an expression without a valid value.
        """
        store = self.file.store
        settings = {name.removeprefix(SETTINGS): v for name, v in treatment.items() if name.startswith(SETTINGS)}
        cores = parse_cores(str(level)) if (level := treatment.get("store.limits.cores")) else store.limits.cores
        computed = expression_values(self, treatment)
        settings = {**store.settings, **settings}
        settings = {name: computed.get(SETTINGS + name, level) for name, level in settings.items()}
        return {
            "store": below(str(treatment.get("store.kind", store.kind)), self.document.path.parent),
            "version": treatment.get("store.version", store.version),
            "nodes": self.nodes(treatment),
            "limits": {
                "cpus": treatment.get("store.limits.cpus", store.limits.cpus),
                "memory": treatment.get("store.limits.memory", store.limits.memory),
                "cores": cores and cores.numbers,
                "cores_each": cores and cores.per_node,
                "disk": {
                    name: treatment.get(f"store.limits.disk.{name}", level)
                    for name, level in store.limits.disk.model_dump().items()
                },
            },
            "home": store.home,
            "host": store.host,
            "image": store.image,
            "runtime": store.runtime,
            "machines": store.machines,
            "placement": store.placement.model_dump(),
            "scratch": store.scratch,
            "racks": store.racks,
            "link": {
                name: treatment.get(f"store.link.{name}", level) for name, level in store.link.model_dump().items()
            },
            "encryption": treatment.get("store.encryption", store.encryption),
            # None selects the store's default.
            "settings": {name: level for name, level in settings.items() if level is not None},
        }

    def nodes(self, treatment: Mapping[str, Level]) -> int:
        """Return the number of a treatment's nodes: its level, or else the existing cluster's, or else the file's."""
        return int(treatment.get("nodes") or self.found_nodes or self.file.store.nodes)

    def ranks_by_node(self, treatment: Mapping[str, Level]) -> int | None:
        """Return the total number of ranks if the treatment sets `ranks_per_node`, otherwise None."""
        per_node = treatment.get(RANKS_PER_NODE)
        return None if per_node is None else int(per_node) * self.nodes(treatment)

    def workload_parameters(self, treatment: Mapping[str, Level]) -> dict[str, Level]:
        """Return the workload parameters, by name, that a treatment, an expression of the file, or the kind sets.

        Plain values of the file are not included: `workload` has them. A parameter of the kind replaces others.
        BadInput for an expression without a valid value.
        """
        levels = {**treatment, **expression_values(self, treatment)}
        parameters = {name.removeprefix(WITH): level for name, level in levels.items() if name.startswith(WITH)}
        return {**parameters, **self.kind.parameters(self, treatment)}

    def workload_at(self, treatment: Mapping[str, Level]) -> Workload:
        """Return the workload with the parameters of a treatment; BadInput, with the position, for an invalid value.

        Cached: the same object for treatments that agree in the parameters.
        """
        values = self.workload_parameters(treatment)
        if not values:
            return self.workload
        # A message names the treatment or the file as the origin of a value.
        key = repr([(name, value, WITH + name in treatment) for name, value in values.items()])
        if key not in self._workloads:
            self._workloads[key] = self.workload.with_parameters(
                values,
                folder=self.document.path.parent,
                where=lambda name: self.document.where(
                    ("with", name)
                    if name in self.file.with_ and WITH + name not in treatment
                    else self.kind.place(self.file, WITH + name, None),
                    key=name not in self.workload.defaults,
                ),
            )
        return self._workloads[key]

    @cached_property
    def _workloads(self) -> dict[str, Workload]:
        """The checked workloads of treatments, by their parameters: a check takes a tenth of a second or more."""
        return {}

    def resolve(
        self, treatment: Mapping[str, Level], family: str, report: Callable[[str], None] = lambda _: None
    ) -> ResolvedWorkload:
        """Return the workload of a treatment for a family of stores, with `prefix` before the collections' names.

        Levels of `collections.NAME.KEY` replace that key of the collection; BadInput if they do not fit. Downloads
        missing corpora, with progress lines to `report`.
        """
        resolved = self.workload_at(treatment).for_family(family, self.nodes(treatment), report)
        collections = dict(resolved.collections)
        for factor, level in treatment.items():
            if factor.startswith(COLLECTIONS):
                name, _, key = factor.removeprefix(COLLECTIONS).partition(".")
                try:
                    collections[name] = redefined(collections[name], family, key, level)
                except BadInput as error:
                    place = self.kind.place(self.file, factor, None)
                    raise self.document.error(place, error.what, error.remedy, key=True) from None
        return with_prefix(replace(resolved, collections=collections), self.prefix)

    def overrides(self, treatment: Mapping[str, Level]) -> dict[str, Any]:
        """Return the arguments of `ResolvedPhase.override` for the measured phases.

        Some of `clients`, `rate` (1/s), `users`, `arrivals`, `warmup`, `duration` and `ready_within` (s): only those
        that the file or the treatment sets.
        """
        common = {key: getattr(self.file, key) for key in ("arrivals", "warmup", "duration", "ready_within")}
        paces = {key: self.pace(key, treatment) for key in PACES}
        levels = {key: treatment[key] for key in ("clients", "rate", "users") if key in treatment}
        return {**{key: value for key, value in {**common, **paces}.items() if value is not None}, **levels}

    def pace(self, key: str, treatment: Mapping[str, Level]) -> Level:
        """Return `clients` or `rate` (1/s) of the file, with expressions and shares of a capacity evaluated.

        `key` is one of the two. Levels of factors are ignored. None if the file does not set it, for `clients: auto`,
        and for a share while `capacities` is empty. BadInput for an invalid value.
        """
        value: Level = expression_values(self, treatment).get(key, getattr(self.file, key, None))
        share = share_of_capacity(value)
        if share is not None and self.capacities:
            return share * self._capacity(treatment)
        return None if isinstance(value, str) else value

    def _capacity(self, treatment: Mapping[str, Level]) -> float:
        """Return the capacity (1/s) for a treatment: that of the one treatment of `capacities` with the same levels.

        Levels of the treatment, nodes and workload parameters are compared. BadInput unless exactly one fits.
        """
        parameters = {**self.workload.parameters, **self.workload_parameters(treatment)}
        levels: dict[str, Any] = {WITH + name: value for name, value in parameters.items()}
        levels |= {**treatment, "nodes": self.nodes(treatment)}
        rates = [
            rate for of, rate in self.capacities if all(levels.get(name, level) == level for name, level in of.items())
        ]
        if len(rates) != 1:
            shown = ", ".join(f"{name} {level}" for name, level in {**treatment, "nodes": levels["nodes"]}.items())
            what = f"{len(rates)} treatments of the capacity experiment have the levels {shown}, not 1"
            raise self.document.error(("capacity",), what, "measure the capacity at these levels")
        return rates[0]

    @property
    def arrivals(self) -> list[str]:
        """The arrival processes of open loads, `constant`, `poisson` or both; empty if all loads are closed.

        Recorded in the description, so a folder cannot mix runs with different arrivals.
        """
        return sorted(set(self.kind.arrivals(self)))

    def describe(self) -> dict[str, Any]:
        """Return the experiment as JSON values, for `experiment.json`.

        Keys that older versions did not have are left out at their defaults, so that their folders can be resumed.
        """
        description = self.file.model_dump(
            mode="json", by_alias=True, exclude={"factors", "prepare", "measure", "finish", "published"}
        )
        if self.file.store.host not in REMOTE_HOSTS:
            # Keys at their defaults are left out here and below, so that folders of older versions can be resumed.
            description["store"] = {
                key: value for key, value in description["store"].items() if key not in PLACEMENT_KEYS
            }
        for key in ("hosts", "cluster", *EXISTING_KEYS):
            if key not in self.file.store.model_fields_set:
                del description["store"][key]
        if self.file.prices is None:
            del description["prices"]
        elif prices := self.file.prices.of_levels(self.file.levels):
            # In the order of the levels: treatments hold them in base units.
            description["prices"]["node_hour"] = prices
        if self.file.store.encryption == "none":
            del description["store"]["encryption"]
        if self.capacities:
            description["capacities"] = [{"treatment": dict(of), "rate": rate} for of, rate in self.capacities]
        elif description.get("capacity", ...) is None:
            del description["capacity"]
        if not any(description["store"]["limits"]["disk"].values()):
            del description["store"]["limits"]["disk"]
        switches = ("samples", "spin", "kernel_timestamps", "allow_bad")
        description |= {key: description[key] or None for key in switches}
        return {
            **description,
            "factors": {factor.name: list(factor.levels) for factor in self.factors},
            "hard": [factor.name for factor in self.factors if factor.hard],
            "prepare": list(self.prepared),
            "measure": list(self.measured),
            **({"finish": list(self.finished)} if self.finished else {}),
            **({"arrivals": spaced} if (spaced := self.arrivals) else {}),
            **({PUBLISHED: self._published()} if self.published else {}),
        }

    def _published(self) -> dict[str, Any]:
        """Return the published figures; with them in `experiment.json`, a report needs only the folder."""
        return {"file": self.file.published, "figures": [figure.as_dict() for figure in self.published]}


#: Keys outside `factors` that set the load of the measured phases.
PACES = ("clients", "rate")


@dataclass(frozen=True)
class DerivedValue:
    """A value in the file that is an expression."""

    #: The name of the factor for this value: `clients`, `with.documents`, `store.settings.routers`.
    name: str
    place: Place
    written: Expression

    def value(self, levels: Mapping[str, object]) -> int | float:
        """Evaluate the expression at the levels of a run.

        BadInput without a value, and for a result that is invalid for clients (whole, at least 1) or a rate (above 0).
        """
        last = self.name.rsplit(".", 1)[-1] if self.name.startswith("loads.") else self.name
        if last == "clients":
            return self.written.whole(levels)
        return self.written.positive(levels) if last == "rate" else self.written.value(levels)


def derived_values(experiment: "Experiment") -> tuple[DerivedValue, ...]:
    """Return the expressions in an experiment's file except levels of factors.

    They are in clients and rates, also of loads, in `with` and in settings. BadInput with the position of an invalid
    one.
    """
    document = experiment.document
    written = []
    for name, place, value in _values(experiment.file):
        if is_expression(value):
            try:
                written.append(DerivedValue(name, place, expression(value)))
            except BadInput as error:
                raise document.error(place, error.what, error.remedy) from None
    return tuple(written)


def expression_names(experiment: "Experiment", treatment: Mapping[str, Level]) -> dict[str, Level]:
    """Return the names that expressions may use, with their values in a treatment: its factors, and `nodes`."""
    return {**treatment, "nodes": experiment.nodes(treatment)}


def expression_values(experiment: "Experiment", treatment: Mapping[str, Level]) -> dict[str, int | float]:
    """Evaluate the expressions of the file and of the treatment's settings and parameters; return the values by name.

    Names are as of factors, such as `with.documents`. A level of the treatment replaces the file's expression. The
    treatment must have all factors that are named. BadInput with the position of an expression without a valid value.
    """
    levels, values = expression_names(experiment, treatment), dict[str, int | float]()
    for derived in derived_values(experiment):
        if derived.name not in treatment:
            try:
                values[derived.name] = derived.value(levels)
            except BadInput as error:
                raise experiment.document.error(derived.place, error.what, error.remedy) from None
    for name, level in treatment.items():
        if isinstance(level, str) and name.startswith((SETTINGS, WITH)) and is_expression(level):
            try:
                values[name] = expression(level).value(levels)
            except BadInput as error:
                place = experiment.kind.place(experiment.file, name, None)
                raise experiment.document.error(place, error.what, error.remedy) from None
    return values


def with_hard_factors(experiment: "Experiment") -> "Experiment":
    """Return the experiment with further factors marked hard to change.

    These are factors in expressions for settings of the store, or for parameters that affect the prepared phases. All
    are hard if a measured phase ingests, prepares or sends a whole corpus, or with `crash`: each run needs a new
    cluster.
    """
    phases = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
    crashes = getattr(experiment.file, "crash", None) is not None
    streams = [stream for phase in phases for stream in phase.named_streams]
    ingests = any(stream.source is not None for stream in streams)
    if crashes or ingests or any(phase.prepares or phase.until == "exhausted" for phase in phases):
        return replace(experiment, factors=tuple(_hard(factor, True) for factor in experiment.factors))
    shaping = experiment.workload.shaping(experiment.prepared)
    written = [(derived.name, derived.written) for derived in derived_values(experiment)]
    for factor in experiment.factors:
        written += [(factor.name, expression(str(level))) for level in factor.levels if is_expression(level)]
    hard = {
        used
        for name, formula in written
        if name.startswith(SETTINGS) or (name.startswith(WITH) and name.removeprefix(WITH) in shaping)
        for used in formula.names
    }
    return replace(experiment, factors=tuple(_hard(factor, factor.name in hard) for factor in experiment.factors))


def check_expressions(experiment: "Experiment") -> None:
    """Raise BadInput, with the position, for an expression with unknown names or, in some run, an invalid value.

    Also refuses expressions as levels if the kind does not support them, `clients` or `rate` that contradict factors,
    and values that a workload parameter refuses.
    """
    document, names = experiment.document, [factor.name for factor in experiment.factors]
    known = list(dict.fromkeys(["nodes", *names]))
    for derived in derived_values(experiment):
        try:
            require_names(derived.written, known)
        except BadInput as error:
            raise document.error(derived.place, error.what, error.remedy) from None
    for factor in experiment.factors:
        if factor.written and not experiment.kind.uneven:
            what = f"experiments of kind {experiment.file.kind} cannot have an expression as a level of {factor.name}"
            remedy = f"write numbers, or set {factor.name} for all runs, outside of factors"
            raise document.error(experiment.kind.place(experiment.file, factor.name, None), what, remedy, key=True)
        others = [name for name in known if name != factor.name]
        for index, level in enumerate(factor.levels):
            if is_expression(level):
                try:
                    require_names(expression(str(level)), others)
                except BadInput as error:
                    place = experiment.kind.place(experiment.file, factor.name, index)
                    raise document.error(place, error.what, error.remedy) from None
    _check_paces(experiment, names)
    checked: set[str] = set()
    for run in experiment.kind.design(experiment).runs:
        values = expression_values(experiment, run.treatment)
        parameters = {name: value for name, value in values.items() if name.startswith(WITH)}
        if parameters and repr(parameters) not in checked:
            checked.add(repr(parameters))
            experiment.workload_at(run.treatment)


def _check_paces(experiment: "Experiment", names: list[str]) -> None:
    """Raise BadInput if the file sets `clients` and `rate`, or one beside a factor (in `names`) that sets the load."""
    fixed = [key for key in PACES if getattr(experiment.file, key, None) is not None]
    for key in fixed:
        for other in (*PACES, RANKS_PER_NODE):
            if other in names:
                what = f"{key} is set for all runs, but {other} is a factor"
                raise experiment.document.error((key,), what, "remove one of them", key=True)
    if len(fixed) > 1:
        what = "clients and rate are both set, but a load is either closed loop (clients) or open loop (rate)"
        raise experiment.document.error(("rate",), what, "remove one of them", key=True)


def _hard(factor: Factor, hard: bool) -> Factor:
    """Return the factor, marked hard to change if it was already or if `hard` is true."""
    return replace(factor, hard=factor.hard or hard)


def _values(file: "ExperimentFile") -> Iterator[tuple[str, Place, Any]]:
    """Yield name, position and content (None if unset) of each value outside factors that may be an expression.

    The name has the form of a factor: `clients`, `loads.NAME.rate`, `with.NAME` or `store.settings.NAME`.
    """
    for key in PACES:
        yield key, (key,), getattr(file, key, None)
    for name, load in getattr(file, "loads", {}).items():
        for key in PACES:
            yield f"loads.{name}.{key}", ("loads", name, key), getattr(load, key)
    for name, value in file.with_.items():
        yield WITH + name, ("with", name), value
    for name, value in file.store.settings.items():
        yield SETTINGS + name, ("store", "settings", name), value
