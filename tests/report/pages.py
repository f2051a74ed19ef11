"""Reads the pages that reports are, as a browser would begin to."""

import json
import re
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """A page's text, headings, plots, external resources, and the text that is visible before unfolding."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.headings: list[str] = []
        self.words: list[str] = []
        self.unfolded: list[str] = []
        self.plots: dict[str, Any] = {}
        self.drawings: dict[str, int] = {}
        self._open: list[str] = []
        self._plot = ""
        self.feed(text)
        self.close()

    @property
    def text(self) -> str:
        """The visible words, with single blanks."""
        return re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.loads += [value for name, value in attrs if name in {"src", "href", "data"} and value]
        if tag not in {"meta", "link", "br", "img", "input", "hr"}:
            self._open.append(tag)
        if attributes.get("class") == "plot":
            self._plot = attributes["id"] or ""
        if "svg" in self._open:
            self.drawings[self._plot] = self.drawings.get(self._plot, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script" and self._plot:
            self.plots[self._plot] = json.loads(data)
            self._plot = ""
        elif "svg" not in self._open and inside not in {"script", "style"}:
            self.words.append(data)
            if "details" not in self._open or inside == "summary":
                self.unfolded.append(data)
            if inside in {"h1", "h2", "h3"}:
                self.headings.append(data.strip())
