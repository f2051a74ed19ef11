"""Conversion of YAML text to data with positions.

Values follow YAML 1.2's core schema: only `true` and `false` are booleans, `1e3` is a number, `no` and dates are
texts. Tags are refused; keys are unique texts. Size, nesting and the expansion of aliases are limited, so that no file
exhausts the machine.
"""

import hashlib
import json
import math
import re
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from loadframe.base.errors import BadInput

#: The largest public Rally tracks make workloads of 3 MB and 150,000 values, with tens of thousands of fields.
MAX_BYTES = 16 * 2**20
MAX_NODES = 500_000
MAX_DEPTH = 60

#: Path of keys and indices from the top of the data.
Place = tuple[str | int, ...]
#: Line and column, from 1.
Position = tuple[int, int]


@dataclass(frozen=True)
class Document:
    """A file's data, and the position of each part in the file."""

    path: Path
    text: str = field(repr=False)
    data: Any
    #: Positions of the key and the value at each place. Parts of an alias have the position of the alias.
    positions: Mapping[Place, tuple[Position, Position]] = field(repr=False)
    #: Hash of the file's bytes, in hexadecimal digits.
    sha256: str

    @property
    def origin(self) -> str:
        """The name of the whole document in errors."""
        return str(self.path)

    def where(self, place: Place = (), *, key: bool = False) -> str:
        """Return `file:line:column` of the value (or the key) at a place, or of its nearest known parent.

        The empty place is the whole data.
        """
        while place not in self.positions:
            place = place[:-1]
        line, column = self.positions[place][0 if key else 1]
        return f"{self.path}:{line}:{column}"

    def error(self, place: Place, what: str, remedy: str | None = None, *, key: bool = False) -> BadInput:
        """Return the error to raise for the value (or the key) at a place."""
        return BadInput(what, where=self.where(place, key=key), remedy=remedy)


@dataclass(frozen=True)
class DataDocument(Document):
    """Data of a program instead of a file. Errors name the key, such as `phases[0].clients`."""

    #: Name of the data in errors, such as `Workload`.
    title: str = ""

    @property
    def origin(self) -> str:
        """The name of the whole document in errors."""
        return self.title

    def where(self, place: Place = (), *, key: bool = False) -> str:
        """Return the title and the path of the key at a place, such as `Workload: phases[0].clients`.

        `key` has no effect.
        """
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
        return f"{self.title}: {''.join(steps).lstrip('.')}" if steps else self.title


def document_of(data: Mapping[str, Any], title: str) -> DataDocument:
    """Return data of a program as a document; `title` names it in errors. BadInput if it is not JSON data.

    Paths in the data become texts. The document's own path is `title` in the current folder, so relative paths start
    there.
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, default=_path_text)
        digest = hashlib.sha256(text.encode()).hexdigest()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(
            f"a value is not JSON data: {error}", where=title, remedy="use texts, numbers, lists and dictionaries"
        ) from error
    return DataDocument(Path.cwd() / title, text, json.loads(text), {}, digest, title)


def _path_text(value: object) -> str:
    """Return a path as text; TypeError for other types. For `json.dumps`."""
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} has the type {type(value).__name__}")


def read(path: str | Path) -> Document:
    """Read a file's data; BadInput, with the position, if the file does not exist or is not YAML."""
    path = Path(path)
    content = _content(path)
    composer = _Composer(path, _text(path, content), hashlib.sha256(content).hexdigest())
    # Python ignores an interrupt in a generator that it closes itself, and prints its traceback.
    with closing(composer.events):
        return composer.document()


@lru_cache(maxsize=8192)
def scalar(text: str) -> str | int | float | bool | None:
    """Return the null, boolean, number or text that unquoted YAML text stands for.

    ValueError for numbers that are not finite or need more than 64 bits.
    """
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", text, re.ASCII):
        # Check the length first: Python refuses numbers with thousands of digits.
        number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if len(text) < 100 else 2**64
        if not -(2**63) <= number < 2**64:
            raise ValueError("this whole number does not fit into 64 bits")
        return number
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text, re.ASCII):
        if math.isinf(float(text)):
            raise ValueError("this number is too large")
        return float(text)
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", text):
        raise ValueError("the number must be finite")
    return text


def _content(path: Path) -> bytes:
    """Return a file's bytes; BadInput if it is missing, a folder, unreadable or larger than 16 MiB."""
    try:
        if path.is_dir():
            raise BadInput("this is a folder", where=str(path), remedy="give the path of a YAML file")
        if not path.is_file():
            raise BadInput("no such file", where=str(path), remedy="check the path")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read the file: {error.strerror}", where=str(path), remedy="check the path") from error
    if len(content) > MAX_BYTES:
        raise BadInput(f"the file is larger than {MAX_BYTES // 2**20} MiB", where=str(path), remedy="check the path")
    return content


def _text(path: Path, content: bytes) -> str:
    """Decode a file's bytes as UTF-8, without a byte order mark; BadInput with the position of an invalid byte."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", errors="replace")
        raise BadInput("this is not UTF-8 text", where=_after(path, before), remedy="save the file as UTF-8") from None


def _after(path: Path, text: str) -> str:
    """Return `file:line:column` of the character after `text`, the beginning of the file."""
    return f"{path}:{text.count(chr(10)) + 1}:{len(text) - text.rfind(chr(10))}"


@dataclass(frozen=True)
class _ComposedNode:
    """A composed node: its data, its number of values with expanded aliases, and its depth."""

    data: Any
    nodes: int
    height: int


class _Composer:
    """Builder of data and positions from the parser's events."""

    def __init__(self, path: Path, text: str, sha256: str) -> None:
        """Take the file's path, its text, and the hash of its bytes."""
        self.path = path
        self.text = text
        self.sha256 = sha256
        self.positions: dict[Place, tuple[Position, Position]] = {}
        self.anchors: dict[str, _ComposedNode] = {}
        self.nodes = 0
        self.events = self._parsed()

    def document(self) -> Document:
        """Compose the document; BadInput, with the position, for an error, an empty file or a second document."""
        next(self.events)  # the stream's start
        if isinstance(next(self.events), yaml.StreamEndEvent):
            raise BadInput("the file is empty", where=str(self.path))
        data = self._part(next(self.events), (), None).data
        next(self.events)  # the document's end
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._error(after, "a second document begins", "put one document in a file")
        return Document(self.path, self.text, data, self.positions, self.sha256)

    def _parsed(self) -> Generator[Any]:
        """Yield the parser's events; BadInput, with the position, for a forbidden character or invalid YAML."""
        strange = yaml.reader.Reader.NON_PRINTABLE.search(self.text)
        if strange is not None:
            where = _after(self.path, self.text[: strange.start()])
            raise BadInput(f"the character U+{ord(strange[0]):04X} is not allowed", where=where)
        try:
            # libyaml's parser is about twenty times as fast as the Python parser.
            yield from yaml.parse(self.text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            raise self._unparsable(error) from None
        except yaml.reader.ReaderError as error:
            raise BadInput(f"this is not YAML: {error.reason}", where=str(self.path)) from None
        except (ValueError, OverflowError) as error:  # escapes and directives with impossible numbers
            raise BadInput(f"this is not YAML: {error}", where=str(self.path)) from None

    def _unparsable(self, error: yaml.MarkedYAMLError) -> BadInput:
        """Return the error for text that is not YAML, with its position and a remedy for common causes."""
        mark = error.problem_mark or error.context_mark
        if mark is None:
            return BadInput(f"this is not YAML: {error}", where=str(self.path))
        lines = self.text.split("\n")
        line = lines[mark.line : mark.line + 1]
        remedy = None
        if line and "\t" in line[0]:
            remedy = "indent with spaces: YAML takes no tabs"
        elif line and "${" in line[0]:
            remedy = 'within { } and [ ], put "${...}" in quotes'
        where = f"{self.path}:{mark.line + 1}:{mark.column + 1}"
        if not line or mark.line == len(lines) - 1 > 0 == len(line[0]):
            # For a truncated text, libyaml points behind its last line.
            where = _after(self.path, self.text.rstrip("\n"))
        return BadInput(f"this is not YAML: {error.problem or error.context}", where=where, remedy=remedy)

    def _error(self, event: Any, what: str, remedy: str | None = None) -> BadInput:
        """Return the error to raise at the position of an event."""
        line, column = _position(event)
        return BadInput(what, where=f"{self.path}:{line}:{column}", remedy=remedy)

    def _part(self, event: Any, place: Place, key: Position | None) -> _ComposedNode:
        """Compose the node that begins with an event, and return it; store the positions of its parts, and its anchor.

        `place` is its path of keys and indices, `key` the position of its key. An alias returns the node of its anchor.
        """
        position = _position(event)
        if key is not None and isinstance(event, yaml.ScalarEvent) and not event.style and not event.value:
            position = key  # an empty value has no text: use the key's position
        self.positions[place] = (key or position, position)
        first = self.nodes
        self._count(event, 1, len(place) + 1)
        if isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            if name not in self.anchors:
                raise self._error(event, f"no anchor &{name} is complete before *{name}")
            part = self.anchors[name]
            self._count(event, part.nodes, len(place) + part.height)
            return part
        self._refuse_tag(event)
        data: Any
        if isinstance(event, yaml.MappingStartEvent):
            data, height = self._mapping(place)
        elif isinstance(event, yaml.SequenceStartEvent):
            data, height = self._sequence(place)
        else:
            data, height = self._scalar(event), 0
        part = _ComposedNode(data, self.nodes - first, height + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = part
        return part

    def _count(self, event: Any, nodes: int, depth: int) -> None:
        """Add `nodes` to the number of values; BadInput above 500,000 values in total, or for a `depth` above 60.

        `event` is the place of the error.
        """
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self._error(event, f"more than {MAX_NODES:,} values, with aliases counted in full")
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")

    def _refuse_tag(self, event: Any) -> None:
        """Raise BadInput, with the position, for a key or value with a YAML tag."""
        if event.tag is not None:
            raise self._error(event, f"tags such as {event.tag} are not supported", "remove the tag")

    def _mapping(self, place: Place) -> tuple[dict[str, Any], int]:
        """Compose a mapping up to its end; return its data and the number of levels below it, 0 if it is empty.

        `place` is the mapping's path. BadInput for duplicate keys and for keys that are not scalars.
        """
        data: dict[str, Any] = {}
        height = 0
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "a key must be a text")
            self._refuse_tag(event)
            key = self._sound(event)
            if key in data:
                raise self._error(event, f"the key {key!r} stands here twice", "remove one of them")
            part = self._part(next(self.events), (*place, key), _position(event))
            data[key] = part.data
            height = max(height, part.height)
        return data, height

    def _sequence(self, place: Place) -> tuple[list[Any], int]:
        """Compose a list up to its end; return its data and the number of levels below it, 0 if it is empty.

        `place` is the list's path.
        """
        data: list[Any] = []
        height = 0
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            part = self._part(event, (*place, len(data)), None)
            data.append(part.data)
            height = max(height, part.height)
        return data, height

    def _scalar(self, event: Any) -> Any:
        """Return a scalar's value: its text if quoted, else by the core schema; BadInput for numbers out of range."""
        text = self._sound(event)
        if event.style:
            return text
        try:
            return scalar(text)
        except ValueError as error:
            raise self._error(event, str(error)) from None

    def _sound(self, event: Any) -> str:
        """Return a scalar's text; BadInput if it has half of a surrogate pair, which cannot be encoded."""
        if _HALF.search(event.value):
            raise self._error(event, "half of a surrogate pair is not a character")
        return str(event.value)


_HALF = re.compile("[\ud800-\udfff]")


def _position(event: Any) -> Position:
    """Return the line and column, from 1, at which an event starts."""
    return event.start_mark.line + 1, event.start_mark.column + 1
