"""The experiment file: a question, a store, a workload, and what is varied; read, checked, and applied to treatments.

It starts nothing. The order of the runs is the business of `design`, carrying them out that of `loop`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from loadframe.errors import BadInput
from loadframe.experiment.file_factors import SETTINGS, WITH, Factor, Level, read_factors
from loadframe.load import Generator
from loadframe.load.generator import Spread
from loadframe.workload import ResolvedWorkload, Workload, load_workload
from loadframe.workload.resolved import paced
from loadframe.yamlfile import (
    NOT_EMPTY,
    Document,
    Duration,
    Model,
    Name,
    Scalar,
    Size,
    did_you_mean,
    read,
    validate,
    wrong,
)

Count = Annotated[int, Field(ge=1)]
#: Names of phases; a single one needs no list.
Phases = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]
Levels = Annotated[tuple[Scalar, ...], Strict(False), NOT_EMPTY]


class LimitsEntry(Model):
    """What each node may use of its machine: CPUs and bytes of memory."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    memory: Size | None = None


class StoreEntry(Model):
    """The store under test, and its state where no factor says otherwise."""

    kind: Name
    version: str | None = None
    nodes: Count = 1
    limits: LimitsEntry = LimitsEntry()
    settings: dict[str, Scalar] = Field(default_factory=dict)


class ExperimentFile(Model):
    """An experiment as it is written.

    `scaling` says whether the data stay as they are while nodes are added (strong), or grow with them (weak): then the
    parameter that `grows` names is multiplied by the number of nodes.
    """

    experiment: Name
    question: str = ""
    store: StoreEntry
    workload: Annotated[str, Field(min_length=1)]
    with_: dict[str, Scalar] = Field(default_factory=dict, alias="with")
    kind: Literal["scale"]
    scaling: Literal["strong", "weak"] = "strong"
    grows: str | None = None
    factors: Annotated[dict[str, Levels], NOT_EMPTY]
    prepare: Phases | None = None
    measure: Annotated[Phases, NOT_EMPTY] | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    warmup: Duration | None = None
    duration: Annotated[Duration, Field(gt=0)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    spread: Spread = "fixed"
    connections: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _scaling(self) -> "ExperimentFile":
        if self.scaling == "strong" and self.grows is not None:
            raise wrong("in strong scaling nothing grows", "say scaling: weak, or remove this", key="grows")
        if self.scaling == "weak" and self.grows is None:
            raise wrong("in weak scaling the data grow", "say grows: with the workload's parameter", key="scaling")
        if self.scaling == "weak" and "nodes" not in self.factors:
            raise wrong("in weak scaling the data grow with the nodes", "make nodes a factor", key="scaling")
        return self


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: everything that its file names exists. `load_experiment` makes one."""

    document: Document
    file: ExperimentFile
    #: With the parameters that are the same in every run.
    workload: Workload
    factors: tuple[Factor, ...]
    #: The phases that fill the store, once for each state of the cluster, and those that each run measures.
    prepared: tuple[str, ...]
    measured: tuple[str, ...]

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.file.experiment

    @property
    def seed(self) -> int:
        """The seed of the order and of the load."""
        return self.file.seed

    @property
    def generator(self) -> Generator:
        """What generates the load."""
        return Generator(self.file.threads, self.file.spread, self.file.connections)

    @property
    def repetitions(self) -> int:
        """How often each treatment is run."""
        return self.file.repetitions

    def cluster_spec(self, treatment: Mapping[str, Level]) -> dict[str, Any]:
        """Return the cluster of a treatment: store, version, nodes, limits (cpus, memory in bytes), settings."""
        store = self.file.store
        settings = {name.removeprefix(SETTINGS): v for name, v in treatment.items() if name.startswith(SETTINGS)}
        return {
            "store": store.kind,
            "version": store.version,
            "nodes": self.nodes(treatment),
            "limits": {
                "cpus": treatment.get("store.limits.cpus", store.limits.cpus),
                "memory": treatment.get("store.limits.memory", store.limits.memory),
            },
            "settings": {**store.settings, **settings},
        }

    def nodes(self, treatment: Mapping[str, Level]) -> int:
        """Return the number of nodes of a treatment's cluster."""
        return int(treatment.get("nodes") or self.file.store.nodes)

    def workload_parameters(self, treatment: Mapping[str, Level]) -> dict[str, Level]:
        """Return the workload's parameters that a treatment sets, and in weak scaling the one that grows."""
        levels = {name.removeprefix(WITH): level for name, level in treatment.items() if name.startswith(WITH)}
        if self.file.grows is None:
            return levels
        base = self.workload.parameters[self.file.grows]
        return {**levels, self.file.grows: int(str(base)) * self.nodes(treatment)}

    def workload_at(self, treatment: Mapping[str, Level]) -> Workload:
        """Return the workload with the parameters of a treatment."""
        values = self.workload_parameters(treatment)
        if not values:
            return self.workload
        return self.workload.with_parameters(
            values,
            folder=self.document.path.parent,
            where=lambda name: self.document.where(("factors", WITH + name)),
        )

    def resolve(
        self, treatment: Mapping[str, Level], family: str, report: Callable[[str], None] = lambda _: None
    ) -> ResolvedWorkload:
        """Return the workload of a treatment for a family of stores; its parameters may differ from run to run.

        `report` takes lines on how far corpora are that are fetched for it.
        """
        return self.workload_at(treatment).for_family(family, self.nodes(treatment), report)

    def overrides(self, treatment: Mapping[str, Level]) -> dict[str, Any]:
        """Return what a treatment changes of the measured phases: `clients`, `rate` (1/s), `warmup`, `duration` (s).

        They are arguments of `ResolvedPhase.override`; what nobody sets is not there.
        """
        given = {"warmup": self.file.warmup, "duration": self.file.duration}
        levels = {key: treatment[key] for key in ("clients", "rate") if key in treatment}
        return {**{key: value for key, value in given.items() if value is not None}, **levels}

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the experiment's folder, ready for JSON."""
        told = self.file.model_dump(mode="json", by_alias=True, exclude={"factors", "prepare", "measure"})
        return {
            **told,
            "factors": {factor.name: list(factor.levels) for factor in self.factors},
            "prepare": list(self.prepared),
            "measure": list(self.measured),
        }


def load_experiment(path: str | Path) -> Experiment:
    """Load an experiment and its workload; BadInput names the place of whatever is wrong or does not exist.

    A relative path of the workload, or in its parameters, begins at the experiment's folder.
    """
    document = read(path)
    file = validate(document, ExperimentFile)
    folder = document.path.parent
    try:
        workload = load_workload(file.workload, folder=folder)
    except BadInput as error:
        raise error if error.where else document.error(("workload",), error.what, error.remedy) from None
    workload = workload.with_parameters(
        file.with_, folder=folder, where=lambda name: document.where(("with", name), key=name not in workload.defaults)
    )
    prepared, measured = _phases(document, file, workload)
    workload = workload.choose((*prepared, *measured))
    factors = read_factors(document, file.factors, workload, prepared)
    experiment = Experiment(document, file, workload, factors, prepared, measured)
    _check_levels(experiment)
    _check_growth(experiment)
    return experiment


def _phases(document: Document, file: ExperimentFile, workload: Workload) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the phases to prepare and to measure."""
    phases = workload.fill(1).file.phases
    for key, names in (("measure", file.measure), ("prepare", file.prepare)):
        for index, name in enumerate(names or ()):
            if name not in [phase.name for phase in phases]:
                remedy = did_you_mean(name, [phase.name for phase in phases])
                raise document.error((key, index), f"the workload has no phase {name!r}", remedy)
    measured = file.measure or tuple(phase.name for phase in workload.file.phases if not phase.prepares)
    if file.measure is None and len(measured) != 1:
        what = f"the workload {workload.name} has {len(measured)} phases that could be measured"
        raise document.error((), what, f"say measure: with some of {', '.join(phase.name for phase in phases)}")
    prepared = file.prepare
    if prepared is None:
        prepared = tuple(phase.name for phase in phases if phase.prepares and phase.name not in measured)
    # A phase may be prepared and measured: run once before, it warms what it will ask for.
    for name in measured:
        if measured.count(name) > 1:
            raise document.error(("measure",), f"the phase {name!r} stands twice in measure", "remove one of them")
    return prepared, measured


def _check_levels(experiment: Experiment) -> None:
    """Refuse an experiment that cannot answer its question, or whose factors its phases cannot take."""
    document = experiment.document
    if all(len(factor.levels) == 1 for factor in experiment.factors):
        what = "every factor has one level, so there is nothing to compare"
        raise document.error(("factors",), what, "give a factor more levels, such as nodes: [1, 2, 4]", key=True)
    for factor in experiment.factors:
        if factor.name in ("clients", "rate"):
            for phase in experiment.workload.file.phases:
                if phase.name in experiment.measured:
                    try:
                        paced(phase.named_streams, **{"clients": None, "rate": None, factor.name: 1}, phase=phase.name)
                    except BadInput as error:
                        raise document.error(("factors", factor.name), error.what, error.remedy, key=True) from None


def _check_growth(experiment: Experiment) -> None:
    """Refuse a parameter that cannot grow with the nodes."""
    document, grows = experiment.document, experiment.file.grows
    if grows is None:
        return
    parameters = experiment.workload.parameters
    if grows not in parameters:
        what = f"the workload has no parameter {grows!r}"
        raise document.error(("grows",), what, did_you_mean(grows, parameters))
    value = parameters[grows]
    if isinstance(value, bool) or not isinstance(value, int):
        raise document.error(("grows",), f"{grows} is no whole number and cannot grow", "name one, such as documents")
    if WITH + grows in [factor.name for factor in experiment.factors]:
        raise document.error(("grows",), f"{grows} grows with the nodes and is a factor, too", "remove one of them")
