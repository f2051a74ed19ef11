"""A track's operations as operations of a workload: each becomes some forms, or is left out by name."""

from collections.abc import Callable
from typing import Any

from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally.track import TEMPLATES, Track
from loadframe.workload.importers.source import Part

Form = dict[str, Any]

#: What every operation may say and no workload needs.
_NO_MATTER = (
    *("name", "operation-type", "type", "param-source", "tags", "meta", "include-in-reporting", "detailed-results"),
    *("response-compression-enabled", "request-timeout", "assertions", "mode", "poll-period", "run-on-serverless"),
)
#: Operations that loadframe does by itself, and how.
_DONE_ANYWAY = {
    "delete-index": "each run begins with collections of its own",
    "delete-data-stream": "each run begins with collections of its own",
    "create-data-stream": "collections are made before the first phase",
    "delete-index-template": "the cluster has none",
    "delete-composable-template": "the cluster has none",
    "delete-component-template": "the cluster has none",
    "delete-pipeline": "the cluster has none",
    "delete-snapshot-repository": "the cluster has none",
}


class Operations:
    """Turns the operations of a track into forms."""

    def __init__(self, track: Track) -> None:
        self.track = track

    def forms(self, part: Part, name: str) -> list[Form]:
        """Return an operation's forms: none if it was left out, several if it stands for several requests."""
        kind = part.text("operation-type", name)
        part.asked.update(_NO_MATTER)
        if kind in _DONE_ANYWAY:
            self._leave_out(name, f"{kind}, because {_DONE_ANYWAY[kind]}")
            return []
        make = _KINDS.get(kind)
        if make is None:
            self._leave_out(name, f"operations of the type {kind}")
            return []
        forms = make(self, part, name)
        for key in part.rest() if forms else ():
            self._leave_out(name, key)
        if "request-timeout" in part.data and (seconds := part.number("request-timeout")):
            forms = [{**form, "timeout": f"{seconds:.15g}s"} for form in forms]
        return forms

    def _leave_out(self, name: str, what: str) -> None:
        self.track.leave_out(f"operation {name}: {what}")

    def _target(self, part: Part) -> str:
        """Return the index that an operation goes to, as it stands in a path."""
        target = part.get("index", part.get("data-stream", part.get("indices")))
        if isinstance(target, list) and all(isinstance(entry, str) for entry in target):
            target = ",".join(target)
        if isinstance(target, Hole):
            return target
        if target is not None and (not isinstance(target, str) or "/" in target):
            raise part.error("index", "expected the name of an index")
        return target or self.track.only_collection() or "_all"

    def _parameters(self, part: Part) -> dict[str, Any]:
        given = {}
        for key, value in part.mapping("request-params").items():
            if isinstance(value, dict):
                raise part.error("request-params", f"{key} is no single value")
            given[key] = literal(",".join(map(str, value)) if isinstance(value, list) else value)
        return given

    def _request(self, part: Part, method: str, path: str, body: Any = None) -> list[Form]:
        request: dict[str, Any] = {"method": method, "path": literal(path)}
        if body is not None:
            request["body"] = literal(body)
        if parameters := self._parameters(part):
            request["parameters"] = parameters
        return [{"request": request}]

    def _on_collection(self, part: Part, kind: str, path: str, **more: Any) -> list[Form]:
        """Return a form for a declared collection, or a request with the path for any other target."""
        target = self._target(part)
        if target in self.track.collections and not part.data.get("request-params"):
            return [{kind: {"collection": target, **more}}]
        return self._request(part, "POST", f"/{target}/{path}")

    def _search(self, part: Part, name: str) -> list[Form]:
        body = part.get("body", {})
        if not isinstance(body, dict):
            self._leave_out(name, "its body is no object")
            return []
        for key in ("pages", "with-point-in-time-from"):
            if part.get(key) not in (None, 1):
                self._leave_out(name, f"{key}: one page is asked for")
        search: dict[str, Any] = {"body": literal(body)}
        if part.get("results-per-page") is not None:
            search["size"] = part.whole("results-per-page", 10)
        if (cache := part.flag("cache")) is not None:
            search["request_cache"] = cache
        if parameters := self._parameters(part):
            cached = parameters.pop("request_cache", None)
            if isinstance(cached, str | bool):
                search["request_cache"] = str(cached).lower() == "true"
            search["parameters"] = parameters
        target = self._target(part)
        least = self._least_hits(part, name)
        if target in self.track.collections or isinstance(target, Hole):
            wanted = {"assert": {"min_hits": least}} if least else {}
            return [{"search": {"collection": target, **search}, **wanted}]
        more = {key: value for key, value in search.items() if key in ("size", "request_cache")}
        if least:
            self._leave_out(name, "its assertion, because it goes to more than one index")
        more |= search.get("parameters", {})
        return [{"request": {"method": "POST", "path": literal(f"/{target}/_search"), "body": search["body"]}
                 | ({"parameters": more} if more else {})}]  # fmt: skip

    def _least_hits(self, part: Part, name: str) -> int | None:
        least = None
        for assertion in part.parts("assertions"):
            told = [assertion.get(key) for key in ("property", "condition", "value")]
            if told[0] in ("hits.total.value", "hits.total", "hits") and told[1] in (">", ">=", "=="):
                least = assertion.whole("value", 0) + (told[1] == ">")
                if told[1] == "==":
                    self._leave_out(name, "that the number of hits is exact; it is a least one")
            else:
                self._leave_out(name, f"the assertion {' '.join(map(str, told))}")
        return least or None

    def _bulk(self, part: Part, name: str) -> list[Form]:
        if part.get("body") is not None:
            self._leave_out(name, "its documents are made by code")
            return []
        size = part.whole("bulk-size", 0)
        if not size:
            raise part.error("bulk-size", "a bulk operation has documents", "give their number per request")
        share = part.number("ingest-percentage", 100) or 0
        if not 0 < share <= 100:
            raise part.error("ingest-percentage", "expected a number above 0, at most 100")
        part.get("batch-size")
        chosen = self.track.documents(part.texts("corpora"), part.texts("indices"))
        forms = []
        for documents in chosen:
            target = documents.target
            if target is None:
                self._leave_out(name, f"the corpus {documents.of}, which names no index")
                continue
            if share < 100 and documents.documents is None:
                self._leave_out(name, "ingest-percentage, because the corpus does not say how many documents it has")
            elif share < 100:
                self._shorten(documents.corpus, max(1, round((documents.documents or 0) * share / 100)))
            forms.append(
                {"bulk": {"collection": self.track.collection(target), "corpus": documents.corpus, "size": size}}
            )
        if not forms:
            self._leave_out(name, "there are no documents for it")
        return forms

    def _shorten(self, corpus: str, documents: int) -> None:
        self.track.corpora[corpus]["documents"] = documents

    def _create_index(self, part: Part, name: str) -> list[Form]:
        if part.data.get("body") is not None:
            return self._request(part, "PUT", f"/{self._target(part)}", part.mapping("body"))
        settings = part.mapping("settings")
        for collection in self.track.collections.values():
            if settings:
                own = collection.setdefault("elasticsearch", {})
                own["settings"] = {**own.get("settings", {}), **literal(settings)}
        self._leave_out(name, "create-index, because collections are made before the first phase")
        return []

    def _force_merge(self, part: Part, _: str) -> list[Form]:
        least = part.whole("max-num-segments", 0)
        forms = self._on_collection(part, "force_merge", "_forcemerge", **({"max_segments": least} if least else {}))
        if least and "request" in forms[0]:
            forms[0]["request"].setdefault("parameters", {})["max_num_segments"] = least
        return [{**form, "timeout": "1h"} for form in forms]

    def _raw(self, part: Part, name: str) -> list[Form]:
        method, body = part.text("method", "GET").upper(), part.get("body")
        if method not in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            raise part.error("method", f"{method} is not known")
        if isinstance(body, list | str):
            self._leave_out(name, "raw-request, because its body is no JSON object")
            return []
        path = part.text("path")
        return self._request(part, method, path if path.startswith("/") else f"/{path}", body)

    def _health(self, part: Part, name: str) -> list[Form]:
        if part.flag("retry-until-success", False):
            self._leave_out(name, "retry-until-success: it is asked once, and waits as long as its parameters say")
        target = part.get("index")
        return self._request(
            part, "GET", f"/_cluster/health/{target}" if isinstance(target, str) else "/_cluster/health"
        )

    def _templates(self, part: Part, kind: str) -> list[Form]:
        if made := part.get("templates"):
            return [self._made_template(part, kind, entry) for entry in made]
        wanted = part.get("template")
        part.get("settings"), part.get("body")
        forms = self.track.templates.get(kind, [])
        return [form for form in forms if wanted is None or form["request"]["path"].endswith(f"/{wanted}")]

    def _made_template(self, part: Part, kind: str, entry: Any) -> Form:
        """Return the request for a template that code made: a pair of its name and its body."""
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise part.error("templates", "expected pairs of a name and a body")
        (form,) = self._request(part, "PUT", TEMPLATES[kind] + entry[0], entry[1])
        return form

    def _field_caps(self, part: Part, _: str) -> list[Form]:
        fields = part.get("fields", "*")
        (form,) = self._request(part, "GET", f"/{self._target(part)}/_field_caps")
        wanted = fields if isinstance(fields, str) else ",".join(map(str, fields))
        form["request"].setdefault("parameters", {})["fields"] = literal(wanted)
        return [form]


def _named(part: Part, method: str, path: str, key: str) -> tuple[str, str, Any]:
    return method, f"{path}/{part.text(key)}", part.mapping("body")


_Make = Callable[[Operations, Part, str], list[Form]]
_KINDS: dict[str, _Make] = {
    "bulk": Operations._bulk,
    "search": Operations._search,
    "paginated-search": Operations._search,
    "scroll-search": Operations._search,
    "composite-agg": Operations._search,
    "force-merge": Operations._force_merge,
    "refresh": lambda self, part, _: self._on_collection(part, "refresh", "_refresh"),
    "flush": lambda self, part, _: self._request(part, "POST", f"/{self._target(part)}/_flush"),
    "create-index": Operations._create_index,
    "create-index-template": lambda self, part, _: self._templates(part, "templates"),
    "create-component-template": lambda self, part, _: self._templates(part, "component-templates"),
    "create-composable-template": lambda self, part, _: self._templates(part, "composable-templates"),
    "cluster-health": Operations._health,
    "put-settings": lambda self, part, _: self._request(part, "PUT", "/_cluster/settings", part.mapping("body")),
    "put-pipeline": lambda self, part, _: self._request(part, *_named(part, "PUT", "/_ingest/pipeline", "id")),
    "create-snapshot-repository": lambda self, part, _: self._request(
        part, *_named(part, "PUT", "/_snapshot", "repository")
    ),
    "index-stats": lambda self, part, _: self._request(part, "GET", f"/{self._target(part)}/_stats"),
    "node-stats": lambda self, part, _: self._request(part, "GET", "/_nodes/stats"),
    "raw-request": Operations._raw,
    "sql": lambda self, part, _: self._request(part, "POST", "/_sql", part.mapping("body")),
    "esql": lambda self, part, _: self._request(part, "POST", "/_query", {"query": part.text("query")}),
    "field-caps": Operations._field_caps,
}
