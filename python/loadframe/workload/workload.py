"""Workloads: load a file, set parameters, select phases, and resolve it for a store family."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload import corpora, encryption, parameters, sources, vectors
from loadframe.workload.corpora import Corpus
from loadframe.workload.forms import Form, every_form, families, form_for
from loadframe.workload.forms.rest import captured
from loadframe.workload.holes import Filler, Place, Value, is_name, names
from loadframe.workload.model import WorkloadFile, check_references
from loadframe.workload.parameters import BUILT_IN, Parameters, Setting, check_names, origins
from loadframe.workload.phases import Phase
from loadframe.workload.resolved import ResolvedWorkload, resolve_phase
from loadframe.workload.sources import Source
from loadframe.workload.variables import closure
from loadframe.yamlfile import Document, did_you_mean, read, short_json, validate

#: The folder of the built-in workloads.
LIBRARY = Path(__file__).parent / "library"
#: Sections of a file that determine the contents of a store.
_CONTENT_SECTIONS = ("collections", "corpora", "client_encryption")


@dataclass(frozen=True)
class Filled:
    """A workload's file with its parameters filled in."""

    file: WorkloadFile
    parameters: Mapping[str, Value]
    #: The parameters that each place refers to directly.
    holes: Mapping[Place, tuple[str, ...]]
    #: The parameters that each parameter's default refers to.
    made_of: Mapping[str, set[str]]


@dataclass(frozen=True)
class Workload:
    """A workload file with parameter settings and selected phases; made by `load_workload`."""

    document: Document
    defaults: Mapping[str, Value]
    settings: Mapping[str, Setting]
    #: The selected phases; phases that prepare run anyway. None selects all that are not optional.
    only: tuple[str, ...] | None = None
    #: Whether the command decides when sources end, as `loadframe ingest` does.
    endless: bool = False

    @cached_property
    def file(self) -> WorkloadFile:
        """The file with parameters for a single node, with only the preparing and the selected phases.

        BadInput, at its place, for an invalid value.
        """
        return self._chosen(self._single_node.file)

    @cached_property
    def _single_node(self) -> Filled:
        """The file and its parameters for a single node. BadInput, at its place, for an invalid value."""
        return self.fill(1)

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.file.workload

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The values of the parameters, by name, for a single node."""
        return self._single_node.parameters

    def with_parameters(
        self, values: Mapping[str, Value], *, folder: Path | None = None, where: Callable[[str], str] | None = None
    ) -> "Workload":
        """Return a checked copy of the workload with further parameters set.

        Text values are converted to the type of the parameter's default. `where` returns the origin of a setting for
        messages (default: the option `--set`). Relative paths are resolved against `folder` (default: the current
        one). BadInput for unknown parameters, and if the workload is invalid with these values.
        """
        place = where or (lambda name: f"--set {name}")
        settings = {name: Setting(value, place(name), folder or Path()) for name, value in values.items()}
        check_names(settings, self.defaults)
        workload = replace(self, settings={**self.settings, **settings})
        workload.check()
        return workload

    def choose(self, phases: Sequence[str], where: str | None = None) -> "Workload":
        """Return a copy with only the named and the preparing phases; BadInput for an unknown name.

        `where` is the origin of the names, for the message.
        """
        workload = replace(self, only=tuple(phases))
        workload.check_choice(where)
        return workload

    def check(self) -> None:
        """Refuse invalid values and references in the workload, and unknown selected phases, with BadInput."""
        check_references(self.document, self._single_node.file, endless=self.endless)
        self.check_choice()

    def check_choice(self, where: str | None = None) -> None:
        """Refuse selected phases that the workload does not have, with BadInput at `where`."""
        file = self._single_node.file
        phases = [phase.name for phase in file.phases]
        for name in self.only or ():
            if name not in phases:
                what = f"unknown phase {name!r} of the workload {file.workload}"
                raise BadInput(what, where=where, remedy=did_you_mean(name, phases))

    def fill(self, nodes: int) -> Filled:
        """Return the file with parameters filled in for `nodes` nodes; BadInput at the place of an invalid value."""
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
        origin = {
            place: self._set_at(used, parameters.made_of)
            for place, used in filler.filled.items()
            if used[0] != BUILT_IN
        }
        file = validate(self.document, WorkloadFile, data, origin)
        return Filled(file, values, filler.filled, parameters.made_of)

    def for_family(
        self, family: str, nodes: int, report: Callable[[str], None] = lambda _: None, *, offline: bool = False
    ) -> ResolvedWorkload:
        """Return the workload resolved for a store family and a number of nodes, with preparing and selected phases.

        Drops a preparing phase whose operations all lack a form for this family. Downloads corpora that are not in the
        cache; `report` receives progress lines. With `offline`, such corpora stay without files. BadInput for a
        violated requirement, an operation without a form for the family, an unreadable corpus, or data that cannot be
        encrypted.
        """
        filled = self.fill(nodes)
        for index, required in enumerate(filled.file.require):
            if required.broken(family, filled.parameters):
                place: Place = ("require", index)
                what = f"{required.because}: {required.value:,} exceeds {required.at_most:,}"
                raise self.document.error(place, what, "change one of the parameters in this requirement")
        file = self._needed(self._chosen(filled.file), family)
        used = {name for phase in file.phases for stream in phase.named_streams for name in stream.weights}
        operations = {name: self._form(file, name, family).dump() for name in file.operations if name in used}
        # Last of the checks, because a download may take hours.
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
        """Return the parameters that determine the contents of the store after the named phases.

        They are those of collections, corpora and encryption, of these phases and of the operations, sources and
        variables that they use, and all that these parameters refer to. Unknown phases are ignored.
        """
        filled = self._single_node
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
            if place[0] in _CONTENT_SECTIONS or (len(place) > 1 and place[1] in inside.get(place[0], ()))
            for name in filled_in
        }
        return frozenset(origins(direct, filled.made_of))

    def documents(self, corpus: str) -> int:
        """Return the number of documents of a corpus, estimated from local file sizes if it is not declared.

        Downloads nothing. KeyError for an unknown corpus.
        """
        return corpora.documents(*self._corpus(corpus))

    def missing(self, corpus: str) -> list[str]:
        """Return the missing files of a corpus, or its URLs that are not cached, as they are written in the workload.

        KeyError for an unknown corpus.
        """
        return corpora.missing(*self._corpus(corpus))

    def _corpus(self, name: str) -> tuple[Corpus, Path]:
        """Return a corpus and the base folder of its paths. KeyError for an unknown name."""
        filled = self._single_node
        known = filled.file.corpora[name]
        return known, self._folder(filled, ("corpora", name, known.key))[0]

    def _setting(self, used: Iterable[str], made_of: Mapping[str, Collection[str]]) -> Setting | None:
        """Return the first user setting of these parameters, or of parameters that they refer to, or None."""
        return next((self.settings[name] for name in origins(used, made_of) if name in self.settings), None)

    def _set_at(self, used: Sequence[str], made_of: Mapping[str, Collection[str]]) -> str:
        """Return the place of the first user setting of the parameters `used`, or of those that they refer to.

        Without one, it is the place of the default of the first. `made_of` maps parameters to those that each refers
        to.
        """
        setting = self._setting(used, made_of)
        return self.document.where(("parameters", used[0])) if setting is None else setting.where

    def _documents_of(
        self, filled: Filled, name: str, corpus: Corpus, report: Callable[[str], None], offline: bool
    ) -> dict[str, Any]:
        """Return a corpus for the plan; see `corpora.resolve`.

        Downloads missing files; with `offline`, a corpus that is not cached has no files. BadInput for an unusable
        local file.
        """
        place: Place = ("corpora", name, corpus.key)
        folder, error = self._files_at(filled, place)
        return corpora.resolve(corpus, folder, error, report, offline=offline)

    def _events(self, filled: Filled, name: str, source: Source) -> dict[str, Any]:
        """Return the source `name` for the plan. BadInput for an unreadable file."""
        return sources.resolve(source, *self._files_at(filled, ("sources", name, source.way)))

    def _files_at(self, filled: Filled, place: Place) -> tuple[Path, Callable[[str, str], BadInput]]:
        """Return the base folder of file paths at a place, and a function `error(what, remedy)` for its errors."""
        folder, setting = self._folder(filled, place)

        def error(what: str, remedy: str) -> BadInput:
            """Return the error at the place, with the option that sets the file in its remedy."""
            where = self.document.where(place) if setting is None else setting.where
            holes = [name for at, used in filled.holes.items() if at[: len(place)] == place for name in used]
            settable = f", or name another with --set {holes[0]}=PATH" if holes and setting is None else ""
            return BadInput(what, where=where, remedy=f"{remedy}{settable}")

        return folder, error

    def _folder(self, filled: Filled, place: Place) -> tuple[Path, Setting | None]:
        """Return the base folder of relative paths at or below a place, and the first user setting used there.

        Without a setting, it is None, and the folder is that of the workload file.
        """
        used = [other for at, others in filled.holes.items() if at[: len(place)] == place for other in others]
        setting = self._setting(used, filled.made_of)
        return (self.document.path.parent if setting is None else setting.folder), setting

    def _chosen(self, file: WorkloadFile) -> WorkloadFile:
        """Return a copy of the file with only the preparing and the selected phases.

        Without a selection, all phases that are not optional are selected.
        """

        def chosen(phase: Phase) -> bool:
            """Return whether a phase prepares or is selected."""
            return phase.prepares or (not phase.optional if self.only is None else phase.name in self.only)

        phases = tuple(phase for phase in file.phases if chosen(phase))
        return file.model_copy(update={"phases": phases})

    def _needed(self, file: WorkloadFile, family: str) -> WorkloadFile:
        """Return a copy of the file without preparing phases in which no operation has a form for the family."""

        def needed(phase: Phase) -> bool:
            """Return whether a phase does not prepare, or has an operation with a form for the family.

            An operation with a single form always counts.
            """
            operations = [file.operations[name] for stream in phase.named_streams for name in stream.weights]
            return not phase.prepares or any(
                isinstance(operation, Form) or form_for(operation, family) is not None for operation in operations
            )

        return file.model_copy(update={"phases": tuple(phase for phase in file.phases if needed(phase))})

    def _form(self, file: WorkloadFile, name: str, family: str) -> Form:
        """Return an operation's form for a family; BadInput if it has none."""
        operation = file.operations[name]
        form = form_for(operation, family)
        if form is None:
            kinds = sorted({form.kind for form in every_form(operation).values()})
            kinds_text = ", ".join(kinds)
            what = f"the operation {name!r} does not support stores of the family {family!r}; it has only {kinds_text}"
            remedy = f"choose a store of the family {' or '.join(families(operation))}"
            if "take_in" not in kinds:
                remedy = f"add a form under {family}: to it, or {remedy}"
            raise self.document.error(("operations", name), what, remedy, key=True)
        return form


def _used_sources(phases: Iterable[Phase]) -> list[str]:
    """Return the sorted names of the sources that phases ingest; files of other sources may be missing."""
    return sorted({s.source for phase in phases for s in phase.named_streams if s.source is not None})


def load_workload(
    name_or_path: str,
    overrides: Mapping[str, Value] | None = None,
    *,
    folder: Path | None = None,
    endless: bool = False,
) -> Workload:
    """Load and check a workload: the name of a built-in one, or a path with a slash or the suffix .yaml or .yml.

    `NAME/PHASE[,PHASE...]` selects phases of a built-in workload, besides the preparing ones. `overrides` set
    parameters, like `--set name=value`. A relative path is resolved against `folder` (default: the current one).
    `endless` admits sources without an end, which the command stops. BadInput names file, line and column.
    """
    name_or_path, only = _split_name(name_or_path)
    return workload_of(read(_path_of(name_or_path, folder or Path())), overrides, only, endless=endless)


def workload_of(
    document: Document,
    overrides: Mapping[str, Value] | None = None,
    only: tuple[str, ...] | None = None,
    *,
    endless: bool = False,
) -> Workload:
    """Return the checked workload of a document; BadInput, at its place, for an error and for an experiment file.

    `overrides` are parameters, `only` names the selected phases. `endless` permits sources without an end.
    """
    if not isinstance(document.data, dict):
        validate(document, WorkloadFile)
    if "experiment" in document.data:
        what = "this is an experiment file, not a workload"
        raise document.error(("experiment",), what, "use `loadframe plan` or `loadframe run`", key=True)
    variables = document.data.get("variables", {})
    _check_variables(document, variables)
    defaults = parameters.check(document, document.data.get("parameters", {}), variables)
    _check_captured(document, {"a variable": variables, "a parameter": defaults})
    workload = Workload(document, defaults, {}, only, endless)
    # Check only with the settings: a default may be a placeholder, such as an empty file name.
    if overrides:
        return workload.with_parameters(overrides)
    workload.check()
    return workload


def library_names() -> list[str]:
    """Return the names of the built-in workloads, sorted."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def library() -> list[Workload]:
    """Load all built-in workloads, sorted by name."""
    return [load_workload(name) for name in library_names()]


def _split_name(name_or_path: str) -> tuple[str, tuple[str, ...] | None]:
    """Split `NAME/PHASE[,PHASE...]` into the name and the selected phases, which are not checked.

    Only names of built-in workloads are split. Other texts are returned unchanged, with None for the phases.
    """
    name, slash, phases = name_or_path.partition("/")
    if not slash or name not in library_names() or name_or_path.endswith((".yaml", ".yml")):
        return name_or_path, None
    return name, tuple(phases.split(","))


def _path_of(name_or_path: str, folder: Path) -> Path:
    """Return the path of a workload file: a path if it ends with .yaml or .yml or has a slash, else a built-in one.

    Relative paths are resolved against `folder`. BadInput for an unknown name. A path is not checked for existence.
    """
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return folder / name_or_path
    if name_or_path not in library_names():
        hint = f"{did_you_mean(name_or_path, library_names())} (the path of a workload file ends with .yaml)"
        raise BadInput(f"unknown workload {name_or_path!r}", remedy=hint)
    return LIBRARY / f"{name_or_path}.yaml"


def _filled(filler: Filler, key: str, part: Any) -> Any:
    """Return the section `part`, under `key`, with its parameters filled in; BadInput at a placeholder that cannot be.

    Placeholders of variables stay in operations and derived variables, and are refused elsewhere.
    """
    if key != "variables" or not isinstance(part, dict):
        return filler.fill(part, (key,), per_request=key == "operations")
    return {
        name: {way: filler.fill(value, (key, name, way), per_request=way == "derived") for way, value in form.items()}
        if isinstance(form, dict)
        else filler.fill(form, (key, name), per_request=False)
        for name, form in part.items()
    }


def _check_captured(document: Document, others: Mapping[str, Collection[str]]) -> None:
    """Refuse captured values with an invalid name or the name of a variable or parameter, with BadInput.

    `others` maps the kind for messages, such as `a variable`, to the names in use.
    """
    for place, name in captured(document.data.get("operations")):
        if not is_name(name):
            raise document.error(place, f"{short_json(name)} is not a name", "use letters, digits and _", key=True)
        for what, known in others.items():
            if name in known or name == BUILT_IN:
                raise document.error(place, f"{name!r} is also {what}", "choose another name", key=True)


def _check_variables(document: Document, variables: Any) -> None:
    """Refuse a section that is not a mapping, and the invalid name of a variable or `nodes`, with BadInput."""
    if not isinstance(variables, dict):
        raise document.error(("variables",), f"expected a mapping of names to variables, not {short_json(variables)}")
    for name in variables:
        if not is_name(name):
            raise document.error(
                ("variables", name), f"{short_json(name)} is not a name", "use letters, digits and _", key=True
            )
        if name == BUILT_IN:
            what = f"{name!r} is reserved for the number of cluster nodes"
            raise document.error(("variables", name), what, "choose another name", key=True)
