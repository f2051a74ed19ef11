"""Every command of the documentation runs and prints the words that its page shows."""

from pathlib import Path

import pytest
from console_page import Page, pages, read_page, run_page

from commands import open_folder

TOP = Path(__file__).parents[2]
PAGES = [page for page in map(read_page, pages(TOP)) if page.commands]
#: Pages that take minutes. Other tests run the same kinds of experiments.
TRIALS = {
    "docs/how-to/compare-stores-for-a-paper.md",
    "docs/how-to/gate-in-ci.md",
    "docs/how-to/ingest-a-stream.md",
    "docs/how-to/named-clusters.md",
    "docs/how-to/repeat-a-study.md",
    "docs/tutorials/add-a-node-under-load.md",
    "docs/tutorials/compare-releases.md",
    "docs/tutorials/find-settings.md",
    "docs/tutorials/size-a-cluster.md",
}


def _name(page: Page) -> str:
    return str(page.path.relative_to(TOP))


def _marks(page: Page) -> list[pytest.MarkDecorator]:
    heavy = [pytest.mark.store, pytest.mark.slow] if page.heavy else []
    return [*heavy, *([pytest.mark.trial] if _name(page) in TRIALS else [])]


@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page), marks=_marks(page)) for page in PAGES])
def test_the_commands_of_the_page_run_and_print_what_it_shows(page: Page):
    with open_folder("docs") as folder:
        run_page(page, folder)
