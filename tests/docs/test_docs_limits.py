"""Limits of length and language for the documentation."""

import re
from pathlib import Path

import pytest
from console_page import pages

from plain_language import prose

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
#: Pages that a command generates; their words do not count.
GENERATED = {DOCS / "reference" / f"{name}.md" for name in ("command-line", "library", "run-folder", "validity-rules")}
#: Tables that `python -m docs.generate` writes into pages.
TABLES = re.compile(r"<!-- (?:keys|operations|patterns): .*?<!-- end -->", re.DOTALL)
#: Notes for tests, which no reader sees.
COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
WRITTEN = [page for page in pages(TOP) if page not in GENERATED]
#: The changelog is a record that grows with each version.
LIMITED = [page for page in WRITTEN if page.name != "CHANGELOG.md"]
ADVICE = {"start", "tutorials", "how-to"}


def section(page: Path) -> str:
    return page.relative_to(DOCS).parts[0] if page.is_relative_to(DOCS) else page.name


def words(page: Path) -> int:
    """Count words and numbers, also in code and tables."""
    text = COMMENTS.sub("", TABLES.sub("", page.read_text()))
    return sum(any(map(str.isalnum, word)) for word in text.split())


def places(measured: list[tuple[Path, int, str]]) -> str:
    return "\n".join(f"{path.relative_to(TOP)}:{line}: {text.strip()}" for path, line, text in measured)


def test_the_documentation_has_fewer_than_55000_words():
    assert sum(words(page) for page in LIMITED) < 55_000


@pytest.mark.parametrize(
    "page",
    [page for page in LIMITED if section(page) != "reference"],
    ids=lambda page: str(page.relative_to(TOP)),
)
def test_a_page_outside_the_reference_has_at_most_2500_words(page):
    assert words(page) <= 2500


def test_pages_have_few_roundabout_phrases():
    measured = prose(WRITTEN)
    assert 1000 * len(measured.roundabout) < 3 * measured.words, places(measured.roundabout)


def test_pages_have_few_long_sentences():
    measured = prose(WRITTEN)
    assert len(measured.long) < 0.05 * measured.sentences, places(measured.long)


@pytest.mark.parametrize("name", sorted(ADVICE))
def test_pages_with_advice_address_the_reader(name):
    measured = prose(page for page in WRITTEN if section(page) == name)
    assert 1000 * measured.you >= 10 * measured.words
