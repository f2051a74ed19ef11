"""Hand-written YAML files: valid values, and the error of every mistake."""

import random
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import Field, Strict

from loadframe.base.errors import BadInput
from loadframe.yamlfile import Duration, Model, Name, Rate, Scalar, Size, load, read, scalar


class Section(Model):
    name: Name
    size: Annotated[int, Field(ge=1)] = 1
    wait: Duration = 0.0
    rate: Rate | None = None
    memory: Size | None = None
    value: Scalar = None
    text: str | None = None
    flag: bool = False


class Whole(Model):
    title: str
    parts: list[Section] = Field(default_factory=list)
    named: dict[Name, Section] = Field(default_factory=dict)


@pytest.fixture
def write(tmp_path: Path):
    def write(content: str | bytes) -> Path:
        path = tmp_path / "file.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(path: Path, model: type[Model] = Whole) -> BadInput:
    with pytest.raises(BadInput) as caught:
        load(path, model)
    assert caught.value.exit_status == 2
    return caught.value


def test_a_file_becomes_a_frozen_model(write):
    path = write("title: a\nparts:\n  - {name: p, size: 3, wait: 250ms, rate: 60/min, memory: 1k}\n")
    part = load(path, Whole).parts[0]
    assert (part.size, part.wait, part.rate, part.memory) == (3, 0.25, 1.0, 1024)
    with pytest.raises(ValueError, match="frozen"):
        part.size = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("-3", -3), ("0x1f", 31), ("0o17", 15), ("017", 17), ("18446744073709551615", 2**64 - 1),
        ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("3.", 3.0), ("true", True), ("False", False), ("~", None),
        ("", None), ("no", "no"), ("on", "on"), ("1:30", "1:30"), ("2015-01-01", "2015-01-01"), ("3.8.0", "3.8.0"),
        ("1_000", "1_000"), ("1/s", "1/s"), ("٣", "٣"),
    ],
)  # fmt: skip
def test_values_are_those_of_json_and_nothing_else_is_guessed(text: str, value: Any):
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_quoted_values_are_texts(write):
    assert read(write("a: '3'\nb: \"true\"\nc: |\n  4\n")).data == {"a": "3", "b": "true", "c": "4\n"}


def test_keys_are_texts(write):
    assert read(write("{1: a, true: b, null: c}")).data == {"1": "a", "true": "b", "null": "c"}


def test_an_alias_stands_for_its_anchor(write):
    assert read(write("a: &x {b: [1, 2]}\nc: *x\n")).data == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}


def test_a_byte_order_mark_and_windows_line_ends_are_read(write):
    assert read(write("\ufefftitle: a\r\nparts: []\r\n")).data == {"title": "a", "parts": []}


def test_an_unknown_key_names_its_line_and_the_nearest_valid_one(write):
    path = write("title: a\nparts:\n  - name: p\n    siez: 3\n")
    error = refusal(path)
    assert (error.what, error.where) == ("unknown key 'siez'", f"{path}:4:5")
    assert error.remedy == "did you mean 'size'?"


def test_an_unknown_key_that_differs_in_capitals_names_the_valid_one(write):
    assert refusal(write("TITLE: a\nparts: []\n")).remedy == "did you mean 'title'?"


def test_unknown_keys_without_a_similar_one_list_the_known_keys(write):
    assert refusal(write("title: a\nzzzzzz: 1\n")).remedy == "valid here: named, parts, title"


def test_a_wrong_value_names_its_own_place(write):
    path = write("title: a\nparts:\n  - name: p\n    size:   many\n")
    error = refusal(path)
    assert (error.what, error.where) == ('expected a whole number, not "many"', f"{path}:4:13")


@pytest.mark.parametrize(
    ("key", "expected"), [("factor", "a number"), ("count", "a whole number"), ("on", "true or false")]
)
def test_a_text_that_is_not_a_value_of_its_kind_is_named(write, key, expected):
    class Loose(Model):
        factor: Annotated[float, Strict(False)] = 1.0
        count: Annotated[int, Strict(False)] = 1
        on: Annotated[bool, Strict(False)] = True

    assert refusal(write(f"{key}: 5%\n"), Loose).what == f'expected {expected}, not "5%"'


def test_a_missing_key_is_reported_where_it_is_missing(write):
    path = write("title: a\nparts:\n  - size: 3\n")
    error = refusal(path)
    assert (error.what, error.where) == ("the key 'name' is missing", f"{path}:3:5")


def test_a_bad_name_is_reported_at_the_key(write):
    path = write("title: a\nnamed:\n  a/b: {name: x}\n")
    error = refusal(path)
    assert error.where == f"{path}:3:3"
    assert "is not a name" in error.what


def test_an_empty_value_is_reported_at_its_key(write):
    path = write("title:\nparts: []\n")
    assert refusal(path).where == f"{path}:1:1"


def test_a_number_instead_of_text_suggests_quotes(write):
    assert refusal(write("title: 3.8\n")).remedy == "put it in quotes"


@pytest.mark.parametrize("size", ["3.0", "true", "'3'", "[3]", "0", "-1", "~"])
def test_a_whole_number_is_not_made_out_of_something_else(write, size: str):
    refusal(write(f"title: a\nparts: [{{name: p, size: {size}}}]"))


@pytest.mark.parametrize(
    "quantity",
    ["wait: -1", "wait: 5 parsecs", "wait: 1e999s", "rate: 0", "rate: 3/day", "memory: 1x", "memory: 1e999g",
     "wait: [1]", "wait: true", "value: [1]", "value: {a: 1}"],
)  # fmt: skip
def test_quantities_are_refused_at_their_place(write, quantity: str):
    path = write(f"title: a\nparts:\n- name: p\n  {quantity}\n")
    assert str(refusal(path).where).startswith(f"{path}:4:")


def test_several_errors_are_reported_together(write):
    message = str(refusal(write("title: 1\nparts: [{name: p, size: a}, {name: q, size: b}]\n")))
    assert message.count("file.yaml:") == 4
    assert message.splitlines()[0].endswith("3 errors")


def test_only_the_first_errors_are_reported(write):
    message = str(refusal(write("title: a\nparts: [" + "{name: p, size: a}, " * 50 + "]")))
    assert len(message.splitlines()) == 7
    assert message.endswith("and 45 more")


def test_a_key_that_stands_twice_is_an_error(write):
    path = write("title: a\ntitle: b\n")
    error = refusal(path)
    assert (error.what, error.where) == ("the key 'title' stands here twice", f"{path}:2:1")


def test_tabs_are_named_as_the_cause(write):
    path = write("title: a\nparts:\n\t- name: p\n")
    error = refusal(path)
    assert error.where == f"{path}:3:1"
    assert "spaces" in str(error.remedy)


def test_an_unquoted_hole_within_braces_is_named_as_the_cause(write):
    assert "quotes" in str(refusal(write("title: {a: ${b}}\n")).remedy)


@pytest.mark.parametrize(
    "content",
    ["", "# only a comment\n", "---\n", "...", "[1, 2]", "text", "3", "title: a\n---\ntitle: b\n"],
    ids=["empty", "comment", "marker", "end", "list", "text", "number", "two documents"],
)
def test_files_without_a_mapping_are_refused(write, content: str):
    refusal(write(content))


@pytest.mark.parametrize(
    "content",
    ["{", "a: [", "a: b: c", "'", '"\\q"', '"\\UFFFFFFFF"', '"\\ud800"', "%YAML 99999999999999999999999.1\n---\na",
     "&a", "*a", "? [a]\n: b", "? !!str a\n: b", "!!python/object:os.system {}", "a: !!binary aGk=", "!<tag:x> a",
     "a: .inf", "a: .nan", "a: 1e999", "a: " + "9" * 5000, "a: " + "9" * 30, "a: &a [*a]", "a: &a {b: *a}",
     "- a\nb: c", "a: |\n b\n  c\n d: e\n\t", "\x00", "a: \x07", "@", "`", "%", "a: 'b", "a:\n - b\n  - c\n",
     "{a: 1, a: 2}", "!", "--- >\n\t"],
)  # fmt: skip
def test_broken_yaml_is_refused_with_a_place(write, content: str):
    assert "file.yaml" in str(refusal(write(content)).where)


@pytest.mark.parametrize(
    "content", [b"title: \xff\n", b"a: b\nc: \xc3", "title: a".encode("utf-16"), bytes(range(256))]
)
def test_invalid_utf8_is_refused_with_its_place(write, content: bytes):
    assert str(refusal(write(content)).where).count(":") == 2


def test_the_place_of_a_wrong_byte_counts_characters(write):
    path = write("a: ä\nbä: ".encode() + b"\xff")
    assert refusal(path).where == f"{path}:2:5"


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, "{a: " * 50_000, "- " * 50_000 + "a", "\n".join(" " * n + "a:" for n in range(1000)),
     "- a\n" * 60_000, "a: &a [" + "1, " * 1000 + "]\n" + "".join(f"k{n}: *a\n" for n in range(1000)),
     "a0: &a0 [1,1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 200)),
     "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 500)),
     "x" * (2**20 + 1)],
    ids=["lists", "mappings", "block", "indents", "items", "copies", "bomb", "tower", "size"],
)  # fmt: skip
def test_a_file_that_would_exhaust_the_machine_is_refused_soon(write, content: str):
    begin = time.monotonic()
    refusal(write(content))
    assert time.monotonic() - begin < 20


def test_a_missing_file_a_folder_and_impossible_paths_are_refused(tmp_path: Path):
    for path in (
        tmp_path / "no.yaml",
        tmp_path,
        tmp_path / "no" / "file",
        Path("a\0b"),
        Path("x" * 5000),
        Path("/dev/null"),
    ):
        assert refusal(path).where == str(path)


SOUND = """\
title: "a ${b} text"
parts: &parts
  - {name: p, size: 3, wait: 250ms, value: ~}
  - name: q
    rate: 1000/s
    text: |
      some
      lines
named:
  x: {name: y, memory: 1g, flag: true}
"""


def test_a_damaged_file_is_read_or_refused_and_nothing_else(write):
    """Random damage to a valid file: the result is a model or one BadInput."""
    random_ = random.Random(7)
    refused = 0
    for _ in range(1500):
        text = list(SOUND)
        for _ in range(random_.randint(1, 4)):
            at = random_.randrange(len(text))
            match random_.randrange(4):
                case 0:
                    del text[at]
                case 1:
                    text.insert(at, random_.choice("{}[]:,-&*!|>'\"%@`#?\t\n \\~0\u2028é\U0001f600"))
                case 2:
                    text[at : at + 5] = []
                case 3:
                    text[at:at] = text[at : at + random_.randint(1, 40)]
        try:
            load(write("".join(text)), Whole)
        except BadInput as error:
            refused += 1
            assert "file.yaml" in str(error.where)
    assert refused > 500


def test_an_interrupt_at_the_end_of_a_file_is_raised(write, monkeypatch):
    def interrupted(loader: Any) -> None:
        """Raise as the handler of a signal that arrives now."""
        raise KeyboardInterrupt

    monkeypatch.setattr(yaml.CSafeLoader, "dispose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(write("a: 1\n"))
