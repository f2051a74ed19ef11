"""The page of `loadframe explore`: questions about a run folder or a store's documents, and their answers as JSON.

The page is untrusted input to the server, and field values are untrusted input to the page: the source checks all
names, and the page inserts all values as plain text.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qs

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.live.feed import Record
from loadframe.live.publisher import LETTERS
from loadframe.live.server import Answer, Page, page_of
from loadframe.store import Store
from loadframe.store.exploring import Findings, Kind, Question

#: Maximum length of a document's JSON, letters.
_LONGEST = 4000


class Source(Protocol):
    """Collections of documents that answer questions."""

    @property
    def title(self) -> str:
        """Title of the page."""

    @property
    def clock(self) -> bool:
        """Whether times are since the epoch, and not since the start of a run."""

    def collections(self) -> list[str]:
        """Return the names of all collections."""

    def fields(self, collection: str) -> dict[str, Kind]:
        """Return field name -> kind, such as `number`, of a collection; BadInput if the collection is unknown."""

    def explore(self, question: Question) -> Findings:
        """Return counts over time, values, statistics and documents for a question; BadInput for unknown names."""

    def answers(self) -> Sequence[Record]:
        """Return the chart data of the last recorded answer of each operation with a chart; empty without records."""

    def events(self) -> Sequence[Record]:
        """Return the recorded events of a run, such as a node that joins; empty if nothing is recorded."""


class StoreSource:
    """The documents of a store."""

    clock = True

    def __init__(self, store: Store, addresses: Sequence[str]) -> None:
        self._store, self._addresses = store, addresses
        self.title = f"{store.kind} at {', '.join(addresses)}"

    def collections(self) -> list[str]:
        """Ask the store for the names of all its collections. Waits for the answer."""
        return self._store.collections(self._addresses)

    def fields(self, collection: str) -> dict[str, Kind]:
        """Ask the store for the fields of a collection, name -> kind, and wait for the answer.

        BadInput if the collection is unknown.
        """
        return self._store.fields(self._addresses, collection)

    def explore(self, question: Question) -> Findings:
        """Ask the store for the answer to a question, and wait for it; BadInput for unknown names."""
        return self._store.explore(self._addresses, question)

    def answers(self) -> Sequence[Record]:
        """Return an empty list: only runs record answers."""
        return []

    def events(self) -> Sequence[Record]:
        """Return an empty list: only runs record events."""
        return []


_PAGE = page_of("explore.html", ("chart.js", "answer.js", "explore.js"))


class Exploration:
    """Site with the page of a source. Answers requests for `source`, `fields?...` and `findings?...`."""

    name = "the page"
    only_loopback = True

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def page(self) -> Page:
        """The HTML page."""
        return _PAGE

    def answer(self, path: str) -> Answer | None:
        """Return the answer as JSON to a path below the token, such as `fields?collection=a`.

        Return None for an unknown path. An error becomes JSON with the status 400 (BadInput), 502 (other errors of
        Loadframe, such as of the store) or 500 (any other). No error is raised.
        """
        name, _, query = path.partition("?")
        handler = {"source": self._described, "fields": self._fields, "findings": self._findings}.get(name)
        if handler is None:
            return None
        try:
            content, status = handler(parse_qs(query, keep_blank_values=True)), HTTPStatus.OK
        except BadInput as error:
            content, status = {"error": _sentence(error)}, HTTPStatus.BAD_REQUEST
        except LoadframeError as error:
            content, status = {"error": _sentence(error)}, HTTPStatus.BAD_GATEWAY
        except Exception as error:
            # Without an answer, the page would say that the server has ended.
            content = {"error": f"internal error: {type(error).__name__}: {error}"}
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        return Answer("application/json", iter([json.dumps(_plain(content)).encode()]), status)

    def _described(self, _: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return the source's `title`, `clock`, `collections`, and recorded `answers` and `events`.

        The query is ignored.
        """
        source = self._source
        return {
            "title": source.title,
            "clock": source.clock,
            "collections": source.collections(),
            "answers": source.answers(),
            "events": source.events(),
        }

    def _fields(self, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return `{"fields": name -> kind}` of the collection that the query `given` names; BadInput if unknown."""
        return {"fields": self._source.fields(_last(given, "collection") or "")}

    def _findings(self, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return the findings, as values for JSON, for the question in the query parameters `given`.

        They are those of `Question`, with its filters as `where` and `value`, both repeatable; of others, the last
        counts. BadInput for an invalid time, for numbers of `where` and `value` that differ, and for unknown names.
        """
        names, values = given.get("where", ()), given.get("value", ())
        if len(names) != len(values):
            raise BadInput("each `where` requires a `value`", remedy="give both, in the same order")
        question = Question(
            collection=_last(given, "collection") or "",
            time=_last(given, "time"),
            start=self._time(_last(given, "start")),
            end=self._time(_last(given, "end")),
            field=_last(given, "field"),
            filters=tuple(zip(names, values, strict=True)),
            largest="largest" in given,
        )
        findings = self._source.explore(question)
        return {
            # A deep document exceeds the recursion limit of asdict().
            **asdict(replace(findings, documents=())),
            "values": [[_label(value), count] for value, count in findings.values],
            "documents": [_document(document) for document in findings.documents],
        }

    def _time(self, text: str | None) -> float | None:
        """Return the time that a text names, s, or None for None. BadInput for other text.

        If the source has a clock, the text is ISO 8601 (UTC without a zone), and the result s since the epoch. Else
        both are a number of seconds since the run began.
        """
        if text is None:
            return None
        try:
            if self._source.clock:
                at = datetime.fromisoformat(text)
                return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
            seconds = float(text)
        except (ValueError, OverflowError):
            seconds = math.nan
        if not math.isfinite(seconds):
            form = "a time such as 2017-03-01T12:00 (UTC)" if self._source.clock else "a number of seconds"
            raise BadInput(f"invalid time {text!r}", remedy=f"give {form}")
        return seconds


def _last(given: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Return the last value of the query parameter `name`; None if it is missing or empty."""
    return (given.get(name) or ("",))[-1] or None


def _sentence(error: LoadframeError) -> str:
    """Return an error as one text: `PLACE: PROBLEM. REMEDY`, without the parts that it lacks."""
    what = f"{error.where}: {error.what}" if error.where else error.what
    return ". ".join(filter(None, [what, error.remedy]))


def _label(value: Any) -> str:
    """Return a value as text of at most 80 letters; values that are not text as JSON.

    A cut text ends with an ellipsis.
    """
    return _short(value if isinstance(value, str) else json.dumps(_plain(value)), LETTERS)


def _document(document: Any) -> str:
    """Return a document as indented JSON of at most 4,000 letters, or a sentence if it is nested too deeply."""
    try:
        return _short(json.dumps(_plain(document), indent=1, ensure_ascii=False), _LONGEST)
    except RecursionError:
        return "This document is nested too deeply to be shown."


def _short(text: str, most: int) -> str:
    """Return a text, cut to `most` letters. The last letter of a cut text is an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _plain(value: Any) -> Any:
    """Return a copy of a value with JSON types only: floats that are not finite become None, unknown objects text.

    Keys become text, tuples lists. RecursionError if the value is nested too deeply.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
