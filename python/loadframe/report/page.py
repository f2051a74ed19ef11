"""Rendering of reports as self-contained HTML files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from loadframe.base.untrusted import printable
from loadframe.report.plot import SMALL, Figure
from loadframe.report.plot.draw import data, draw, narrow
from loadframe.report.tables import Table

#: Keys of the sentences of a page's answer.
_ANSWERS = ("headline", "lead", "sentences")


class Page(str):
    """An HTML page, with the figures and tables that it shows and the sentences of its answer."""

    figures: Sequence[Figure]
    tables: Sequence[tuple[str, Table]]
    answer: Sequence[str]


def render(template: str, **context: Any) -> Page:
    """Return the HTML page of a template filled with `context`.

    The page carries the figures, tables and distinct answer sentences found in `context`. jinja2's UndefinedError if
    the template uses a name that `context` lacks.
    """
    page = Page(environment().get_template(template).render(**context))
    shown = list(_shown(context, ""))
    page.figures = [part for _, part in shown if isinstance(part, Figure)]
    page.tables = [(title, part) for title, part in shown if isinstance(part, Table)]
    page.answer = list(dict.fromkeys(part for _, part in shown if isinstance(part, str)))
    return page


@cache
def environment() -> Environment:
    """Return the environment of the templates, created once: it compiles each template on first use."""
    environment = Environment(
        loader=PackageLoader("loadframe.report"),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = _sentence
    environment.globals.update(draw=draw, data=data, narrow=narrow, small=SMALL)
    return environment


def _shown(value: Any, title: str) -> Iterator[tuple[str, Figure | Table | str]]:
    """Yield the figures, tables and answer sentences inside a value of a page's context, each with its title.

    `title` applies unless a tuple's first text, a mapping's key or a data class's `title` replaces it. The captions of
    tables end with the `heading` of their data class. Sentences come only from entries that `_members` recognises.
    """
    match value:
        case Figure():
            yield title, value
        case Table():
            yield title, value
            for figure in value.figures:
                yield title, figure
        case tuple() if value and isinstance(value[0], str):
            for part in value[1:]:
                yield from _shown(part, value[0])
        case list() | tuple():
            for part in value:
                yield from _shown(part, title)
        case Mapping():
            for key, part in value.items():
                yield from _members(str(key), part)
        case _ if is_dataclass(value) and not isinstance(value, type):
            titled, heading = str(getattr(value, "title", "")), getattr(value, "heading", "")
            for field in fields(value):
                parts = _members(field.name, getattr(value, field.name), titled)
                yield from ((name, _under(heading, name, part)) for name, part in parts)


def _under(heading: str, title: str, part: Figure | Table | str) -> Figure | Table | str:
    """Return a table whose caption, by default its title, ends with the heading; other parts unchanged.

    Without a heading, the table is unchanged, too.
    """
    if isinstance(part, Table) and heading:
        return replace(part, caption=f"{part.caption or title} ({heading})")
    return part


def _members(key: str, part: Any, title: str = "") -> Iterator[tuple[str, Figure | Table | str]]:
    """Yield the titled parts of a context's entry.

    An entry `headline`, `lead` or `sentences` yields its sentences, with an empty title. Others yield the parts inside
    them, titled `title` or else by `key`.
    """
    if key in _ANSWERS:
        yield from (("", words) for words in ([part] if isinstance(part, str) else part))
    else:
        yield from _shown(part, title or key.replace("_", " "))


def _printable(value: Any) -> Any:
    """Remove control characters and direction marks from a string; return markup and other values unchanged."""
    return printable(value) if type(value) is str else value


#: Figures of findings that are names of the user's, such as a variant's.
_NAMES = ("first", "label", "names", "winner")


def _sentence(words: str, figures: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Capitalise the first word of `words` unless it is a name, and add a full stop if missing.

    A first word with a digit, such as a run's, or before a colon, such as a source's, counts as a name. So does a name
    in the `figures` of a finding.
    """
    word = words.partition(" ")[0]
    named = any(letter.isdigit() for letter in word) or word.endswith(":")
    named |= any(isinstance(name := figures.get(key), str) and words.startswith(name) for key in _NAMES)
    return f"{words[:1] if named else words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
