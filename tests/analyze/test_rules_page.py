"""The page of validity rules: current, with an example of each rule."""

import subprocess
import sys
from pathlib import Path

from loadframe.analyze.verdict.__main__ import EXAMPLES
from loadframe.analyze.verdict.rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "validity-rules.md"


def test_the_page_of_validity_rules_is_current():
    command = [sys.executable, "-m", "loadframe.analyze.verdict"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert PAGE.read_text() == written, "run: python -m loadframe.analyze.verdict > docs/reference/validity-rules.md"


def test_each_rule_has_an_example():
    assert set(EXAMPLES) == set(RULES)
