"""The documentation builds as a website without warnings, works without a network, and loads nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> tuple[Path, str]:
    """Build the site; return its folder and the messages."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=TOP,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


def test_the_site_builds_without_warnings(site):
    warnings = [line for line in site[1].splitlines() if re.match(r"WARNING|ERROR", line)]
    assert not warnings, "\n".join(warnings)


def test_pages_load_nothing_from_other_hosts(site):
    loaded = re.compile(r"<(?:script|img|iframe|link)[^>]*\b(?:src|href)=\"?https?://")
    assert [page for page in site[0].rglob("*.html") if loaded.search(page.read_text())] == []


def test_the_search_index_contains_the_pages(site):
    index = json.loads((site[0] / "search" / "search_index.json").read_text())
    assert any(entry["location"].startswith("start/install") for entry in index["docs"])
    assert (site[0] / "search" / "search_index.js").exists(), "a page that is opened as a file cannot read JSON"
