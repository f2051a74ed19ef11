"""Every command of the documentation runs and prints the words that its page shows."""

from pathlib import Path

import pytest
from console_page import Page, pages, read_page, run_page

from commands import open_folder

TOP = Path(__file__).parents[2]
PAGES = [page for page in map(read_page, pages(TOP)) if page.commands]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.path.relative_to(TOP)),
            marks=[pytest.mark.store, pytest.mark.slow] if page.heavy else [],
        )
        for page in PAGES
    ],
)
def test_the_commands_of_the_page_run_and_print_what_it_shows(page: Page):
    with open_folder("docs") as folder:
        run_page(page, folder)
