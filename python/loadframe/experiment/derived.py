"""What follows from the levels of a run: values of an experiment file that are expressions of `nodes` and factors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loadframe.errors import BadInput
from loadframe.experiment.expression import Expression, expression, is_expression, require_names
from loadframe.experiment.file_factors import RANKS_PER_NODE, SETTINGS, WITH, Factor, Level
from loadframe.yamlfile import Place

if TYPE_CHECKING:
    from loadframe.experiment.experiment import Experiment
    from loadframe.experiment.file_model import ExperimentFile

#: The keys of a file's own, beside its factors, that say what load the measured phases have.
PACES = ("clients", "rate")


@dataclass(frozen=True)
class Derived:
    """A value of the file that is an expression."""

    #: As a factor of that would be called: `clients`, `with.documents`, `store.settings.routers`.
    name: str
    place: Place
    written: Expression

    def value(self, levels: Mapping[str, object]) -> int | float:
        """Return what it is at the levels of a run; BadInput for clients or a rate that cannot be."""
        last = self.name.rsplit(".", 1)[-1] if self.name.startswith("loads.") else self.name
        if last == "clients":
            return self.written.whole(levels)
        return self.written.positive(levels) if last == "rate" else self.written.value(levels)


def derived(experiment: "Experiment") -> tuple[Derived, ...]:
    """Return the values of an experiment's file that are expressions; BadInput, at the place, for an unsound one."""
    document = experiment.document
    written = []
    for name, place, value in _values(experiment.file):
        if is_expression(value):
            try:
                written.append(Derived(name, place, expression(value)))
            except BadInput as error:
                raise document.error(place, error.what, error.remedy) from None
    return tuple(written)


def levels_of(experiment: "Experiment", treatment: Mapping[str, Level]) -> dict[str, Level]:
    """Return the names that expressions may have, with their values in a treatment."""
    return {**treatment, "nodes": experiment.nodes(treatment)}


def values_of(experiment: "Experiment", treatment: Mapping[str, Level]) -> dict[str, int | float]:
    """Return what the expressions are in a treatment, by name; BadInput, at the place, for what cannot be.

    Levels of a treatment that are expressions themselves are among them.
    """
    levels, values = levels_of(experiment, treatment), dict[str, int | float]()
    for one in derived(experiment):
        if one.name not in treatment:
            try:
                values[one.name] = one.value(levels)
            except BadInput as error:
                raise experiment.document.error(one.place, error.what, error.remedy) from None
    for name, level in treatment.items():
        if isinstance(level, str) and name.startswith((SETTINGS, WITH)) and is_expression(level):
            try:
                values[name] = expression(level).value(levels)
            except BadInput as error:
                place = experiment.kind.place(experiment.file, name, None)
                raise experiment.document.error(place, error.what, error.remedy) from None
    return values


def hardened(experiment: "Experiment") -> "Experiment":
    """Return the experiment with factors hard to change that the store or its data follow.

    All are where a run measures what fills or prepares the store, or kills a node after its load: that can be done once
    on each cluster.
    """
    phases = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
    once = getattr(experiment.file, "crash", None) is not None
    streams = [stream for phase in phases for stream in phase.named_streams]
    takes_in = any(stream.source is not None for stream in streams)
    if once or takes_in or any(phase.prepares or phase.until == "exhausted" for phase in phases):
        return replace(experiment, factors=tuple(_hard(factor, True) for factor in experiment.factors))
    shaping = experiment.workload.shaping(experiment.prepared)
    written = [(one.name, one.written) for one in derived(experiment)]
    for factor in experiment.factors:
        written += [(factor.name, expression(str(level))) for level in factor.levels if is_expression(level)]
    deep = {
        name
        for place, one in written
        if place.startswith(SETTINGS) or (place.startswith(WITH) and place.removeprefix(WITH) in shaping)
        for name in one.names
    }
    return replace(experiment, factors=tuple(_hard(factor, factor.name in deep) for factor in experiment.factors))


def check(experiment: "Experiment") -> None:
    """Refuse expressions of unknown names, and such as have a value in some run that cannot be there."""
    document, names = experiment.document, [factor.name for factor in experiment.factors]
    known = list(dict.fromkeys(["nodes", *names]))
    for one in derived(experiment):
        try:
            require_names(one.written, known)
        except BadInput as error:
            raise document.error(one.place, error.what, error.remedy) from None
    for factor in experiment.factors:
        if factor.written and not experiment.kind.uneven:
            what = f"experiments of kind {experiment.file.kind} take every level of {factor.name} at all others"
            remedy = f"say {factor.name}: for all runs, outside of the factors, or write numbers"
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
        values = values_of(experiment, run.treatment)
        given = {name: value for name, value in values.items() if name.startswith(WITH)}
        if given and repr(given) not in checked:
            checked.add(repr(given))
            experiment.workload_at(run.treatment)


def _check_paces(experiment: "Experiment", names: list[str]) -> None:
    """Refuse clients or a rate for all runs beside what says the same in another way."""
    said = [key for key in PACES if getattr(experiment.file, key, None) is not None]
    for key in said:
        for other in (*PACES, RANKS_PER_NODE):
            if other in names:
                what = f"{key} is said for all runs, and {other} is a factor"
                raise experiment.document.error((key,), what, "remove one of them", key=True)
    if len(said) > 1:
        what = "clients and rate are both there, but a load has the one (closed) or the other (open)"
        raise experiment.document.error(("rate",), what, "remove one of them", key=True)


def _hard(factor: Factor, hard: bool) -> Factor:
    return replace(factor, hard=factor.hard or hard)


def _values(file: "ExperimentFile") -> Iterator[tuple[str, Place, Any]]:
    """Yield the values that may be expressions: their names, places, and what is written."""
    for key in PACES:
        yield key, (key,), getattr(file, key, None)
    for name, load in getattr(file, "loads", {}).items():
        for key in PACES:
            yield f"loads.{name}.{key}", ("loads", name, key), getattr(load, key)
    for name, value in file.with_.items():
        yield WITH + name, ("with", name), value
    for name, value in file.store.settings.items():
        yield SETTINGS + name, ("store", "settings", name), value
