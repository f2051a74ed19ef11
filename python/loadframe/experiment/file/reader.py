"""Loader of experiment files: validates the keys of the kind and checks that everything named exists.

It starts no processes. `design` orders the runs, and `runner` executes them.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_nodes
from loadframe.cluster import Cluster, below, is_path
from loadframe.experiment import kinds
from loadframe.experiment.experiment import PACES, Experiment, check_expressions, with_hard_factors
from loadframe.experiment.file.existing import check_existing, with_kind
from loadframe.experiment.file.factors import WITH, Factor, Level, expression, is_expression, read_factors
from loadframe.experiment.file.model import (
    ONCE,
    REMOTE_HOSTS,
    ExperimentFile,
    LimitsEntry,
    PacedFile,
    SloEntry,
    StoreEntry,
)
from loadframe.experiment.kinds import Kind
from loadframe.experiment.kinds.base import check_slo
from loadframe.workload import Workload, load_workload
from loadframe.workload.parameters import origins
from loadframe.workload.resolved import with_levels
from loadframe.yamlfile import Document, Place, did_you_mean, read, short_json, validate

if TYPE_CHECKING:
    from loadframe.analyze.experiment import RecordedExperiment

#: Keys by option; other options stay.
_KEYS = {
    **{name.replace("_", "-"): f"store.{name}" for name in StoreEntry.model_fields},
    **{name: f"store.limits.{name}" for name in LimitsEntry.model_fields},
    **{
        name: name for name in ("clients", "rate", "arrivals", "warmup", "duration", "threads", "connections", "spread")
    },
    "store": "store.kind",
    "set": "store.settings",
    "store-set": "store.settings",
    "container-runtime": "store.runtime",
    "per-machine": "store.placement.per_machine",
    "network": "store.placement.network",
}
_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: (\w+)=(\w+))?")


@contextlib.contextmanager
def options_as_keys() -> Iterator[None]:
    """Replace options, such as `--cpus`, by keys of files in LoadframeErrors that leave this block; see `with_keys`."""
    try:
        yield
    except LoadframeError as error:
        with_keys(error)
        raise


def with_keys(error: LoadframeError) -> None:
    """Replace options (`--cpus`) by keys of files (`store.limits.cpus`) in an error, in place, except in backquotes."""
    error.what = _replaced(error.what)
    error.where = error.where and _replaced(error.where)
    error.remedy = error.remedy and _replaced(error.remedy)


def _replaced(text: str) -> str:
    """Return the text with options replaced by keys, except in backquotes."""
    parts = text.split("`")
    parts[::2] = [_OPTION.sub(_key, part) for part in parts[::2]]
    return "`".join(parts)


def _key(option: re.Match[str]) -> str:
    """Return the key, with its setting if any, for an option that `_OPTION` matched; without a key, the option."""
    name, setting, value = option.groups()
    if name not in _KEYS:
        return option[0]
    return f"{_KEYS[name]}: {{{setting}: {value}}}" if setting else _KEYS[name]


@options_as_keys()
def load_experiment(path: str | Path) -> Experiment:
    """Load an experiment and its workload; BadInput, with the position, for an error in the file.

    Relative paths of the workload and in its parameters start at the experiment's folder.
    """
    return experiment_of(read(path))


def experiment_of(document: Document, given: Workload | None = None) -> Experiment:
    """Check the experiment in a document and return it; BadInput, with the position, for an error.

    A `given` workload replaces the workload that the document names.
    """
    kind = _kind(document)
    file = with_kind(document, validate(document, kind.model))
    folder = document.path.parent
    try:
        workload = given or load_workload(file.workload, folder=folder)
    except BadInput as error:
        raise error if error.where else document.error(("workload",), error.what, error.remedy) from None
    fixed = {name: value for name, value in file.with_.items() if not is_expression(value)}
    workload = workload.with_parameters(
        fixed, folder=folder, where=lambda name: document.where(("with", name), key=name not in workload.defaults)
    )
    prepared, measured = _phases(document, file, workload)
    finished = file.finish or ()
    workload = workload.choose((*prepared, *measured, *finished))
    factors = read_factors(
        document, kind.factors(file), workload, prepared, lambda name, index: kind.place(file, name, index)
    )
    _check_pacing(document, file, factors, workload, measured, lambda name: kind.place(file, name, None))
    _check_kinds_of_stores(document, file, factors, lambda index: kind.place(file, "store.kind", index))
    experiment = with_hard_factors(Experiment(document, file, kind, workload, factors, prepared, measured, finished))
    _require_kind_of_store(experiment)
    _check_timestamps(experiment)
    if file.until and not kind.open_ended:
        what = f"experiments of kind {file.kind} do not support until"
        raise document.error(("until",), what, "remove until, and set repetitions", key=True)
    check_existing(experiment)
    kind.check(experiment)
    experiment = _with_capacities(experiment)
    if file.prices and isinstance(file.prices.slo, SloEntry):
        # Costs are calculated for the first measured phase.
        check_slo(experiment, file.prices.slo, ("prices", "slo"), measured[:1])
    check_expressions(experiment)
    if file.published:
        # Imported here because the statistics take a second to import.
        from loadframe.experiment.file.published import read_published

        experiment = replace(experiment, published=read_published(experiment, file.published))
    if file.arrivals and not experiment.arrivals:
        what = "arrivals requires an open load, but all loads are closed loop"
        raise document.error(("arrivals",), what, "remove arrivals, or set a rate", key=True)
    return experiment


def _with_capacities(experiment: Experiment) -> Experiment:
    """Return the experiment with the capacities (1/s) of its capacity experiment; unchanged without the key `capacity`.

    BadInput if that folder has no capacity as a rate, or none at the levels of some run; if it measured another load or
    kind of store (`_other_load`); or if a measured phase sends groups, or journeys of several requests.
    """
    file, document = experiment.file, experiment.document
    folder = file.capacity if isinstance(file, PacedFile) else None
    if folder is None:
        return experiment
    for phase in experiment.workload.file.phases:
        if phase.name in experiment.measured and any(stream.group > 1 for stream in phase.named_streams):
            what = f"the phase {phase.name!r} sends groups of requests, and the capacity is a rate of requests"
            raise document.error(
                ("rate",), what, "write the rate of groups, or measure a phase without order: together"
            )
        paced = [stream for stream in phase.named_streams if stream.is_open or len(phase.named_streams) == 1]
        if phase.name in experiment.measured and any(stream.per_arrival > 1 for stream in paced):
            what = (
                f"the phase {phase.name!r} sends journeys of several requests, and the capacity is a rate of requests"
            )
            raise document.error(("rate",), what, "write the rate of journeys, or measure a phase without a journey")
    # Imported here because the statistics take a second to import.
    from loadframe.analyze.capacity import Kind as Answer
    from loadframe.analyze.capacity import read_capacities

    path = document.path.parent / Path(folder).expanduser()
    try:
        results = read_capacities(path)
    except (BadInput, KeyError, TypeError) as error:
        why = error.what if isinstance(error, BadInput) else "it is not of kind capacity"
        what = f"cannot read a capacity experiment in {folder}: {why}"
        raise document.error(("capacity",), what, "name the folder of a capacity experiment") from None
    if differing := _other_load(experiment, results.folder):
        what = f"{folder} has the capacity of other runs: {differing}"
        raise document.error(("capacity",), what, "name a capacity experiment with the same load and kind of store")
    rates: list[tuple[dict[str, Level], float]] = []
    for capacity in results.capacities:
        if capacity.over != "rate":
            what = f"{folder} has a capacity in {capacity.over}, not a rate"
            raise document.error(("capacity",), what, "name the folder of a search over the rate")
        if capacity.rate is not None and capacity.kind is Answer.BRACKETED:
            nodes = {} if experiment.exists else {"nodes": capacity.nodes}
            rates.append(({**nodes, **capacity.treatment}, capacity.rate.value))
    if not rates:
        what = f"the experiment in {folder} found no capacity"
        raise document.error(("capacity",), what, "see its report; change its search or slo, and run it again")
    experiment = replace(experiment, capacities=tuple(rates))
    for run in experiment.kind.design(experiment).runs:
        experiment.pace("rate", run.treatment)
    return experiment


def _other_load(experiment: Experiment, measured: "RecordedExperiment") -> str | None:
    """Return the first difference of load or store from the capacity experiment `measured`, as a clause, or None.

    An example is `its store is mongodb`. Factors of either experiment do not count. The load is that of its recorded
    runs: the file may have other values by now, and the library sets some without the file. Expressions of `nodes` and
    common factors, and the growing parameter of weak scaling, count with their values at the levels of these runs.
    Expressions of other factors do not count.
    """
    description = measured.description
    planned, recorded_factors = {factor.name for factor in experiment.factors}, set(description["factors"])
    factors, common = planned | recorded_factors, {"nodes"} | (planned & recorded_factors)
    if description["measure"] != list(experiment.measured):
        return f"it measures {', '.join(description['measure'])}"
    kind, other = experiment.file.store.kind, description["store"].get("kind")
    if "store.kind" not in factors and kind and other and kind != other and not is_path(kind):
        return f"its store is {other}"
    varied = {name.removeprefix(WITH) for name in factors if name.startswith(WITH)}
    for values in (experiment.file.with_, description["with"]):
        varied |= {
            name for name, value in values.items() if is_expression(value) and not common.issuperset(_names(value))
        }
    # A run that failed before its load records no file.
    recorded = [
        (run.run.raw_manifest["workload"], {name: level for name, level in run.treatment.items() if name in common})
        for run in measured.runs
        if run.run and run.manifest.workload.file
    ]
    for load, levels in {repr((it["nodes"], it["parameters"], at)): (it, at) for it, at in recorded}.values():
        if load["name"] != experiment.workload.name:
            return f"its workload is {load['name']}"
        filled = _workload_at(experiment, {**levels, "nodes": load["nodes"]}, varied).fill(load["nodes"])
        if differing := set(load["parameters"]) ^ set(filled.parameters):
            whose = "its workload" if min(differing) in load["parameters"] else "only this workload"
            return f"{whose} has a parameter {min(differing)!r}"
        for name, value in load["parameters"].items():
            if filled.parameters[name] != value and varied.isdisjoint(origins([name], filled.made_of)):
                at = f" with {format_nodes(load['nodes'])}" if "nodes" in factors else ""
                return f"its parameter {name} is {value}{at}, not {filled.parameters[name]}"
    return None


def _names(value: object) -> tuple[str, ...]:
    """Return the names in a value that `is_expression`, without repeats."""
    return expression(str(value)).names


def _workload_at(experiment: Experiment, levels: Mapping[str, Level], varied: Collection[str]) -> Workload:
    """Return the workload with the file's expressions and the kind's parameters at these levels and `nodes`.

    Expressions of the parameters `varied` are not evaluated; these parameters keep the workload's values.
    """
    document = experiment.document
    values: dict[str, Level] = {
        name: expression(str(value)).value(levels)
        for name, value in experiment.file.with_.items()
        if is_expression(value) and name not in varied
    }
    values |= experiment.kind.parameters(experiment, levels)
    if not values:
        return experiment.workload
    return experiment.workload.with_parameters(
        values, folder=document.path.parent, where=lambda name: document.where(("with", name))
    )


def _kind(document: Document) -> Kind:
    """Return the kind in a file whose other keys are not validated yet; BadInput if it is missing or unknown."""
    data, known = document.data, kinds.names()
    if not isinstance(data, dict):
        validate(document, ExperimentFile)  # raises BadInput
    if "phases" in data and "experiment" not in data:
        what = "this is a workload file, not an experiment"
        raise document.error(("phases",), what, "use `loadframe check` or `loadframe bench`", key=True)
    if "kind" not in data:
        raise document.error((), "the key 'kind' is missing", f"choose one of {', '.join(known)}")
    word = data["kind"]
    if word not in known:
        raise document.error(("kind",), f"{short_json(word)} is not valid here", did_you_mean(str(word), known))
    return kinds.find(word)


def _phases(document: Document, file: ExperimentFile, workload: Workload) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the phases to prepare and to measure; BadInput for unknown, duplicate or missing phases.

    Without `measure`: the only phase that neither prepares nor finishes; BadInput for several. Without `prepare`, or
    with `once`: all preparing phases of the workload, in its order, that are in neither `measure` nor `finish`.
    """
    phases = workload.fill(1).file.phases
    for key, names in (("measure", file.measure), ("prepare", file.prepare), ("finish", file.finish)):
        for index, name in enumerate(() if names == (ONCE,) and key == "prepare" else names or ()):
            if name not in [phase.name for phase in phases]:
                remedy = did_you_mean(name, [phase.name for phase in phases])
                raise document.error((key, index), f"unknown phase {name!r} of the workload", remedy)
    others = tuple(
        phase.name for phase in workload.file.phases if not phase.prepares and phase.name not in (file.finish or ())
    )
    measured = file.measure or others
    if file.measure is None and len(measured) != 1:
        what = f"the workload {workload.name} has {len(measured)} phases that could be measured"
        choices = others or tuple(phase.name for phase in phases)
        raise document.error((), what, f"set measure to some of {', '.join(choices)}")
    prepared = file.prepare
    if prepared == (ONCE,) and ONCE not in [phase.name for phase in phases]:
        prepared = None
    if prepared is None:
        used = (*measured, *(file.finish or ()))
        prepared = tuple(phase.name for phase in phases if phase.prepares and phase.name not in used)
    if file.finish and file.kind == "elastic":
        raise document.error(("finish",), "elastic experiments do not support finish", "remove finish", key=True)
    for name in file.finish or ():
        if name in measured:
            raise document.error(("finish",), f"{name!r} is in measure and finish", "remove it from one of them")
    # A phase may be in both prepare and measure, which warms the caches.
    for name in measured:
        if measured.count(name) > 1:
            raise document.error(("measure",), f"duplicate phase {name!r} in measure", "remove one of them")
    return prepared, measured


def _check_kinds_of_stores(
    document: Document, file: ExperimentFile, factors: tuple[Factor, ...], where: Callable[[int], Place]
) -> None:
    """Raise BadInput for a kind of store that is a path without a valid definition.

    With nodes on other machines (`REMOTE_HOSTS`), also for an unknown kind or one that cannot run there; on this
    machine, names are checked later. `where` returns the position of a level of `store.kind` by index.
    """
    varied = next((factor.levels for factor in factors if factor.name == "store.kind"), ())
    written = [(("store", "kind"), file.store.kind), *((where(index), str(kind)) for index, kind in enumerate(varied))]
    for place, kind in written:
        if is_path(kind) or (kind and file.store.host in REMOTE_HOSTS):
            try:
                Cluster.require_kind(below(kind, document.path.parent), file.store.host)
            except BadInput as error:
                path = f"{kind}: " if is_path(kind) else ""
                at = f" ({error.where})" if error.where and is_path(kind) else ""
                raise document.error(place, f"{path}{error.what}{at}", error.remedy) from None


def _require_kind_of_store(experiment: Experiment) -> None:
    """Raise BadInput if neither the file nor the treatment of some run names a kind of store."""
    file = experiment.file
    if file.store.kind or all("store.kind" in run.treatment for run in experiment.kind.design(experiment).runs):
        return
    raise experiment.document.error(
        ("store",) if "store" in file.model_fields_set else (),
        "the key 'kind' is missing" if "store" in file.model_fields_set else "the key 'store' is missing",
        "add store.kind, such as store: {kind: opensearch}, or set it in each variant or as a factor",
    )


def _check_timestamps(experiment: Experiment) -> None:
    """Raise BadInput if kernel timestamps are on, and the driver of a store does not have them."""
    file, document = experiment.file, experiment.document
    if not file.kernel_timestamps:
        return
    from loadframe.load import Generator

    varied = next((factor.levels for factor in experiment.factors if factor.name == "store.kind"), ())
    for kind in filter(None, (file.store.kind, *map(str, varied))):
        try:
            Generator(kernel_timestamps=True).require(Cluster.driver_of(below(kind, document.path.parent)))
        except BadInput as error:
            raise document.error(("kernel_timestamps",), f"{kind}: {error.what}", error.remedy, key=True) from None


def _check_pacing(
    document: Document,
    file: ExperimentFile,
    factors: tuple[Factor, ...],
    workload: Workload,
    measured: tuple[str, ...],
    where: Callable[[str], Place],
) -> None:
    """Raise BadInput for clients, rates or users that a measured phase cannot take; `where` has a factor's position."""
    fixed = [(key, (key,)) for key in PACES if getattr(file, key, None) is not None]
    varied = [(factor.name, where(factor.name)) for factor in factors if factor.name in ("clients", "rate", "users")]
    for name, place in (*fixed, *varied):
        for phase in workload.file.phases:
            if phase.name in measured:
                try:
                    load = {"clients": None, "rate": None, name: 1}
                    with_levels(phase.named_streams, **load, phase=phase.name)
                except BadInput as error:
                    raise document.error(place, error.what, error.remedy, key=True) from None
