"""References between the parts of a workload: whether each name that is used exists and is of the right kind."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from loadframe.workload.forms import Form, every_form
from loadframe.workload.holes import Place, names
from loadframe.workload.model import WorkloadFile
from loadframe.workload.phases import Phase
from loadframe.workload.variables import circle
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
    seen: set[str] = set()
    for index, phase in enumerate(file.phases):
        if phase.name in seen:
            raise document.error(
                ("phases", index, "name"), f"two phases are named {phase.name!r}", "rename one of them"
            )
        seen.add(phase.name)
        _check_phase(document, file, phase, ("phases", index))


def _check_form(document: Document, file: WorkloadFile, form: Form, place: Place) -> None:
    content: Any = form.content
    collection = getattr(content, "collection", None)
    # Only the store can check a name that is made for each request.
    if collection is not None and form.create_collection is None and not set(collection) & set("$*,"):
        _known(document, (*place, "collection"), "collection", collection, {*file.collections, *_made(file)})
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


def _made(file: WorkloadFile) -> Iterator[str]:
    """Yield the names of collections, and of aliases for some, that operations of the workload make."""
    for form in (form for operation in file.operations.values() for form in every_form(operation).values()):
        if form.create_collection is not None:
            yield form.create_collection.collection
            yield from form.create_collection.aliases or {}
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
    for index, stream in enumerate(phase.named_streams):
        within: Place = place if phase.streams is None else (*place, "streams", index)
        for name in stream.weights:
            key = ("operation",) if stream.mix is None else ("mix", name)
            _known(document, (*within, *key), "operation", name, file.operations, key=stream.mix is not None)
            reads = any(form.bulk is not None for form in every_form(file.operations[name]).values())
            if reads and len(stream.weights) > 1:
                what = f"the operation {name!r} reads a corpus to its end and cannot be one of a mix"
                raise document.error((*within, *key), what, "give it a stream of its own", key=True)
            _check_needs(document, file, stream.weights, name, (*within, *key), key=stream.mix is not None)
            ended = within if stream.ends_itself else place
            until = stream.until if stream.ends_itself else phase.until
            if until == "exhausted" and not reads:
                what = f"the operation {name!r} reads no corpus that could be exhausted"
                raise document.error((*ended, "until"), what, "say a duration or a number of requests")


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


def _taken(forms: Mapping[str, Form]) -> set[str]:
    return {name for form in forms.values() if form.http is not None for name in form.http.capture}


def _known(
    document: Document, place: Place, kind: str, name: str, known: Collection[str], *, key: bool = False
) -> None:
    if name not in known:
        raise document.error(place, f"there is no {kind} {name!r}", did_you_mean(name, known), key=key)
