"""Operations of several requests: paging, and repetition until a condition holds."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from loadframe.workload.forms.values import Body, Positive, Text
from loadframe.workload.holes import names
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, shown, wrong

#: How the value in an answer may relate to the one that is wanted, other than being equal.
RELATIONS = ("at_least", "at_most", "one_of")


def _condition(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    relation = next(iter(value), None)
    if len(value) != 1 or relation not in RELATIONS:
        raise wrong(f"expected a value, or one of {', '.join(RELATIONS)}, not {shown(value)}")
    wanted = value[relation]
    number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    if relation == "one_of" and not (isinstance(wanted, list) and wanted):
        raise wrong(f"one_of wants a list of values, not {shown(wanted)}")
    if relation != "one_of" and not (number or (isinstance(wanted, str) and list(names(wanted)))):
        raise wrong(f"{relation} wants a number, not {shown(wanted)}")
    return value


Condition = Annotated[Any, BeforeValidator(_condition)]
Wait = Annotated[Duration, Field(gt=0)]


class Visible(Model):
    """Look until the answer is a success, which is then the first that sees what a request before it has written.

    `every` is the pause between an answer and the next look, and so the resolution; `within` is when it is given up.
    Beside `take_in` one event in each `sample` of time is looked for, none with 0; `every` is 500ms and `within` 2m
    there if they are not said, and 10ms and 30s elsewhere.
    """

    every: Wait | None = None
    within: Wait | None = None
    sample: Duration | None = None

    def plan(self) -> dict[str, float] | None:
        """Return it as plans have it, times in s; None where nothing is looked for."""
        if self.sample is None:
            return {"every": self.every or 0.01, "within": self.within or 30.0}
        if not self.sample:
            return None
        return {"every": self.every or 0.5, "within": self.within or 120.0, "sample": self.sample}


class Repeat(Model):
    """Repeat a request until all conditions hold in one answer, or, without conditions, until it succeeds.

    A condition names a value of the answer (a dot reaches inside; a name that begins with / is a JSON pointer) and
    gives the value that it must have, or `at_least`, `at_most` or `one_of`. `every` is the pause between an answer and
    the next attempt, `within` the time for all attempts together.
    """

    until: Annotated[dict[Text, Condition], NOT_EMPTY] | None = None
    every: Wait = 1.0
    within: Wait = 600.0


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
