"""Converts operations of a track to operations of a workload, and reports unsupported ones."""

import json
from collections.abc import Callable, Collection

from loadframe.workload.importers.imported import literal
from loadframe.workload.importers.rally import administration, searches
from loadframe.workload.importers.rally.track import Form, Track, TrackConversion
from loadframe.workload.importers.source import ImportedObject

#: Keys of operations without effect on the load.
_NO_MATTER = (
    *(
        "name",
        "description",
        "operation-type",
        "type",
        "param-source",
        "tags",
        "meta",
        "include-in-reporting",
        "detailed-results",
    ),
    *("response-compression-enabled", "request-timeout", "assertions", "mode", "poll-period", "run-on-serverless"),
)
#: Default conflict probability, in percent.
_CONFLICTS = 25
_PAUSE = "sleep is not supported; use think_time for pauses between the requests of a client"


class Operations:
    """Converts operations of a track to forms."""

    def __init__(self, track: Track, declared: Collection[str]) -> None:
        """`declared` are the names of the operations that the track declares, to suggest for unknown ones."""
        self.make = TrackConversion(track)
        #: Names of the operations that the track declares.
        self.declared = declared

    def forms(self, part: ImportedObject, name: str) -> list[Form]:
        """Return the forms of an operation in the order of their requests; empty if unsupported. Reports omissions.

        `part` is the operation with its parameters; `name` is its name in the track, or its type if it has none.
        Applies `request-timeout` and `retry-until-success`. BadInput for invalid values.
        """
        part.read_keys.update(_NO_MATTER)
        if self.leave_out_unknown(part, name):
            return []
        forms = _KINDS[part.text("operation-type", name)](self.make, part, name)
        if "retry-until-success" not in part.read_keys and part.flag("retry-until-success", False):
            forms = [administration.retried(part, form) for form in forms]
        for key in part.rest() if forms else ():
            self.make.track.leave_out_key(f"operation {name}", key, part)
            self.make.drop(name, f"{key} {json.dumps(part.data[key], sort_keys=True)}")
        if "request-timeout" in part.data and (seconds := part.number("request-timeout")):
            forms = [{**form, "timeout": f"{seconds:.15g}s"} for form in forms]
        return forms

    def leave_out_unknown(self, part: ImportedObject, name: str) -> bool:
        """Return whether an operation is of an unknown type; if so, report it."""
        kind = part.text("operation-type", name)
        if kind in _KINDS:
            return False
        unknown = self.make.track.unknown(kind, (*_KINDS, *self.declared), f"{part.where}")
        self.make.leave_out(name, _PAUSE if kind == "sleep" else unknown)
        return True


def is_known(kind: str) -> bool:
    """Return whether a type of operation is supported."""
    return kind in _KINDS


def _bulk(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a bulk operation: one form for each file of the corpora and indices that it names, or all.

    Adds the collections and the shares of corpora. Files and parts that are not supported are reported. BadInput for
    invalid options.
    """
    if part.get("body") is not None:
        make.leave_out(name, "code generates its documents")
        return []
    size = part.whole("bulk-size", 0)
    if not size:
        raise part.error("bulk-size", "must be at least 1", "set the number of documents per request")
    share = part.number("ingest-percentage", 100) or 0
    if not 0 < share <= 100:
        raise part.error("ingest-percentage", "expected a number above 0 and at most 100")
    part.get("batch-size")
    conflicts, sent = _conflicts(part), _bulk_options(make, part)
    forms = []
    for documents in make.track.documents(part.texts("corpora"), part.texts("indices")):
        target = documents.target
        if target is None:
            make.leave_out(name, f"the corpus {documents.of}, because it does not name an index")
            continue
        corpus = documents.corpus
        if share < 100 and documents.documents is None:
            make.leave_out(name, f"its ingest-percentage, because the number of documents of {documents.of} is unknown")
            continue
        if share < 100:
            corpus = make.track.share(documents, share)
        if conflicts and make.track.is_stream(make.track.collection(target)):
            make.leave_out(name, f"its conflicts, because {target} is a data stream, which only accepts new documents")
            continue
        if conflicts and make.track.corpora[corpus].get("actions"):
            make.leave_out(name, f"its conflicts, because {documents.of} has its own action lines")
            continue
        collection = make.track.collection(target)
        options = {"action": "create"} if make.track.is_stream(collection) else conflicts
        forms.append({"bulk": {"collection": collection, "corpus": corpus, "size": size, **options, **sent}})
    if not forms:
        make.leave_out(name, "the track lacks documents for it")
    return forms


def _bulk_options(make: TrackConversion, part: ImportedObject) -> Form:
    """Return the request options of a bulk operation, escaped: pipeline, routing, refresh and query parameters."""
    sent = {key: literal(part.data[key]) for key in ("pipeline", "routing", "refresh") if part.get(key) is not None}
    more = make.parameters(part)
    for key in ("timeout", "wait-for-active-shards", "require-alias"):
        if (value := part.get(key)) is not None:
            more.setdefault(key.replace("-", "_"), literal(value))
    # request-params take precedence.
    sent.update({key: more.pop(key) for key in ("pipeline", "routing", "refresh") if key in more})
    if sent.get("refresh") in ("true", "false", ""):
        sent["refresh"] = sent["refresh"] != "false"
    return {**sent, **({"parameters": more} if more else {})}


def _conflicts(part: ImportedObject) -> Form:
    """Return the conflict options of a bulk operation, with percentages converted to fractions; empty without any.

    BadInput for invalid options.
    """
    kind = part.get("conflicts")
    percent = part.number("conflict-probability", _CONFLICTS) or 0
    action, recency = part.get("on-conflict", "index"), part.number("recency", 0) or 0
    if kind is None:
        return {}
    if kind not in ("sequential", "random"):
        raise part.error("conflicts", f"unknown value {kind}", "use sequential or random")
    if action not in ("index", "update"):
        raise part.error("on-conflict", f"unknown value {action}", "use index or update")
    if percent > 100 or recency > 1:
        raise part.error("conflict-probability", "expected at most 100, and recency at most 1")
    return {
        "conflicts": kind,
        "conflict_probability": percent / 100,
        "on_conflict": action,
        **({"recency": recency} if recency else {}),
    }


_ML, _MLD, _TRANSFORM = "/_ml/anomaly_detectors", "/_ml/datafeeds", "/_transform"
_Make = Callable[[TrackConversion, ImportedObject, str], list[Form]]
_KINDS: dict[str, _Make] = {
    "bulk": _bulk,
    "search": searches.search,
    "vector-search": searches.vector_search,
    "bulk-vector-data-set": searches.bulk_vectors,
    "warmup-knn-indices": searches.warm_up,
    "train-knn-model": searches.train_model,
    "delete-knn-model": administration.removal("/_plugins/_knn/models", "model_id"),
    "scroll-search": searches.scroll,
    "paginated-search": searches.search_after,
    "composite-agg": searches.composite_aggregation,
    "composite": searches.in_point_in_time,
    "sql": searches.sql,
    "esql": searches.esql,
    "field-caps": administration.field_capabilities,
    "force-merge": administration.force_merge,
    "refresh": lambda make, part, _: make.on_collection(part, "refresh", "_refresh"),
    "flush": lambda make, part, _: make.on_collection(part, "flush", "_flush"),
    "create-index": administration.create_index,
    "delete-index": administration.delete_index,
    "create-data-stream": administration.create_data_stream,
    "delete-data-stream": administration.delete_data_stream,
    "create-index-template": administration.templates("templates"),
    "delete-index-template": administration.delete_templates("templates"),
    "create-component-template": administration.templates("component-templates"),
    "delete-component-template": administration.delete_templates("component-templates"),
    "create-composable-template": administration.templates("composable-templates"),
    "delete-composable-template": administration.delete_templates("composable-templates"),
    "shrink-index": administration.shrink,
    "cluster-health": administration.health,
    "put-settings": lambda make, part, _: make.request(part, "PUT", "/_cluster/settings", part.mapping("body")),
    "put-pipeline": administration.call("PUT", "/_ingest/pipeline", "id"),
    "delete-pipeline": administration.removal("/_ingest/pipeline", "id"),
    "create-ilm-policy": administration.call("PUT", "/_ilm/policy", "policy-name"),
    "delete-ilm-policy": administration.removal("/_ilm/policy", "policy-name"),
    "create-snapshot-repository": administration.repository,
    "delete-snapshot-repository": administration.removal("/_snapshot", "repository"),
    "create-snapshot": administration.snapshot,
    "index-stats": administration.index_stats,
    "wait-for-snapshot-create": administration.waiting(
        lambda part: f"/_snapshot/{part.text('repository')}/{part.text('snapshot')}/_status",
        {"/snapshots/0/state": "SUCCESS"},
    ),
    "wait-for-recovery": administration.waiting(
        lambda part: f"/_cluster/health/{part.text('index')}",
        {"initializing_shards": {"at_most": 0}, "relocating_shards": {"at_most": 0}},
    ),
    "wait-for-transform": administration.waiting(
        lambda part: f"{_TRANSFORM}/{part.text('transform-id')}/_stats", {"/transforms/0/state": "stopped"}
    ),
    "node-stats": lambda make, part, _: make.request(part, "GET", "/_nodes/stats"),
    "create-transform": administration.call("PUT", _TRANSFORM, "transform-id"),
    "start-transform": administration.call("POST", _TRANSFORM, "transform-id", "/_start"),
    "delete-transform": administration.removal(_TRANSFORM, "transform-id"),
    "create-ml-datafeed": administration.call("PUT", _MLD, "datafeed-id"),
    "start-ml-datafeed": administration.call("POST", _MLD, "datafeed-id", "/_start"),
    "stop-ml-datafeed": administration.call("POST", _MLD, "datafeed-id", "/_stop"),
    "delete-ml-datafeed": administration.removal(_MLD, "datafeed-id"),
    "create-ml-job": administration.call("PUT", _ML, "job-id"),
    "open-ml-job": administration.call("POST", _ML, "job-id", "/_open"),
    "close-ml-job": administration.call("POST", _ML, "job-id", "/_close"),
    "delete-ml-job": administration.removal(_ML, "job-id"),
    "raw-request": administration.raw,
}
