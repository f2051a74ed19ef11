"""Searches that read page by page, each page from where the last one ended: results of any length."""

from typing import Any

from pydantic import Field, model_validator

from loadframe.workload.forms.values import Body, Positive, Text
from loadframe.yamlfile import Model, wrong

#: Keys that the form sets and that its body must not have.
_OURS = ("size", "from", "search_after", "pit")


class Scroll(Model):
    """Scroll through all hits of a search, or through the first `pages` of `size` hits, and clear the scroll."""

    collection: Text
    body: Body = Field(default_factory=dict)
    size: Positive
    pages: Positive | None = None
    keep_alive: Text | None = None

    @model_validator(mode="after")
    def _whose_pages(self) -> "Scroll":
        _not_in_body(self.body)
        return self


class SearchAfter(Model):
    """Read all hits of a sorted search, or the first `pages` of `size` hits, each page after the last one's last hit.

    The sort's last field has to tell any two documents apart. With a point in time, which is the default, all pages are
    of one moment.
    """

    collection: Text
    body: dict[str, Any]
    size: Positive
    pages: Positive | None = None
    point_in_time: bool = True
    keep_alive: Text | None = None

    @model_validator(mode="after")
    def _sorted(self) -> "SearchAfter":
        _not_in_body(self.body)
        if not self.body.get("sort"):
            raise wrong("a page follows the last by its sort", "give the body a sort", key="body")
        return self


class Composite(Model):
    """Read all buckets of a composite aggregation, or the first `pages` of `size` buckets."""

    collection: Text
    sources: list[dict[str, Any]] = Field(min_length=1)
    aggregations: dict[str, Any] | None = None
    query: dict[str, Any] | None = None
    size: Positive
    pages: Positive | None = None


def _not_in_body(body: dict[str, Any] | str) -> None:
    if isinstance(body, str):
        return
    for key in _OURS:
        if key in body:
            raise wrong(f"{key} is not the body's to say here", "say size and pages beside the body", key="body")
