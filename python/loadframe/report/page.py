"""Rendering of reports as self-contained HTML files."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from loadframe.base.untrusted import printable
from loadframe.report.plot.draw import data, draw, narrow


def render(template: str, **context: Any) -> str:
    """Return the HTML page of a template filled with `context`."""
    environment = Environment(
        loader=PackageLoader("loadframe.report"),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = _sentence
    environment.globals.update(draw=draw, data=data, narrow=narrow)
    return environment.get_template(template).render(**context)


def _printable(value: Any) -> Any:
    """Remove control characters and direction marks from a string; return markup and other values unchanged."""
    return printable(value) if type(value) is str else value


def _sentence(words: str) -> str:
    """Capitalise the first letter, and add a full stop if missing."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
