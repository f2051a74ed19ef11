"""The reference of the command line is generated from the commands, and lists every environment variable."""

import re
import runpy
from pathlib import Path

TOP = Path(__file__).parents[2]
GENERATOR = runpy.run_path(str(TOP / "docs" / "command_line.py"))
#: Variables that ranks of one command pass to each other, and the prefix of those for mirrors.
INTERNAL = {"LOADFRAME_STARTER", "LOADFRAME_MIRROR_"}


def test_the_page_is_current():
    assert GENERATOR["PAGE"].read_text() == GENERATOR["page"](), "run: python docs/command_line.py"


def test_every_environment_variable_is_documented():
    sources = "".join(path.read_text() for path in (TOP / "python").rglob("*.py"))
    named = set(re.findall(r"\bLOADFRAME_[A-Z_]+", sources)) - INTERNAL
    assert named == (GENERATOR["VARIABLES"].keys() | GENERATOR["GIVEN"].keys()) - {"LOADFRAME_MIRROR_STORE"}
