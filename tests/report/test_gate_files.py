"""A gate's files for pipelines: JUnit's XML and Markdown."""

import re
from xml.etree import ElementTree as ET

import pytest

from loadframe.analyze.compare import Measure
from loadframe.analyze.finding import Rule
from loadframe.analyze.gate import Bound, Check, Gate
from loadframe.report.gate import headline, junit, markdown

MEASURE = Measure("range|100", "p99", "range|100")


def gate(*standings, incomplete=False):
    checks = [
        Check(MEASURE, {"nodes": 2}, standing, f"why <{standing}>", bound=Bound("p99", 0.1)) for standing in standings
    ]
    return Gate("new", tuple(checks), (), None, incomplete)


@pytest.mark.parametrize(
    ("standings", "failures", "errors"),
    [(["passed", "passed"], 0, 0), (["passed", "regression", "undecided"], 1, 1), ([], 0, 1)],
)
def test_junit_counts_match_its_cases(standings, failures, errors):
    suite = ET.fromstring(junit(gate(*standings))).find("testsuite")
    cases = suite.findall("testcase")
    assert (suite.get("failures"), suite.get("errors")) == (str(failures), str(errors))
    assert len(suite.findall("testcase/failure")) == failures
    assert len(suite.findall("testcase/error")) == errors
    assert suite.get("tests") == str(len(cases))


def test_a_gate_that_is_incomplete_is_an_error_though_every_check_passed():
    suite = ET.fromstring(junit(gate("passed", incomplete=True))).find("testsuite")
    assert suite.get("errors") == "1"
    assert suite.get("tests") == str(len(suite.findall("testcase"))) == "2"


def test_markdown_is_a_table_that_no_name_can_break():
    text = markdown(gate("passed", "regression"))
    assert "is a regression: 1 of 2 checks failed." in text
    rows = [line for line in text.splitlines() if "range" in line]
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)


def test_markdown_shows_names_as_they_are_and_lets_none_become_html_or_markup():
    evil = "<img src=x onerror=alert(1)> [a](https://evil.example) **b** `c` @team\n# d \x1b[31m&amp;"
    warning = Rule("evil", "{text}", "{text}")(text=evil)
    checks = (Check(Measure(evil, "p99", evil), {"nodes": evil}, "regression", evil, bound=Bound("p99", 0.1)),)
    lines = markdown(Gate(evil, checks, (warning,), None, False)).splitlines()
    assert len([line for line in lines if "img" in line]) == 3, "each text stays on its line"
    for line in lines:
        assert "<img" not in line
        assert "\x1b" not in line
        assert not re.search(r"(?<!\\)(\[a|`c|@team|# d)|\*\*b|https:/", line.removeprefix("## ")), line
    assert "&lt;img src=x onerror=alert(1)&gt;" in lines[0]
    assert "&amp;amp;" in lines[0]
    suite = ET.fromstring(junit(Gate(evil, checks, (warning,), None, False)))
    assert suite.find("testsuite/testcase/failure") is not None


@pytest.mark.parametrize(
    "end", ["\x1b]0;title", "\x1b[", "\x9d", "\x9b3", "\x1b", "\uffff", "\ufffe", "\ud800", "\x00"]
)
def test_a_text_that_ends_in_an_escape_sequence_leaves_junit_whole(end):
    checks = (Check(Measure(f"load{end}", "p99", "read"), {}, "regression", f"slower{end}", bound=Bound("p99", 0.1)),)
    case = ET.fromstring(junit(Gate("new", checks, (), None, False))).find("testsuite/testcase")
    assert (case.get("classname"), case.find("failure").get("message")) == ("loadframe.load", "slower")
    assert case.find("failure").get("type") == "regression"


def test_the_headline_gives_the_outcome():
    assert headline(gate("passed")) == "new passed: 1 check, no regression."
    assert headline(gate()) == "No conclusion about new: no valid run to check."
    assert "1 of 2 checks is inconclusive" in headline(gate("passed", "undecided"))
    assert "measurements are missing" in headline(gate("passed", incomplete=True))
