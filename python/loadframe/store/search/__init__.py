"""Elasticsearch and OpenSearch: administration over HTTP that both share; each is a module next to this package."""

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import counted
from loadframe.store.access import OPEN, Access, Auth, first_answer
from loadframe.store.base import Figure, Health, Member, RunningSetting, Sample, Store, Unreachable, Watch
from loadframe.store.exploring import Findings, Kind, Question, require_known
from loadframe.store.search import collections, exploring, membership
from loadframe.store.search.exploring import Field
from loadframe.store.web import Answer, UnansweredError, UnsentError, Web

#: Documents in a bulk request, and its time-out, s.
_BULK, _BULK_TIMEOUT = 5000, 60.0

#: Request timeout, s. Creating a collection and merging take long on half a CPU.
_TIMEOUT = 90.0
#: Methods of requests that change nothing.
_READS = ("GET", "HEAD")
_TOO_MANY = 429
#: Statuses of services that manage their nodes, for requests about nodes.
_NOT_OFFERED = (404, 410)
#: Health status of such a service.
UNKNOWN = "unknown"
#: Version of OpenSearch Serverless.
SERVERLESS = "serverless"
#: Longest time until a search finds new documents, if the service does not refresh on request, s.
_COUNT_LAG = 90.0
_UNAUTHORIZED = 401
_DENIED = {
    _UNAUTHORIZED: "give credentials: --user, --api-key-file, --token-file, or --aws-service for AWS",
    403: "use an account with the required privilege",
}
#: Parts of the reasons of 401 and 403 -> remedy.
_DENIALS = {
    "signature we calculated": "check the secret access key, --aws-service and --aws-region",
    "credential should be scoped": "correct --aws-service and --aws-region",
    "signature expired": "set this machine's clock: signatures are valid for 5 minutes",
    "signature not yet current": "set this machine's clock: signatures are valid for 5 minutes",
    "security token included in the request is expired": "renew the AWS key in the environment or the profile",
    "security token included in the request is invalid": "check the access key ID and the session token",
    "expired": "renew the key or token",
    "missing authentication token": "sign requests with --aws-service es",
}
#: Service name of OpenSearch Serverless, which lacks `GET /` and has the API of OpenSearch 2.
_SERVERLESS = "aoss"
_SERVERLESS_VERSION = "2.11.0"


class NotOffered(LoadframeError):
    """The service does not support the request, or its target does not exist."""


class AccessDenied(BadInput):
    """The account may not send the request, or the credentials are wrong."""


#: Answers of services that do not show their nodes.
_HIDDEN = (NotOffered, AccessDenied)


class SearchStore(Store):
    """Code that all stores of the family share.

    Methods that send requests raise the errors of `request`. `watch` gets the progress of waits, and may end them by an
    error.
    """

    family = "elasticsearch"
    driver = "search"
    new_ids = True
    speaks_http = True
    joins_without_all = True
    knows_racks = True
    explores = True
    #: Path of the sections of a node's statistics that we read.
    _sections = "/process,jvm,thread_pool,indices,breaker,indexing_pressure"
    watched: tuple[Figure, ...] = (
        Figure("queries/s", "search_query_total", total=True),
        Figure("indexed/s", "indexing_total", total=True),
        Figure("searches", "search_active"),
        Figure("queued", "search_queue"),
        Figure("writes", "write_active"),
        Figure("queued", "write_queue"),
        Figure("heap %", "heap_percent"),
        Figure("documents", "documents"),
        Figure("data", "store_bytes", size=True),
    )

    def __init__(self, access: Access = OPEN) -> None:
        """Create the store. Its HTTP client uses `access`, and keeps connections open for statistics every second."""
        self._silence_hint = access.silence_hint
        self._auth = access.auth
        self._web = Web(access, timeout=_TIMEOUT)
        self._hidden: dict[str, None] = {}
        self._is_serverless = bool(access.auth and access.auth.aws and access.auth.aws.service == _SERVERLESS)

    def with_access(self, access: Access) -> Self:
        """Return the store with TLS, credentials and compression as in `access`."""
        return self if access == OPEN else type(self)(access)

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return the same text for all settings: durability `request`, unless the collection sets another."""
        return "index.translog.durability request, unless the collection has another"

    @property
    def hidden(self) -> list[str]:
        """Names of the figures that the service has refused to show so far, such as `health`."""
        return list(self._hidden)

    def request(
        self,
        addresses: Sequence[str],
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        timeout: float | None = None,
        *,
        repeatable: bool = False,
    ) -> Any:
        """Send a request to the first address that answers, and return its JSON; LoadframeError for status 400 and up.

        That error is AccessDenied (a BadInput) for 401 and 403, NotOffered for 404 and 410, StoreFailed for 429 and
        from 500 up. BadInput for a redirect or other content. A request that changes something and is not `repeatable`
        goes to the next address only if it could not be sent. StoreFailed if it was sent but not answered, otherwise
        Unreachable without an answer. `timeout` limits each read and write, s; by default 90 s. A sequence `body` is
        sent as JSON lines.
        """

        def ask(address: str) -> Answer:
            return self._web.request(address, method, path, body=body, timeout=timeout)

        again = repeatable or method in _READS
        try:
            answer = first_answer(addresses, ask, UnansweredError, UnsentError, repeatable=again)
        except UnansweredError as error:
            if not again and not isinstance(error, UnsentError):
                raise StoreFailed(
                    f"{method} {path} was not answered ({error}); it may have been carried out",
                    where=error.address,
                    remedy="check the cluster (`loadframe cluster status`) before you try again",
                ) from error
            raise self._unreachable(addresses, str(error)) from error
        return _content(answer, method, path, self._auth)

    def _unreachable(self, addresses: Sequence[str], reason: str) -> LoadframeError:
        """Return the Unreachable for an unanswered request; BadInput if the server requires a client certificate."""
        if "certificate required" in reason.lower():
            return BadInput(
                "the server requires a client certificate", where=addresses[-1], remedy="give --cert and --key"
            )
        remedy = f"check that it runs, and that the addresses name its HTTP interface{self._silence_hint}"
        return Unreachable(f"the cluster does not answer ({reason})", where=", ".join(addresses), remedy=remedy)

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, preceded by the product's name if it is not of this kind; BadInput for other servers.

        A server that names no product is `elasticsearch`. For a serverless service that hides its version,
        `serverless`. Stores whether the service is serverless.
        """
        try:
            answer = self.request(addresses, "GET", "/")
        except NotOffered as error:
            if self._is_serverless:
                return SERVERLESS
            raise BadInput(
                f"not a cluster of {self.kind}: {error.what}",
                where=error.where,
                remedy="give the address of the cluster's HTTP interface, or another --store",
            ) from error
        version = answer.get("version") if isinstance(answer, dict) else None
        self._is_serverless |= isinstance(version, dict) and version.get("build_flavor") == SERVERLESS
        if not isinstance(version, dict) or "number" not in version:
            raise BadInput(
                f"not a cluster of {self.kind}: the answer lacks a version",
                where=", ".join(addresses),
                remedy="give the address of the cluster's HTTP interface, or another --store",
            )
        number, distribution = str(version["number"]), str(version.get("distribution", "elasticsearch"))
        return number if distribution == self.kind else f"{distribution} {number}"

    def software(self, version: str) -> dict[str, str]:
        """Split a result of `version` into `distribution` (the product) and `version`, for drivers that need them.

        A serverless service counts as 2.11.0, the version whose API it has.
        """
        return super().software(_SERVERLESS_VERSION if version == SERVERLESS else version)

    def require_product(self, addresses: Sequence[str], version: str) -> None:
        """Raise BadInput if `version` names another product than this kind, and for unsupported versions."""
        product, _, _ = version.rpartition(" ")
        if product:
            raise BadInput(
                f"this is {version}, not {self.kind}",
                where=", ".join(addresses),
                remedy=f"give --store {product}",
            )
        super().require_product(addresses, version)

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if the status is green; unassigned and initializing shards are missing.

        `declared` is given for the status yellow only. Nodes are those that hold data, without dedicated cluster
        managers and coordinating nodes. A service that hides its health counts as ready, and that is recorded in
        `hidden`.
        """
        try:
            answer = self.request(addresses, "GET", "/_cluster/health", timeout=10.0)
        except _HIDDEN:
            self._hidden["health"] = None
            return Health(ready=True, status=UNKNOWN, nodes=len(addresses), moving=0, missing=0)
        return Health(
            ready=answer["status"] == "green",
            status=answer["status"],
            nodes=answer.get("number_of_data_nodes", answer["number_of_nodes"]),
            moving=answer["relocating_shards"],
            missing=answer["unassigned_shards"] + answer["initializing_shards"],
            declared=self._declared(addresses) if answer["status"] == "yellow" else (),
        )

    def _declared(self, addresses: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """Return (number of primary shards, copies of each with the primary) for each index."""
        answer = self.request(addresses, "GET", "/_cluster/health?level=indices", timeout=10.0)
        indices = answer.get("indices", {}).values()
        return tuple((index["number_of_shards"], 1 + index["number_of_replicas"]) for index in indices)

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Set persistent, dynamic cluster settings by their dotted names; LoadframeError if the store refuses one.

        None resets a setting to its default.
        """
        self.request(addresses, "PUT", "/_cluster/settings", {"persistent": dict(settings)})

    def running_settings(self, addresses: Sequence[str], names: Sequence[str]) -> dict[str, RunningSetting]:
        """Return cluster settings by dotted name: values as JSON text, and the persistent value as explicit, else None.

        BadInput for a setting that is unknown, or set as transient.
        """
        answer = self.request(addresses, "GET", "/_cluster/settings?flat_settings=true&include_defaults=true")
        settings = {}
        for name in names:
            if name in answer.get("transient", {}):
                raise BadInput(
                    f"{name} is set as a transient setting, which overrides persistent ones",
                    remedy=f'reset it: PUT /_cluster/settings {{"transient": {{"{name}": null}}}}',
                )
            explicit = answer.get("persistent", {}).get(name)
            default = answer.get("defaults", {}).get(name)
            if explicit is None and default is None and name not in answer.get("defaults", {}):
                raise BadInput(
                    f"the cluster does not have the setting {name}",
                    remedy="see GET /_cluster/settings?flat_settings=true&include_defaults=true",
                )
            settings[name] = RunningSetting(json.dumps(default if explicit is None else explicit), explicit)
        return settings

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Wait until the node has joined: both the others and the node itself list it as a data node."""
        membership.join(self.request, addresses, member, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Make the store reassign shards, and wait until it moves none; `watch` gets the shards left.

        The store balances automatically.
        """
        membership.balance(self.request, addresses, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Write the current addresses into the nodes' files; nodes that kept running may know old ones."""
        membership.introduce(members)

    def electors(self, nodes: int) -> int | None:
        """Return the number of nodes that can be elected manager: 1 below three nodes, else 3."""
        return membership.electors(nodes)

    def resign(self, addresses: Sequence[str], member: Member) -> None:
        """Exclude the node from elections; its shards stay."""
        self._take_vote(addresses, member)

    def _take_vote(self, addresses: Sequence[str], member: Member) -> None:
        """Exclude the node from elections."""
        membership.take_vote(self.request, addresses, member.name, in_query=self._votes_in_query(addresses))

    def _votes_in_query(self, addresses: Sequence[str]) -> bool:
        """Whether the product expects the names of nodes to exclude from elections in the query, not in the path."""
        return True

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Move all shards off the node, wait, and take its vote; `watch` gets the shards left.

        BadInput if the others cannot hold the data or elect.
        """
        membership.require_electors(self.request, addresses, member)
        membership.leave(self.request, addresses, member, watch)
        self._take_vote(addresses, member)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Allow shards on nodes of that name again, and votes of all excluded nodes.

        Waits until the store has noticed that the excluded nodes left.
        """
        membership.give_votes(self.request, addresses, gone=True)
        membership.allow(self.request, addresses, member.name)

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Allow shards on the node again, and votes of all excluded nodes."""
        membership.give_votes(self.request, addresses, gone=False)
        membership.allow(self.request, addresses, member.name)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create an index from `settings` and `mappings`; the default is one shard per node, so `nodes` shards.

        `data_stream: true` creates a data stream instead, `rollover: true` an alias with a first index. This waits up
        to 60 s, and only for the primaries, because the cluster may have too few nodes for the replicas. LoadframeError
        if the index exists, or is not ready by then. A serverless service chooses the shards, and is not waited for if
        it hides its health.
        """
        body = json.loads(json.dumps(definition))
        settings = body.setdefault("settings", {})
        # Serverless services refuse a number of shards.
        if not _number_of_shards(settings) and not self._is_serverless:
            settings["number_of_shards"] = nodes
        is_stream, rolls_over = body.pop("data_stream", False), body.pop("rollover", False)
        if is_stream:
            collections.create(self.request, addresses, name, body)
        elif rolls_over:
            collections.create_rolling(self.request, addresses, name, body, composed=self._composes(addresses))
        else:
            self.request(addresses, "PUT", f"/{name}", body)
        with contextlib.suppress(*_HIDDEN):
            health = self.request(
                addresses,
                "GET",
                f"/_cluster/health/{name}?wait_for_status=yellow&wait_for_no_initializing_shards=true&timeout=60s",
            )
            # Status 408 before version 8 of Elasticsearch, and in OpenSearch.
            if health.get("timed_out"):
                raise StoreFailed(
                    f"{name} was not ready within 60 s: its state is {health['status']}, with"
                    f" {counted(health['initializing_shards'], 'initializing shard')}",
                    where=", ".join(addresses),
                    remedy="see GET /_cluster/allocation/explain for the reason",
                )

    def _composes(self, addresses: Sequence[str]) -> bool:
        """Whether the product has composable index templates and data streams."""
        return True

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether an index, alias or data stream of that name exists."""
        return bool(self._indices(addresses, name))

    def _indices(self, addresses: Sequence[str], name: str) -> Mapping[str, Any]:
        """Return the indices behind a name of an index, alias or data stream, by index, with `settings` and `mappings`.

        Empty if it does not exist.
        """
        try:
            indices: Mapping[str, Any] = self.request(addresses, "GET", f"/{name}?ignore_unavailable=true")
        except NotOffered:
            return {}
        return indices

    def write_documents(
        self,
        addresses: Sequence[str],
        name: str,
        definition: Mapping[str, Any],
        documents: Iterable[tuple[str, Mapping[str, Any]]],
    ) -> int:
        """Write documents, as (identifier, document), to an index, make them visible, and return their number.

        The index is created by its definition if it does not exist. Documents with the same identifier are replaced.
        StoreFailed if the store refuses one; others may have been written.
        """
        if not self._indices(addresses, name):
            self.request(addresses, "PUT", f"/{name}", definition)
        count, rest = 0, iter(documents)
        while batch := list(islice(rest, _BULK)):
            lines = [part for key, document in batch for part in ({"index": {"_id": key}}, document)]
            answer = self.request(addresses, "POST", f"/{name}/_bulk", lines, _BULK_TIMEOUT, repeatable=True)
            refused = [item["index"]["error"] for item in answer["items"] if "error" in item["index"]]
            if refused:
                reason = refused[0].get("reason", refused[0])
                raise StoreFailed(
                    f"refused {len(refused):,} of {counted(len(batch), 'document')}: {reason}",
                    where=f"{addresses[0]}/{name}",
                    remedy="see the reason. Another index may have a mapping that fits",
                )
            count += len(batch)
        self.request(addresses, "POST", f"/{name}/_refresh", repeatable=True)
        return count

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Delete an index, a data stream, or the indices of a rolling alias; do nothing if it does not exist."""
        indices = self._indices(addresses, name)
        is_behind = indices and name not in indices
        if is_behind and collections.drop(self.request, addresses, name, composed=self._composes(addresses)):
            return
        self.request(addresses, "DELETE", f"/{name}?ignore_unavailable=true")

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` random documents of an index, alias or data stream, in the order of writes.

        BadInput if it is missing, or if `database` is given.
        """
        self._refuse_database(database)
        indices = self._indices(addresses, name)
        if not indices:
            what = f"the cluster does not have the index {name}"
            raise BadInput(what, where=", ".join(addresses), remedy="check --collection")
        return collections.sample(self.request, addresses, name, documents, indices)

    def collections(self, addresses: Sequence[str]) -> list[str]:
        """Return the sorted names of indices, aliases, data streams, and `NAME-*` for daily indices.

        Names with a leading dot are left out.
        """
        with exploring.understood(addresses):
            return exploring.names(self.request, addresses)

    def fields(self, addresses: Sequence[str], name: str) -> dict[str, Kind]:
        """Return the use of each field that can be aggregated (time, number or keyword), by name.

        `name` is an index, alias or data stream; BadInput if it is unknown.
        """
        return {field: details.kind for field, details in self._explored(addresses, name).items()}

    def explore(self, addresses: Sequence[str], question: Question) -> Findings:
        """Answer a question with searches; BadInput for an unknown collection or field, or an empty time range.

        StoreFailed if a search fails.
        """
        known = self._explored(addresses, question.collection)
        require_known(question, {field: details.kind for field, details in known.items()})
        with exploring.understood(addresses):
            return exploring.explore(self.request, addresses, question, known, sorts_mixed=self._sorts_mixed(addresses))

    def _sorts_mixed(self, addresses: Sequence[str]) -> bool:
        """Whether the product sorts a field whose types differ between indices."""
        return True

    def _explored(self, addresses: Sequence[str], name: str) -> dict[str, Field]:
        """Return the fields of a collection by name; BadInput unless `collections` lists it."""
        # A name that is not listed never becomes part of a path.
        if name not in self.collections(addresses):
            where = ", ".join(addresses)
            raise BadInput(f"the cluster lacks the index {name}", where=where, remedy="select another collection")
        with exploring.understood(addresses):
            return exploring.fields(self.request, addresses, name)

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Refresh the index, and return its number of documents; StoreFailed if a shard does not answer.

        If the service cannot refresh, the number may lag by `count_lag`.
        """
        self._refresh(addresses, name)
        return self._count(addresses, name, {"match_all": {}})

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Refresh the index, and count the documents that have a field, for each field; null counts as missing.

        An object counts if one of its fields exists. StoreFailed if a shard does not answer.
        """
        self._refresh(addresses, name)
        return {field: self._count(addresses, name, {"exists": {"field": field}}) for field in fields}

    def _refresh(self, addresses: Sequence[str], name: str) -> None:
        """Refresh the index. If the service refuses or lacks that, set `count_lag`, since counts then lag."""
        try:
            self.request(addresses, "POST", f"/{name}/_refresh", repeatable=True)
        except _HIDDEN:
            self.count_lag = _COUNT_LAG

    def _count(self, addresses: Sequence[str], name: str, query: Mapping[str, Any]) -> int:
        """Return the number of documents that match a query; StoreFailed if a shard does not answer."""
        answer = self.request(addresses, "POST", f"/{name}/_count", body={"query": query}, repeatable=True)
        shards = answer["_shards"]
        # A shard without an available copy is missing from `successful`, and does not count as failed.
        silent = max(shards["failed"], shards["total"] - shards.get("successful", shards["total"]))
        if silent:
            raise StoreFailed(
                f"cannot count {name}: {silent} of {shards['total']} shards did not answer",
                remedy="wait until the cluster is green",
            )
        return int(answer["count"])

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return statistics by node name (see docs/reference/stores/opensearch.md). Counters start with the node.

        Empty for a service that hides them, which is recorded in `hidden`.
        """
        path = f"/_nodes/stats{self._sections}?filter_path={_FILTER}"
        try:
            nodes = self.request(addresses, "GET", path, timeout=5.0)
        except _HIDDEN:
            self._hidden["node statistics"] = None
            return {}
        return {node["name"]: _figures(node) for node in nodes.get("nodes", {}).values()}


def _content(answer: Answer, method: str, path: str, auth: Auth | None) -> Any:
    """Return the JSON of an answer, an empty object for an empty one.

    AccessDenied for status 401 and 403, NotOffered for 404 and 410, StoreFailed for 429 and from 500 up, LoadframeError
    for others from 400 up. BadInput for a redirect or other content.
    """
    if answer.status in _DENIED:
        reason = _reason(answer)
        known = next((remedy for part, remedy in _DENIALS.items() if part in reason.lower()), None)
        raise AccessDenied(
            f"the cluster denies access: {answer.status}, {reason}",
            where=answer.address,
            remedy=known or (auth.check if auth and answer.status == _UNAUTHORIZED else _DENIED[answer.status]),
        )
    if answer.status in _NOT_OFFERED:
        raise NotOffered(
            f"{method} {path} failed with status {answer.status}: {_reason(answer)}",
            where=answer.address,
            remedy="see the store's documentation for that error",
        )
    if answer.status >= 400:
        failed = answer.status >= 500 or answer.status == _TOO_MANY
        raise (StoreFailed if failed else LoadframeError)(
            f"{method} {path} failed with status {answer.status}: {_reason(answer)}",
            where=answer.address,
            remedy="see the store's documentation for that error; `loadframe cluster status` shows the nodes",
        )
    if answer.status >= 300:
        raise _not_a_cluster(answer, f"{method} {path} redirects to another address", _LOGIN)
    if not answer.content:
        # Some requests that change the cluster have an empty answer.
        return {}
    try:
        return answer.json()
    except ValueError as error:
        page = re.search(r"<html|<!doctype html", answer.text[:1000], re.IGNORECASE)
        what = f"the answer to {method} {path} is {'a web page' if page else 'not JSON'}"
        remedy = _LOGIN if page else "give the address of the cluster's HTTP interface"
        raise _not_a_cluster(answer, what, remedy) from error


_LOGIN = (
    "this may be a login page: give the address of the cluster's HTTP interface instead of its dashboards or a single "
    "sign-on"
)


def _not_a_cluster(answer: Answer, what: str, remedy: str) -> BadInput:
    """Return the BadInput for a server that is not a search store; `what` is the problem with its answer."""
    return BadInput(f"not a cluster of Elasticsearch or OpenSearch: {what}", where=answer.address, remedy=remedy)


def _reason(answer: Answer) -> str:
    """Return the first line of the error's text, at most 300 characters.

    AWS repeats the signed request, with its token, in the next lines.
    """
    try:
        content = answer.json()
        error = content.get("error") or content.get("message") or content["Message"]
        if isinstance(error, dict):
            # The reason of a failed search is "all shards failed".
            causes = error.get("root_cause") if error.get("type") == "search_phase_execution_exception" else None
            error = (causes[0] if causes else error)["reason"]
        text = str(error)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = answer.text
    return text.strip().partition("\n")[0][:300]


def _number_of_shards(settings: Mapping[str, Any]) -> Any:
    """Return the number of shards in index settings, nested or with dots; a false value if they do not set it."""
    nested = settings.get("index", {})
    return (
        settings.get("number_of_shards")
        or settings.get("index.number_of_shards")
        or (nested.get("number_of_shards") if isinstance(nested, dict) else None)
    )


#: Our name of a statistic -> its path in `_nodes/stats`.
METRICS = {
    "cpu_percent": "process.cpu.percent",
    "open_files": "process.open_file_descriptors",
    "uptime_ms": "jvm.uptime_in_millis",
    "heap_used_bytes": "jvm.mem.heap_used_in_bytes",
    "heap_percent": "jvm.mem.heap_used_percent",
    "gc_young_count": "jvm.gc.collectors.young.collection_count",
    "gc_young_ms": "jvm.gc.collectors.young.collection_time_in_millis",
    "gc_old_count": "jvm.gc.collectors.old.collection_count",
    "gc_old_ms": "jvm.gc.collectors.old.collection_time_in_millis",
    **{
        f"{pool}_{figure}": f"thread_pool.{pool}.{figure}"
        for pool in ("search", "write", "get")
        for figure in ("active", "queue", "rejected", "completed")
    },
    "search_query_total": "indices.search.query_total",
    "search_query_ms": "indices.search.query_time_in_millis",
    "search_fetch_total": "indices.search.fetch_total",
    "search_fetch_ms": "indices.search.fetch_time_in_millis",
    "search_open_scrolls": "indices.search.scroll_current",
    "indexing_total": "indices.indexing.index_total",
    "indexing_ms": "indices.indexing.index_time_in_millis",
    "indexing_throttle_ms": "indices.indexing.throttle_time_in_millis",
    "merges_current": "indices.merges.current",
    "merges_total": "indices.merges.total",
    "merges_ms": "indices.merges.total_time_in_millis",
    "merges_throttle_ms": "indices.merges.total_throttled_time_in_millis",
    "refresh_total": "indices.refresh.total",
    "refresh_ms": "indices.refresh.total_time_in_millis",
    "flush_total": "indices.flush.total",
    "flush_ms": "indices.flush.total_time_in_millis",
    "segments": "indices.segments.count",
    "documents": "indices.docs.count",
    "store_bytes": "indices.store.size_in_bytes",
    "translog_bytes": "indices.translog.uncommitted_size_in_bytes",
    "request_cache_hits": "indices.request_cache.hit_count",
    "request_cache_misses": "indices.request_cache.miss_count",
    "query_cache_hits": "indices.query_cache.hit_count",
    "query_cache_misses": "indices.query_cache.miss_count",
    "breaker_bytes": "breakers.parent.estimated_size_in_bytes",
    "breaker_tripped": "breakers.parent.tripped",
    "indexing_pressure_bytes": "indexing_pressure.memory.current.all_in_bytes",
    "indexing_pressure_rejected": "indexing_pressure.memory.total.coordinating_rejections",
}
_FILTER = ",".join(["nodes.*.name", *(f"nodes.*.{path}" for path in METRICS.values())])


def _figures(node: Mapping[str, Any]) -> dict[str, float]:
    """Return a node's statistics from its entry in `_nodes/stats`, by Loadframe's names; METRICS has name -> path.

    Missing ones, and those that are not numbers, are left out.
    """
    figures = {}
    for metric, path in METRICS.items():
        value: Any = node
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            figures[metric] = float(value)
    return figures
