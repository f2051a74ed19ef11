"""Converts a track's administrative operations to forms, or to plain requests without a matching form.

A converter is a function of the conversion's state, the operation and its name, and returns the operation's forms. It
marks the keys that it reads or that do not matter, because `Operations.forms` reports all others as not imported.
BadInput, with its place, for a key with an invalid value.
"""

import re
from collections.abc import Callable
from typing import Any

from loadframe.workload.importers.imported import literal
from loadframe.workload.importers.rally.track import TEMPLATES, Form, TrackConversion
from loadframe.workload.importers.source import ImportedObject

_DEFINITION = ("settings", "mappings", "aliases")
_COMPOSING = ("data_stream", "composed_of")
#: Parameters of the health API that `wait_for_health` covers.
_HEALTH = {"wait_for_status", "wait_for_nodes", "wait_for_no_relocating_shards"}
_OWN_COLLECTIONS = "because every run recreates its collections"
#: Clusters start empty, so objects exist only if an operation created them.
_NONE = "because no operation creates it"


def create_index(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert create-index to a form, or to a PUT request if the form cannot express it.

    For a declared index, or without a body, report the operation as left out, merge its settings into those of the
    declared collections that it names (all if it names none), and return an empty list. The load creates declared
    collections before its first phase.
    """
    target = make.target(part)
    if part.data.get("body") is not None and target not in make.track.collections:
        body = part.mapping("body")
        make.note("index", target)
        if set(body) <= set(_DEFINITION) and not part.data.get("request-params"):
            return [{"create_collection": {"collection": literal(target), **literal(body)}}]
        return make.request(part, "PUT", f"/{target}", body)
    settings = part.mapping("settings")
    for declared, collection in make.track.collections.items():
        if settings and (part.get("index") is None or declared in target.split(",")):
            definition = collection.setdefault("elasticsearch", {})
            definition["settings"] = {**definition.get("settings", {}), **literal(settings)}
    make.leave_out(name, "create-index, because collections are created before the first phase")
    return []


def delete_index(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert the deletion of an index.

    Unless an earlier operation created the index, the deletion is reported as not imported and the list is empty.
    """
    target = make.target(part)
    part.get("only-if-exists")
    if not make.has_made("index", target):
        make.leave_out(name, f"delete-index, {_OWN_COLLECTIONS}")
        return []
    return [{"delete_collection": {"collection": target, "ignore_missing": True}}]


def create_data_stream(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert the creation of a data stream to a PUT request.

    A declared data stream is a collection: its creation, like one without a name, is reported as not imported, and the
    list is empty.
    """
    target = part.get("data-stream")
    if not isinstance(target, str) or target in make.track.collections:
        make.leave_out(name, "create-data-stream, because collections are created before the first phase")
        return []
    make.note("data stream", target)
    return make.request(part, "PUT", f"/_data_stream/{make.target(part)}")


def delete_data_stream(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert the deletion of a data stream to a DELETE request.

    Unless an earlier operation created it, the deletion is reported as not imported and the list is empty.
    """
    part.get("only-if-exists")
    target = make.target(part)
    if not make.has_made("data stream", target):
        make.leave_out(name, f"delete-data-stream, {_OWN_COLLECTIONS}")
        return []
    return make.request(part, "DELETE", f"/_data_stream/{target}")


def shrink(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert the shrinking of one index, and record the target as created.

    Keys of its body other than `settings` are reported. The default source is the only collection. For several sources,
    the operation is reported, and the list is empty.
    """
    source, target = part.text("source-index", make.track.only_collection()), part.text("target-index")
    body = part.mapping("target-body")
    part.get("shrink-node")
    if not make.is_collection(source):
        make.leave_out(name, "shrink-index of more than one index")
        return []
    for key in body:
        if key != "settings":
            make.leave_out(name, f"{key} of the target index")
    make.note("index", target)
    settings = {"settings": literal(body["settings"])} if body.get("settings") else {}
    return [{"shrink": {"from": source, "to": literal(target), **settings}}]


def health(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert to `wait_for_health`, or to a plain health request that may repeat.

    The form requires a status, `nodes` as a number or `>=N`, one collection or none, and no further parameters. A plain
    request with `retry-until-success` is repeated until the cluster is as healthy as its parameters demand.
    """
    target, parameters = part.get("index"), part.mapping("request-params")
    again = part.flag("retry-until-success", False)
    form: dict[str, Any] = {"collection": target} if isinstance(target, str) else {}
    nodes = str(parameters.get("wait_for_nodes", 1)).removeprefix(">=")
    status = parameters.get("wait_for_status")
    known = set(parameters) <= _HEALTH and status in ("green", "yellow", "red") and nodes.isdecimal()
    if known and int(nodes) and (not form or make.is_collection(str(target))):
        form["status"] = status
        if "wait_for_nodes" in parameters:
            form["nodes"] = int(nodes)
        if str(parameters.get("wait_for_no_relocating_shards")).lower() == "true":
            form["still"] = True
        return [{"wait_for_health": form}]
    (request,) = make.request(part, "GET", f"/_cluster/health/{target}" if form else "/_cluster/health")
    return [request | (repeated(part, _healthy(parameters)) if again else {})]


def _healthy(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions that Rally derives from the query parameters of a health request, for `repeated`.

    The status must be at least `wait_for_status` (default: any), and with `wait_for_no_relocating_shards`, no shard
    moves.
    """
    colours = ["green", "yellow", "red"]
    status = parameters.get("wait_for_status")
    good = colours[: colours.index(status) + 1] if status in colours else colours
    settled = str(parameters.get("wait_for_no_relocating_shards")).lower() == "true"
    return {"status": {"one_of": good}} | ({"relocating_shards": {"at_most": 0}} if settled else {})


def repeated(part: ImportedObject, until: dict[str, Any]) -> Form:
    """Return `{"repeat": ...}` for a form: repeat until all conditions in `until` hold, or if empty until success.

    `until` maps values of the answer (`a.b` or a JSON pointer) to conditions. The pause is the operation's
    `retry-wait-period` (0.5 s by default). Rally has no timeout; this one is a day. Marks Rally's keys as read.
    """
    every = part.number("retry-wait-period", 0.5) or 0.5
    part.get("retries"), part.get("retry-until-success")
    return {"repeat": {**({"until": literal(until)} if until else {}), "every": f"{every:.15g}s", "within": "24h"}}


def retried(part: ImportedObject, form: Form) -> Form:
    """Return a plain request with a repeat until success; return other forms unchanged.

    Whether the operation requests retries is not checked.
    """
    return form | repeated(part, {}) if "request" in form else form


def index_stats(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert an index-stats request. With `retry-until-success`, it is repeated until its condition holds.

    A condition without retries is reported as not imported.
    """
    (request,) = make.request(part, "GET", f"/{make.target(part)}/_stats")
    condition = ImportedObject(part.mapping("condition"), f"{part.where}, condition")
    again = part.flag("retry-until-success", False)
    if not condition.data:
        return [request]
    if not again:
        make.leave_out(name, "its condition, because the request is sent once")
        return [request]
    return [request | repeated(part, {condition.text("path"): condition.get("expected-value")})]


def waiting(
    path: Callable[[ImportedObject], str], until: dict[str, Any]
) -> Callable[[TrackConversion, ImportedObject, str], list[Form]]:
    """Return a converter to a GET request that repeats until all conditions hold.

    `path` returns the request's path for an operation. `until` is as in `repeated`, which also sets the pause and the
    timeout: keys of the operation for the interval and number of checks are ignored.
    """

    def waiting(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
        """Convert an operation to a request that repeats until the condition holds."""
        part.read_keys.update(("completion-recheck-wait-period", "completion-recheck-attempts", "wait-for-completion"))
        (request,) = make.request(part, "GET", path(part))
        return [request | repeated(part, until)]

    return waiting


def force_merge(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert a force merge, with a timeout of 1 h; without a limit of segments, or with -1, the store decides."""
    # Without a number, or with -1, the store follows its merge policy.
    most = max(0, part.whole("max-num-segments", 0, least=-1))
    forms = make.on_collection(part, "force_merge", "_forcemerge", **({"max_segments": most} if most else {}))
    if most and "request" in forms[0]:
        forms[0]["request"].setdefault("parameters", {})["max_num_segments"] = most
    return [{**form, "timeout": "1h"} for form in forms]


def templates(section: str) -> Callable[[TrackConversion, ImportedObject, str], list[Form]]:
    """Return a converter to requests that create the track's templates of a section, such as `composable-templates`.

    If code generates templates for the operation, these are used instead. The operation may select a template by name.
    """

    def templates(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
        """Convert an operation that creates templates: one form for each template that it has or selects.

        Empty if the section lacks the selected template.
        """
        if generated := part.get("templates"):
            return [_generated_template(make, part, section, entry) for entry in generated]
        wanted = part.get("template")
        part.get("settings"), part.get("body")
        forms = []
        for name, body in make.track.templates.get(section, {}).items():
            if wanted is None or wanted == name:
                forms.append(_template(make, part, section, name, body))
        return forms

    return templates


def delete_templates(section: str) -> Callable[[TrackConversion, ImportedObject, str], list[Form]]:
    """Return a converter to requests that delete those templates of a section that earlier operations created."""

    def delete_templates(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
        """Convert an operation that deletes templates: one form for each created template, or the one that it selects.

        Without such templates, this is reported, and the list is empty.
        """
        for key in ("only-if-exists", "delete-matching-indices", "index-pattern"):
            part.get(key)
        wanted = part.get("template")
        made = sorted(template for template in make.made.get(section, ()) if wanted in (None, template))
        if not made:
            make.leave_out(name, "the deletion of templates, because no operation creates them")
        if section == "composable-templates":
            return [{"delete_template": {"name": template}} for template in made]
        return [form for template in made for form in make.request(part, "DELETE", TEMPLATES[section] + template)]

    return delete_templates


def _generated_template(make: TrackConversion, part: ImportedObject, section: str, entry: Any) -> Form:
    """Convert a template generated by code; BadInput for other than a pair of name and body."""
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
        raise part.error("templates", "expected pairs of a name and a body")
    return _template(make, part, section, *entry)


def _template(make: TrackConversion, part: ImportedObject, section: str, name: str, body: Any) -> Form:
    """Convert a template to `put_template`; a legacy or component template, or other keys, to a PUT request.

    Records the template as created, so that a later deletion is imported.
    """
    make.note(section, name)
    definition = body.get("template", {}) if isinstance(body, dict) else None
    keys = set(body) if isinstance(body, dict) else set()
    composed = section == "composable-templates" and keys <= {"index_patterns", "template", "priority", *_COMPOSING}
    patterns = body.get("index_patterns") if isinstance(body, dict) else None
    if not composed or not patterns or not isinstance(definition, dict) or not set(definition) <= set(_DEFINITION):
        (form,) = make.request(part, "PUT", TEMPLATES[section] + name, body)
        return form
    priority = {"priority": body["priority"]} if body.get("priority") else {}
    wanted = [patterns] if isinstance(patterns, str) else patterns
    more = {"data_stream": True} if "data_stream" in body else {}
    if parts := body.get("composed_of"):
        more["composed_of"] = literal(parts)
    form = {"name": literal(name), "patterns": literal(wanted), **priority, **more, **literal(definition)}
    return {"put_template": form}


def repository(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert the creation of a snapshot repository: a form for one in a folder, else a PUT request."""
    name, body = part.text("repository"), part.mapping("body")
    make.note("/_snapshot", name)
    settings = body.get("settings")
    location = settings.get("location") if isinstance(settings, dict) else None
    if body.get("type") != "fs" or not isinstance(settings, dict) or not isinstance(location, str) or not location:
        return make.request(part, "PUT", f"/_snapshot/{name}", body)
    more = {key: value for key, value in settings.items() if key != "location"}
    form = {"repository": literal(name), "location": literal(location)} | ({"settings": literal(more)} if more else {})
    return [{"create_repository": form}]


def snapshot(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert the creation of a snapshot; report unsupported options as not imported."""
    form: dict[str, Any] = {"repository": part.text("repository"), "name": part.text("snapshot")}
    body = part.mapping("body")
    form["wait"] = part.flag("wait-for-completion", False)
    if body.get("indices"):
        form["collections"] = body["indices"]
    for key in [key for key in body if key not in ("indices", "include_global_state")] + list(make.parameters(part)):
        make.leave_out(name, f"{key} of the snapshot")
    return [{"snapshot": literal(form)}]


def field_capabilities(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert a field-caps request to a GET request; the default is all fields."""
    fields = part.get("fields", "*")
    (form,) = make.request(part, "GET", f"/{make.target(part)}/_field_caps")
    wanted = fields if isinstance(fields, str) else ",".join(map(str, fields))
    form["request"].setdefault("parameters", {})["fields"] = literal(wanted)
    return [form]


def raw(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a raw request; an EQL search of a collection becomes an `eql` form. BadInput for an unsupported method.

    A body that is not an object is reported as not imported.
    """
    method, body = part.text("method", "GET").upper(), part.get("body")
    if method not in ("GET", "HEAD", "POST", "PUT", "DELETE"):
        raise part.error("method", f"unsupported method {method}", "use GET, HEAD, POST, PUT or DELETE")
    if isinstance(body, list | str):
        make.leave_out(name, "raw-request, because its body is not a JSON object")
        return []
    path = part.text("path")
    events = re.fullmatch(r"/?([^/]+)/_eql/search", path)
    if events and isinstance(body, dict) and isinstance(body.get("query"), str) and make.is_collection(events[1]):
        beside = {key: value for key, value in body.items() if key != "query"}
        form = {"collection": events[1], "query": literal(body["query"])}
        more = {"body": literal(beside), "parameters": make.parameters(part)}
        return [{"eql": form | {key: value for key, value in more.items() if value}}]
    return make.request(part, method, path if path.startswith("/") else f"/{path}", body)


def call(
    method: str, path: str, key: str, behind: str = ""
) -> Callable[[TrackConversion, ImportedObject, str], list[Form]]:
    """Return a converter to a request for PATH/NAME and the suffix `behind`; the operation's `key` holds NAME.

    The operation may have a body. A PUT records NAME as created under `path`, so that a later deletion is imported.
    """

    def call(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
        """Convert an operation to a request; a PUT records the object as created."""
        name = part.text(key)
        if method == "PUT":
            make.note(path, name)
        body = part.get("body")
        return make.request(part, method, f"{path}/{name}{behind}", body if body is None else part.mapping("body"))

    return call


def removal(path: str, key: str) -> Callable[[TrackConversion, ImportedObject, str], list[Form]]:
    """Return a converter to a DELETE request for `path`/NAME; the operation's `key` holds NAME.

    The deletion is reported as not imported unless an operation created the object.
    """
    delete = call("DELETE", path, key)

    def removal(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
        """Convert a deletion, or report it as not imported if no operation created the object."""
        part.get("only-if-exists")
        if not make.has_made(path, part.text(key)):
            make.leave_out(name, f"{part.text('operation-type', name)}, {_NONE}")
            return []
        return delete(make, part, name)

    return removal
