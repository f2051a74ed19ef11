"""Renders the Jinja2 templates of a track in a sandbox that reads only the track's checkout.

To map rendered text to lines, a mark precedes the first character of each line outside of tags. It follows white space,
so that white-space control of tags is unaffected. Bodies of macros and of set, call and filter blocks have no marks,
because templates may process their text.

`{{ rally.collect(parts="...") }}` is replaced by the text of the parts before rendering, so that all parts share one
scope; other uses of `collect` include the parts. Rendering may not terminate: run it through `isolated`.
"""

import os
import re
import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from loadframe.base.errors import BadInput
from loadframe.workload.importers.source import MAX_BYTES, json_of, key_offsets, text_of
from loadframe.yamlfile import did_you_mean

#: Names of the main file of a track or workload.
TRACKS = ("track.json", "workload.json")
REMEDY = "set --root to the folder with all files of the track"
#: The shared folder of the tracks in a checkout.
_SHARED = "common_operations"
#: Number of parent folders to search for the shared folder.
_NEAR = 3


def track_file(path: Path) -> Path:
    """Return the main file of a track, given by its folder or the file itself; BadInput if it does not exist."""
    if not path.exists():
        raise BadInput("the track does not exist", where=str(path), remedy="check the path")
    if not path.is_dir():
        return path
    for name in TRACKS:
        if (path / name).is_file():
            return path / name
    what = "the folder has neither track.json nor workload.json"
    raise BadInput(what, where=str(path), remedy="name the folder or file of a track")


def root_of(file: Path, root: Path | None = None) -> Path:
    """Return the folder that a track's templates may read: `root`, or the checkout of the track.

    The checkout is the nearest parent with `.git`, else the nearest parent with `common_operations`, else the parent
    folder if it has several tracks. It is never the user's home or a folder above it. The default is the track's
    folder. BadInput for a `root` that does not contain the track.
    """
    folder = file.parent.resolve()
    if root is not None:
        if not root.is_dir() or not folder.is_relative_to(root.resolve()):
            what = f"the folder does not contain {folder}"
            raise BadInput(what, where=f"--root {root}", remedy="name a folder that contains the track")
        return root.resolve()
    around = [folder, *_below_home(folder)]
    for outer in around:
        if (outer / ".git").exists():
            return outer
    for outer in around[1 : 1 + _NEAR]:
        if (outer / _SHARED).is_dir():
            return outer
    parent = around[1:2]
    return parent[0] if parent and _holds_several(parent[0]) else folder


def _below_home(folder: Path) -> list[Path]:
    """Return the parents of a folder, nearest first, without the user's home, its parents and the root."""
    home = Path.home().resolve()
    outside = {home, *home.parents, Path(folder.anchor)}
    return [outer for outer in folder.parents if outer not in outside]


def _holds_several(folder: Path) -> bool:
    """Return whether a folder has several folders of tracks; False if it cannot be read."""
    try:
        tracks = [inner for inner in folder.iterdir() if any((inner / name).is_file() for name in TRACKS)]
    except OSError:
        return False
    return len(tracks) > 1


#: Private-use characters that delimit marks.
_BEGIN, _END = "\ue000", "\ue001"
_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_KEEPS = re.compile(r"\{%[-+]?\s*(macro\b|call\b|filter\b|set\b(?!.*=))", re.DOTALL)
_KEPT = re.compile(r"\{%[-+]?\s*end(macro|call|filter|set)\b")
_MARK = re.compile(f"{_BEGIN}([0-9]+):([0-9]+){_END}")


def marked(text: str, file: int) -> str:
    """Return a template with marks of file and line; unchanged if it already has mark characters.

    `file` is the number of the template's file.
    """
    if _BEGIN in text or _END in text:
        return text
    pieces: list[str] = []
    at, line, keeping = 0, 1, 0
    for tag in _TAG.finditer(text):
        pieces.append(_marked_data(text[at : tag.start()], file, line) if not keeping else text[at : tag.start()])
        pieces.append(tag[0])
        keeping = max(0, keeping + bool(_KEEPS.match(tag[0])) - bool(_KEPT.match(tag[0])))
        line += text.count("\n", at, tag.end())
        at = tag.end()
    rest = text[at:]
    return "".join([*pieces, rest if keeping else _marked_data(rest, file, line)])


def _marked_data(data: str, file: int, line: int) -> str:
    """Return text outside of tags with a mark in each line that is not blank, numbered from `line`."""
    pieces = []
    for number, piece in enumerate(data.split("\n"), start=line):
        blank = len(piece) - len(piece.lstrip())
        pieces.append(f"{piece[:blank]}{_BEGIN}{file}:{number}{_END}{piece[blank:]}" if piece.strip() else piece)
    return "\n".join(pieces)


@dataclass(frozen=True)
class Origins:
    """Origins of a rendered text: offsets of its pieces, and file number and line of each piece."""

    offsets: list[int]
    places: list[tuple[int, int]]

    def place(self, offset: int) -> tuple[int, int] | None:
        """Return file number and line of a character of the text, or None before the first mark."""
        index = bisect_right(self.offsets, offset) - 1
        return self.places[index] if index >= 0 else None


def unmarked(text: str) -> tuple[str, Origins]:
    """Return a rendered text without its marks, and its origins."""
    pieces, offsets, places = [], [], []
    at = length = 0
    for mark in _MARK.finditer(text):
        pieces.append(text[at : mark.start()])
        length += mark.start() - at
        offsets.append(length)
        places.append((int(mark[1]), int(mark[2])))
        at = mark.end()
    pieces.append(text[at:])
    return "".join(pieces), Origins(offsets, places)


_COLLECT = re.compile(r"""\{\{-?\s*(?:rally|benchmark)\.collect\(\s*parts\s*=\s*(["'])(.+?)\1\s*\)\s*-?\}\}""")
_MAX_PARTS = 2000

_HELPERS = """\
{%- macro collect(parts) -%}
{%- for part in glob(parts) -%}{%- if not loop.first %}, {% endif -%}{%- include part -%}{%- endfor -%}
{%- endmacro -%}
{%- macro exists_set_param(setting_name, value, default_value=None, comma=True) -%}
{%- if value is defined or default_value is not none -%}
{%- if comma %}, {% endif -%}"{{ setting_name }}": {{ (value if value is defined else default_value) | tojson }}
{%- endif -%}
{%- endmacro -%}
"""


@dataclass(frozen=True)
class _Chunk:
    """A piece of the assembled template, with its file and line."""

    text: str
    file: Path
    line: int


class Templates:
    """Renders the files of a track with parameters; templates can only read files below the root folder."""

    def __init__(self, folder: Path, root: Path, parameters: Mapping[str, Any]) -> None:
        """`folder` is the track's folder, and `root` the folder below which templates may read."""
        self.folder = folder.resolve()
        self.root = root.resolve()
        self.parameters = parameters
        #: Undeclared names of the templates read so far: the parameters they use.
        self.used_names: set[str] = set()
        #: Files read with marks; the index is the file number. None: read without marks.
        self._marked: list[Path] | None = None
        self._parts = 0

    @cached_property
    def environment(self) -> SandboxedEnvironment:
        """The environment for rendering, with the parameters."""
        environment = self._environment()
        known = set(environment.globals)
        environment.globals.update({key: value for key, value in self.parameters.items() if key not in known})
        return environment

    @cached_property
    def _without_parameters(self) -> SandboxedEnvironment:
        """An environment without the parameters, to find the names that a template uses."""
        return self._environment()

    def _environment(self) -> SandboxedEnvironment:
        """Return a sandboxed Jinja environment with Rally's helpers, filters and globals."""
        helpers = {f"{tool}.helpers": _HELPERS for tool in ("rally", "benchmark")}
        loader = jinja2.ChoiceLoader([jinja2.DictLoader(helpers), jinja2.FunctionLoader(self._included)])
        environment = SandboxedEnvironment(loader=loader)
        environment.filters.update(_FILTERS)
        environment.globals.update(now=time.time(), glob=self._glob, build_flavor="default", serverless_operator=False)
        return environment

    def json(self, path: Path) -> Any:
        """Render a file and parse it as JSON; BadInput, with file and line if known, for errors."""
        text = self._text(path)
        try:
            return json_of(text, f"{path} (rendered)")
        except BadInput:
            located = self._located(path)
            # Render again with marks to find the line of the character where parsing failed.
            if located is None or located[0] != text:
                raise
            return json_of(text, str(path), lambda offset: self._place(located[1], offset) or str(path))

    def places(self, path: Path) -> dict[str, str]:
        """Return `file:line` of each object and key, by its path in the rendered JSON (form: `, operations[2], name`).

        Empty if rendering fails.
        """
        located = self._located(path)
        if located is None:
            return {}
        text, origins = located
        located_parts = {part: self._place(origins, offset) for part, offset in key_offsets(text).items()}
        return {part: place for part, place in located_parts.items() if place is not None}

    def check_parameters(self) -> None:
        """Refuse parameters that no template uses, with BadInput; call it after rendering."""
        for name in self.parameters:
            if name not in self.used_names:
                remedy = did_you_mean(name, self.used_names)
                raise BadInput("the track does not use this parameter", where=f"--set {name}", remedy=remedy)

    def _text(self, path: Path) -> str:
        """Return the rendered text of a file, and note the names that it uses. BadInput for an invalid template."""
        chunks = self._assembled(path, ())
        source = "".join(chunk.text for chunk in chunks)
        try:
            self.used_names |= meta.find_undeclared_variables(self._without_parameters.parse(source))
            return self._rendered(source, path)
        except jinja2.TemplateSyntaxError as error:
            file = error.filename or "<template>"
            where = _where(chunks, error.lineno) if file.startswith("<") else f"{file}:{error.lineno}"
            what = f"invalid template: {error.message}"
            raise BadInput(what, where=where, remedy="correct the template") from None
        except _FAILURES as error:
            where = _where(chunks, _line(error.__traceback__))
            what = f"rendering failed: {type(error).__name__}: {str(error)[:300]}"
            remedy = "set the parameters it needs with --set, or correct the template"
            raise BadInput(what, where=where, remedy=remedy) from None

    def _located(self, path: Path) -> tuple[str, Origins] | None:
        """Render a file with marks; return the text without them and its origins, or None if rendering fails.

        Marks stay on for later reads.
        """
        self._marked, self._parts = [], 0
        # Disable Jinja's cache: it holds templates without marks.
        self.environment.cache = None
        try:
            return unmarked(self._text(path))
        except BadInput:
            return None

    def _place(self, origins: Origins, offset: int) -> str | None:
        """Return file and line of a character of a rendered text, or None if they are unknown."""
        place = origins.place(offset)
        return None if place is None or self._marked is None else f"{self._marked[place[0]]}:{place[1]}"

    def _rendered(self, source: str, path: Path) -> str:
        """Render the assembled text of a template. BadInput if the result exceeds 16 MiB, 32 MiB with marks.

        Errors of the template propagate; see `_FAILURES`.
        """
        pieces, length = [], 0
        for piece in self.environment.from_string(source).generate():
            length += len(piece)
            if length > MAX_BYTES * (1 if self._marked is None else 2):
                what = f"the rendered track exceeds {MAX_BYTES // 2**20} MiB"
                raise BadInput(what, where=str(path), remedy="check the loops of its templates")
            pieces.append(piece)
        return "".join(pieces)

    def _assembled(self, path: Path, around: tuple[Path, ...]) -> list[_Chunk]:
        """Return a file's text in pieces, with collected parts inserted.

        `around` are the files that collect it. BadInput for recursion, and for too many parts.
        """
        self._parts += 1
        if path in around or self._parts > _MAX_PARTS:
            what = f"rally.collect is recursive, or collects more than {_MAX_PARTS} parts"
            raise BadInput(what, where=str(path), remedy="correct the calls of rally.collect")
        text = self._read(path)
        chunks, at = [], 0
        for match in _COLLECT.finditer(text):
            chunks.append(_Chunk(text[at : match.start()], path, text.count("\n", 0, at) + 1))
            for index, part in enumerate(self._files(path.parent, match[2])):
                chunks += [_Chunk(",\n", path, 1)] * bool(index) + self._assembled(part, (*around, path))
            at = match.end()
        return [*chunks, _Chunk(text[at:], path, text.count("\n", 0, at) + 1)]

    def _read(self, path: Path) -> str:
        """Return the text of a file, with marks of file and line if they are on; then also record the file."""
        text = text_of(path)
        if self._marked is None:
            return text
        self._marked.append(path)
        return marked(text, len(self._marked) - 1)

    def _included(self, name: str) -> tuple[str, str, None] | None:
        """Return text, path and None for an included or imported template; None if it does not exist.

        `name` is relative to the track's folder. BadInput for a file outside of the root folder.
        """
        path = self.inside(self.folder / name)
        return (self._read(path), str(path), None) if path.is_file() else None

    def _files(self, folder: Path, pattern: str) -> list[Path]:
        """Return the files in a folder that match a pattern, sorted. BadInput for files outside of the root folder."""
        try:
            paths = sorted(
                path for path in folder.glob(pattern) if path.is_file() and _is_meant(path.relative_to(folder), pattern)
            )
        except (ValueError, NotImplementedError, OSError) as error:
            raise BadInput(f"collect({pattern!r}): {error}", where=str(folder), remedy="correct the pattern") from None
        return [Path(os.path.normpath(self.inside(path))) for path in paths]

    def _glob(self, pattern: str) -> list[str]:
        """Return the files below the track's folder that match a pattern, relative to it: `glob` of templates."""
        return [os.path.relpath(path.resolve(), self.folder) for path in self._files(self.folder, pattern)]

    def inside(self, path: Path) -> Path:
        """Return `path` unchanged if it is below the root folder; BadInput for a path outside or a hidden one.

        A JSON file may start with a dot, as system templates do; its folders must not.
        """
        resolved = path.resolve()
        if not resolved.is_relative_to(self.root):
            what = f"the track reads {path}, which is outside {self.root}"
            raise BadInput(what, where=str(self.folder), remedy=REMEDY)
        parts = resolved.relative_to(self.root).parts
        if any(part.startswith(".") for part in (parts[:-1] if resolved.suffix == ".json" else parts)):
            what = f"the track reads {path}, which is hidden"
            raise BadInput(what, where=str(self.folder), remedy="rename the file or folder")
        return path


#: Exceptions that rendering a template may raise.
_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


def _is_meant(path: Path, pattern: str) -> bool:
    """Return whether Rally's glob would return `path`, a match of `pattern`.

    `*` does not match a leading dot: parts of the path with one need a part of the pattern with one.
    """
    dotted = [part for part in pattern.split("/") if part.startswith(".")]
    return all(any(fnmatchcase(part, one) for one in dotted) for part in path.parts if part.startswith("."))


def _line(traceback: TracebackType | None) -> int:
    """Return the line in the assembled template of the innermost of its frames in a traceback; 1 if it has none."""
    line = 1
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _where(chunks: list[_Chunk], line: int) -> str:
    """Return the original `file:line` of a line, from 1, of the assembled template.

    For a line beyond the end, return the last file alone.
    """
    at = 1
    for chunk in chunks:
        lines = chunk.text.count("\n")
        if line <= at + lines:
            return f"{chunk.file}:{chunk.line + line - at}"
        at += lines
    return str(chunks[-1].file)


def _instant(value: Any, date_format: str) -> datetime:
    """Convert a datetime, seconds since 1970, or a text in `date_format` to a datetime; UTC without a zone.

    A datetime is returned unchanged. ValueError for a text in another format.
    """
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    read = datetime.strptime(str(value), date_format)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _days_ago(start: Any, end: Any, date_format: str = "%d-%m-%Y") -> int:
    """Return the whole days from `start` to `end` (as in `_instant`), rounded down: the filter `days_ago`."""
    return (_instant(end, date_format) - _instant(start, date_format)).days


def _start_date(date: Any, date_format: str = "%Y-%m-%d") -> str:
    """Return a date (as in `_instant`) as a text in `date_format`: the filter `get_start_date` of templates."""
    return _instant(date, date_format).strftime(date_format)


def _version_between(version: str, first: str, last: str) -> bool:
    """Return whether `first` <= `version` <= `last`, compared number by number: the filter `version_between`.

    A shorter version comes before its extensions: 8.0 < 8.0.0. ValueError for other characters than digits and dots.
    """
    numbers = [[int(number) for number in text.split(".")] for text in (first, version, last)]
    return numbers == sorted(numbers)


def _end_date(start: Any, duration_days: int = 1, date_format: str = "%Y-%m-%d") -> str:
    """Return the date `duration_days` after `start`, as text in `date_format`: the filter `get_end_date`."""
    return (_instant(start, date_format) + timedelta(days=duration_days)).strftime(date_format)


_FILTERS = {
    "days_ago": _days_ago,
    "get_start_date": _start_date,
    "get_end_date": _end_date,
    "version_between": _version_between,
}


def expand(path: Path, root: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Render a track and return it as data; names of files for indices and templates become their content.

    `path` is the track's file; only files below `root` are read. Refuses parameters that no template uses. Time and
    memory are unlimited here; use `isolated.expand` for untrusted tracks. BadInput, with its place, for errors.
    """
    templates = Templates(path.parent, root, parameters)
    track = templates.json(path)
    if not isinstance(track, dict):
        raise BadInput("expected a JSON object", where=str(path), remedy="name the file of a track")
    for key, file in _NAMED.items():
        entries = track.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get(file), str):
                # Like Rally and OpenSearch Benchmark, treat an empty name as missing.
                entry[file] = templates.json(templates.inside(path.parent / entry[file])) if entry[file] else None
    templates.check_parameters()
    return track


def locate(path: Path, root: Path, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return `file:line` of each part of a track, by its path in messages, such as `, operations[2]`.

    Empty if rendering fails. Time and memory are unlimited here; use `isolated.locate` for untrusted tracks.
    """
    return Templates(path.parent, root, parameters).places(path)


#: Sections whose entries name a file, and the key of the name.
_NAMED = {
    "indices": "body",
    "templates": "template",
    "component-templates": "template",
    "composable-templates": "template",
}
