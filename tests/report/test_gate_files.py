"""A gate's files for pipelines: JUnit's XML and Markdown."""

from xml.etree import ElementTree as ET

import pytest

from loadframe.analyze.comparison import Measure
from loadframe.analyze.gate import Bound, Check, Gate
from loadframe.report.gate.files import headline, junit, markdown

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
def test_junit_counts_what_its_cases_say(standings, failures, errors):
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


def test_the_headline_says_what_came_of_it():
    assert headline(gate("passed")) == "new passed: 1 check, no regression."
    assert headline(gate()) == "No conclusion about new: no valid run to check."
    assert "1 of 2 checks is not decided" in headline(gate("passed", "undecided"))
    assert "not everything was measured" in headline(gate("passed", incomplete=True))
