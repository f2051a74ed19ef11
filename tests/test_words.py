"""Plain words: names are meaningful, and listed phrasings are not used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from plain_language import phrases

TOP = Path(__file__).parent.parent
FOLDERS = ("python", "crates", "tests", "benchmarks", "trials", "docs", "experiments", "examples")
TEXTS = {".py", ".rs", ".md", ".yaml", ".j2"}

#: Names without a meaning.
EMPTY_NAMES = {"each", "found", "own"}
RUST_NAME = re.compile(
    r"(?:\blet(?: mut)? |\bfor |\bfn |\|)\(?(each|found|own)\b|\b(each|found|own): |\b(?:Some|Ok)\((each|found|own)\)"
)
RUST_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|//.*')

#: Listed phrasings, each with its replacement.
PHRASINGS = {
    r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|better\b|worse\b)[a-z]": "is not a ...",
    r"\bsurely\b": "with 95 % confidence, or nothing",
    r"-manieth\b": "every n-th",
    r"\b(?:is|are|be) told from\b": "can be distinguished from",
    r"\blets? (?:nobody|somebody)\b": "refuses, admits",
    r"\bmay be believed\b": "is valid",
    r"\bwhatever for\b": "for whatever reason",
}


def files(*suffixes: str) -> Iterator[Path]:
    """Return the files that people read, of these endings."""
    yield from TOP.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix in (suffixes or TEXTS) and path != Path(__file__) and "target" not in path.parts:
                yield path


def named(text: str) -> Iterator[tuple[int, str]]:
    """Return the names that a Python module gives, with their lines."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


@pytest.mark.slow
def test_names_in_python_are_meaningful():
    empty = [
        f"{path.relative_to(TOP)}:{line}: {name}"
        for path in files(".py")
        if path.suffix == ".py"
        for line, name in named(path.read_text())
        if name in EMPTY_NAMES
    ]
    assert not empty, "\n".join(empty)


def test_names_in_rust_are_meaningful():
    empty = [
        f"{path.relative_to(TOP)}:{number}: {line.strip()}"
        for path in files(".rs")
        if path.suffix == ".rs"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if RUST_NAME.search(RUST_TEXT.sub("", line))
    ]
    assert not empty, "\n".join(empty)


@pytest.mark.slow
def test_texts_are_in_plain_words():
    phrasings = re.compile("|".join(f"(?:{phrasing})" for phrasing in PHRASINGS), re.IGNORECASE)
    stiff = [
        f"{path.relative_to(TOP)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if phrasings.search(line)
    ]
    assert not stiff, "\n".join(stiff)


#: The most roundabout phrases per 1,000 words. Lower a limit when the text has become plainer; never raise one.
LIMITS = {"python": 3.3, "crates": 5.0, "tests": 3.5, "benchmarks": 3.0, "trials": 3.0}


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "limit"), LIMITS.items())
def test_texts_have_few_roundabout_phrases(folder, limit):
    words, places = phrases([TOP / folder])
    assert 1000 * len(places) <= limit * words, f"see: python -m tests.plain_language --lines {folder}"


def test_roundabout_phrases_are_counted_in_texts_and_not_in_code(tmp_path):
    file = tmp_path / "a.py"
    file.write_text('"""Say what is told of a source."""\nwhat = "key"  # whoever reads `what` here\n')
    words, places = phrases([file])
    assert words > 0
    assert [phrase for _, _, phrase in places] == ["what", "is told", "whoever"]


def test_the_rules_find_forbidden_examples():
    assert set(named("for each in x:\n def found(own): pass")) == {(1, "each"), (2, "found"), (2, "own")}
    for line in ("let found = 1;", "for each in all {", ".map(|own| own)", "if let Some(found) = x {"):
        assert RUST_NAME.search(line), line
    for line in ("that is no client", "surely", "every so-manieth key", "it let nobody in"):
        assert any(re.search(phrasing, line) for phrasing in PHRASINGS), line
    assert not any(re.search(phrasing, "there is no client, which is no longer known") for phrasing in PHRASINGS)
