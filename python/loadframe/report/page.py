"""A report as one HTML file that needs nothing else: style, plots and the script for the pointer are inside."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from loadframe.base.printable import printable
from loadframe.report.plot.draw import data, draw


def render(template: str, **context: Any) -> str:
    """Return the page that a template makes of `context`."""
    environment = Environment(
        loader=PackageLoader("loadframe.report"),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = _sentence
    environment.globals.update(draw=draw, data=data)
    return environment.get_template(template).render(**context)


def _printable(value: Any) -> Any:
    """Return a text without control characters and marks of text direction; markup and other values as they are."""
    return printable(value) if type(value) is str else value


def _sentence(words: str) -> str:
    """Begin with a capital and end with a full stop."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
