"""An operation as a whole: one form for every family that has the request, or a form for each family."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from loadframe.workload.forms.answer import PLACES, Assertion, Captured
from loadframe.workload.forms.cassandra import Consistency, Cql
from loadframe.workload.forms.chart import Chart
from loadframe.workload.forms.couchbase import Durability, Query
from loadframe.workload.forms.mongodb import Aggregate, Find, ReadPreference, WriteConcern
from loadframe.workload.forms.neutral import (
    Bulk,
    Delete,
    DeleteDays,
    Insert,
    Read,
    ReadModifyWrite,
    Scan,
    TakeIn,
    Update,
    Upsert,
)
from loadframe.workload.forms.postgresql import ReadFrom, Statements
from loadframe.workload.forms.repeat import Composite, Repeat, Scroll, SearchAfter, Visible
from loadframe.workload.forms.rest import Http
from loadframe.workload.forms.search import (
    Aggregation,
    CountDocuments,
    Eql,
    Esql,
    Get,
    Index,
    IndexMany,
    Knn,
    MultiSearch,
    Request,
    Search,
    Sql,
)
from loadframe.workload.forms.search_admin import (
    Aliases,
    CreateCollection,
    CreateRepository,
    DeleteCollection,
    DeleteSnapshot,
    DeleteTemplate,
    Flush,
    ForceMerge,
    ManageIndices,
    PutSettings,
    PutTemplate,
    Refresh,
    Rollover,
    Shrink,
    Snapshot,
    WaitForHealth,
)
from loadframe.workload.forms.values import Text
from loadframe.yamlfile import Duration, Model, did_you_mean, shown, wrong

Family = Literal["elasticsearch", "http", "cassandra", "mongodb", "redis", "couchbase", "postgresql"]

#: Forms that every family of stores understands, and those that only one family has.
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
#: A service behind a REST interface need not be a store.
_WITHOUT_NEUTRAL = ("http",)
#: Families that cannot add events to documents one by one.
_NOT_TAKING_IN = (*_WITHOUT_NEUTRAL, "redis", "couchbase", "postgresql")
#: Options that only one family knows.
_OPTIONS: dict[str, Family] = {
    "consistency": "cassandra",
    "durability": "couchbase",
    "write_concern": "mongodb",
    "read_preference": "mongodb",
    "database": "mongodb",
    "read_from": "postgresql",
    "repeat": "elasticsearch",
}
#: Verbs that write, and requests that other members than the primary can answer.
_WRITES = tuple(kind for kind in NEUTRAL if kind not in ("read", "scan"))
_ANYWHERE = ("read", "scan", *(kind for kind in NATIVE["mongodb"] if kind != "delete_days"))
_FROM_REPLICAS = ("read", "scan", *NATIVE["postgresql"])
#: Verbs that add, remove or leave documents whatever else is said.
_KNOWN_TO_ADD = tuple(kind for kind in NEUTRAL if kind not in ("upsert", "bulk", "take_in"))
#: What consists of several requests, or has others each time.
_OF_SEVERAL = (
    *("bulk", "take_in", "read_modify_write", "scroll", "search_after", "composite"),
    *("shrink", "manage_indices", "delete_days"),
)
#: Requests that cannot look for what another one has written.
_NOT_LOOKING = tuple(kind for kind in (*_WRITES, *_OF_SEVERAL, "index", "refresh", "flush", "force_merge"))
#: Requests whose one answer is JSON as a whole.
_DRAWN = (
    *(kind for kind in (*NATIVE["elasticsearch"], *NATIVE["http"]) if kind not in _OF_SEVERAL),
    *("find", "aggregate"),
)
_KINDS = tuple(dict.fromkeys([*NEUTRAL, *(kind for kinds in NATIVE.values() for kind in kinds)]))


def _without(kind: str) -> tuple[str, ...]:
    """Return the families that lack a neutral verb."""
    return _NOT_TAKING_IN if kind == "take_in" else _WITHOUT_NEUTRAL


def _sql(value: Any) -> str:
    """Tell a query of the elasticsearch family from statements of postgresql."""
    return "a query" if isinstance(value, Sql) or (isinstance(value, dict) and "query" in value) else "some statements"


class Form(Model):
    """One kind of request, when it counts as timed out, and what is asserted of its answer.

    One with a `consistency` is for Cassandra alone, one with a `write_concern` or `read_preference` for MongoDB,
    one with `read_from` for PostgreSQL.
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
    #: With a `query` one of the elasticsearch family, otherwise one of postgresql.
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
    #: A mapping is one of mongodb, a list of words one of redis.
    command: dict[str, Any] | list[Any] | None = None
    delete_days: DeleteDays | None = None
    query: Query | None = None
    timeout: Annotated[Duration, Field(gt=0)] | None = None
    consistency: Consistency | None = None
    durability: Durability | None = None
    write_concern: WriteConcern | None = None
    read_preference: ReadPreference | None = None
    #: Where a command of mongodb is carried out; if not given, where the collections are.
    database: Text | None = None
    read_from: ReadFrom | None = None
    repeat: Repeat | None = None
    visible: Visible | None = None
    #: How many documents more there are with each document of a bulk request, or each other request that succeeds.
    new_documents: Annotated[float, Field(ge=0, le=1e6)] | None = None
    capture: dict[str, Captured] | None = None
    #: Whether the first execution of each request is recorded apart from later ones.
    first: bool = False
    #: The operation that takes in the events which the answers show: how old the newest of these is is recorded.
    shows: Text | None = None
    #: How its answer is drawn for those who watch a run.
    chart: Chart | None = None
    #: The name of another target than the one that is measured.
    target: Annotated[str, Field(min_length=1)] | None = None
    assert_: Assertion | None = Field(None, alias="assert")

    @model_validator(mode="after")
    def _one_kind(self) -> "Form":
        kinds = [name for name in _KINDS if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise wrong(f"one request cannot be {' and '.join(kinds)}", "make two operations of it", key=kinds[1])
        if not kinds:
            raise wrong("the operation has no request", f"say one of {', '.join(_KINDS)}")
        if self.command is not None and not self.command:
            raise wrong("the command is empty", key="command")
        if self.consistency is not None and kinds[0] not in NEUTRAL:
            remedy = "say it inside cql" if kinds[0] == "cql" else "remove it"
            raise wrong(f"consistency stands beside neutral verbs, and this is {kinds[0]}", remedy, key="consistency")
        if self.durability is not None and kinds[0] not in _WRITES:
            what = f"durability stands beside verbs that write, and this is {kinds[0]}"
            raise wrong(what, "remove it", key="durability")
        if self.write_concern is not None and kinds[0] not in _WRITES:
            remedy = "say writeConcern inside the command" if kinds[0] == "command" else "remove it"
            what = f"write_concern stands beside verbs that write, and this is {kinds[0]}"
            raise wrong(what, remedy, key="write_concern")
        looks_for_events = self.take_in is not None and self.visible is not None
        if self.read_preference is not None and kinds[0] not in _ANYWHERE and not looks_for_events:
            what = f"read_preference stands beside what only reads, and this is {kinds[0]}"
            raise wrong(what, "remove it", key="read_preference")
        if self.read_from is not None and kinds[0] not in _FROM_REPLICAS:
            what = f"read_from stands beside what only reads, and this is {kinds[0]}"
            raise wrong(what, "remove it", key="read_from")
        if self.repeat is not None and kinds[0] in _OF_SEVERAL:
            what = f"only a single request can be repeated, and {kinds[0]} is several or reads a corpus"
            raise wrong(what, "remove it", key="repeat")
        if self.capture is not None and kinds[0] in (*_OF_SEVERAL, "http"):
            what = f"one answer gives values, and {kinds[0]} has several"
            remedy = "say it inside http" if kinds[0] == "http" else "remove it"
            raise wrong("http has its own capture" if kinds[0] == "http" else what, remedy, key="capture")
        recall = self.assert_.recall if self.assert_ is not None else None
        if recall is not None and recall.k is None and self.knn is None:
            raise wrong("recall wants to know among how many hits", "say k inside it", key="assert")
        misplaced = self.assert_.misplaced(self._asserted(kinds[0])) if self.assert_ is not None else None
        if misplaced is not None:
            raise wrong(misplaced, "remove it", key="assert")
        return self

    @model_validator(mode="after")
    def _is_where_collections_are(self) -> "Form":
        if self.database is not None and self.command is None:
            what = f"only a command may be for another database, and this is {self.kind}"
            raise wrong(what, "remove it", key="database")
        return self

    @model_validator(mode="after")
    def _looks_for_what_is_written(self) -> "Form":
        if self.visible is None:
            return self
        if self.repeat is not None:
            raise wrong("a request that looks until it sees is repeated already", "remove repeat", key="repeat")
        if self.take_in is not None:
            if self.visible.sample is None:
                what = "of the events that take_in brings only some can be looked for"
                raise wrong(what, "say sample: 1s, for one in each second", key="visible")
            return self
        if self.visible.sample is not None:
            what = "a sample is one of the events that take_in brings, and all else is looked for each time"
            raise wrong(what, "remove sample", key="visible")
        writing = next((kind for kind in _NOT_LOOKING if getattr(self, kind) is not None), None)
        if writing is not None:
            what = f"only one request that reads can look for what was written, and this is {writing}"
            raise wrong(what, "make an operation that reads, and let it follow in a journey", key="visible")
        return self

    @model_validator(mode="after")
    def _is_a_question(self) -> "Form":
        key = "first" if self.first else "shows" if self.shows is not None else None
        if key is None:
            return self
        several = "repeat" if self.repeat is not None else "visible" if self.visible is not None else None
        several = several or next((kind for kind in _NOT_LOOKING if getattr(self, kind) is not None), None)
        if several is not None:
            what = f"{key} is said of one request that reads, and this is {several}"
            raise wrong(what, "remove it", key=key)
        return self

    @model_validator(mode="after")
    def _is_answered_once(self) -> "Form":
        if self.chart is not None and (self.kind not in _DRAWN or isinstance(self.sql, Statements)):
            what = f"only one answer of a search engine, MongoDB or a REST interface is drawn; this is {self.kind}"
            raise wrong(what, "remove it", key="chart")
        return self

    @model_validator(mode="after")
    def _adds_what_it_adds(self) -> "Form":
        known = next((kind for kind in _KNOWN_TO_ADD if getattr(self, kind) is not None), None)
        if self.new_documents is not None and known is not None:
            what = f"what {known} does to the number of documents is known"
            raise wrong(what, "remove it", key="new_documents")
        return self

    def _asserted(self, kind: str) -> str:
        """Return what kind of answer an assertion is about, where that depends on more than the form's name."""
        if not isinstance(self.sql, Statements):
            return kind
        return "statement" if self.sql.transaction is None else "transaction"

    @property
    def kind(self) -> str:
        """The form's name: `bulk`, `search`, ..."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @property
    def taken(self) -> set[str]:
        """The names of the values that are taken from its answer."""
        return {*(self.capture or {}), *(self.http.capture if self.http is not None else {})}

    @property
    def content(self) -> Any:
        """What the form says: a model, or for a `command` the command itself."""
        return getattr(self, self.kind)

    def fits(self, family: str) -> bool:
        """Tell whether stores of a family know the request, or it is for a target of its own."""
        return self.target is not None or self.known_to(family)

    def known_to(self, family: str) -> bool:
        """Tell whether a family has the request."""
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
        """Whether a verb says what only the elasticsearch family has."""
        return self.kind in NEUTRAL and bool({"routing", "refresh"} & self.content.model_fields_set)

    def _misplaced(self, family: str) -> str | None:
        """Return a place in answers that a value is taken from and that a family's answers do not have."""
        places = {captured.place for captured in (self.capture or {}).values()}
        return next(iter(sorted(places - {*PLACES.get(family, ())})), None)

    def dump(self) -> dict[str, Any]:
        """Return the form as drivers take it: what the file says and no more, the timeout in seconds."""
        said = self.model_dump(exclude_unset=True, by_alias=True)
        recall = said.get("assert", {}).get("recall")
        if recall is not None and self.knn is not None:
            recall.setdefault("k", self.knn.k)
        return {key: value for key, value in said.items() if value is not None}


class Forms(Model):
    """One operation in a form per family: the same logical work on each."""

    elasticsearch: Form | None = None
    http: Form | None = None
    cassandra: Form | None = None
    mongodb: Form | None = None
    redis: Form | None = None
    couchbase: Form | None = None
    postgresql: Form | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_families_only(cls, data: Any) -> Any:
        """Refuse an option of a form that stands beside the families, and say where it belongs."""
        if isinstance(data, dict):
            options = {field.alias or name for name, field in Form.model_fields.items()} - {*_KINDS, *cls.model_fields}
            for key in sorted(options & data.keys()):
                family = next(name for name in cls.model_fields if name in data)
                remedy = f"move it into each form: {family}: {{..., {key}: {shown(data[key])}}}"
                raise wrong(f"{key!r} stands beside the forms of families, and belongs inside each", remedy, key=key)
        return data

    @model_validator(mode="after")
    def _known_to_each(self) -> "Forms":
        for family, kinds in NATIVE.items():
            form: Form | None = getattr(self, family)
            if form is not None and form.target is not None:
                raise wrong("a target has one family", "write the request without families", key=family)
            for option, other in _OPTIONS.items():
                if form is not None and getattr(form, option) is not None and family != other:
                    raise wrong(f"{family} does not have {option}", f"say it under {other}", key=family)
            misplaced = form._misplaced(family) if form is not None else None
            if misplaced is not None:
                remedy = f"say {' or '.join(PLACES[family])}" if family in PLACES else "say it inside http"
                raise wrong(f"answers of {family} have no {misplaced} to take a value from", remedy, key=family)
            if form is not None and not form.fits(family):
                known = [*(kind for kind in NEUTRAL if family not in _without(kind)), *kinds]
                raise wrong(f"{family} has no {form.kind} of this form", did_you_mean(form.kind, known), key=family)
        return self


def _shape(value: Any) -> str:
    """Tell a mapping of families from a form; what is neither is checked as a form."""
    families = isinstance(value, Forms) or (isinstance(value, dict) and any(_is_family(key, value) for key in NATIVE))
    return "a form per family" if families else "one form"


def _is_family(key: str, operation: dict[str, Any]) -> bool:
    """`http` is a family, under which a form stands, and a kind of request, under which a request stands."""
    below = operation.get(key)
    return key in operation and (
        key not in _KINDS or (isinstance(below, dict) and any(kind in below for kind in _KINDS))
    )


Operation = Annotated[
    Annotated[Form, Tag("one form")] | Annotated[Forms, Tag("a form per family")], Discriminator(_shape)
]


def form_for(operation: Form | Forms, family: str) -> Form | None:
    """Return an operation's form for a family; None if it has none."""
    if isinstance(operation, Forms):
        form: Form | None = getattr(operation, family, None)
        return form
    return operation if operation.fits(family) else None


def families(operation: Form | Forms) -> list[Family]:
    """Return the families that an operation has a form for."""
    return [family for family in NATIVE if form_for(operation, family) is not None]


def every_form(operation: Form | Forms) -> dict[str, Form]:
    """Return the forms that an operation is written in, by family; a direct one under the empty name."""
    if isinstance(operation, Form):
        return {"": operation}
    return {family: form for family in NATIVE if (form := getattr(operation, family)) is not None}
