"""Operations of several requests: paging, repetition, and visibility probes."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from loadframe.workload.holes import Body, Positive, Text, names
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, short_json, wrong

#: Comparisons of a value in an answer, other than equality.
RELATIONS = ("at_least", "at_most", "one_of")


def _condition(value: Any) -> Any:
    """Return a value unchanged; refuse a mapping other than one comparison with a fitting bound.

    `at_least` and `at_most` need a number or a text with a placeholder, `one_of` a non-empty list. A value that is not
    a mapping is what the answer must equal.
    """
    if not isinstance(value, dict):
        return value
    relation = next(iter(value), None)
    if len(value) != 1 or relation not in RELATIONS:
        raise wrong(f"expected a value, or one of {', '.join(RELATIONS)}, not {short_json(value)}")
    bound = value[relation]
    number = isinstance(bound, int | float) and not isinstance(bound, bool)
    if relation == "one_of" and not (isinstance(bound, list) and bound):
        raise wrong(f"one_of requires a list of values; got {short_json(bound)}")
    if relation != "one_of" and not (number or (isinstance(bound, str) and list(names(bound)))):
        raise wrong(f"{relation} requires a number; got {short_json(bound)}")
    return value


Condition = Annotated[Any, BeforeValidator(_condition)]
Wait = Annotated[Duration, Field(gt=0)]


class Visible(Model):
    """A visibility probe: repeat a read until it succeeds, which measures when an earlier write becomes visible.

    `every` is the pause between an answer and the next attempt, and so the resolution. `within` is the timeout. With
    `take_in`, one event per `sample` of time is probed (0: none). Defaults: `every` 10ms and `within` 30s; with
    `take_in`, 500ms and 2m.
    """

    every: Wait | None = None
    within: Wait | None = None
    sample: Duration | None = None

    def plan(self) -> dict[str, float] | None:
        """Return the probe for the plan: `every`, `within` and, if set, `sample`, in seconds, with defaults filled in.

        None if `sample` is 0.
        """
        if self.sample is None:
            return {"every": self.every or 0.01, "within": self.within or 30.0}
        if not self.sample:
            return None
        return {"every": self.every or 0.5, "within": self.within or 120.0, "sample": self.sample}


class Repeat(Model):
    """Repeat a request until all conditions hold in one answer, or without conditions until it succeeds.

    A condition names a value of the answer (`a.b` for nested ones, or a JSON pointer) and the value that it must have,
    or `at_least`, `at_most` or `one_of`. `every` is the pause between an answer and the next attempt. `within` is the
    timeout for all attempts together.
    """

    until: Annotated[dict[Text, Condition], NOT_EMPTY] | None = None
    every: Wait = 1.0
    within: Wait = 600.0


#: Keys of a body that the form sets.
_RESERVED = ("size", "from", "search_after", "pit")


class Scroll(Model):
    """Scroll through all hits of a search, or the first `pages` of `size` hits, then clear the scroll."""

    collection: Text
    body: Body = Field(default_factory=dict)
    size: Positive
    pages: Positive | None = None
    keep_alive: Text | None = None

    @model_validator(mode="after")
    def _check_body(self) -> "Scroll":
        """Refuse a body with keys that paging sets."""
        _check_reserved(self.body)
        return self


class SearchAfter(Model):
    """Page through all hits of a sorted search, or the first `pages` of `size` hits, with search_after.

    The last sort field must be unique per document. With `point_in_time` (default), all pages show the same snapshot.
    """

    collection: Text
    body: dict[str, Any]
    size: Positive
    pages: Positive | None = None
    point_in_time: bool = True
    keep_alive: Text | None = None

    @model_validator(mode="after")
    def _check_body(self) -> "SearchAfter":
        """Refuse a body with keys that paging sets, or without a sort."""
        _check_reserved(self.body)
        if not self.body.get("sort"):
            raise wrong("search_after requires a sort in body", "add a sort to body", key="body")
        return self


class Composite(Model):
    """Page through all buckets of a composite aggregation, or the first `pages` of `size` buckets."""

    collection: Text
    sources: list[dict[str, Any]] = Field(min_length=1)
    aggregations: dict[str, Any] | None = None
    query: dict[str, Any] | None = None
    size: Positive
    pages: Positive | None = None


def _check_reserved(body: dict[str, Any] | str) -> None:
    """Refuse a body with keys that paging sets: `size`, `from`, `search_after` and `pit`. Texts are not checked."""
    if isinstance(body, str):
        return
    for key in _RESERVED:
        if key in body:
            raise wrong(f"body must not contain {key}: paging sets it", "use size and pages next to body", key="body")
