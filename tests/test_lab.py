"""Pages of `lab/` are generated from sources that exist, and its index lists all of them."""

import sys
from dataclasses import replace

import pytest
from benchmarks import lab

from loadframe.base.errors import BadInput

#: `docs/make_images.py` makes the pictures of the page of screenshots.
PAGES = sorted(page for page in lab.LAB.glob("*/**/*.md") if page.parent != lab.LAB / "reports")


def test_the_index_lists_all_pages_and_the_sources_without_one():
    assert (lab.LAB / "README.md").read_text() == lab.index(), "run `python -m benchmarks.lab`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_page_names_an_existing_source(page):
    name = page.read_text().rpartition("python -m benchmarks.lab ")[2].partition("`")[0].partition(" --")[0]
    assert lab.find(name).page == page


def test_a_page_has_output_date_commit_and_machine(tmp_path):
    source = lab.Source(
        "simulate_x", tmp_path / "simulations" / "x.md", "About.", (sys.executable, "-c", "print(6 * 7)")
    )
    assert lab.write_page(source) is None
    text = source.page.read_text()
    assert "# x\n\nAbout.\n" in text and "\n42\n```" in text and "Machine: " in text
    assert lab._STAMP.search(text)


def test_a_page_names_its_number_of_trials(tmp_path):
    source = lab.find("simulate_curves", trials=0)
    assert source.command[-1] == "0"
    assert lab.write_page(replace(source, page=tmp_path / "curves.md", command=("true",))) is None
    assert "`python -m benchmarks.lab simulate_curves --trials 0`" in (tmp_path / "curves.md").read_text()


def test_a_failed_source_is_reported_and_its_page_shows_the_exit_code(tmp_path):
    source = lab.Source("x", tmp_path / "x.md", "", (sys.executable, "-c", "import sys; sys.exit('no server')"))
    assert lab.write_page(source) == "no server"
    assert "Exit code: 1." in source.page.read_text()


def test_no_page_is_written_if_the_experiment_was_refused(tmp_path):
    """A report of an older run would otherwise stand there with today's date."""
    refused = (sys.executable, "-c", "import sys; sys.exit(2)")
    source = lab.Source("x", tmp_path / "x.md", "", (sys.executable, "-c", "print('old')"), (refused,))
    assert "refused" in lab.write_page(source)
    assert not source.page.exists()


def test_an_experiment_on_a_named_cluster_starts_and_ends_it():
    """Its comment has the commands; other commands of comments are not run."""
    before = lab.find("experiments/mpi-benchmarker/small-fill-once.yaml").before
    assert [command[1] for command in before] == ["cluster", "run", "cluster"]
    assert [command[1] for command in lab.find("experiments/adbids/small-whole.yaml").before] == ["run"]


@pytest.mark.parametrize("name", ["simulate_nothing", "pyproject.toml", "experiments/tour/nothing.yaml"])
def test_unknown_sources_are_refused(name):
    with pytest.raises(BadInput, match="unknown source"):
        lab.find(name)
