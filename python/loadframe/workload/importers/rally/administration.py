"""A track's operations that change the store or ask about it: forms where the language has them, otherwise calls."""

import re
from collections.abc import Callable
from typing import Any

from loadframe.workload.importers.imported import literal
from loadframe.workload.importers.rally.making import Form, Making
from loadframe.workload.importers.rally.track import TEMPLATES
from loadframe.workload.importers.source import Part

_DEFINITION = ("settings", "mappings", "aliases")
#: What `wait_for_health` says, in the words of the interface.
_COMPOSING = ("data_stream", "composed_of")
_HEALTH = {"wait_for_status", "wait_for_nodes", "wait_for_no_relocating_shards"}
_OWN_COLLECTIONS = "because every run makes its collections anew"
#: Clusters are empty at first: what no operation has made does not exist.
_NONE = "because no operation has made it"


def create_index(make: Making, part: Part, name: str) -> list[Form]:
    """Return the making of an index that the track does not declare; declared ones are collections."""
    target = make.target(part)
    if part.data.get("body") is not None and target not in make.track.collections:
        body = part.mapping("body")
        make.note("index", target)
        if set(body) <= set(_DEFINITION) and not part.data.get("request-params"):
            return [{"create_collection": {"collection": literal(target), **literal(body)}}]
        return make.request(part, "PUT", f"/{target}", body)
    settings = part.mapping("settings")
    for collection in make.track.collections.values():
        if settings:
            definition = collection.setdefault("elasticsearch", {})
            definition["settings"] = {**definition.get("settings", {}), **literal(settings)}
    make.leave_out(name, "create-index, because collections are made before the first phase")
    return []


def delete_index(make: Making, part: Part, name: str) -> list[Form]:
    """Return the removal of an index that an operation made."""
    target = make.target(part)
    part.get("only-if-exists")
    if not make.has_made("index", target):
        make.leave_out(name, f"delete-index, {_OWN_COLLECTIONS}")
        return []
    return [{"delete_collection": {"collection": target, "ignore_missing": True}}]


def create_data_stream(make: Making, part: Part, name: str) -> list[Form]:
    """Return the making of a data stream that the track does not declare; declared ones are collections."""
    target = part.get("data-stream")
    if not isinstance(target, str) or target in make.track.collections:
        make.leave_out(name, "create-data-stream, because collections are made before the first phase")
        return []
    make.note("data stream", target)
    return make.request(part, "PUT", f"/_data_stream/{make.target(part)}")


def delete_data_stream(make: Making, part: Part, name: str) -> list[Form]:
    """Return the removal of a data stream that an operation made."""
    part.get("only-if-exists")
    target = make.target(part)
    if not make.has_made("data stream", target):
        make.leave_out(name, f"delete-data-stream, {_OWN_COLLECTIONS}")
        return []
    return make.request(part, "DELETE", f"/_data_stream/{target}")


def shrink(make: Making, part: Part, name: str) -> list[Form]:
    """Return the shrinking of one index."""
    source, target = part.text("source-index", make.track.only_collection()), part.text("target-index")
    body = part.mapping("target-body")
    part.get("shrink-node")
    if not make.is_collection(source):
        make.leave_out(name, "shrink-index of more than one index")
        return []
    for key in body:
        if key != "settings":
            make.leave_out(name, f"{key} of the index that it makes")
    make.note("index", target)
    settings = {"settings": literal(body["settings"])} if body.get("settings") else {}
    return [{"shrink": {"from": source, "to": literal(target), **settings}}]


def health(make: Making, part: Part, name: str) -> list[Form]:
    """Return the wait for a status, or a request for the health if it asks for more."""
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
    (asked,) = make.request(part, "GET", f"/_cluster/health/{target}" if form else "/_cluster/health")
    return [asked | (repeated(part, _healthy(parameters)) if again else {})]


def _healthy(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the condition on a cluster's health that Rally checks for the given parameters."""
    colours = ["green", "yellow", "red"]
    status = parameters.get("wait_for_status")
    good = colours[: colours.index(status) + 1] if status in colours else colours
    settled = str(parameters.get("wait_for_no_relocating_shards")).lower() == "true"
    return {"status": {"one_of": good}} | ({"relocating_shards": {"at_most": 0}} if settled else {})


def repeated(part: Part, until: dict[str, Any]) -> Form:
    """Return how a request is repeated until something holds of its answer, or without that until it succeeds.

    Rally has no limit; here it is a day.
    """
    every = part.number("retry-wait-period", 0.5) or 0.5
    part.get("retries"), part.get("retry-until-success")
    return {"repeat": {**({"until": literal(until)} if until else {}), "every": f"{every:.15g}s", "within": "24h"}}


def retried(part: Part, form: Form) -> Form:
    """Return a request that is repeated until it succeeds; other forms are as they are."""
    return form | repeated(part, {}) if "request" in form else form


def index_stats(make: Making, part: Part, name: str) -> list[Form]:
    """Return the request for statistics, repeated until its condition holds if it says so."""
    (asked,) = make.request(part, "GET", f"/{make.target(part)}/_stats")
    condition = Part(part.mapping("condition"), f"{part.where}, condition")
    again = part.flag("retry-until-success", False)
    if not condition.data:
        return [asked]
    if not again:
        make.leave_out(name, "its condition, because it is asked once")
        return [asked]
    return [asked | repeated(part, {condition.text("path"): condition.get("expected-value")})]


def waiting(path: Callable[[Part], str], until: dict[str, Any]) -> Callable[[Making, Part, str], list[Form]]:
    """Return what makes a request that is repeated until something holds of its answer."""

    def waiting(make: Making, part: Part, _: str) -> list[Form]:
        part.asked.update(("completion-recheck-wait-period", "completion-recheck-attempts", "wait-for-completion"))
        (asked,) = make.request(part, "GET", path(part))
        return [asked | repeated(part, until)]

    return waiting


def force_merge(make: Making, part: Part, _: str) -> list[Form]:
    """Return a merge, which may take long."""
    # Without a number, or with -1, the store merges as its policy says.
    most = max(0, part.whole("max-num-segments", 0, least=-1))
    forms = make.on_collection(part, "force_merge", "_forcemerge", **({"max_segments": most} if most else {}))
    if most and "request" in forms[0]:
        forms[0]["request"].setdefault("parameters", {})["max_num_segments"] = most
    return [{**form, "timeout": "1h"} for form in forms]


def templates(section: str) -> Callable[[Making, Part, str], list[Form]]:
    """Return what makes the templates of a section of the track, or those that code made."""

    def templates(make: Making, part: Part, _: str) -> list[Form]:
        if given := part.get("templates"):
            return [_made_template(make, part, section, entry) for entry in given]
        wanted = part.get("template")
        part.get("settings"), part.get("body")
        forms = []
        for name, body in make.track.templates.get(section, {}).items():
            if wanted is None or wanted == name:
                forms.append(_template(make, part, section, name, body))
        return forms

    return templates


def delete_templates(section: str) -> Callable[[Making, Part, str], list[Form]]:
    """Return what removes the templates of a section that operations made."""

    def delete_templates(make: Making, part: Part, name: str) -> list[Form]:
        for key in ("only-if-exists", "delete-matching-indices", "index-pattern"):
            part.get(key)
        wanted = part.get("template")
        made = sorted(template for template in make.made.get(section, ()) if wanted in (None, template))
        if not made:
            make.leave_out(name, f"the removal of templates, {_NONE}")
        if section == "composable-templates":
            return [{"delete_template": {"name": template}} for template in made]
        return [form for template in made for form in make.request(part, "DELETE", TEMPLATES[section] + template)]

    return delete_templates


def _made_template(make: Making, part: Part, section: str, entry: Any) -> Form:
    """Return what makes a template that code made: a pair of its name and its body."""
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
        raise part.error("templates", "expected pairs of a name and a body")
    return _template(make, part, section, *entry)


def _template(make: Making, part: Part, section: str, name: str, body: Any) -> Form:
    make.note(section, name)
    definition = body.get("template", {}) if isinstance(body, dict) else None
    said = set(body) if isinstance(body, dict) else set()
    composed = section == "composable-templates" and said <= {"index_patterns", "template", "priority", *_COMPOSING}
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


def repository(make: Making, part: Part, _: str) -> list[Form]:
    """Return the creation of a repository for snapshots."""
    name, body = part.text("repository"), part.mapping("body")
    make.note("/_snapshot", name)
    settings = body.get("settings")
    location = settings.get("location") if isinstance(settings, dict) else None
    if body.get("type") != "fs" or not isinstance(settings, dict) or not isinstance(location, str) or not location:
        return make.request(part, "PUT", f"/_snapshot/{name}", body)
    more = {key: value for key, value in settings.items() if key != "location"}
    form = {"repository": literal(name), "location": literal(location)} | ({"settings": literal(more)} if more else {})
    return [{"create_repository": form}]


def snapshot(make: Making, part: Part, name: str) -> list[Form]:
    """Return the making of a snapshot."""
    form: dict[str, Any] = {"repository": part.text("repository"), "name": part.text("snapshot")}
    body = part.mapping("body")
    form["wait"] = part.flag("wait-for-completion", False)
    if body.get("indices"):
        form["collections"] = body["indices"]
    for key in [key for key in body if key not in ("indices", "include_global_state")] + list(make.parameters(part)):
        make.leave_out(name, f"{key} of the snapshot")
    return [{"snapshot": literal(form)}]


def field_capabilities(make: Making, part: Part, _: str) -> list[Form]:
    """Return the request for the fields that an index has."""
    fields = part.get("fields", "*")
    (form,) = make.request(part, "GET", f"/{make.target(part)}/_field_caps")
    wanted = fields if isinstance(fields, str) else ",".join(map(str, fields))
    form["request"].setdefault("parameters", {})["fields"] = literal(wanted)
    return [form]


def raw(make: Making, part: Part, name: str) -> list[Form]:
    """Return any call of the interface."""
    method, body = part.text("method", "GET").upper(), part.get("body")
    if method not in ("GET", "HEAD", "POST", "PUT", "DELETE"):
        raise part.error("method", f"{method} is not known")
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


def call(method: str, path: str, key: str, behind: str = "") -> Callable[[Making, Part, str], list[Form]]:
    """Return what makes a call whose path ends with the name that stands under a key, with the body if there is one."""

    def call(make: Making, part: Part, _: str) -> list[Form]:
        name = part.text(key)
        if method == "PUT":
            make.note(path, name)
        body = part.get("body")
        return make.request(part, method, f"{path}/{name}{behind}", body if body is None else part.mapping("body"))

    return call


def removal(path: str, key: str) -> Callable[[Making, Part, str], list[Form]]:
    """Return what removes, by its path, something that an operation made."""
    delete = call("DELETE", path, key)

    def removal(make: Making, part: Part, name: str) -> list[Form]:
        part.get("only-if-exists")
        if not make.has_made(path, part.text(key)):
            make.leave_out(name, f"{part.text('operation-type', name)}, {_NONE}")
            return []
        return delete(make, part, name)

    return removal
