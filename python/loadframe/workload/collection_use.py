"""Collections of a resolved workload: other names for them, and whether its requests change them."""

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload

#: Kinds of requests that create or name collections outside of `collections`.
_UNBOUND = (
    *("create_collection", "delete_collection", "put_template", "delete_template", "aliases"),
    *("rollover", "shrink", "manage_indices", "delete_days", "create_repository", "snapshot", "delete_snapshot"),
)
#: Kinds of requests that never change a collection.
_READING = (
    *("read", "scan", "search", "multi_search", "aggregation", "count", "esql", "eql", "knn"),
    *("scroll", "search_after", "composite", "get", "find", "wait_for_health", "http"),
)
#: Operations that write, but leave the number of documents as it is.
_KEEPING = (
    *("read_modify_write", "refresh", "flush", "force_merge", "put_settings", "put_template", "delete_template"),
    *("aliases", "create_repository", "snapshot", "delete_snapshot"),
)
#: Single statements that read, and commands of Redis and MongoDB that read.
_READING_STATEMENT = re.compile(
    r"\s*(SELECT|SHOW|EXPLAIN(?!.*\bANALY[SZ]E\b))\b(?!.*(\bINTO\b|;\s*\S))", re.IGNORECASE | re.DOTALL
)
_READING_COMMANDS = {
    *("get", "mget", "getrange", "strlen", "exists", "ttl", "pttl", "type", "scan", "dbsize", "ping", "info"),
    *("hget", "hmget", "hgetall", "hlen", "hkeys", "hvals", "hexists", "hscan", "lrange", "llen", "lindex"),
    *("scard", "sismember", "smembers", "srandmember", "sscan", "zrange", "zrangebyscore", "zrangebylex"),
    *("zrevrange", "zscore", "zcard", "zcount", "zrank", "zscan", "find", "count", "distinct", "getmore"),
}
#: Ends of the paths that Elasticsearch and OpenSearch only read from, also by POST.
_READING_PATH = re.compile(
    r"(?<!/_doc)(?<!/_create)(?<!/_update)"
    r"/(_(m|async_|knn_|rollup_)?search(/template)?|_fleet/_fleet_m?search|_plugins/_asynchronous_search|_eql/search"
    r"|_search/(scroll|point_in_time)|_search_shards|_pit|_count|_mget|_explain(/[^/]+)?|_termvectors(/[^/]+)?"
    r"|_mtermvectors|_field_caps|_terms_enum|_rank_eval|_validate/query|_render/template(/[^/]+)?|_analyze|_query)"
)
#: Ends of the paths by whose DELETE a search ends.
_ENDING_PATH = re.compile(
    r"(?<!/_doc)"
    r"/(_search/scroll(/.+)?|_search/point_in_time(/_all)?|_pit|(_async_search|_plugins/_asynchronous_search)/[^/]+)"
)
#: Ends of the paths by whose GET an index changes.
_CHANGING_PATH = re.compile(r"/(_refresh|_flush(/synced)?|_forcemerge|_cache/clear)")
#: Keys of MongoDB commands and pipelines that name collections.
_NAMING_KEYS = ("find", "aggregate", "count", "distinct", "insert", "update", "delete", "findAndModify", "from", "coll")


def with_prefix(workload: ResolvedWorkload, prefix: str) -> ResolvedWorkload:
    """Return a copy of the workload with `prefix` before the names of its collections and their aliases.

    Changes definitions and requests, and sets the workload's `prefix`. Returns the workload itself if `prefix` is empty
    or it has no collections. BadInput, with the operation, if a request names collections in a way that cannot be
    renamed.
    """
    if not prefix or not workload.collections:
        return workload
    names = {name: prefix + name for name in workload.collections}
    aliases = [alias for definition in workload.collections.values() for alias in definition.get("aliases") or ()]
    names |= {alias: prefix + alias for alias in aliases}
    columns = {
        column.lower()
        for definition in workload.collections.values()
        for column in definition.get("columns") or ()
        if column in names
    }
    renaming = _Renaming(names, columns)

    def renamed(phase: ResolvedPhase) -> ResolvedPhase:
        """Return a copy of a phase with the new names in its operations; BadInput as in `with_prefix`."""
        return replace(phase, operations={name: renaming.form(name, form) for name, form in phase.operations.items()})

    return replace(
        workload,
        collections={names[name]: _with_aliases(part, prefix) for name, part in workload.collections.items()},
        phases=tuple(renamed(phase) for phase in workload.phases),
        prefix=prefix,
    )


def _with_aliases(definition: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a copy of a collection's definition with a prefix before the names of its aliases."""
    if not definition.get("aliases"):
        return dict(definition)
    return {**definition, "aliases": {prefix + alias: body for alias, body in definition["aliases"].items()}}


def without_prefix(described: Any, prefix: str) -> Any:
    """Return a copy of a description with `prefix` removed from the beginning of words in all texts, at any depth.

    A word is a run of letters, digits and `_`; the prefix alone stays. Keys of mappings and values other than texts
    stay; tuples become lists. An empty prefix changes no text.
    """
    if isinstance(described, str):
        return re.sub(rf"(?<!\w){re.escape(prefix)}(?=\w)", "", described) if prefix else described
    if isinstance(described, Mapping):
        return {key: without_prefix(value, prefix) for key, value in described.items()}
    return [without_prefix(value, prefix) for value in described] if isinstance(described, list | tuple) else described


def changes_data(phases: Sequence[ResolvedPhase]) -> bool:
    """Return whether any operation of the phases may change collections: all but those that `only_reads` accepts."""
    return any(not only_reads(form) for phase in phases for form in phase.operations.values())


def warms(phase: ResolvedPhase) -> bool:
    """Return whether a phase has neither `prepares` nor `finishes` set, and its requests only read (see `only_reads`).

    If an experiment prepares with such a phase, it only warms the store.
    """
    return not (phase.prepares or phase.finishes) and not changes_data([phase])


def may_change_number(form: Mapping[str, Any]) -> bool:
    """Return whether a request may add or remove documents.

    False for requests that only read, `read_modify_write`, refreshes, merges, and changes of settings, templates,
    aliases and snapshots. True for all others, also `update` and unknown commands.
    """
    return not any(kind in form for kind in _KEEPING) and not only_reads(form)


def _refusal(why: str) -> BadInput:
    """Return the error for a workload that does not support a prefix; `why` is the end of its message."""
    return BadInput(
        f"cannot use a prefix for the collections of this workload: {why}",
        remedy="set store.prefix: none to use the names in the workload; existing collections are never dropped",
    )


class _Renaming:
    """Renames collections in the requests of a workload."""

    def __init__(self, names: Mapping[str, str], columns: Collection[str]) -> None:
        """`names` maps old names of collections and aliases to new ones.

        `columns` are names that are also names of a column, in lower case; statements with them are ambiguous.
        """
        self._names = names
        self._columns = columns
        words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        self._word = re.compile(rf"(?<![\w.$-])(?P<schema>\w+\.)?(?P<name>{words})(?![\w$-])")

    def form(self, operation: str, form: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a request (`form`) with the new names of collections; `operation` is its name, for errors.

        BadInput, with the operation, if the request names collections in a way that cannot be renamed.
        """
        for kind in _UNBOUND:
            if kind in form:
                raise _refusal(f"the operation {operation} is of kind {kind}")
        if form.get("take_in", {}).get("daily") is not None or form.get("bulk", {}).get("per") is not None:
            raise _refusal(f"the operation {operation} writes to collections with derived names")
        return {key: self._part(operation, key, value) for key, value in form.items()}

    def _part(self, operation: str, kind: str, value: Any) -> Any:
        """Return the value of one key of a request (`kind` is the key) with collections renamed.

        Values other than mappings and commands are returned unchanged. In the path of a plain `request`, only segments
        and comma-separated names that equal a collection are renamed. BadInput, with the `operation`, for a name that
        is not a collection, and for a statement with an ambiguous name.
        """
        if kind == "command":
            return self._command(value)
        if not isinstance(value, Mapping):
            return value
        changed = dict(value)
        if isinstance(value.get("collection"), str):
            changed["collection"] = self._known(operation, value["collection"])
        if kind == "multi_search":
            changed["searches"] = [
                {**entry, "collection": self._known(operation, entry["collection"])} for entry in value["searches"]
            ]
        for key in ("statement", "query"):
            if kind in ("cql", "sql", "query", "esql") and isinstance(value.get(key), str):
                changed[key] = self._statement(operation, value[key])
        if kind == "sql" and value.get("transaction"):
            changed["transaction"] = [
                {**entry, "statement": self._statement(operation, entry["statement"])} for entry in value["transaction"]
            ]
        if kind == "request":
            changed["path"] = "/".join(
                ",".join(self._names.get(part, part) for part in segment.split(","))
                for segment in value["path"].split("/")
            )
            if value.get("body") is not None:
                changed["body"] = self._named(value["body"], ("index",))
        if kind == "aggregate":
            changed["pipeline"] = self._named(value["pipeline"], (*_NAMING_KEYS, "$out", "into"))
        return changed

    def _known(self, operation: str, name: str) -> str:
        """Return the new name of a collection. A pattern with `*` that matches a collection gets the prefix.

        BadInput, with the operation, for any other text, such as several names joined by commas.
        """
        if "*" in name and (matching := fnmatch.filter(self._names, name)):
            # With the prefix, a pattern matches only collections with the prefix.
            return self._names[matching[0]].removesuffix(matching[0]) + name
        if name not in self._names:
            raise _refusal(f"the operation {operation} uses {name}, which is not a collection of the workload")
        return self._names[name]

    def _statement(self, operation: str, text: str) -> str:
        """Return a CQL, SQL or query statement with collections renamed outside of single quotes.

        A schema before a name stays. BadInput, with the operation, for a name that is also a column.
        """

        def replaced(word: re.Match[str]) -> str:
            """Return the new name for a matched name, after its schema. BadInput for a name that is also a column."""
            if word["name"].lower() in self._columns:
                raise _refusal(f"{word['name']} in the operation {operation} names a collection and a column")
            return f"{word['schema'] or ''}{self._names[word['name']]}"

        parts = re.split(r"('(?:[^']|'')*')", text)
        return "".join(part if index % 2 else self._word.sub(replaced, part) for index, part in enumerate(parts))

    def _command(self, command: Any) -> Any:
        """Return a command with collections renamed.

        In a command of MongoDB (a mapping), these are texts under naming keys such as `find` and `from`, at any depth;
        in one of Redis (a list), words with a collection as in `_key`. Other names stay.
        """
        if isinstance(command, Mapping):
            return self._named(command, (*_NAMING_KEYS, "$out", "into"))
        return [self._key(word) for word in command]

    def _key(self, word: Any) -> Any:
        """Return a word of a Redis command; a key COLLECTION or COLLECTION:ID gets the new name, other words stay."""
        if not isinstance(word, str):
            return word
        name, colon, rest = word.partition(":")
        return f"{self._names[name]}{colon}{rest}" if name in self._names else word

    def _named(self, value: Any, keys: Collection[str]) -> Any:
        """Return a copy of JSON data in which texts under `keys`, at any depth, that name a collection are renamed."""
        if isinstance(value, Mapping):
            return {
                key: self._names.get(entry, entry)
                if key in keys and isinstance(entry, str)
                else self._named(entry, keys)
                for key, entry in value.items()
            }
        return [self._named(entry, keys) for entry in value] if isinstance(value, list) else value


def only_reads(form: Mapping[str, Any]) -> bool:
    """Return whether a request certainly changes no data; False for unknown kinds and commands.

    An `http` request only reads if it is GET or HEAD. For a `request`, method and end of the path decide: some POST and
    DELETE only read, some GET change an index. There must be one statement, which is SELECT or SHOW, or EXPLAIN without
    ANALYZE, and lacks INTO.
    """
    if any(kind in form for kind in _READING):
        return form.get("http", {}).get("method", "GET") in ("GET", "HEAD")
    if "aggregate" in form:
        return not any(key in stage for stage in form["aggregate"]["pipeline"] for key in ("$out", "$merge"))
    if "command" in form:
        command = form["command"]
        word = next(iter(command)) if isinstance(command, Mapping) else command[0]
        return str(word).lower() in _READING_COMMANDS
    statements = list(_statements(form))
    if statements:
        return all(_READING_STATEMENT.match(statement) for statement in statements)
    request = form.get("request")
    return request is not None and _request_reads(request["method"], request["path"])


def _request_reads(method: str, path: str) -> bool:
    """Return whether a request to the HTTP API of a search cluster certainly changes no data."""
    # Names of indices, which may contain the words, do not begin with an underscore.
    path = path.partition("?")[0].rstrip("/")

    def ends_with(pattern: re.Pattern[str]) -> bool:
        """Return whether the path ends with the pattern."""
        return any(pattern.fullmatch(path, match.start()) for match in re.finditer("/", path))

    if method in ("GET", "HEAD"):
        return not ends_with(_CHANGING_PATH)
    reading = {"POST": _READING_PATH, "DELETE": _ENDING_PATH}.get(method)
    return reading is not None and ends_with(reading)


def _statements(form: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statements of a `cql`, `sql` or `query` form and of its transaction, in order; none for other forms."""
    for kind in ("cql", "sql", "query"):
        for entry in (form.get(kind, {}), *(form.get(kind, {}).get("transaction") or ())):
            for key in ("statement", "query"):
                if isinstance(entry.get(key), str):
                    yield entry[key]
