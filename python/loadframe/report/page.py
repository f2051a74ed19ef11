"""A report as one HTML file that needs nothing else: style, plots and the library that draws them are inside."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape


def render(template: str, **context: Any) -> str:
    """Return the page that a template makes of what it is given."""
    environment = Environment(
        loader=PackageLoader("loadframe.report"),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = _sentence
    library = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return environment.get_template(template).render(plotly=library, **context)


def _sentence(words: str) -> str:
    """Begin with a capital and end with a full stop."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
