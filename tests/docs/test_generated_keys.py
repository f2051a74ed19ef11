"""The published schemas and the tables of keys in the reference match the models, and show every key."""

from pathlib import Path

import pytest
from docs.generate import experiment_file, workload_file
from docs.generate.json_schema import described, page, read_keys, unused
from docs.generate.keys import SCHEMAS, models, shown, written

from loadframe.base.errors import LoadframeError

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = sorted(REFERENCE.rglob("*.md"))
KNOWN = models()
COMMAND = "run: python -m docs.generate"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_published_schema_matches_the_models(name):
    assert (REFERENCE / name).read_text() == page(SCHEMAS[name]()), COMMAND


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REFERENCE)))
def test_the_tables_of_a_page_match_the_models(path):
    assert path.read_text() == written(path.read_text(), KNOWN), COMMAND


def test_every_key_of_both_files_is_in_a_table():
    in_tables = set().union(*(shown(path.read_text(), KNOWN) for path in PAGES))
    missing = [
        f"{name}.{key}"
        for name, model in KNOWN.items()
        for key in model.get("properties", ())
        # Streams have the keys of a phase's load.
        if (name, key) not in in_tables and not (name == "Stream" and ("Phase", key) in in_tables)
    ]
    assert missing == []


@pytest.mark.parametrize("module", [workload_file, experiment_file])
def test_no_description_is_left_of_a_key_that_is_gone(module):
    known = module.models() | ({experiment_file.COMMON: experiment_file.common()} if module is experiment_file else {})
    assert unused(known, read_keys(module.KEYS)) == []


def test_a_key_without_a_description_is_refused():
    with pytest.raises(LoadframeError, match=r"does not describe Thing\.colour"):
        described({"Thing": {"properties": {"colour": {"type": "string"}}}}, {"shared": {"size": "Size."}})


def test_a_marker_may_list_keys_or_leave_some_out():
    some = written("<!-- keys: Phase: clients rate -->\n<!-- end -->\n", KNOWN)
    assert "| `clients` | integer from 1 or mapping |" in some
    assert "`warmup`" not in some
    assert "`clients`" not in written("<!-- keys: Phase: - clients -->\n<!-- end -->\n", KNOWN)
    with pytest.raises(LoadframeError, match="unknown model 'Fase'"):
        written("<!-- keys: Fase -->\n<!-- end -->\n", KNOWN)


def test_base_patterns_are_listed_with_their_fields_and_those_of_inner_patterns():
    table = written("<!-- patterns: grok -->\n<!-- end -->\n", KNOWN)
    assert "| `SYSLOGBASE` | `timestamp`, `facility`, `priority`, `logsource`, `program`, `pid` |" in table
    combined = next(row for row in table.splitlines() if "COMBINEDAPACHELOG" in row)
    assert all(f"`{field}`" in combined for field in ("clientip", "response", "agent"))
    assert "`WORD`" in table.partition("Without fields")[2]
