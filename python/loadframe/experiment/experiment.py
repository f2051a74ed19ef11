"""A checked experiment, and what it means for each of its treatments: cluster, workload, load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loadframe.cluster import below
from loadframe.errors import BadInput
from loadframe.experiment import derived
from loadframe.experiment.file_factors import COLLECTIONS, RANKS_PER_NODE, SETTINGS, WITH, Factor, Level
from loadframe.experiment.file_model import ExperimentFile
from loadframe.experiment.file_store import OTHER_MACHINES, PLACING
from loadframe.load import Generator
from loadframe.units import parse_cores
from loadframe.workload import ResolvedWorkload, Workload
from loadframe.workload.collections import redefined
from loadframe.yamlfile import Document

if TYPE_CHECKING:
    from loadframe.analyze.published import PublishedFigure
    from loadframe.experiment.kinds import Kind

#: The key of published figures in experiment.json.
PUBLISHED = "published"


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: everything that its file names exists. `file.load_experiment` makes one."""

    document: Document
    #: As its kind has it.
    file: ExperimentFile
    kind: "Kind"
    #: With the parameters that are the same in every run.
    workload: Workload
    factors: tuple[Factor, ...]
    #: The phases that fill the store, once for each state of the cluster, and those that each run measures.
    prepared: tuple[str, ...]
    measured: tuple[str, ...]
    #: What a publication says of the same question, for the report.
    published: tuple["PublishedFigure", ...] = ()

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.file.experiment

    @property
    def seed(self) -> int:
        """The seed of the order and of the load."""
        return self.file.seed

    def generator(self, treatment: Mapping[str, Level]) -> Generator:
        """Return what generates the load of a treatment."""
        threads, ranks = (treatment.get(name, getattr(self.file, name)) for name in ("threads", "ranks"))
        ranks = self.ranks_by_node(treatment) or ranks
        return Generator(
            int(threads or 1),
            self.file.spread,
            self.file.connections,
            int(ranks) if ranks else None,
            samples=self.file.samples,
        )

    def with_samples(self) -> "Experiment":
        """Return the experiment with each request of its runs recorded individually, too."""
        return replace(self, file=self.file.model_copy(update={"samples": True}))

    @property
    def repetitions(self) -> int:
        """How often each treatment is run."""
        return self.file.repetitions

    def cluster_spec(self, treatment: Mapping[str, Level]) -> dict[str, Any]:
        """Return the cluster of a treatment: store, version, nodes, limits (cpus, memory in bytes, disk), settings."""
        store = self.file.store
        settings = {name.removeprefix(SETTINGS): v for name, v in treatment.items() if name.startswith(SETTINGS)}
        cores = parse_cores(str(told)) if (told := treatment.get("store.limits.cores")) else store.limits.cores
        follows = derived.values_of(self, treatment)
        settings = {**store.settings, **settings}
        settings = {name: follows.get(SETTINGS + name, level) for name, level in settings.items()}
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
            # None means that the setting is left at the store's default.
            "settings": {name: level for name, level in settings.items() if level is not None},
        }

    def nodes(self, treatment: Mapping[str, Level]) -> int:
        """Return the number of nodes of a treatment's cluster."""
        return int(treatment.get("nodes") or self.file.store.nodes)

    def ranks_by_node(self, treatment: Mapping[str, Level]) -> int | None:
        """Return the number of ranks that follows from that of the nodes; None where it does not."""
        for_each = treatment.get(RANKS_PER_NODE)
        return None if for_each is None else int(for_each) * self.nodes(treatment)

    def workload_parameters(self, treatment: Mapping[str, Level]) -> dict[str, Level]:
        """Return the workload's parameters that a treatment sets, and those that follow from it."""
        levels = {**treatment, **derived.values_of(self, treatment)}
        given = {name.removeprefix(WITH): level for name, level in levels.items() if name.startswith(WITH)}
        return {**given, **self.kind.parameters(self, treatment)}

    def workload_at(self, treatment: Mapping[str, Level]) -> Workload:
        """Return the workload with the parameters of a treatment."""
        values = self.workload_parameters(treatment)
        if not values:
            return self.workload
        return self.workload.with_parameters(
            values,
            folder=self.document.path.parent,
            where=lambda name: self.document.where(
                ("with", name)
                if name in self.file.with_ and WITH + name not in treatment
                else self.kind.place(self.file, WITH + name, None),
                key=name not in self.workload.defaults,
            ),
        )

    def resolve(
        self, treatment: Mapping[str, Level], family: str, report: Callable[[str], None] = lambda _: None
    ) -> ResolvedWorkload:
        """Return the workload of a treatment for a family of stores; its parameters may differ from run to run.

        `report` takes lines on how far corpora are that are fetched for it.
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
        return replace(resolved, collections=collections)

    def overrides(self, treatment: Mapping[str, Level]) -> dict[str, Any]:
        """Return what a treatment changes of the measured phases, as arguments of `ResolvedPhase.override`.

        These are `clients`, `rate` (1/s), `users`, `arrivals`, `warmup`, `duration` and `ready_within` (s); what nobody
        sets is not there.
        """
        given = {key: getattr(self.file, key) for key in ("arrivals", "warmup", "duration", "ready_within")}
        paces = {key: self.pace(key, treatment) for key in derived.PACES}
        levels = {key: treatment[key] for key in ("clients", "rate", "users") if key in treatment}
        return {**{key: value for key, value in {**given, **paces}.items() if value is not None}, **levels}

    def pace(self, key: str, treatment: Mapping[str, Level]) -> Level:
        """Return the `clients` or the `rate` (1/s) that the file says for all runs, worked out for a treatment.

        None where it says nothing, or where clients are to be found.
        """
        said: Level = derived.values_of(self, treatment).get(key, getattr(self.file, key, None))
        return None if isinstance(said, str) else said

    @property
    def arrivals(self) -> list[str]:
        """How the requests of open loads are spaced, `constant`, `poisson` or both; empty where all loads are closed.

        It is written down, so that no folder ever mixes runs of one with runs of another.
        """
        return sorted(set(self.kind.arrivals(self)))

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the experiment's folder, ready for JSON."""
        told = self.file.model_dump(mode="json", by_alias=True, exclude={"factors", "prepare", "measure", "published"})
        if self.file.store.host not in OTHER_MACHINES:
            # Folders of before there were such hosts go on.
            told["store"] = {key: told["store"][key] for key in told["store"] if key not in PLACING}
        if self.file.store.encryption == "none":
            # The same holds for this.
            del told["store"]["encryption"]
        if not any(told["store"]["limits"]["disk"].values()):
            del told["store"]["limits"]["disk"]
        # Folders of before there were these go on.
        told |= {key: told[key] or None for key in ("samples", "allow_bad")}
        return {
            **told,
            "factors": {factor.name: list(factor.levels) for factor in self.factors},
            "hard": [factor.name for factor in self.factors if factor.hard],
            "prepare": list(self.prepared),
            "measure": list(self.measured),
            **({"arrivals": spaced} if (spaced := self.arrivals) else {}),
            **({PUBLISHED: self._published()} if self.published else {}),
        }

    def _published(self) -> dict[str, Any]:
        """Return what was published, so that a report needs no more than the experiment's folder."""
        return {"file": self.file.published, "figures": [figure.as_dict() for figure in self.published]}
