"""Requests to a REST interface: request, captured values and expected response. Models only."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from loadframe.workload.holes import Place
from loadframe.yamlfile import Model, Scalar, short_json, wrong

#: A header's name (RFC 9110, section 5.6.2).
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Framing headers, which the driver sets.
_FRAMING = {"content-length", "transfer-encoding", "connection", "content-encoding", "expect", "upgrade"}


def _path(value: str) -> str:
    """Return a path unchanged; refuse it if it does not start with a slash."""
    if not value.startswith("/"):
        raise wrong("a path must start with /", f"write /{value}")
    return value


def _pointer(value: str) -> str:
    """Return a text unchanged; refuse anything but a JSON pointer, which is empty for the whole value."""
    if value and not value.startswith("/"):
        raise wrong(f"{short_json(value)} is not a JSON pointer", f"write /{value.replace('.', '/')}")
    return value


def _header(value: str) -> str:
    """Return the name of a header unchanged; refuse an invalid one, and headers that the driver sets."""
    if not _TOKEN.fullmatch(value):
        raise wrong(f"{short_json(value)} is not a valid header name")
    if value.lower() in _FRAMING:
        raise wrong(f"the load generator sets the header {value}", "remove it")
    return value


def _several(value: Any) -> Any:
    """Return a list unchanged, and another value as a list of one."""
    return value if isinstance(value, list) else [value]


Path = Annotated[str, AfterValidator(_path)]
Pointer = Annotated[str, AfterValidator(_pointer)]
Header = Annotated[str, AfterValidator(_header)]
Status = Annotated[int, Field(ge=200, le=599)]


class Source(Model):
    """A value to capture from a response: by JSON pointer or header, with a default (`otherwise`)."""

    json_: Pointer | None = Field(None, alias="json")
    header: Header | None = None
    otherwise: Any = None

    @model_validator(mode="after")
    def _check_one_place(self) -> "Source":
        """Refuse other than exactly one of `json` and `header`."""
        if (self.json_ is None) == (self.header is None):
            what = "a captured value needs exactly one place"
            raise wrong(what, "use json: /pointer or header: Name")
        return self


class Expect(Model):
    """Conditions for a successful response: status, JSON values, contained text, headers."""

    status: Annotated[list[Status], BeforeValidator(_several), Field(min_length=1)] | None = None
    json_: dict[Pointer, Any] | None = Field(None, alias="json")
    contains: Annotated[str, Field(min_length=1)] | None = None
    headers: dict[Header, Scalar] | None = None


def _timed(value: str) -> str:
    """Return the name of a timing unchanged; refuse other characters than ASCII letters, digits, `_` and `-`."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", value):
        raise wrong(f"{short_json(value)} is not the name of a timing", "use letters, digits, _ and -")
    return value


class Http(Model):
    """One request to a REST interface. `body` is sent as JSON, `text` unchanged.

    `timing` names metrics of the response header `Server-Timing` to record as parts of the operation.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
    path: Path
    headers: dict[Header, Scalar] = Field(default_factory=dict)
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    body: Any = None
    text: str | None = None
    capture: dict[str, Source] = Field(default_factory=dict)
    expect: Expect | None = None
    timing: Annotated[list[Annotated[str, AfterValidator(_timed)]], BeforeValidator(_several)] = Field(
        default_factory=list
    )

    @model_validator(mode="after")
    def _check_body(self) -> "Http":
        """Refuse `body` with `text`."""
        if self.body is not None and self.text is not None:
            raise wrong("body and text exclude each other", "remove one of them", key="text")
        return self


def captured(operations: Any) -> Iterator[tuple[Place, str]]:
    """Yield the place (path of the name in the file) and the name of each captured value in a file's `operations`.

    The operations may be invalid; invalid parts are skipped.
    """
    for name, operation in operations.items() if isinstance(operations, Mapping) else ():
        families = operation if isinstance(operation, Mapping) else ()
        for keys in ((), ("http", "http"), *((key,) for key in families)):
            form = operation
            for key in keys:
                form = form.get(key) if isinstance(form, Mapping) else None
            names = form.get("capture") if isinstance(form, Mapping) else None
            for captured_name in names if isinstance(names, Mapping) else ():
                yield ("operations", name, *keys, "capture", captured_name), captured_name
