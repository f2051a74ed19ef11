"""Renders a track's Jinja2 templates: with the helpers that tracks rely on, in a sandbox, within the track's folder.

`rally.collect(parts="...")` is replaced by the parts' text before anything is rendered, so that all parts share one
scope; wherever else a track names it, it includes them. Run it in a process of its own: see `isolated`.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from loadframe.errors import BadInput
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
    """Renders the files of one track with some parameters."""

    def __init__(self, folder: Path, parameters: Mapping[str, Any]) -> None:
        self.folder = folder.resolve()
        self.parameters = parameters
        #: The names that the templates read so far would take from outside.
        self.asked: set[str] = set()
        self._parts = 0
        helpers = {f"{tool}.helpers": _HELPERS for tool in ("rally", "benchmark")}
        loader = jinja2.ChoiceLoader([jinja2.DictLoader(helpers), jinja2.FileSystemLoader(self.folder)])
        filters = {"days_ago": _days_ago, "get_start_date": _start_date, "get_end_date": _end_date}
        known = {"now": time.time(), "glob": self._glob, "build_flavor": "default", "serverless_operator": False}
        self.environment = SandboxedEnvironment(loader=loader)
        # An environment without the parameters tells which ones a template asks for.
        self._asking = SandboxedEnvironment(loader=loader)
        for environment in (self.environment, self._asking):
            environment.filters.update(filters)
            environment.globals.update(known)
        self.environment.globals.update({key: value for key, value in parameters.items() if key not in known})

    def json(self, path: Path) -> Any:
        """Return what a file says once it is rendered; BadInput, with the place, for whatever is wrong with it."""
        chunks = self._assembled(path, ())
        source = "".join(chunk.text for chunk in chunks)
        try:
            self.asked |= meta.find_undeclared_variables(self._asking.parse(source))
            text = self._rendered(source, path)
        except jinja2.TemplateSyntaxError as error:
            file = error.filename or "<template>"
            where = _where(chunks, error.lineno) if file.startswith("<") else f"{file}:{error.lineno}"
            raise BadInput(f"this is no template: {error.message}", where=where, remedy="correct it") from None
        except _FAILURES as error:
            where = _where(chunks, _line(error.__traceback__))
            what = f"the template fails: {type(error).__name__}: {str(error)[:300]}"
            raise BadInput(what, where=where, remedy="set what it needs with --set, or correct it") from None
        return json_of(text, f"{path} (rendered)")

    def check_parameters(self) -> None:
        """Refuse parameters that no template reads; BadInput with the nearest one."""
        for name in self.parameters:
            if name not in self.asked:
                raise BadInput(
                    "the track has no such parameter", where=f"--set {name}", remedy=did_you_mean(name, self.asked)
                )

    def _rendered(self, source: str, path: Path) -> str:
        pieces, length = [], 0
        for piece in self.environment.from_string(source).generate():
            length += len(piece)
            if length > MAX_BYTES:
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
        text = text_of(path)
        chunks, at = [], 0
        for match in _COLLECT.finditer(text):
            chunks.append(_Chunk(text[at : match.start()], path, text.count("\n", 0, at) + 1))
            for index, part in enumerate(self._found(path.parent, match[2])):
                chunks += [_Chunk(",\n", path, 1)] * bool(index) + self._assembled(part, (*around, path))
            at = match.end()
        return [*chunks, _Chunk(text[at:], path, text.count("\n", 0, at) + 1)]

    def _found(self, folder: Path, pattern: str) -> list[Path]:
        try:
            found = sorted(path for path in folder.glob(pattern) if path.is_file())
        except (ValueError, NotImplementedError, OSError) as error:
            raise BadInput(f"collect({pattern!r}): {error}", where=str(folder), remedy="correct the pattern") from None
        for path in found:
            self.inside(path)
        return found

    def _glob(self, pattern: str) -> list[str]:
        return [path.resolve().relative_to(self.folder).as_posix() for path in self._found(self.folder, pattern)]

    def inside(self, path: Path) -> Path:
        """Return a path if it lies in the track's folder; BadInput if it does not."""
        if not path.resolve().is_relative_to(self.folder):
            what = f"the track asks for {path}, which is outside its folder"
            raise BadInput(what, where=str(self.folder), remedy="import the folder that holds all its files")
        return path


#: What templates raise while they are rendered, besides Jinja's own errors.
_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


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


def _end_date(start: Any, duration_days: int = 1, date_format: str = "%Y-%m-%d") -> str:
    return (_instant(start, date_format) + timedelta(days=duration_days)).strftime(date_format)


Render = Callable[[Path, Mapping[str, Any]], dict[str, Any]]


def expand(path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a track as data, with the files that it names for its indices and templates read in.

    `path` is a file, or a folder with a track.json or a workload.json. It may take as long and as much memory as the
    templates make it; `isolated.expand` bounds both. BadInput, with the place, for whatever is wrong.
    """
    if path.is_dir():
        found = [path / name for name in ("track.json", "workload.json") if (path / name).is_file()]
        if not found:
            raise BadInput("there is no track.json and no workload.json in it", where=str(path), remedy="check it")
        path = found[0]
    templates = Templates(path.parent, parameters)
    track = templates.json(path)
    if not isinstance(track, dict):
        raise BadInput("expected an object", where=str(path), remedy="give a track")
    for key, file in _NAMED.items():
        entries = track.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get(file), str):
                entry[file] = templates.json(templates.inside(path.parent / entry[file]))
    templates.check_parameters()
    return track


#: Sections whose entries name a file, under which key.
_NAMED = {
    "indices": "body",
    "templates": "template",
    "component-templates": "template",
    "composable-templates": "template",
}
