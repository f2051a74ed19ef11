"""Count roundabout phrases in docstrings, comments, messages and pages; in pages also long sentences and "you".

Usage: `python -m tests.plain_language [--lines] PATH...`.
"""

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Roundabout phrases, and the plain form that replaces each.
ROUNDABOUT = {
    r"\bwhat(?:ever)?\b(?! is\b[^.]*\?)": "a noun",
    r"\b(?:who|whoever|whom|whose)\b": "the actor's name",
    r"\b(?:nobody|somebody|anybody|anyhow|anew|of which|in which case)\b": "a plain word",
    r"\b(?:there|where)(?:by|in)\b": "a plain word",
    r"(?:^|[.:;] )(?:Of|Where|Nothing|Nobody|None|Such)\b (?!if\b)": "the subject first",
    r"\b(?:is|are|was|were) (?:said|told|made|asked|kept apart|there|had)\b": "an active verb, actor first",
    r"\b(?:is|are|was|were) (?:looked (?:for|at|after)|taken (?:in|down))\b": "an active verb, actor first",
    r"\b(?:is|are|was|were|has|have|gives?|takes?) no [a-z]+": "a positive statement, or 'not a'",
    r"\b(?:come|comes|came|become|becomes|became) (?:of|to (?!the\b|an?\b))\b": "'happens to', 'results in'",
    r"\bas (?:far|many|much|long) as\b": "a shorter condition",
    r"\b(?:the former|the latter|that of|those of|those that|those which|one that)\b": "the noun",
    r"\b(?:(?:for|by) itself|by themselves|(?:of|on) (?:its|their) own)\b": "'separately', 'automatically', 'its'",
    r"\bin (?:the )?place of\b": "'instead of'",
    r"\bcannot be had\b|\bthere (?:is|are) no\b": "'is not available'",
}
_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in ROUNDABOUT), re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_CODE = re.compile(r"`[^`]*`")
_RUST_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
#: A string of fewer words is a key or a name, not a message.
_MESSAGE = 4
#: Words of a sentence above which a page counts it as long.
LONG = 30

_SENTENCE = re.compile(r"(?<=[.?!:])\s+(?=[A-Z`*\"'(])")
_YOU = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_NO_PROSE = ("|", "#", "<", "---", "===", "!!!", "???", ":::")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, messages and comments of a Python module, with the line where each begins."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and len(_WORD.findall(node.value)) >= _MESSAGE
        ):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def rust_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments and messages of a Rust module, with the line where each begins."""
    for number, line in enumerate(source.splitlines(), 1):
        code, _, comment = line.partition("//")
        if comment:
            yield number, comment.lstrip("/! ")
        for message in _RUST_STRING.findall(code):
            if len(_WORD.findall(message)) >= _MESSAGE:
                yield number, message


def markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and list items of a page, without code blocks, tables and headings."""
    source = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), source)
    paragraph: list[str] = []
    start, fence = 0, ""
    for number, line in enumerate([*source.splitlines(), ""], 1):
        bare = line.strip()
        mark = re.match(r"`{3,}|~{3,}", bare)
        if mark and (not fence or bare == fence):
            fence, skipped = ("" if fence else mark[0]), True
        else:
            skipped = bool(fence) or not bare or bare.startswith(_NO_PROSE)
        if paragraph and (skipped or _ITEM.match(line)):
            yield start, " ".join(paragraph)
            paragraph = []
        if not skipped:
            start = start if paragraph else number
            paragraph.append(_LINK.sub(r"\1", _ITEM.sub("", bare, count=1) if _ITEM.match(line) else bare))


@dataclass
class Prose:
    """How plainly pages are written. Places are (file, line, text)."""

    words: int = 0
    you: int = 0
    sentences: int = 0
    roundabout: list[tuple[Path, int, str]] = field(default_factory=list)
    long: list[tuple[Path, int, str]] = field(default_factory=list)


def prose(files: Iterable[Path]) -> Prose:
    """Measure Markdown files."""
    measured = Prose()
    for file in files:
        for line, text in texts(file):
            measured.words += len(_WORD.findall(text))
            measured.you += len(_YOU.findall(text))
            measured.roundabout += [(file, line, match[0]) for match in _PATTERN.finditer(text)]
            for sentence in _SENTENCE.split(text):
                count = len(_WORD.findall(sentence))
                measured.sentences += count > 2
                if count > LONG:
                    measured.long.append((file, line, sentence))
    return measured


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file, without code in backticks."""
    read = {".py": python_texts, ".rs": rust_texts, ".md": markdown_texts}[path.suffix]
    for line, text in read(path.read_text()):
        yield line, _CODE.sub("code", text)


def phrases(paths: list[Path]) -> tuple[int, list[tuple[Path, int, str]]]:
    """Return the number of words below paths, and their roundabout phrases with file and line."""
    words, places = 0, []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix in {".py", ".rs"} and "target" not in file.parts:
                for line, text in texts(file):
                    words += len(_WORD.findall(text))
                    places += [(file, line, match[0]) for match in _PATTERN.finditer(text)]
    return words, places


def main() -> None:
    """Print words and roundabout phrases of each path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", action="store_true", help="print each place")
    parser.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    for path in arguments.paths:
        words, places = phrases([path])
        if arguments.lines:
            for file, line, phrase in places:
                print(f"{file}:{line}: {phrase.strip()}")
        print(f"{path}: {words} words, {1000 * len(places) / max(words, 1):.1f} roundabout phrases per 1,000")
        pages = prose(sorted(path.rglob("*.md")) if path.is_dir() else [path] if path.suffix == ".md" else [])
        if pages.words:
            if arguments.lines:
                for file, line, text in (*pages.roundabout, *pages.long):
                    print(f"{file}:{line}: {text.strip()}")
            roundabout, you = (1000 * count / pages.words for count in (len(pages.roundabout), pages.you))
            long = 100 * len(pages.long) / max(pages.sentences, 1)
            print(
                f"{path}: {pages.words} words of pages, {roundabout:.1f} roundabout phrases"
                f" and {you:.1f} 'you' per 1,000, {long:.1f} % long sentences"
            )


if __name__ == "__main__":
    main()
