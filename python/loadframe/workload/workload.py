"""A workload as its user sees it: loaded, its parameters set, and resolved for a family of stores."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload import catalogue, corpora, encryption, parameters, references, sources, vectors
from loadframe.workload.corpora import Corpus
from loadframe.workload.forms import Form, every_form, families, form_for
from loadframe.workload.forms.rest import captured
from loadframe.workload.holes import Filler, Place, Value, is_name, names
from loadframe.workload.model import WorkloadFile
from loadframe.workload.parameters import BUILT_IN, Parameters, Setting, check_names, origins
from loadframe.workload.phases import Phase
from loadframe.workload.resolved import ResolvedWorkload, resolve_phase
from loadframe.workload.sources import Source
from loadframe.workload.variables import closure
from loadframe.yamlfile import Document, did_you_mean, read, shown, validate

#: Parts of a file that decide what a store holds.
_FILLING = ("collections", "corpora", "client_encryption")


@dataclass(frozen=True)
class Filled:
    """A workload's file with its parameters filled in."""

    file: WorkloadFile
    parameters: Mapping[str, Value]
    #: The parameters that went into each place, directly.
    holes: Mapping[Place, tuple[str, ...]]
    #: The parameters that each parameter's value is made of.
    made_of: Mapping[str, set[str]]


@dataclass(frozen=True)
class Workload:
    """A workload file and the values that its parameters are given. `load_workload` makes one."""

    document: Document
    defaults: Mapping[str, Value]
    settings: Mapping[str, Setting]
    #: The phases that are chosen, beside those that prepare; None for all that are not optional.
    only: tuple[str, ...] | None = None

    @cached_property
    def file(self) -> WorkloadFile:
        """The file's content, as on a single node; of its phases those that are chosen."""
        return self._chosen(self.fill(1).file)

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.file.workload

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The values of the parameters, by name, as on a single node."""
        return self.fill(1).parameters

    def with_parameters(
        self, values: Mapping[str, Value], *, folder: Path | None = None, where: Callable[[str], str] | None = None
    ) -> "Workload":
        """Return the workload with further parameters set; texts are read in the type of the parameter's default.

        `where` tells where the value of a name was given, for messages; by default it is the option `--set`. Values
        that are relative paths begin at `folder`, by default the current one. BadInput for unknown parameters and for
        values that do not fit.
        """
        place = where or (lambda name: f"--set {name}")
        given = {name: Setting(value, place(name), folder or Path()) for name, value in values.items()}
        check_names(given, self.defaults)
        workload = replace(self, settings={**self.settings, **given})
        workload.check()
        return workload

    def choose(self, phases: Sequence[str], where: str | None = None) -> "Workload":
        """Return the workload with the named phases and those that prepare; BadInput, at `where`, for one it lacks."""
        workload = replace(self, only=tuple(phases))
        workload.check_choice(where)
        return workload

    def check(self) -> None:
        """Refuse a workload whose parts do not fit together; BadInput at the place."""
        references.check(self.document, self.fill(1).file)
        self.check_choice()

    def check_choice(self, where: str | None = None) -> None:
        """Refuse phases that are chosen and not there."""
        file = self.fill(1).file
        phases = [phase.name for phase in file.phases]
        for name in self.only or ():
            if name not in phases:
                what = f"the workload {file.workload} has no phase {name!r}"
                raise BadInput(what, where=where, remedy=did_you_mean(name, phases))

    def fill(self, nodes: int) -> Filled:
        """Fill the parameters in, for a cluster of `nodes` nodes; BadInput at the place that does not fit."""
        parameters = Parameters(self.document, self.defaults, self.settings, nodes)
        per_request = [
            *self.document.data.get("variables", {}),
            *(name for _, name in captured(self.document.data.get("operations"))),
        ]
        filler = Filler(self.document, parameters.value, [*self.defaults, BUILT_IN], per_request)
        values = parameters.values()
        data = {
            key: values if key == "parameters" else _filled(filler, key, part)
            for key, part in self.document.data.items()
        }
        given = {
            place: self._given(used, parameters.made_of) for place, used in filler.filled.items() if used[0] != BUILT_IN
        }
        file = validate(self.document, WorkloadFile, data, given)
        return Filled(file, values, filler.filled, parameters.made_of)

    def for_family(
        self, family: str, nodes: int, report: Callable[[str], None] = lambda _: None, *, offline: bool = False
    ) -> ResolvedWorkload:
        """Return the workload as a family of stores takes it, on a cluster of `nodes` nodes.

        A phase that prepares is left out if its operations are written for each family, and none for this one.
        Corpora are fetched if they have a web address and are not in the cache; `report` takes lines on how far that
        is; `offline` leaves those without files instead. BadInput for an operation in use that has no form for the
        family, and for corpora that cannot be read.
        """
        filled = self.fill(nodes)
        for index, required in enumerate(filled.file.require):
            if required.broken(family, filled.parameters):
                place: Place = ("require", index)
                what = f"{required.because}: {required.value:,} is more than {required.at_most:,}"
                raise self.document.error(place, what, "set another of the parameters that it is made of")
        file = self._needed(self._chosen(filled.file), family)
        used = {name for phase in file.phases for stream in phase.named_streams for name in stream.weights}
        operations = {name: self._form(file, name, family).dump() for name in file.operations if name in used}
        # The last thing to be done, since it may take hours.
        documents = {
            name: self._documents_of(filled, name, corpus, report, offline) for name, corpus in file.corpora.items()
        }
        vectors.check(self.document, operations, file.variables, documents)
        variables = {
            name: variable.dump(self._folder(filled, ("variables", name, "lines", "file"))[0])
            for name, variable in file.variables.items()
        }
        events = {name: self._events(filled, name, file.sources[name]) for name in _used_sources(file.phases)}
        targets = {name: target.plan() for name, target in file.targets.items()}
        resolved = ResolvedWorkload(
            name=file.workload,
            family=family,
            nodes=nodes,
            parameters=filled.parameters,
            collections={name: collection.definition(family) for name, collection in file.collections.items()},
            corpora=documents,
            phases=tuple(
                resolve_phase(phase, operations, documents, variables, file.variables, targets, events)
                for phase in file.phases
            ),
            file={"path": str(self.document.path), "sha256": self.document.sha256},
            sources=events,
        )
        return encryption.encrypted(resolved, file.client_encryption, self.document)

    def shaping(self, phases: Collection[str]) -> frozenset[str]:
        """Return the parameters that decide what the store holds once the named phases have filled it.

        Another value of one of them needs a store that is filled anew.
        """
        filled = self.fill(1)
        numbers = {index for index, phase in enumerate(filled.file.phases) if phase.name in phases}
        operations = {name for index in numbers for s in filled.file.phases[index].named_streams for name in s.weights}
        forms = [form.dump() for name in operations for form in every_form(filled.file.operations[name]).values()]
        inside: dict[str | int, Collection[str | int]] = {
            "phases": numbers,
            "operations": operations,
            "sources": set(_used_sources([filled.file.phases[index] for index in numbers])),
            "variables": closure(set(names(forms)), filled.file.variables),
        }
        direct = {
            name
            for place, filled_in in filled.holes.items()
            if place[0] in _FILLING or (len(place) > 1 and place[1] in inside.get(place[0], ()))
            for name in filled_in
        }
        return frozenset(origins(direct, filled.made_of))

    def documents(self, corpus: str) -> int:
        """Return how many documents a corpus has; a guess from the size of files that are here already."""
        return corpora.documents(*self._corpus(corpus))

    def missing(self, corpus: str) -> list[str]:
        """Return the files and addresses of a corpus that are not here yet, as they are written."""
        return corpora.missing(*self._corpus(corpus))

    def _corpus(self, name: str) -> tuple[Corpus, Path]:
        """Return a corpus, and the folder at which its paths begin."""
        filled = self.fill(1)
        known = filled.file.corpora[name]
        return known, self._folder(filled, ("corpora", name, known.key))[0]

    def _setting(self, used: Iterable[str], made_of: Mapping[str, Collection[str]]) -> Setting | None:
        """Return the setting that a value made of some parameters goes back to, None if all have their defaults."""
        return next((self.settings[name] for name in origins(used, made_of) if name in self.settings), None)

    def _given(self, used: Sequence[str], made_of: Mapping[str, Collection[str]]) -> str:
        """Return where a value made of some parameters was given."""
        setting = self._setting(used, made_of)
        return self.document.where(("parameters", used[0])) if setting is None else setting.where

    def _documents_of(
        self, filled: Filled, name: str, corpus: Corpus, report: Callable[[str], None], offline: bool
    ) -> dict[str, Any]:
        """Return a corpus as plans have it, its files found."""
        place: Place = ("corpora", name, corpus.key)
        folder, error = self._files_at(filled, place)
        return corpora.resolve(corpus, folder, error, report, offline=offline)

    def _events(self, filled: Filled, name: str, source: Source) -> dict[str, Any]:
        """Return a source of events as plans have it, its files found."""
        return sources.resolve(source, *self._files_at(filled, ("sources", name, source.way)))

    def _files_at(self, filled: Filled, place: Place) -> tuple[Path, Callable[[str, str], BadInput]]:
        """Return where the paths of files at a place begin, and what makes an error of one of them and its remedy."""
        folder, setting = self._folder(filled, place)

        def error(what: str, remedy: str) -> BadInput:
            where = self.document.where(place) if setting is None else setting.where
            holes = [name for at, used in filled.holes.items() if at[: len(place)] == place for name in used]
            settable = f", or name another with --set {holes[0]}=PATH" if holes and setting is None else ""
            return BadInput(what, where=where, remedy=f"{remedy}{settable}")

        return folder, error

    def _folder(self, filled: Filled, place: Place) -> tuple[Path, Setting | None]:
        """Return where relative paths at a place begin, and the setting that they came from if there is one."""
        used = [other for at, others in filled.holes.items() if at[: len(place)] == place for other in others]
        setting = self._setting(used, filled.made_of)
        return (self.document.path.parent if setting is None else setting.folder), setting

    def _chosen(self, file: WorkloadFile) -> WorkloadFile:
        """Return the file with the phases that are chosen, and those that prepare."""

        def chosen(phase: Phase) -> bool:
            return phase.prepares or (not phase.optional if self.only is None else phase.name in self.only)

        phases = tuple(phase for phase in file.phases if chosen(phase))
        return file.model_copy(update={"phases": phases})

    def _needed(self, file: WorkloadFile, family: str) -> WorkloadFile:
        """Return the file without phases that prepare other families."""

        def needed(phase: Phase) -> bool:
            operations = [file.operations[name] for stream in phase.named_streams for name in stream.weights]
            return not phase.prepares or any(
                isinstance(operation, Form) or form_for(operation, family) is not None for operation in operations
            )

        return file.model_copy(update={"phases": tuple(phase for phase in file.phases if needed(phase))})

    def _form(self, file: WorkloadFile, name: str, family: str) -> Form:
        """Return an operation's form for a family, or say which forms it has."""
        operation = file.operations[name]
        form = form_for(operation, family)
        if form is None:
            kinds = ", ".join(sorted({form.kind for form in every_form(operation).values()}))
            what = f"the operation {name!r} has no form for stores of the family {family!r}, only {kinds}"
            others = " or ".join(families(operation))
            remedy = f"add one under {family}: to it, or choose a store of the family {others}"
            raise self.document.error(("operations", name), what, remedy, key=True)
        return form


def _used_sources(phases: Iterable[Phase]) -> list[str]:
    """Return the sources that phases take events from; the files of others need not be here."""
    return sorted({s.source for phase in phases for s in phase.named_streams if s.source is not None})


def load_workload(
    name_or_path: str, overrides: Mapping[str, Value] | None = None, *, folder: Path | None = None
) -> Workload:
    """Load a workload of the library by its name, or a file that ends with .yaml or has a slash in its path.

    `NAME/PHASE` chooses of a workload of the library one phase (or several, with commas) and those that prepare it.
    `overrides` set its parameters, as `--set name=value` does. A relative path begins at `folder`, by default the
    current one. BadInput names the file, the line and the column.
    """
    name_or_path, only = catalogue.split(name_or_path)
    document = read(catalogue.find(name_or_path, folder or Path()))
    if not isinstance(document.data, dict):
        validate(document, WorkloadFile)
    variables = document.data.get("variables", {})
    _check_variables(document, variables)
    defaults = parameters.check(document, document.data.get("parameters", {}), variables)
    _check_captured(document, {"a variable": variables, "a parameter": defaults})
    workload = Workload(document, defaults, {}, only)
    # With what is set: a default may be one that only a setting makes sense of, such as a file that has no name yet.
    if overrides:
        return workload.with_parameters(overrides)
    workload.check()
    return workload


def library() -> list[Workload]:
    """Return the built-in workloads, by name."""
    return [load_workload(name) for name in catalogue.names()]


def _filled(filler: Filler, key: str, part: Any) -> Any:
    """Fill a section; holes of variables stay in operations and in what is derived of variables."""
    if key != "variables" or not isinstance(part, dict):
        return filler.fill(part, (key,), per_request=key == "operations")
    return {
        name: {way: filler.fill(value, (key, name, way), per_request=way == "derived") for way, value in form.items()}
        if isinstance(form, dict)
        else filler.fill(form, (key, name), per_request=False)
        for name, form in part.items()
    }


def _check_captured(document: Document, others: Mapping[str, Collection[str]]) -> None:
    for place, name in captured(document.data.get("operations")):
        if not is_name(name):
            raise document.error(place, f"{shown(name)} is not a name", "use letters, digits and _", key=True)
        for what, known in others.items():
            if name in known or name == BUILT_IN:
                raise document.error(place, f"{name!r} is {what}, too", "choose another name", key=True)


def _check_variables(document: Document, variables: Any) -> None:
    if not isinstance(variables, dict):
        raise document.error(("variables",), f"expected a mapping of names to variables, not {shown(variables)}")
    for name in variables:
        if not is_name(name):
            raise document.error(
                ("variables", name), f"{shown(name)} is not a name", "use letters, digits and _", key=True
            )
        if name == BUILT_IN:
            what = f"{name!r} is built in: the number of the cluster's nodes"
            raise document.error(("variables", name), what, "choose another name", key=True)
