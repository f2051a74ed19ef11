"""The documentation builds as a website without warnings, works without a network, and loads nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

TOP = Path(__file__).parents[2]
#: Pages outside the site.
OTHERS = [page for name in ("*.md", "lab/**/*.md", "experiments/**/*.md") for page in sorted(TOP.glob(name))]


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


@pytest.mark.slow
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


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: str(page.relative_to(TOP)))
def test_links_of_pages_outside_the_site_resolve(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ +(.*?)\s*$", file.read_text(), re.MULTILINE)
            assert anchor in {slugify(re.sub(r"[`*]", "", heading), "-") for heading in headings}, f"{target}#{anchor}"
