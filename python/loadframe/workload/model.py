"""The model of a workload file whose parameters are filled in (by `parameters`), and checks of its references.

Each referenced name must exist and have the right kind.
"""

from collections.abc import Collection as AnyCollection
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import ConfigDict, Field, Strict

from loadframe.workload.collections import Collection
from loadframe.workload.corpora import Corpus
from loadframe.workload.encryption import ClientEncryption
from loadframe.workload.forms import Family, Form, Operation, every_form
from loadframe.workload.holes import Place, names
from loadframe.workload.journeys import JourneyStep, every_step
from loadframe.workload.phases import MAIN, Phase, Stream, Target
from loadframe.workload.sources import Source
from loadframe.workload.variables import Variable, closure, cycle
from loadframe.yamlfile import NOT_EMPTY, Document, Model, Name, Scalar, did_you_mean


class Product(Model):
    """A parameter default: the product of numbers."""

    product: Annotated[list[int | float], NOT_EMPTY]


class Case(Model):
    """A parameter default that depends on another parameter: `{by: "${layout}", one: 1, user: 8}`."""

    model_config = ConfigDict(extra="allow")

    by: Scalar


class Requirement(Model):
    """A precondition, checked before anything starts: `value` is at most `at_most`.

    It applies to one store `family` or to all, and only if the parameters have the values in `where`. `because` is the
    explanation in the error message.
    """

    value: int | float
    at_most: int | float
    family: Family | None = None
    where: dict[str, Scalar] = Field(default_factory=dict)
    because: str

    def broken(self, family: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether the requirement applies, and `value` exceeds `at_most`.

        It applies to `family` (a family of stores) or to all, if each parameter in `where` has its value in
        `parameters`.
        """
        applies = self.family in (None, family) and all(parameters.get(key) == on for key, on in self.where.items())
        return applies and self.value > self.at_most


class WorkloadFile(Model):
    """A workload: data (collections, corpora, sources), operations, and load (phases)."""

    workload: Name
    description: str = ""
    parameters: dict[str, Scalar | Product | Case] = Field(default_factory=dict)
    require: Annotated[tuple[Requirement, ...], Strict(False)] = ()
    collections: dict[Name, Collection] = Field(default_factory=dict)
    corpora: dict[Name, Corpus] = Field(default_factory=dict)
    client_encryption: ClientEncryption | None = None
    sources: dict[Name, Source] = Field(default_factory=dict)
    variables: dict[str, Variable] = Field(default_factory=dict)
    targets: dict[Name, Target] = Field(default_factory=dict)
    operations: Annotated[dict[Name, Operation], NOT_EMPTY]
    phases: Annotated[tuple[Phase, ...], Strict(False), NOT_EMPTY]


#: Kinds of derived variables, and the kind that the variable they refer to must have.
_SOURCE_KINDS = {"derived": None, "linear": "number", "hash": "whole number", "several": None, "part": "document"}


def check_references(document: Document, file: WorkloadFile, *, endless: bool = False) -> None:
    """Refuse unknown names, wrong kinds and duplicates, with BadInput at the first one; suggests similar names.

    `endless` admits `until: exhausted` for sources without an end, which the command stops.
    """
    place: Place
    for name, operation in file.operations.items():
        for family, form in every_form(operation).items():
            place = ("operations", name, *([family] if family else []), form.kind)
            _check_form(document, file, form, place)
    _check_variables(document, file)
    for name, source in file.sources.items():
        for place, what, remedy in source.events.contradictions():
            raise document.error(("sources", name, "events", *place), what, remedy, key=isinstance(place[-1], str))
    if MAIN in file.targets:
        what = f"{MAIN!r} is reserved for the store under test"
        raise document.error(("targets", MAIN), what, "choose another name", key=True)
    seen: set[str] = set()
    for index, phase in enumerate(file.phases):
        if phase.name in seen:
            raise document.error(
                ("phases", index, "name"), f"duplicate phase name {phase.name!r}", "rename one of them"
            )
        seen.add(phase.name)
        _check_phase(document, file, phase, ("phases", index), endless=endless)


def _check_target(document: Document, file: WorkloadFile, form: Form, place: Place) -> None:
    """Refuse an unknown target of a request, and a request that the target's family does not support.

    `place` is the place of the request; its last key is the kind.
    """
    _require_known(document, (*place[:-1], "target"), "target", str(form.target), file.targets)
    family = file.targets[str(form.target)].family
    if not form.known_to(family):
        what = f"{family}, the family of the target {form.target!r}, does not support this {form.kind}"
        raise document.error(place, what, "use another target or another request", key=True)


def _check_form(document: Document, file: WorkloadFile, form: Form, place: Place) -> None:
    """Refuse unknown collections, corpora, `shows` and targets of a request; `place` ends with the request's kind.

    Also refuses a daily collection that no operation ingests into, a bulk request that a data stream does not accept,
    and a path without a leading slash. For an additional target, only `_check_target` applies.
    """
    if form.target is not None:
        # Collections of the target are not declared in the file.
        _check_target(document, file, form, place)
        return
    content: Any = form.content
    collection = getattr(content, "collection", None)
    managed = form.manage_indices or form.delete_days
    by_day = (form.take_in is not None and form.take_in.daily is not None) or managed is not None
    # Not checked: placeholders and patterns, and daily collections, which ingest creates under derived names.
    if collection is not None and form.create_collection is None and not set(collection) & set("$*,") and not by_day:
        _require_known(
            document, (*place, "collection"), "collection", collection, {*file.collections, *_created_names(file)}
        )
    if form.shows is not None:
        _check_shown(document, file, form.shows, (*place[:-1], "shows"))
    if managed is not None:
        _check_days(document, file, managed.collection, (*place, "collection"))
    if form.bulk is not None:
        _require_known(document, (*place, "corpus"), "corpus", form.bulk.corpus, file.corpora)
        known = file.collections.get(form.bulk.collection)
        is_stream = known is not None and known.elasticsearch is not None and known.elasticsearch.data_stream
        for_search = place[2] in (form.kind, "elasticsearch")
        if is_stream and for_search and (form.bulk.action != "create" or form.bulk.conflicts is not None):
            what = f"the collection {form.bulk.collection!r} is a data stream, which only accepts action: create"
            raise document.error(place, what, "add action: create, and remove conflicts", key=True)
    if form.request is not None and not form.request.path.startswith("/"):
        raise document.error((*place, "path"), "a path must start with /", f"write /{form.request.path}")


def _check_shown(document: Document, file: WorkloadFile, shown: str, place: Place) -> None:
    """Refuse `shows` unless it names an operation that ingests events with visibility probes."""
    _require_known(document, place, "operation", shown, file.operations)
    if not any(
        form.take_in is not None and form.visible is not None for form in every_form(file.operations[shown]).values()
    ):
        what = f"shows requires visibility probes in {shown!r}"
        raise document.error(place, what, f"add visible: {{sample: 1s}} to {shown!r}")


def _check_days(document: Document, file: WorkloadFile, name: str, place: Place) -> None:
    """Refuse `name`, a base name of daily collections, at `place` unless an operation ingests into them."""
    forms = (form for operation in file.operations.values() for form in every_form(operation).values())
    known = {form.take_in.collection for form in forms if form.take_in is not None and form.take_in.daily is not None}
    if name not in known:
        what = f"no operation ingests into daily collections of {name!r}"
        remedy = did_you_mean(name, known) if known else "add a take_in with daily, or remove this operation"
        raise document.error(place, what, remedy)


def _created_names(file: WorkloadFile) -> Iterator[str]:
    """Yield the names of collections and aliases that operations create, and of aliases in definitions of collections.

    Names are as written, with placeholders. A `rollover` yields its alias only.
    """
    for collection in file.collections.values():
        if collection.elasticsearch is not None:
            yield from collection.elasticsearch.aliases
    for form in (form for operation in file.operations.values() for form in every_form(operation).values()):
        if form.create_collection is not None:
            yield form.create_collection.collection
            yield from form.create_collection.aliases or {}
        if form.put_template is not None:
            yield from form.put_template.aliases or {}
        if form.shrink is not None:
            yield form.shrink.to
        if form.rollover is not None:
            yield form.rollover.alias
        if form.aliases is not None:
            yield from (
                str(body["alias"]) for action in form.aliases.actions for body in action.values() if "alias" in body
            )


def _check_variables(document: Document, file: WorkloadFile) -> None:
    """Refuse unknown names and wrong kinds in references of variables, and dependency cycles."""
    for name, variable in file.variables.items():
        for way, source in (("field", variable.field), ("document", variable.document)):
            if source is not None:
                _require_known(document, ("variables", name, way, "corpus"), "corpus", source.corpus, file.corpora)
        if variable.inserted is not None:
            law = next(law for law in ("zipfian", "latest", "exponential") if getattr(variable, law) is not None)
            place: Place = ("variables", name, law, "inserted")
            _require_known(document, place, "variable", variable.inserted, file.variables)
            if file.variables[variable.inserted].counter is None:
                what = f"inserted must name a counter; {variable.inserted!r} is not one"
                raise document.error(place, what, "name a counter variable")
            continue
        for other in variable.of:
            way = next(way for way in _SOURCE_KINDS if getattr(variable, way) is not None)
            place = ("variables", name, way, *(["of"] if way != "derived" else []))
            _require_known(document, place, "variable", other, file.variables)
            kind = _SOURCE_KINDS[way]
            if kind is not None and kind not in file.variables[other].kinds:
                raise document.error(place, f"the variable {other!r} is not a {kind}", f"name a {kind} variable")
    names_in_cycle = cycle(file.variables)
    if names_in_cycle is not None:
        what = f"variables depend on each other in a cycle: {' -> '.join(names_in_cycle)}"
        raise document.error(("variables", names_in_cycle[0]), what, "remove one of the references", key=True)


def _check_phase(document: Document, file: WorkloadFile, phase: Phase, place: Place, *, endless: bool) -> None:
    """Refuse unknown operations and sources of a phase, and operations that its streams cannot use.

    Examples are bulk requests in a mix or journey, uses of values that no step captures, and `until: exhausted` without
    a corpus or source. `endless` permits a source without an end with `until: exhausted`.
    """
    fed: set[str] = set()
    for index, stream in enumerate(phase.named_streams):
        within: Place = place if phase.streams is None else (*place, "streams", index)
        if stream.source is not None:
            _check_source(document, file, stream.source, (*within, "source"), fed)
            _check_route(document, file, stream, (*within, "route"))
        for name in stream.weights:
            key = _key_of(stream, name)
            _require_known(document, (*within, *key), "operation", name, file.operations, key=stream.mix is not None)
            reads = any(form.bulk is not None for form in every_form(file.operations[name]).values())
            if reads and (len(stream.weights) > 1 or stream.group > 1):
                what = f"the operation {name!r} reads a corpus to its end and cannot be part of a mix or journey"
                raise document.error((*within, *key), what, "move it into a separate stream", key=True)
            if stream.users is None and (loops := _loops(file, name)):
                what = f"the operation {name!r} uses the loop variable {min(loops)!r}, which requires users"
                raise document.error(
                    (*within, *key), what, "use another variable, or add users", key=stream.mix is not None
                )
            if stream.users is None:
                # Requests of a group start together, so that none can use a value of another.
                together = stream.weights if stream.group == 1 else ()
                _check_captures(document, file, together, name, (*within, *key), key=stream.mix is not None)
            _check_events(document, file, stream, name, (*within, *key), key=stream.mix is not None)
            ended = within if stream.ends_itself else place
            until = stream.until if stream.ends_itself else phase.until
            if until == "exhausted" and stream.source is not None:
                _check_ends(document, file, stream.source, (*ended, "until"), endless=endless)
            elif until == "exhausted" and not reads:
                what = f"until: exhausted requires an operation that reads a corpus; {name!r} does not"
                raise document.error((*ended, "until"), what, "use duration or requests")

        if stream.users is not None and stream.journey is not None:
            for at, step in every_step(stream.journey):
                if step.timed is not None and step.timed.name in file.operations:
                    what = f"{step.timed.name!r} is also the name of an operation"
                    raise document.error((*within, "journey", *at, "timed", "name"), what, "choose another name")
            _JourneyCheck(document, file).check(stream.journey, (*within, "journey"), set())


def _key_of(stream: Stream, operation: str) -> Place:
    """Return the place of an operation's first use, relative to its stream. The stream must use the operation."""
    if stream.journey is not None:
        return next(("journey", *at) for at, step in every_step(stream.journey) if step.operation == operation)
    if stream.route is not None:
        return next(("route", kind) for kind, name in stream.route.items() if name == operation)
    return ("operation",) if stream.mix is None else ("mix", operation)


def _check_source(document: Document, file: WorkloadFile, name: str, place: Place, fed: set[str]) -> None:
    """Refuse an unknown source, and one in `fed`: the sources of the phase's earlier streams. Add it to `fed`."""
    _require_known(document, place, "source", name, file.sources)
    if name in fed:
        what = f"another stream of the phase already ingests the events of {name!r}"
        raise document.error(place, what, "remove one stream, and set workers in the other")
    fed.add(name)


def _check_route(document: Document, file: WorkloadFile, stream: Stream, place: Place) -> None:
    """Refuse a route with unknown kinds or operations, without a kind of the source, or with different probes.

    All its operations need the same `visible`. Does nothing without a route or a source.
    """
    if stream.route is None or stream.source is None:
        return
    kinds = file.sources[stream.source].events.kinds
    for kind, name in stream.route.items():
        _require_known(document, (*place, kind), "kind of event", kind, kinds, key=True)
        _require_known(document, (*place, kind), "operation", name, file.operations)
    missing = [kind for kind in kinds if kind not in stream.route]
    if missing:
        what = f"route does not name the kind of event {missing[0]!r}"
        raise document.error(place, what, f"add {missing[0]}: OPERATION", key=True)
    forms = [form for name in stream.weights for form in every_form(file.operations[name]).values()]
    if any(form.visible != forms[0].visible for form in forms):
        what = "the operations of a route must have the same visible"
        raise document.error(place, what, "write the same visible in each, or in none", key=True)


def _check_ends(document: Document, file: WorkloadFile, name: str, place: Place, *, endless: bool) -> None:
    """Refuse `until: exhausted` for a source without an end, unless `endless` admits it."""
    if not endless and not file.sources[name].ends:
        remedy = "use duration here, or set idle in the source"
        if file.sources[name].generate is not None:
            remedy = "use duration here, or set documents in the source"
        raise document.error(place, f"the source {name!r} never ends", remedy)


def _check_events(
    document: Document, file: WorkloadFile, stream: Stream, name: str, place: Place, *, key: bool
) -> None:
    """Refuse a source with an operation other than `take_in`, and `take_in` without a source.

    `key`: the error points to the key at `place` instead of its value.
    """
    forms = every_form(file.operations[name]).values()
    if stream.source is not None and not all(form.take_in is not None for form in forms):
        what = f"the source {stream.source!r} requires a take_in operation; {name!r} is not one"
        raise document.error(place, what, "use an operation with take_in, or remove source", key=key)
    if stream.source is None and any(form.take_in is not None for form in forms):
        what = f"the operation {name!r} ingests events, but the stream lacks a source"
        raise document.error(place, what, "add source next to operation, in a separate stream", key=key)


@dataclass(frozen=True)
class _JourneyCheck:
    """Checks that the steps of a journey only use values that earlier steps may have captured."""

    document: Document
    file: WorkloadFile

    def check(
        self, journey: Sequence[JourneyStep], place: Place, captured: set[str], counted: frozenset[str] = frozenset()
    ) -> set[str]:
        """Check some steps and return the names that may be captured after them, including `captured`.

        `captured` are the names that may be captured before the steps, `counted` the loop variables of surrounding
        loops. BadInput at a step that, without `missing`, uses a value no earlier step captures; for a loop variable
        outside its loop, a `count` that is not a loop variable, and a condition on a value that no operation captures.
        A value that `when` tests counts as captured in its `steps`. Values that variables refer to are not checked.
        """
        known = set(captured)
        for index, step in enumerate(journey):
            at: Place = (*place, index)
            if step.operation is not None:
                forms = every_form(self.file.operations[step.operation])
                for name in sorted(_loops(self.file, step.operation) - counted):
                    what = f"{step.operation!r} uses the loop variable {name!r} outside its loop"
                    raise self.document.error(at, what, f"move the step into a repeat with count: {name}")
                for name in sorted(self._all & set(names([form.dump() for form in forms.values()])) - known):
                    if step.missing is None:
                        what = f"{step.operation!r} uses {name!r}, which no earlier step captures"
                        raise self.document.error(at, what, "move the capturing step before it, or add missing: skip")
                known |= _captured(forms)
            until = step.repeat.until if step.repeat is not None else None
            count = step.repeat.count if step.repeat is not None else None
            if count is not None:
                _require_known(self.document, (*at, "repeat", "count"), "variable", count, self.file.variables)
                if self.file.variables[count].loop is None:
                    what = f"count must name a loop variable; {count!r} is not one"
                    raise self.document.error((*at, "repeat", "count"), what, "define it as {loop: {from: 0}}")
            for test in (step.when, until):
                if test is not None and test.reads is not None:
                    _require_known(self.document, at, "captured value", test.reads, self._all)
            seen = {step.when.reads} if step.when is not None and step.when.reads is not None else set()
            after = [
                self.check(
                    steps,
                    (*at, *inside),
                    known | seen if inside == ("steps",) else known,
                    counted if count is None else counted | {count},
                )
                for inside, steps in step.inside
            ]
            known = known.union(*after)
        return known

    @cached_property
    def _all(self) -> set[str]:
        """The names of all values that any operation of the file captures."""
        return {name for operation in self.file.operations.values() for name in _captured(every_form(operation))}


def _check_captures(
    document: Document, file: WorkloadFile, together: AnyCollection[str], name: str, place: Place, *, key: bool
) -> None:
    """Refuse the operation `name` if it uses a captured value that no operation in `together` captures.

    Values that no operation of the file captures are ignored. `key`: the error points to the key at `place` instead of
    its value.
    """
    captured = {
        value
        for other in together
        if other in file.operations
        for value in _captured(every_form(file.operations[other]))
    }
    everywhere = {value for operation in file.operations.values() for value in _captured(every_form(operation))}
    forms = [form.dump() for form in every_form(file.operations[name]).values()]
    for missing in sorted((everywhere - captured) & set(names(forms))):
        what = f"the operation {name!r} uses {missing!r}, which no earlier operation of its stream captures"
        raise document.error(place, what, "add the capturing operation to the same mix or journey", key=key)


def _loops(file: WorkloadFile, operation: str) -> set[str]:
    """Return the `loop` variables that an operation uses in any of its forms, directly or through other variables."""
    forms = every_form(file.operations[operation]).values()
    drawn = closure(set(names([form.dump() for form in forms])), file.variables)
    return {name for name in drawn if file.variables[name].loop is not None}


def _captured(forms: Mapping[str, Form]) -> set[str]:
    """Return the names of the values that any of an operation's forms captures."""
    return {name for form in forms.values() for name in form.captured}


def _require_known(
    document: Document, place: Place, kind: str, name: str, known: AnyCollection[str], *, key: bool = False
) -> None:
    """Refuse a `name` outside of `known`, at `place`, as an unknown `kind`; suggests a similar name.

    `key` says whether the name is a key of the document rather than a value.
    """
    if name not in known:
        raise document.error(place, f"unknown {kind} {name!r}", did_you_mean(name, known), key=key)
