"""References between the parts of a workload: whether each name that is used exists and is of the right kind."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.workload.forms import Form, every_form
from loadframe.workload.holes import Place, names
from loadframe.workload.journeys import JourneyStep, every_step
from loadframe.workload.model import WorkloadFile
from loadframe.workload.phases import Phase, Stream
from loadframe.workload.targets import MAIN
from loadframe.workload.variables import circle, closure
from loadframe.yamlfile import Document, did_you_mean

#: Ways to make a variable of others, and what the others must be.
_MADE_OF = {"derived": None, "linear": "number", "hash": "whole number", "several": None, "part": "document"}


def check(document: Document, file: WorkloadFile) -> None:
    """Refuse references to names that do not exist; BadInput at the reference, with the nearest name."""
    for name, operation in file.operations.items():
        for family, form in every_form(operation).items():
            place: Place = ("operations", name, *([family] if family else []), form.kind)
            _check_form(document, file, form, place)
    _check_variables(document, file)
    if MAIN in file.targets:
        what = f"{MAIN!r} is the target that is measured, for operations that name none"
        raise document.error(("targets", MAIN), what, "choose another name", key=True)
    seen: set[str] = set()
    for index, phase in enumerate(file.phases):
        if phase.name in seen:
            raise document.error(
                ("phases", index, "name"), f"two phases are named {phase.name!r}", "rename one of them"
            )
        seen.add(phase.name)
        _check_phase(document, file, phase, ("phases", index))


def _check_target(document: Document, file: WorkloadFile, form: Form, place: Place) -> None:
    """Refuse a target that is not there, and requests that it does not take."""
    _known(document, (*place[:-1], "target"), "target", str(form.target), file.targets)
    family = file.targets[str(form.target)].family
    if not form.known_to(family):
        what = f"the target {form.target!r} is of the family {family}, which does not have this {form.kind}"
        raise document.error(place, what, "name another target, or another request", key=True)


def _check_form(document: Document, file: WorkloadFile, form: Form, place: Place) -> None:
    if form.target is not None:
        # What it has, only the target knows.
        _check_target(document, file, form, place)
        return
    content: Any = form.content
    collection = getattr(content, "collection", None)
    # Only the store can check a name that is made for each request.
    managed = form.manage_indices or form.delete_days
    by_day = (form.take_in is not None and form.take_in.daily is not None) or managed is not None
    # Collections of days have other names, and are made when their first event comes.
    if collection is not None and form.create_collection is None and not set(collection) & set("$*,") and not by_day:
        _known(document, (*place, "collection"), "collection", collection, {*file.collections, *_made(file)})
    if form.shows is not None:
        _check_shown(document, file, form.shows, (*place[:-1], "shows"))
    if managed is not None:
        _check_days(document, file, managed.collection, (*place, "collection"))
    if form.bulk is not None:
        _known(document, (*place, "corpus"), "corpus", form.bulk.corpus, file.corpora)
        known = file.collections.get(form.bulk.collection)
        is_stream = known is not None and known.elasticsearch is not None and known.elasticsearch.data_stream
        for_search = place[2] in (form.kind, "elasticsearch")
        if is_stream and for_search and (form.bulk.action != "create" or form.bulk.conflicts is not None):
            what = f"the collection {form.bulk.collection!r} is a data stream, to which documents can only be added"
            raise document.error(place, what, "say action: create", key=True)
    if form.request is not None and not form.request.path.startswith("/"):
        raise document.error((*place, "path"), "a path begins with /", f"write /{form.request.path}")


def _check_shown(document: Document, file: WorkloadFile, shown: str, place: Place) -> None:
    """Refuse answers that show events which no operation takes in and looks for."""
    _known(document, place, "operation", shown, file.operations)
    if not any(
        form.take_in is not None and form.visible is not None for form in every_form(file.operations[shown]).values()
    ):
        what = f"how old events are in an answer is known where {shown!r} takes them in and looks for some"
        raise document.error(place, what, f"say visible: {{sample: 1s}} in {shown!r}")


def _check_days(document: Document, file: WorkloadFile, name: str, place: Place) -> None:
    """Refuse days to be looked after that no operation fills."""
    forms = (form for operation in file.operations.values() for form in every_form(operation).values())
    known = {form.take_in.collection for form in forms if form.take_in is not None and form.take_in.daily is not None}
    if name not in known:
        what = f"no operation takes events into days of {name!r}"
        remedy = did_you_mean(name, known) if known else "add a take_in with daily, or remove this operation"
        raise document.error(place, what, remedy)


def _made(file: WorkloadFile) -> Iterator[str]:
    """Yield the names of aliases of collections, and what operations of the workload make: collections and aliases."""
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
                str(said["alias"]) for action in form.aliases.actions for said in action.values() if "alias" in said
            )


def _check_variables(document: Document, file: WorkloadFile) -> None:
    for name, variable in file.variables.items():
        for way, source in (("field", variable.field), ("document", variable.document)):
            if source is not None:
                _known(document, ("variables", name, way, "corpus"), "corpus", source.corpus, file.corpora)
        if variable.inserted is not None:
            law = next(law for law in ("zipfian", "latest", "exponential") if getattr(variable, law) is not None)
            place: Place = ("variables", name, law, "inserted")
            _known(document, place, "variable", variable.inserted, file.variables)
            if file.variables[variable.inserted].counter is None:
                what = f"the variable {variable.inserted!r} does not number inserted records"
                raise document.error(place, what, "name a counter")
            continue
        for other in variable.of:
            way = next(way for way in _MADE_OF if getattr(variable, way) is not None)
            place = ("variables", name, way, *(["of"] if way != "derived" else []))
            _known(document, place, "variable", other, file.variables)
            wanted = _MADE_OF[way]
            if wanted is not None and wanted not in file.variables[other].kinds:
                raise document.error(place, f"the variable {other!r} is not a {wanted}", f"name one that is a {wanted}")
    names_in_circle = circle(file.variables)
    if names_in_circle is not None:
        what = f"variables are made of each other in a circle: {' -> '.join(names_in_circle)}"
        raise document.error(("variables", names_in_circle[0]), what, "remove one of the steps", key=True)


def _check_phase(document: Document, file: WorkloadFile, phase: Phase, place: Place) -> None:
    fed: set[str] = set()
    for index, stream in enumerate(phase.named_streams):
        within: Place = place if phase.streams is None else (*place, "streams", index)
        if stream.source is not None:
            _check_source(document, file, stream.source, (*within, "source"), fed)
        for name in stream.weights:
            key: Place = ("operation",) if stream.mix is None else ("mix", name)
            if stream.journey is not None:
                key = next(("journey", *at) for at, step in every_step(stream.journey) if step.operation == name)
            _known(document, (*within, *key), "operation", name, file.operations, key=stream.mix is not None)
            reads = any(form.bulk is not None for form in every_form(file.operations[name]).values())
            if reads and len(stream.weights) > 1:
                what = f"the operation {name!r} reads a corpus to its end and cannot be one of a mix"
                raise document.error((*within, *key), what, "give it a stream of its own", key=True)
            if stream.users is None and (loops := _loops(file, name)):
                what = f"the operation {name!r} reads {min(loops)!r}, which counts a loop, and only users walk loops"
                raise document.error((*within, *key), what, "draw it, or add users", key=stream.mix is not None)
            if stream.users is None:
                _check_needs(document, file, stream.weights, name, (*within, *key), key=stream.mix is not None)
            _check_events(document, file, stream, name, (*within, *key), key=stream.mix is not None)
            ended = within if stream.ends_itself else place
            until = stream.until if stream.ends_itself else phase.until
            if until == "exhausted" and stream.source is not None:
                _check_ends(document, file, stream.source, (*ended, "until"))
            elif until == "exhausted" and not reads:
                what = f"the operation {name!r} reads no corpus that could be exhausted"
                raise document.error((*ended, "until"), what, "say a duration or a number of requests")

        if stream.users is not None and stream.journey is not None:
            for at, step in every_step(stream.journey):
                if step.timed is not None and step.timed.name in file.operations:
                    what = f"an operation has the name {step.timed.name!r}, too"
                    raise document.error((*within, "journey", *at, "timed", "name"), what, "choose another name")
            _Reading(document, file).check(stream.journey, (*within, "journey"), set())


def _check_source(document: Document, file: WorkloadFile, name: str, place: Place, fed: set[str]) -> None:
    """Refuse a source that is not there, and one that feeds another stream of the phase already; remember it."""
    _known(document, place, "source", name, file.sources)
    if name in fed:
        what = f"another stream of the phase takes the events of {name!r} already"
        raise document.error(place, what, "say a number of workers there")
    fed.add(name)


def _check_ends(document: Document, file: WorkloadFile, name: str, place: Place) -> None:
    """Refuse to wait for the end of a source that has none."""
    if not file.sources[name].ends:
        remedy = "say a duration here, or idle in the source"
        if file.sources[name].generate is not None:
            remedy = "say a duration here, or how many documents there are in the source"
        raise document.error(place, f"the source {name!r} never ends", remedy)


def _check_events(
    document: Document, file: WorkloadFile, stream: Stream, name: str, place: Place, *, key: bool
) -> None:
    """Refuse events for an operation that takes none in, and one that takes some in without a source."""
    forms = every_form(file.operations[name]).values()
    if stream.source is not None and not all(form.take_in is not None for form in forms):
        what = f"the operation {name!r} takes no events in, and the source {stream.source!r} has nothing else"
        raise document.error(place, what, "name one with take_in, or remove source", key=key)
    if stream.source is None and any(form.take_in is not None for form in forms):
        what = f"the operation {name!r} takes events in, and no source is named that they come from"
        raise document.error(place, what, "say source beside it, in a stream of its own", key=key)


@dataclass(frozen=True)
class _Reading:
    """Walks through a journey and refuses what reads a value that no step before it takes from an answer."""

    document: Document
    file: WorkloadFile

    def check(
        self, journey: Sequence[JourneyStep], place: Place, taken: set[str], counted: frozenset[str] = frozenset()
    ) -> set[str]:
        """Return what may be known after some steps, before which `taken` may be; loops around them are `counted`."""
        known = set(taken)
        for index, step in enumerate(journey):
            at: Place = (*place, index)
            if step.operation is not None:
                forms = every_form(self.file.operations[step.operation])
                for name in sorted(_loops(self.file, step.operation) - counted):
                    what = f"{step.operation!r} reads {name!r}, which counts a loop, and it does not stand in one"
                    raise self.document.error(at, what, f"put it into a repeat with count: {name}")
                for name in sorted(self._all & set(names([form.dump() for form in forms.values()])) - known):
                    if step.missing is None:
                        what = f"{step.operation!r} reads {name!r}, which no step before it takes from an answer"
                        raise self.document.error(at, what, "put the step that does before it, or say missing: skip")
                known |= _taken(forms)
            until = step.repeat.until if step.repeat is not None else None
            count = step.repeat.count if step.repeat is not None else None
            if count is not None:
                _known(self.document, (*at, "repeat", "count"), "variable", count, self.file.variables)
                if self.file.variables[count].loop is None:
                    what = f"the variable {count!r} counts no loop"
                    raise self.document.error((*at, "repeat", "count"), what, "define it as {loop: {from: 0}}")
            for test in (step.when, until):
                if test is not None and test.reads is not None:
                    _known(self.document, at, "value from answers named", test.reads, self._all)
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

    @property
    def _all(self) -> set[str]:
        return {name for operation in self.file.operations.values() for name in _taken(every_form(operation))}


def _check_needs(
    document: Document, file: WorkloadFile, together: Collection[str], name: str, place: Place, *, key: bool
) -> None:
    """Refuse an operation that needs what no operation of the same users takes from an answer."""
    taken = {
        value for other in together if other in file.operations for value in _taken(every_form(file.operations[other]))
    }
    elsewhere = {value for operation in file.operations.values() for value in _taken(every_form(operation))} - taken
    forms = [form.dump() for form in every_form(file.operations[name]).values()]
    for missing in sorted(elsewhere & set(names(forms))):
        what = f"the operation {name!r} needs {missing!r}, which no operation beside it takes from an answer"
        raise document.error(place, what, "put the operation that does into the same mix or journey", key=key)


def _loops(file: WorkloadFile, operation: str) -> set[str]:
    """Return the names of the variables that count loops and that an operation's requests carry."""
    forms = every_form(file.operations[operation]).values()
    drawn = closure(set(names([form.dump() for form in forms])), file.variables)
    return {name for name in drawn if file.variables[name].loop is not None}


def _taken(forms: Mapping[str, Form]) -> set[str]:
    return {name for form in forms.values() for name in form.taken}


def _known(
    document: Document, place: Place, kind: str, name: str, known: Collection[str], *, key: bool = False
) -> None:
    if name not in known:
        raise document.error(place, f"there is no {kind} {name!r}", did_you_mean(name, known), key=key)
