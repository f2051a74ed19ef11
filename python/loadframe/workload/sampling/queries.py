"""Queries of slow logs and files: searches, MongoDB commands and SQL statements, with anonymised values.

A line is a search body in JSON, or a slow-log line of Elasticsearch or OpenSearch (text with `source[...]`, or JSON).
For MongoDB, it is a slow query of the log or a profiler document. For PostgreSQL, it is SQL, or a log line with
`statement:` or `execute`. A JSON file may also hold a list of bodies, or the steps of the MPI benchmarker.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.workload.importers.imported import literal, name_of
from loadframe.workload.importers.source import text_of
from loadframe.workload.sampling import Query, distributions
from loadframe.workload.sampling.distributions import digits
from loadframe.workload.sampling.documents import parsed
from loadframe.workload.sampling.profile import Profile
from loadframe.workload.sampling.pseudonyms import LONG_NUMBER, looks_like_identifier

#: The most distinct queries to import, the most frequent first.
_MOST = 100
_LARGEST_LOG = 256 * 2**20
_REMEDY = "name a slow log, or a file with one search, MongoDB command or SELECT a line"

#: Words of the query languages that are values, not data.
# fmt: off
_WORDS = frozenset((
    "asc", "desc", "and", "or", "AND", "OR", "true", "false", "auto", "AUTO", "none", "all", "avg", "sum", "min",
    "max", "best_fields", "most_fields", "cross_fields", "phrase", "phrase_prefix", "bool_prefix", "score",
    "_score", "_doc", "_shard_doc", "_id", "_source", "_count", "_key", "_first", "_last", "second", "minute",
    "hour", "day", "week", "month", "quarter", "year", "1s", "1m", "1h", "1d", "1w", "1M", "1y", "multiply",
    "replace", "constant_score", "standard", "english", "simple", "whitespace", "keyword", "field", "boolean",
    "plain", "arc", "fixed_interval", "calendar_interval", "within", "intersects", "contains", "disjoint",
))
# fmt: on
#: Keys of searches and MongoDB commands, besides operators. They stay, even if a sampled text has such a word.
_KEY_WORDS = """
    _score adjacency_matrix after aggregations aggs all_of allow_leading_wildcard analyze_wildcard analyzer any_of
    as auto_date_histogram auto_generate_synonyms_phrase_query avg avg_bucket before big bool boost boost_mode
    boosting bottom bottom_left bottom_right boundaries bounds boxplot branches bucket_selector bucket_sort buckets
    buckets_path calendar_interval cardinality case case_insensitive categorize_text children clauses collapse
    collation collect_mode combined_fields completion composite compression cond constant_score contained_by
    containing coordinates cumulative_sum date date_histogram date_range decay default default_field
    default_operator derivative dis_max dist distance distance_feature distance_type diversified_sampler document
    documents docvalue_fields else end endDate exclude execution_hint exists exp explain exponent extended_bounds
    extended_stats extended_stats_bucket factor field field_value_factor fields filter filters find fixed_interval
    flags foreignField format fragment_size fragmenter from function_score functions fuzziness fuzzy
    fuzzy_max_expansions fuzzy_prefix_length fuzzy_rewrite fuzzy_transpositions gap_policy gauss geo_bounding_box
    geo_bounds geo_centroid geo_distance geo_polygon geo_shape geohash_grid geohex_grid geotile_grid global groupBy
    gt gte hard_bounds has_child has_parent hdr highlight highlight_query histogram ids if ignore_unmapped in
    in_order include include_lower include_upper includeArrayIndex indexed_shape inner_hits input interval
    intervals ip_range k key keyed knn lag lat lenient let like linear little localField log lon lt lte
    mask match match_all match_bool_prefix match_none match_phrase match_phrase_prefix matrix_stats max max_boost
    max_bucket max_children max_determinized_states max_doc_count max_doc_freq max_docs_per_value max_expansions
    max_gaps max_query_terms max_word_length median_absolute_deviation meta method metrics min min_bucket
    min_children min_doc_count min_doc_freq min_score min_should_match min_term_freq min_word_length
    minimum_interval minimum_should_match missing missing_bucket missing_order mode modifier more_like_this
    moving_avg moving_fn multi_match multi_terms must must_not name negative negative_boost nested no_match_size
    not_contained_by not_containing not_overlapping num_candidates number_of_fragments
    number_of_significant_value_digits numeric_type offset operator options order ordered origin other_bucket
    other_bucket_key output overlapping parent parent_id parent_type path path_prefix percentile_ranks percentiles
    percentiles_bucket percents percolate phrase phrase_slop pinned pit pivot points positive post post_filter
    post_tags pre pre_tags precision precision_threshold prefix prefix_length preserveNullAndEmptyArrays profile
    queries query query_string query_vector query_weight quote_field_suffix random_score range ranges rank
    rank_feature rare_terms rate regex regexp relation replacement rescore rescore_query rescore_query_weight
    retriever reverse_nested rewrite right sampler saturation scale score score_mode scoring_boolean script_score
    search_after seed separator seq_no_primary_term serial_diff shape shard_min_doc_count shard_size shift should
    show_term_doc_count_error sigma sigmoid significant_terms significant_text similarity simple_query_string size
    slice slop sort sortBy sources span_containing span_first span_multi span_near span_not span_or span_term
    span_within startDate stats stats_bucket stop_words stored_fields string_stats suggest sum sum_bucket t_test
    tdigest term terminate_after terms terms_set text then tie_breaker time_zone timeout timezone top top_hits
    top_left top_metrics top_right track_scores track_total_hits transpositions type unit unlike unmapped_type
    validation_method value value_count value_type values variable_width_histogram vars vector version weight
    weighted_avg wildcard window window_size wrapper xy_shape zero_terms_query
"""
_KEYS = frozenset(_KEY_WORDS.split())
_ORDERS = ("asc", "desc")
#: Keys with data as their values, besides names of fields.
# fmt: off
_DATA = frozenset((
    "value", "values", "query", "gt", "gte", "lt", "lte", "from", "to", "terms", "wildcard", "prefix", "include",
    "exclude", "like", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$all", "$regex",
    "$search",
))
# fmt: on
#: Subfields with exact values.
_SUBFIELDS = ("keyword", "raw", "exact")
#: A relative date, a duration, a time zone, or a date pattern.
_TERM = re.compile(
    r"now([+-]\d+[smhdwMy])*(/[smhdwMy])?|\d{1,3}(ms|[smhdwMy])|[+-]\d\d:\d\d|UTC"
    r"|-?\d{1,3} (second|minute|hour|day|week|month|year)s?"
    r"|(?=.*(yy|uu|HH))[yYuMdHhmsSnZX:./ T'-]{4,30}"
)
#: A distance, size or share. As the value of a field it may identify somebody: 4711AB is also a number plate.
_QUANTITY = re.compile(r"\d{1,6}[a-zA-Z]{1,2}|-?\d{1,3}%")
_KEY = re.compile(r"[a-z$_][A-Za-z0-9_]*")
#: Keys below which names of the user's own choice stand.
_NAMED = frozenset(("aggs", "aggregations"))
_SOURCE = re.compile(r"source\[(\{.*\})\](?:,|$|\s)")
_LOGGED = re.compile(r"(?:statement|execute [^:]*):\s*(.*)", re.DOTALL)
_SELECT = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
#: Tokens of a statement. `open` begins a text, name or comment that does not end, or a nested comment.
_TOKEN = re.compile(
    r"""(?P<space>(?:\s|--[^\n]*|/\*(?:(?!/\*).)*?\*/)+)|(?P<escaped>[eE]'(?:[^'\\]++|''|\\.)*+')|(?P<text>'(?:[^']++|'')*+')"""
    r"""|(?P<name>"(?:[^"]++|"")*+")|(?P<word>[^\W\d]\w*)|(?P<number>\.?\d[\w.]*)|(?P<end>;)|(?P<open>['"]|/\*)|(?P<other>.)""",
    re.DOTALL,
)

#: Begin of a call with several arguments, the first of which is a unit or a language.
_FUNCTION = re.compile(r"\b(?:date_\w+|\w*to_ts\w+)\s*\($", re.IGNORECASE)


def read(path: Path, collection: str, profile: Profile) -> tuple[list[Query], list[str]]:
    """Return the at most 100 most frequent distinct queries of a file, in that order, and its parts that were left out.

    `collection` is its name in the queries. Values are replaced by the pseudonyms of `profile`. Left out are lines
    without a query, queries of other families than the one with the most distinct queries, and less frequent queries.
    BadInput without queries.
    """
    text = text_of(path, _LARGEST_LOG)
    counts: Counter[str] = Counter()
    ignored = 0
    for family, request in _requests(text):
        if request is None:
            ignored += 1
        else:
            counts[json.dumps([family, request], sort_keys=True)] += 1
    if not counts:
        raise BadInput("the file has no queries", where=str(path), remedy=_REMEDY)
    families = Counter(json.loads(key)[0] for key in counts)
    family = families.most_common(1)[0][0]
    values = _Values(profile)
    forms: Counter[str] = Counter()
    for key, count in counts.items():
        of, request = json.loads(key)
        if of == family:
            forms[json.dumps(_FORMS[family](request, collection, values))] += count
    chosen = forms.most_common(_MOST)
    left_out = [f"{path.name}: {counted(ignored, 'line')} without a query"] if ignored else []
    left_out += [f"{path.name}: queries of {other}" for other in families if other != family]
    if len(forms) > len(chosen):
        left_out.append(
            f"{path.name}: {counted(len(forms) - len(chosen), 'less frequent query', 'less frequent queries')}"
        )
    return [Query({family: json.loads(form)}, weight) for form, weight in chosen], left_out


def _requests(text: str) -> Iterator[tuple[str, Any]]:
    """Yield family and request of each query of a file; the request is None for a line that is not a query.

    The family is then empty, or that of the line. The request is not anonymised.
    """
    try:
        whole = parsed(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list | dict):
        for entry in whole if isinstance(whole, list) else [whole]:
            steps = entry.get("search_queries") if isinstance(entry, dict) else None
            for query in steps if isinstance(steps, list) else [entry]:
                yield _of_json(query)
        return
    lines = text.splitlines()
    if not any(line.lstrip().startswith("{") or _SOURCE.search(line) for line in lines):
        yield from _of_sql(text)
        return
    for line in lines:
        if not line.strip():
            continue
        try:
            yield _of_json(parsed(match[1] if (match := _SOURCE.search(line)) else line))
        except (ValueError, RecursionError):
            yield "", None


def _of_json(entry: Any) -> tuple[str, Any]:
    """Return family and request of a JSON value: a search body, a log entry or a MongoDB command.

    The request is None for a search with a script and an invalid command; for other values, the family is also empty.
    """
    if not isinstance(entry, dict):
        return "", None
    for key in ("elasticsearch.slowlog.source", "source", "body"):
        inner = entry.get(key)
        if isinstance(inner, str):
            try:
                inner = parsed(inner)
            except (ValueError, RecursionError):
                return "", None
        if isinstance(inner, dict):
            return _search_body(inner)
    attributes = entry.get("attr")
    command = entry.get("command", attributes.get("command") if isinstance(attributes, dict) else entry)
    if isinstance(command, dict) and ("find" in command or "aggregate" in command):
        is_valid = all(isinstance(command.get(key, kind()), kind) for key, kind in _MONGO_TYPES.items())
        return "mongodb", {key: command[key] for key in _MONGO_KEYS if key in command} if is_valid else None
    if entry.keys() & {"query", "aggs", "aggregations", "knn", "size", "sort"}:
        return _search_body(entry)
    return "", None


def _search_body(body: dict[str, Any]) -> tuple[str, Any]:
    """Return the family and a search, or None instead of a search with a script, because scripts may hold data."""
    return "elasticsearch", None if '"script' in json.dumps(body) else body


_MONGO_KEYS = ("find", "aggregate", "filter", "sort", "projection", "limit", "skip", "pipeline")
_MONGO_TYPES = {"filter": dict, "sort": dict, "projection": dict, "pipeline": list}


def _of_sql(text: str) -> Iterator[tuple[str, Any]]:
    """Yield `postgresql` and each SELECT or WITH statement of an SQL file or a PostgreSQL log, None for others."""
    lines = [line for line in text.splitlines() if line.strip()]
    if re.search(r"^.*\bLOG:.*$", text, re.MULTILINE):
        # A statement goes on in lines that begin with a tab.
        texts = [match[1] if (match := _LOGGED.search(entry)) else "" for entry in re.split(r"\n(?!\t)", text)]
    else:
        texts = lines if all(map(_SELECT.match, lines)) else [text]
    for part in texts:
        for statement in _statements(part):
            if statement != "":
                yield "postgresql", statement


def _statements(text: str) -> Iterator[str | None]:
    """Yield the SELECT and WITH statements of a text without comments, or None for each other or unclear one.

    Unclear are statements with `$` (parameters), an unclosed quote, or a backslash before a quote. Yields an empty text
    for white space alone.
    """
    tokens: list[str] = []
    is_clear = True

    def whole() -> str | None:
        """Return the statement so far; None if it is unclear or not a query, empty for white space alone."""
        statement = "".join(tokens).strip()
        # A parameter, or a text between dollars.
        is_query = _SELECT.match(statement) and "$" not in statement
        return statement if statement == "" or (is_clear and is_query) else None

    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "end":
            yield whole()
            tokens, is_clear = [], True
            continue
        # Some servers read a backslash and a quote as a part of the text.
        is_clear = is_clear and kind != "open" and not (kind == "text" and token.endswith("\\'"))
        tokens.append(" " if kind == "space" else token)
    yield whole()


class _Values:
    """Replaces values of queries by the pseudonyms of the sampled values."""

    def __init__(self, profile: Profile) -> None:
        """Take the pseudonyms, and the paths of all and of kept fields, from `profile`."""
        self._profile = profile
        self._fields = set(profile.paths)

    def is_field(self, text: str) -> bool:
        """Return whether a text is the path of a field, perhaps with a leading `$`, a subfield or a weight (`^2`)."""
        path = text.partition("^")[0].removeprefix("$")
        return path in self._fields or self._is_subfield(path)

    def _is_subfield(self, path: str) -> bool:
        """Return whether a path is a field with a subfield for exact values, such as `name.keyword`."""
        outer, _, inner = path.rpartition(".")
        return inner in _SUBFIELDS and outer in self._fields

    def text(self, text: str, key: str = "", *, is_data: bool = True) -> str:
        """Return the pseudonym of a text; fields, dates, words of the language and values of kept fields stay.

        `key` is the field or key above the text. With `is_data`, quantities such as `5km` are replaced, and words of
        the language that were sampled.
        """
        if key in self._profile.kept or self.is_field(text) or distributions.read(text) or text in _ORDERS:
            return text
        is_word = text in _WORDS or _TERM.fullmatch(text) or (not is_data and _QUANTITY.fullmatch(text))
        if is_word and not (is_data and self._profile.pseudonyms.is_sampled(text)):
            return text
        return self._profile.pseudonyms.known(text)

    def number(self, number: float) -> float:
        """Return a number of up to 6 digits unchanged; else the pseudonym of a whole one, 4 digits of others."""
        if digits(number) < LONG_NUMBER:
            return number
        if isinstance(number, int):
            return self._profile.pseudonyms.number(number)
        return float(f"{number:.{LONG_NUMBER - 3}g}")

    def of(self, value: Any, key: str = "", *, named: bool = False, is_data: bool = False) -> Any:
        """Return a JSON value with replaced texts and numbers, and with new names for aggregations.

        `key` is the field or key above the value. `named`: its keys are names of aggregations. `is_data`: texts stand
        directly below a field or a key of values.
        """
        match value:
            case bool() | None:
                return value
            case int() | float():
                return self.number(value)
            case str():
                return self.text(value, key, is_data=is_data)
            case list():
                return [self.of(inner, key, is_data=is_data) for inner in value]
            case _:
                return {
                    (f"part_{place}" if named else self.key(name)): self.of(
                        inner,
                        name if self.is_field(name) else key,
                        named=name in _NAMED and not named,
                        is_data=name in _DATA or self.is_field(name),
                    )
                    for place, (name, inner) in enumerate(value.items(), start=1)
                }

    def key(self, name: str) -> str:
        """Return a key of an object, or its pseudonym.

        Names of fields, keys of the query languages, and plain words that were not sampled stay.
        """
        if name in _KEYS or self.is_field(name):
            return name
        is_word = _KEY.fullmatch(name) and not looks_like_identifier(name) and not self._is_data(name)
        if is_word:
            return name
        return self._profile.pseudonyms.known(name)

    def name(self, name: str, collection: str) -> str:
        """Return `name`, which a statement quotes, or its pseudonym if it was sampled or looks like an identifier.

        Fields and the collection stay. The result has no quotes.
        """
        is_data = looks_like_identifier(name) or self._is_data(name)
        return (
            self._profile.pseudonyms.known(name) if is_data and not self.is_field(name) and name != collection else name
        )

    def _is_data(self, name: str) -> bool:
        """Return whether a name was sampled, as a value or a word of one, and is not a word of the query languages."""
        return self._profile.pseudonyms.is_sampled(name) and name not in _WORDS


def _search(body: dict[str, Any], collection: str, values: _Values) -> dict[str, Any]:
    """Return the workload's operation for a search body, with values replaced by pseudonyms and without a cache."""
    return {"search": {"collection": name_of(collection), "request_cache": False, "body": literal(values.of(body))}}


def _mongo(command: dict[str, Any], collection: str, values: _Values) -> dict[str, Any]:
    """Return the workload's operation for a find or aggregate command, with values replaced by pseudonyms.

    Of find, it keeps filter, sort, projection, limit and skip if they are not empty or 0; of aggregate, the pipeline.
    """
    if "aggregate" in command:
        pipeline = literal(values.of(command.get("pipeline", [])))
        return {"aggregate": {"collection": name_of(collection), "pipeline": pipeline}}
    keys = ("filter", "sort", "projection", "limit", "skip")
    parts = {key: literal(values.of(command[key])) for key in keys if command.get(key)}
    return {"find": {"collection": name_of(collection), **parts}}


def _sql(statement: str, collection: str, values: _Values) -> dict[str, Any]:
    """Return the workload's operation for a SELECT, with literals replaced by pseudonyms and the table renamed."""

    def replaced(match: re.Match[str]) -> str:
        """Return a token of the statement, with its value replaced if it is a name, number or text."""
        token = match[0]
        match match.lastgroup:
            case "name":
                return '"' + values.name(token[1:-1].replace('""', '"'), collection).replace('"', '""') + '"'
            case "number":
                return _number(token, values)
            case "escaped" | "text" as kind:
                text = token.partition("'")[2][:-1].replace("''", "'")
                text = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if kind == "escaped" else text
                is_option = _FUNCTION.search(statement, max(0, match.start() - 40), match.start()) is not None
                is_data = not (is_option and statement[match.end() : match.end() + 2].lstrip()[:1] == ",")
                pieces = [values.text(piece, is_data=is_data) for piece in text.split("%")]
                return "'" + "%".join(pieces).replace("'", "''") + "'"
        return token

    # The table has the name of the workload's collection, without a schema.
    table_name = re.compile(rf'\b(FROM|JOIN)\s+(?:"?\w+"?\.)?"?{re.escape(collection)}"?(?![\w"])', re.IGNORECASE)
    table = '"' + name_of(collection) + '"'
    renamed = table_name.sub(lambda match: f"{match[1]} {table}", _TOKEN.sub(replaced, statement))
    return {"sql": {"statement": literal(renamed)}}


def _number(token: str, values: _Values) -> str:
    """Return the replacement of a number token of a statement, as text; a short number stays as it is written.

    A token that is not a number, or has thousands of digits, is replaced as a text. `_` is ignored; 0x, 0o and 0b are
    read.
    """
    bare = token.replace("_", "").lower()
    bases = {"0x": 16, "0o": 8, "0b": 2}
    is_whole = bare.isdigit() or bare[:2] in bases
    try:
        number = int(bare, bases.get(bare[:2], 10)) if is_whole else float(bare)
    except ValueError:
        # Not a number, or one of thousands of digits.
        return values.text(token)
    replacement = values.number(number)
    return token if replacement == number else str(replacement)


_FORMS: dict[str, Callable[[Any, str, _Values], dict[str, Any]]] = {
    "elasticsearch": _search,
    "mongodb": _mongo,
    "postgresql": _sql,
}
