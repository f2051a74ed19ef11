"""Operations: models of requests to a store, with one form per store family where they differ.

Dumped forms are the input of the engine's drivers, which build the requests. Bodies, paths and ids may contain
`${variable}` placeholders, which are filled per request.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from loadframe.workload.forms.answer import PLACES, Assertion, Captured, Chart
from loadframe.workload.forms.neutral import (
    Aggregate,
    Bulk,
    Consistency,
    Cql,
    Delete,
    DeleteDays,
    Durability,
    Find,
    Insert,
    Query,
    Read,
    ReadFrom,
    ReadModifyWrite,
    ReadPreference,
    Scan,
    Statements,
    TakeIn,
    Update,
    Upsert,
    WriteConcern,
)
from loadframe.workload.forms.repeat import Composite, Repeat, Scroll, SearchAfter, Visible
from loadframe.workload.forms.rest import Http
from loadframe.workload.forms.search import (
    Aggregation,
    Aliases,
    CountDocuments,
    CreateCollection,
    CreateRepository,
    DeleteCollection,
    DeleteSnapshot,
    DeleteTemplate,
    Eql,
    Esql,
    Flush,
    ForceMerge,
    Get,
    Index,
    IndexMany,
    Knn,
    ManageIndices,
    MultiSearch,
    PutSettings,
    PutTemplate,
    Refresh,
    Request,
    Rollover,
    Search,
    Shrink,
    Snapshot,
    Sql,
    WaitForHealth,
)
from loadframe.workload.holes import Positive, Text
from loadframe.yamlfile import Duration, Model, did_you_mean, short_json, wrong

Family = Literal["elasticsearch", "http", "cassandra", "mongodb", "redis", "couchbase", "postgresql"]

#: Request kinds that all store families support, and kinds of a single family.
NEUTRAL = ("insert", "read", "update", "upsert", "delete", "scan", "read_modify_write", "bulk", "take_in")
NATIVE: dict[Family, tuple[str, ...]] = {
    "elasticsearch": (
        *("search", "multi_search", "aggregation", "count", "sql", "esql", "eql", "knn"),
        *("scroll", "search_after", "composite"),
        *("get", "index", "index_many", "request"),
        *("create_collection", "delete_collection", "put_settings", "put_template", "delete_template", "aliases"),
        *("refresh", "flush", "force_merge", "rollover", "shrink", "manage_indices"),
        *("create_repository", "snapshot", "delete_snapshot", "wait_for_health"),
    ),
    "http": ("http",),
    "cassandra": ("cql", "delete_days"),
    "mongodb": ("find", "aggregate", "command", "delete_days"),
    "redis": ("command",),
    "couchbase": ("query",),
    "postgresql": ("sql",),
}
#: Families without neutral verbs: a REST service need not be a store.
_WITHOUT_NEUTRAL = ("http",)
#: Families that cannot ingest events.
_WITHOUT_INGEST = (*_WITHOUT_NEUTRAL, "redis", "couchbase", "postgresql")
#: Options that only one family supports.
_OPTIONS: dict[str, Family] = {
    "consistency": "cassandra",
    "durability": "couchbase",
    "write_concern": "mongodb",
    "read_preference": "mongodb",
    "database": "mongodb",
    "read_from": "postgresql",
    "repeat": "elasticsearch",
}
#: Verbs that write, and requests that members other than the primary can answer (MongoDB, then PostgreSQL).
_WRITES = tuple(kind for kind in NEUTRAL if kind not in ("read", "scan"))
_ANYWHERE = ("read", "scan", *(kind for kind in NATIVE["mongodb"] if kind != "delete_days"))
_FROM_REPLICAS = ("read", "scan", *NATIVE["postgresql"])
#: Verbs with a known effect on the number of documents.
_KNOWN_GROWTH = tuple(kind for kind in NEUTRAL if kind not in ("upsert", "bulk", "take_in"))
#: Kinds that consist of several requests, or of a different request each time.
_MULTI_REQUEST = (
    *("bulk", "take_in", "read_modify_write", "scroll", "search_after", "composite"),
    *("shrink", "manage_indices", "delete_days"),
)
#: Kinds that cannot probe visibility, because they write or consist of several requests.
_NOT_SINGLE_READS = (*_WRITES, *_MULTI_REQUEST, "index", "refresh", "flush", "force_merge")
#: Kinds with a single JSON answer, which a chart can show.
_CHARTABLE = (
    *(kind for kind in (*NATIVE["elasticsearch"], *NATIVE["http"]) if kind not in _MULTI_REQUEST),
    *("find", "aggregate"),
)
_KINDS = tuple(dict.fromkeys([*NEUTRAL, *(kind for kinds in NATIVE.values() for kind in kinds)]))


def _without(kind: str) -> tuple[str, ...]:
    """Return the families that do not support the neutral verb `kind`."""
    return _WITHOUT_INGEST if kind == "take_in" else _WITHOUT_NEUTRAL


def _sql(value: Any) -> str:
    """Return the union tag of an `sql` form: `a query` (with `query`, elasticsearch family), else `some statements`."""
    return "a query" if isinstance(value, Sql) or (isinstance(value, dict) and "query" in value) else "some statements"


class Form(Model):
    """A request: exactly one kind, with options such as `timeout`, `capture` and `assert`.

    Some options restrict it to one family: `consistency` to Cassandra, `durability` to Couchbase, `write_concern`,
    `read_preference` and `database` to MongoDB, `read_from` to PostgreSQL, `repeat` to search engines.
    """

    insert: Insert | None = None
    read: Read | None = None
    update: Update | None = None
    upsert: Upsert | None = None
    delete: Delete | None = None
    scan: Scan | None = None
    read_modify_write: ReadModifyWrite | None = None
    bulk: Bulk | None = None
    take_in: TakeIn | None = None
    search: Search | None = None
    multi_search: MultiSearch | None = None
    aggregation: Aggregation | None = None
    count: CountDocuments | None = None
    #: With `query`, for the elasticsearch family; otherwise for postgresql.
    sql: (
        Annotated[Annotated[Sql, Tag("a query")] | Annotated[Statements, Tag("some statements")], Discriminator(_sql)]
        | None
    ) = None
    esql: Esql | None = None
    eql: Eql | None = None
    knn: Knn | None = None
    scroll: Scroll | None = None
    search_after: SearchAfter | None = None
    composite: Composite | None = None
    get: Get | None = None
    index: Index | None = None
    index_many: IndexMany | None = None
    request: Request | None = None
    create_collection: CreateCollection | None = None
    delete_collection: DeleteCollection | None = None
    put_settings: PutSettings | None = None
    put_template: PutTemplate | None = None
    delete_template: DeleteTemplate | None = None
    aliases: Aliases | None = None
    refresh: Refresh | None = None
    flush: Flush | None = None
    force_merge: ForceMerge | None = None
    rollover: Rollover | None = None
    shrink: Shrink | None = None
    manage_indices: ManageIndices | None = None
    create_repository: CreateRepository | None = None
    snapshot: Snapshot | None = None
    delete_snapshot: DeleteSnapshot | None = None
    wait_for_health: WaitForHealth | None = None
    http: Http | None = None
    cql: Cql | None = None
    find: Find | None = None
    aggregate: Aggregate | None = None
    #: A mapping for mongodb, a list of words for redis.
    command: dict[str, Any] | list[Any] | None = None
    delete_days: DeleteDays | None = None
    query: Query | None = None
    timeout: Annotated[Duration, Field(gt=0)] | None = None
    consistency: Consistency | None = None
    durability: Durability | None = None
    write_concern: WriteConcern | None = None
    read_preference: ReadPreference | None = None
    #: The database of a mongodb command; default: the database of the collections.
    database: Text | None = None
    read_from: ReadFrom | None = None
    repeat: Repeat | None = None
    visible: Visible | None = None
    #: Growth in documents per successful request, or per document of a bulk request.
    new_documents: Annotated[float, Field(ge=0, le=1e6)] | None = None
    capture: dict[str, Captured] | None = None
    #: Whether the first execution of each distinct request is recorded separately.
    first: bool = False
    #: The ingest operation whose probed events the answers may include; records the age of the newest.
    shows: Text | None = None
    #: Chart of the answers in the live view.
    chart: Chart | None = None
    #: An additional target, instead of the store under test.
    target: Annotated[str, Field(min_length=1)] | None = None
    assert_: Assertion | None = Field(None, alias="assert")

    @model_validator(mode="after")
    def _check_kind(self) -> "Form":
        """Refuse other than exactly one kind of request, and options that it does not support."""
        kinds = [name for name in _KINDS if getattr(self, name) is not None]
        if len(kinds) > 1:
            what = f"{' and '.join(kinds)} exclude each other"
            raise wrong(what, "split them into separate operations", key=kinds[1])
        if not kinds:
            raise wrong("the operation lacks a request", f"add one of {', '.join(_KINDS)}")
        if self.command is not None and not self.command:
            raise wrong("the command is empty", key="command")
        kind = kinds[0]
        if self.consistency is not None and kind not in NEUTRAL:
            remedy = "move it into cql" if kind == "cql" else "remove consistency"
            raise wrong(f"consistency requires a neutral verb; got {kind}", remedy, key="consistency")
        for key in ("durability", "write_concern"):
            if getattr(self, key) is not None and kind not in _WRITES:
                in_command = key == "write_concern" and kind == "command"
                remedy = "use writeConcern inside command" if in_command else f"remove {key}"
                raise wrong(f"{key} requires a neutral verb that writes; got {kind}", remedy, key=key)
        if self.take_in is not None and self.write_concern == "unacknowledged":
            what = "take_in requires a write concern with acknowledgement, because it resends events that fail"
            raise wrong(what, "use acknowledged, or remove write_concern", key="write_concern")
        probes_events = self.take_in is not None and self.visible is not None
        if self.read_preference is not None and kind not in _ANYWHERE and not probes_events:
            what = f"read_preference requires a request that only reads; got {kind}"
            raise wrong(what, "remove read_preference", key="read_preference")
        if self.read_from is not None and kind not in _FROM_REPLICAS:
            what = f"read_from requires a request that only reads; got {kind}"
            raise wrong(what, "remove read_from", key="read_from")
        if self.repeat is not None and kind in _MULTI_REQUEST:
            what = f"repeat requires a single request; {kind} sends several or reads a corpus"
            raise wrong(what, "remove repeat", key="repeat")
        return self

    @model_validator(mode="after")
    def _check_capture_and_assert(self) -> "Form":
        """Refuse captured values and assertions that the kind of request does not support.

        `http` has its own capture; requests with several responses have none. Recall requires `k`.
        """
        kind = self.kind
        if self.capture is not None and kind == "http":
            raise wrong("http has its own capture", "move capture into http", key="capture")
        if self.capture is not None and kind in _MULTI_REQUEST:
            raise wrong(f"capture requires a single response; {kind} has several", "remove capture", key="capture")
        recall = self.assert_.recall if self.assert_ is not None else None
        if recall is not None and recall.k is None and self.knn is None:
            raise wrong("recall requires k", "add k, the number of hits to consider, to recall", key="assert")
        misplaced = self.assert_.misplaced(self._asserted(kind)) if self.assert_ is not None else None
        if misplaced is not None:
            raise wrong(misplaced, "remove the assertion", key="assert")
        return self

    @model_validator(mode="after")
    def _check_database(self) -> "Form":
        """Refuse `database` without `command`."""
        if self.database is not None and self.command is None:
            raise wrong(f"database requires command; got {self.kind}", "remove database", key="database")
        return self

    @model_validator(mode="after")
    def _check_visible(self) -> "Form":
        """Refuse `visible` for kinds other than single reads and `take_in`, with `repeat`, or with a wrong `sample`."""
        if self.visible is None:
            return self
        if self.repeat is not None:
            raise wrong("visible and repeat exclude each other: both repeat", "remove repeat", key="repeat")
        if self.take_in is not None:
            if self.visible.sample is None:
                what = "visible with take_in requires sample: it probes only some events"
                raise wrong(what, "add sample: 1s to probe one event per second", key="visible")
            return self
        if self.visible.sample is not None:
            raise wrong("sample requires take_in", "remove sample", key="visible")
        kind = self._not_single_read
        if kind is not None:
            what = f"visible requires a single request that reads; got {kind}"
            raise wrong(what, "use visible in a read that follows in a journey", key="visible")
        return self

    @model_validator(mode="after")
    def _check_first_and_shows(self) -> "Form":
        """Refuse `first` and `shows` for other requests than single reads."""
        key = "first" if self.first else "shows" if self.shows is not None else None
        if key is None:
            return self
        several = "repeat" if self.repeat is not None else "visible" if self.visible is not None else None
        several = several or self._not_single_read
        if several is not None:
            raise wrong(f"{key} requires a single request that reads; got {several}", f"remove {key}", key=key)
        return self

    @model_validator(mode="after")
    def _check_chart(self) -> "Form":
        """Refuse `chart` for requests without a single JSON answer."""
        if self.chart is not None and (self.kind not in _CHARTABLE or isinstance(self.sql, Statements)):
            what = f"chart requires a single answer of a search engine, MongoDB or REST interface; got {self.kind}"
            raise wrong(what, "remove chart", key="chart")
        return self

    @model_validator(mode="after")
    def _check_new_documents(self) -> "Form":
        """Refuse `new_documents` for kinds with a known effect on the number of documents."""
        known = next((kind for kind in _KNOWN_GROWTH if getattr(self, kind) is not None), None)
        if self.new_documents is not None and known is not None:
            what = f"new_documents does not apply to {known}, whose effect is known"
            raise wrong(what, "remove new_documents", key="new_documents")
        return self

    @property
    def _not_single_read(self) -> str | None:
        """The kind, if it writes, refreshes or merges, or consists of several requests; else None."""
        return next((kind for kind in _NOT_SINGLE_READS if getattr(self, kind) is not None), None)

    def _asserted(self, kind: str) -> str:
        """Return `kind`; for SQL of PostgreSQL, `statement` or `transaction`, the kinds that assertions distinguish."""
        if not isinstance(self.sql, Statements):
            return kind
        return "statement" if self.sql.transaction is None else "transaction"

    @property
    def kind(self) -> str:
        """The kind of request: `bulk`, `search`, ..."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @property
    def captured(self) -> set[str]:
        """The names of the values that it captures."""
        return {*(self.capture or {}), *(self.http.capture if self.http is not None else {})}

    @property
    def content(self) -> Any:
        """The body of the request: a model, or for `command` the command itself."""
        return getattr(self, self.kind)

    def fits(self, family: str) -> bool:
        """Return whether a family supports the request (see `known_to`); always true for one with its own target."""
        return self.target is not None or self.known_to(family)

    def known_to(self, family: str) -> bool:
        """Return whether a family supports the kind of request, its options and its places of captured values.

        `sql` and `command` fit by their shape: with `query` or not, a list or a mapping. A target is ignored.
        """
        if any(getattr(self, option) is not None and family != other for option, other in _OPTIONS.items()):
            return False
        if self._misplaced(family) is not None:
            return False
        if family != "elasticsearch" and self._routed:
            return False
        if self.kind == "command":
            return family == ("redis" if isinstance(self.command, list) else "mongodb")
        if self.kind == "sql":
            return family == ("elasticsearch" if isinstance(self.sql, Sql) else "postgresql")
        native = {str(name): kinds for name, kinds in NATIVE.items()}.get(family, ())
        return self.kind in native or (self.kind in NEUTRAL and family not in _without(self.kind))

    @property
    def _routed(self) -> bool:
        """Whether a neutral verb uses options of the elasticsearch family."""
        return self.kind in NEUTRAL and bool({"routing", "refresh"} & self.content.model_fields_set)

    def _misplaced(self, family: str) -> str | None:
        """Return the first place of a captured value, by name, that a family does not support; None if it supports all.

        Places are `field`, `header`, `json` and `reply`. An unknown family supports none.
        """
        places = {captured.place for captured in (self.capture or {}).values()}
        return next(iter(sorted(places - {*PLACES.get(family, ())})), None)

    def dump(self) -> dict[str, Any]:
        """Return the form for the plan: the keys that the file sets, durations in seconds.

        Nulls at the top level are dropped. The `k` of `recall` defaults to that of `knn`.
        """
        dumped = self.model_dump(exclude_unset=True, by_alias=True)
        recall = dumped.get("assert", {}).get("recall")
        if recall is not None and self.knn is not None:
            recall.setdefault("k", self.knn.k)
        return {key: value for key, value in dumped.items() if value is not None}


class Forms(Model):
    """An operation with one form per family, for the same logical work."""

    elasticsearch: Form | None = None
    http: Form | None = None
    cassandra: Form | None = None
    mongodb: Form | None = None
    redis: Form | None = None
    couchbase: Form | None = None
    postgresql: Form | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_options(cls, data: Any) -> Any:
        """Refuse an option of a form next to the families; the remedy shows its place."""
        if isinstance(data, dict):
            options = {field.alias or name for name, field in Form.model_fields.items()} - {*_KINDS, *cls.model_fields}
            for key in sorted(options & data.keys()):
                family = next(name for name in cls.model_fields if name in data)
                remedy = f"move it into each form: {family}: {{..., {key}: {short_json(data[key])}}}"
                raise wrong(f"{key!r} belongs inside the form of each family", remedy, key=key)
        return data

    @model_validator(mode="after")
    def _check_families(self) -> "Forms":
        """Refuse a form that its family does not support, and forms per family for an additional target."""
        for family, kinds in NATIVE.items():
            form: Form | None = getattr(self, family)
            if form is not None and form.target is not None:
                what = "an operation for a target must not have forms per family"
                raise wrong(what, "write the request without families", key=family)
            for option, other in _OPTIONS.items():
                if form is not None and getattr(form, option) is not None and family != other:
                    raise wrong(f"{family} does not support {option}", f"move {option} to {other}", key=family)
            misplaced = form._misplaced(family) if form is not None else None
            if misplaced is not None:
                remedy = f"use {' or '.join(PLACES[family])}" if family in PLACES else "move capture into http"
                raise wrong(f"{family} does not support capturing from {misplaced}", remedy, key=family)
            if form is not None and not form.fits(family):
                known = [*(kind for kind in NEUTRAL if family not in _without(kind)), *kinds]
                what = f"{family} does not support this form of {form.kind}"
                raise wrong(what, did_you_mean(form.kind, known), key=family)
        return self


def _shape(value: Any) -> str:
    """Return the union tag of an operation: `a form per family` if a key is a family, else `one form`."""
    families = isinstance(value, Forms) or (isinstance(value, dict) and any(_is_family(key, value) for key in NATIVE))
    return "a form per family" if families else "one form"


def _is_family(key: str, operation: dict[str, Any]) -> bool:
    """Return whether an operation has `key`, the name of a family (not checked), as a family.

    `http` is also a kind of request, so it is a family only if it holds a form.
    """
    below = operation.get(key)
    return key in operation and (
        key not in _KINDS or (isinstance(below, dict) and any(kind in below for kind in _KINDS))
    )


Operation = Annotated[
    Annotated[Form, Tag("one form")] | Annotated[Forms, Tag("a form per family")], Discriminator(_shape)
]


def form_for(operation: Form | Forms, family: str) -> Form | None:
    """Return an operation's form for a family, or None if it does not support the family.

    A single form may fit several families; one with a target fits all.
    """
    if isinstance(operation, Forms):
        form: Form | None = getattr(operation, family, None)
        return form
    return operation if operation.fits(family) else None


def families(operation: Form | Forms) -> list[Family]:
    """Return the families that an operation supports."""
    return [family for family in NATIVE if form_for(operation, family) is not None]


def every_form(operation: Form | Forms) -> dict[str, Form]:
    """Return the forms of an operation by family; a single form has the key ""."""
    if isinstance(operation, Form):
        return {"": operation}
    return {family: form for family in NATIVE if (form := getattr(operation, family)) is not None}


__all__ = [
    "NATIVE",
    "NEUTRAL",
    "Family",
    "Form",
    "Forms",
    "Operation",
    "Positive",
    "Text",
    "every_form",
    "families",
    "form_for",
]
