"""The generated pages of the reference are current and complete."""

import re
from pathlib import Path

import pytest
from docs.generate import command_line
from docs.generate.__main__ import PAGES, REFERENCE
from docs.generate.validity_rules import EXAMPLES

from loadframe.analyze.verdict.rules import RULES

TOP = Path(__file__).parents[2]
#: Variables that ranks of one command pass to each other, and the prefix of those for mirrors.
INTERNAL = {"LOADFRAME_STARTER", "LOADFRAME_MIRROR_"}


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name):
    assert (REFERENCE / name).read_text() == PAGES[name](), "run: python -m docs.generate"


def test_each_validity_rule_has_an_example():
    assert set(EXAMPLES) == {*RULES, "warned_runs", "selected_runs"}


def test_every_environment_variable_is_documented():
    sources = "".join(path.read_text() for path in (TOP / "python").rglob("*.py"))
    named = set(re.findall(r"\bLOADFRAME_[A-Z_]+", sources)) - INTERNAL
    assert named == (command_line.VARIABLES.keys() | command_line.GIVEN.keys()) - {"LOADFRAME_MIRROR_STORE"}
