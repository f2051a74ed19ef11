"""Pages of `lab/` are generated from sources that exist, and its index lists all of them."""

import sys

import pytest
from benchmarks import lab

from loadframe.base.errors import BadInput

#: The page of screenshots is written by hand.
PAGES = sorted(page for page in lab.LAB.glob("*/**/*.md") if page.parent != lab.LAB / "reports")


def test_the_index_lists_all_pages():
    rows = [line for line in (lab.LAB / "README.md").read_text().splitlines() if line.startswith("| [")]
    assert rows == [line for line in lab.index().splitlines() if line.startswith("| [")], (
        "run `python -m benchmarks.lab`"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_page_names_an_existing_source(page):
    name = page.read_text().rpartition("python -m benchmarks.lab ")[2].partition("`")[0]
    assert lab.find(name).page == page


def test_a_page_has_output_date_commit_and_machine(tmp_path):
    source = lab.Source(
        "simulate_x", tmp_path / "simulations" / "x.md", "About.", (sys.executable, "-c", "print(6 * 7)")
    )
    assert lab.write_page(source) is None
    text = source.page.read_text()
    assert "# x\n\nAbout.\n" in text and "\n42\n```" in text and "Machine: " in text
    assert lab._STAMP.search(text)


def test_a_failed_source_is_reported_and_its_page_shows_the_exit_code(tmp_path):
    source = lab.Source("x", tmp_path / "x.md", "", (sys.executable, "-c", "import sys; sys.exit('no server')"))
    assert lab.write_page(source) == "no server"
    assert "Exit code: 1." in source.page.read_text()


@pytest.mark.parametrize("name", ["simulate_nothing", "pyproject.toml", "experiments/tour/nothing.yaml"])
def test_unknown_sources_are_refused(name):
    with pytest.raises(BadInput, match="unknown source"):
        lab.find(name)
