"""Renders a track's Jinja2 templates: with the helpers that tracks rely on, in a sandbox, within the track's checkout.

`rally.collect(parts="...")` is replaced by the parts' text before anything is rendered, so that all parts share one
scope; wherever else a track names it, it includes them. Run it in a process of its own: see `isolated`.
"""

import os
import re
import time
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

from loadframe.errors import BadInput
from loadframe.workload.importers import places
from loadframe.workload.importers.rally import checkout, marks
from loadframe.workload.importers.source import MAX_BYTES, json_of, text_of
from loadframe.yamlfile import did_you_mean

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
    """A piece of the assembled template, and where it came from."""

    text: str
    file: Path
    line: int


class Templates:
    """Renders the files of one track with some parameters; templates see no file outside the root folder."""

    def __init__(self, folder: Path, root: Path, parameters: Mapping[str, Any]) -> None:
        self.folder = folder.resolve()
        self.root = root.resolve()
        self.parameters = parameters
        #: The names that the templates read so far would take from outside.
        self.asked: set[str] = set()
        #: The files that were read with marks, which have the numbers of their places here.
        self._marked: list[Path] | None = None
        self._parts = 0

    @cached_property
    def environment(self) -> SandboxedEnvironment:
        """Where templates are rendered."""
        environment = self._environment()
        known = set(environment.globals)
        environment.globals.update({key: value for key, value in self.parameters.items() if key not in known})
        return environment

    @cached_property
    def _asking(self) -> SandboxedEnvironment:
        """An environment without the parameters, which tells which ones a template asks for."""
        return self._environment()

    def _environment(self) -> SandboxedEnvironment:
        helpers = {f"{tool}.helpers": _HELPERS for tool in ("rally", "benchmark")}
        loader = jinja2.ChoiceLoader([jinja2.DictLoader(helpers), jinja2.FunctionLoader(self._included)])
        environment = SandboxedEnvironment(loader=loader)
        environment.filters.update(_FILTERS)
        environment.globals.update(now=time.time(), glob=self._glob, build_flavor="default", serverless_operator=False)
        return environment

    def json(self, path: Path) -> Any:
        """Return the data of a rendered file; BadInput, with the place, if it is not valid."""
        text = self._text(path)
        try:
            return json_of(text, f"{path} (rendered)")
        except BadInput:
            located = self._located(path)
            # With marks it fails at the same character, whose place is known then.
            if located is None or located[0] != text:
                raise
            return json_of(text, str(path), lambda offset: self._place(located[1], offset) or str(path))

    def places(self, path: Path) -> dict[str, str]:
        """Return the file and the line of each object and each key of a file, by its path in what it renders to."""
        located = self._located(path)
        if located is None:
            return {}
        text, origins = located
        located_parts = {part: self._place(origins, offset) for part, offset in places.offsets(text).items()}
        return {part: place for part, place in located_parts.items() if place is not None}

    def check_parameters(self) -> None:
        """Refuse parameters that no template reads; BadInput with the nearest one."""
        for name in self.parameters:
            if name not in self.asked:
                raise BadInput(
                    "the track has no such parameter", where=f"--set {name}", remedy=did_you_mean(name, self.asked)
                )

    def _text(self, path: Path) -> str:
        chunks = self._assembled(path, ())
        source = "".join(chunk.text for chunk in chunks)
        try:
            self.asked |= meta.find_undeclared_variables(self._asking.parse(source))
            return self._rendered(source, path)
        except jinja2.TemplateSyntaxError as error:
            file = error.filename or "<template>"
            where = _where(chunks, error.lineno) if file.startswith("<") else f"{file}:{error.lineno}"
            what = f"this is not a valid template: {error.message}"
            raise BadInput(what, where=where, remedy="correct it") from None
        except _FAILURES as error:
            where = _where(chunks, _line(error.__traceback__))
            what = f"the template fails: {type(error).__name__}: {str(error)[:300]}"
            raise BadInput(what, where=where, remedy="set what it needs with --set, or correct it") from None

    def _located(self, path: Path) -> tuple[str, marks.Origins] | None:
        """Return what a file renders to, and where that came from; None if it cannot be rendered with marks."""
        self._marked, self._parts = [], 0
        # Jinja keeps what it has read, which has no marks.
        self.environment.cache = None
        try:
            return marks.unmarked(self._text(path))
        except BadInput:
            return None

    def _place(self, origins: marks.Origins, offset: int) -> str | None:
        place = origins.place(offset)
        return None if place is None or self._marked is None else f"{self._marked[place[0]]}:{place[1]}"

    def _rendered(self, source: str, path: Path) -> str:
        pieces, length = [], 0
        for piece in self.environment.from_string(source).generate():
            length += len(piece)
            if length > MAX_BYTES * (1 if self._marked is None else 2):
                what = f"it renders to more than {MAX_BYTES // 2**20} MiB"
                raise BadInput(what, where=str(path), remedy="give a track that people wrote")
            pieces.append(piece)
        return "".join(pieces)

    def _assembled(self, path: Path, around: tuple[Path, ...]) -> list[_Chunk]:
        """Return a file's text with the parts that it collects in place."""
        self._parts += 1
        if path in around or self._parts > _MAX_PARTS:
            what = "the track's parts collect each other without end"
            raise BadInput(what, where=str(path), remedy="correct its rally.collect")
        text = self._read(path)
        chunks, at = [], 0
        for match in _COLLECT.finditer(text):
            chunks.append(_Chunk(text[at : match.start()], path, text.count("\n", 0, at) + 1))
            for index, part in enumerate(self._files(path.parent, match[2])):
                chunks += [_Chunk(",\n", path, 1)] * bool(index) + self._assembled(part, (*around, path))
            at = match.end()
        return [*chunks, _Chunk(text[at:], path, text.count("\n", 0, at) + 1)]

    def _read(self, path: Path) -> str:
        text = text_of(path)
        if self._marked is None:
            return text
        self._marked.append(path)
        return marks.marked(text, len(self._marked) - 1)

    def _included(self, name: str) -> tuple[str, str, None] | None:
        """Return the text and the path of a template that another one includes or imports."""
        path = self.inside(self.folder / name)
        return (self._read(path), str(path), None) if path.is_file() else None

    def _files(self, folder: Path, pattern: str) -> list[Path]:
        try:
            paths = sorted(
                path for path in folder.glob(pattern) if path.is_file() and _is_meant(path.relative_to(folder), pattern)
            )
        except (ValueError, NotImplementedError, OSError) as error:
            raise BadInput(f"collect({pattern!r}): {error}", where=str(folder), remedy="correct the pattern") from None
        return [Path(os.path.normpath(self.inside(path))) for path in paths]

    def _glob(self, pattern: str) -> list[str]:
        return [os.path.relpath(path.resolve(), self.folder) for path in self._files(self.folder, pattern)]

    def inside(self, path: Path) -> Path:
        """Return a path in the root folder; BadInput for one outside, or hidden there.

        The name of a JSON file may start with a dot, as those of system templates do; its folders are not hidden.
        """
        resolved = path.resolve()
        if not resolved.is_relative_to(self.root):
            what = f"the track asks for {path}, which is outside {self.root}"
            raise BadInput(what, where=str(self.folder), remedy=checkout.REMEDY)
        parts = resolved.relative_to(self.root).parts
        if any(part.startswith(".") for part in (parts[:-1] if resolved.suffix == ".json" else parts)):
            what = f"the track asks for {path}, which is hidden"
            raise BadInput(what, where=str(self.folder), remedy="give the file another name")
        return path


#: What templates raise while they are rendered, besides Jinja's own errors.
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
    """Tell whether a pattern matches a path as Rally's glob does: `*` matches no name that starts with a dot."""
    dotted = [part for part in pattern.split("/") if part.startswith(".")]
    return all(any(fnmatchcase(part, one) for one in dotted) for part in path.parts if part.startswith("."))


def _line(traceback: TracebackType | None) -> int:
    """Return the last line of the assembled template that a traceback goes through, 1 if it never does."""
    line = 1
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _where(chunks: list[_Chunk], line: int) -> str:
    """Return the file and the line that a line of the assembled template came from."""
    at = 1
    for chunk in chunks:
        lines = chunk.text.count("\n")
        if line <= at + lines:
            return f"{chunk.file}:{chunk.line + line - at}"
        at += lines
    return str(chunks[-1].file)


def _instant(value: Any, date_format: str) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    read = datetime.strptime(str(value), date_format)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _days_ago(start: Any, end: Any, date_format: str = "%d-%m-%Y") -> int:
    return (_instant(end, date_format) - _instant(start, date_format)).days


def _start_date(date: Any, date_format: str = "%Y-%m-%d") -> str:
    return _instant(date, date_format).strftime(date_format)


def _version_between(version: str, first: str, last: str) -> bool:
    numbers = [[int(number) for number in text.split(".")] for text in (first, version, last)]
    return numbers == sorted(numbers)


def _end_date(start: Any, duration_days: int = 1, date_format: str = "%Y-%m-%d") -> str:
    return (_instant(start, date_format) + timedelta(days=duration_days)).strftime(date_format)


_FILTERS = {
    "days_ago": _days_ago,
    "get_start_date": _start_date,
    "get_end_date": _end_date,
    "version_between": _version_between,
}


def expand(path: Path, root: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a track as data, with the files that it names for its indices and templates read in.

    `path` is the track's file, and `root` the folder outside which no file is read. It may take as long and as much
    memory as the templates make it; `isolated.expand` bounds both. BadInput, with the place, for whatever is wrong.
    """
    templates = Templates(path.parent, root, parameters)
    track = templates.json(path)
    if not isinstance(track, dict):
        raise BadInput("expected an object", where=str(path), remedy="give a track")
    for key, file in _NAMED.items():
        entries = track.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get(file), str):
                # An empty name is the same as none, for Rally and for OpenSearch Benchmark.
                entry[file] = templates.json(templates.inside(path.parent / entry[file])) if entry[file] else None
    templates.check_parameters()
    return track


def locate(path: Path, root: Path, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the file and the line of each part of a track, by its path as messages have it: `, operations[2]`."""
    return Templates(path.parent, root, parameters).places(path)


#: Sections whose entries name a file, under which key.
_NAMED = {
    "indices": "body",
    "templates": "template",
    "component-templates": "template",
    "composable-templates": "template",
}
