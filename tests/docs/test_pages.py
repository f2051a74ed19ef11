"""Every command of the documentation runs and prints the words that its page shows."""

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from console_page import Page, pages, read_page, run_page
from page_services import start

from commands import commands_of, open_folder
from loadframe.cli.app import app
from loadframe.cli.choices import assignments
from loadframe.workload import load_workload

TOP = Path(__file__).parents[2]
ALL = [*map(read_page, pages(TOP))]
PAGES = [page for page in ALL if page.commands]
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
    return [*heavy, *([pytest.mark.trial, pytest.mark.timeout(1800)] if _name(page) in TRIALS else [])]


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page), marks=_marks(page)) for page in PAGES])
def test_the_commands_of_the_page_run_and_print_what_it_shows(page: Page, request: pytest.FixtureRequest):
    carry_out(page, request, patience=900 if _name(page) in TRIALS else 300)


#: Pages with blocks that only trials run. These run the whole page, since blocks use files of the blocks before.
WHOLE = [read_page(page.path, trials=True) for page in ALL if page.has_trials]


@pytest.mark.trial
@pytest.mark.store
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", [pytest.param(page, id=_name(page)) for page in WHOLE])
def test_the_commands_of_the_whole_page_run_and_print_what_it_shows(page: Page, request: pytest.FixtureRequest):
    carry_out(page, request, patience=900)


def carry_out(page: Page, request: pytest.FixtureRequest, patience: float) -> None:
    """Carry out a page with its services; skip the test, with the reasons, if blocks lacked a service.

    `patience`: seconds for each command.
    """
    with open_folder("docs") as folder:
        missing = run_page(page, folder, start(request), patience)
    if missing:
        pytest.skip("; ".join(f"not run: blocks that need {name}: {reason}" for name, reason in missing.items()))


COMMANDS = dict(commands_of(typer.main.get_group(app)))


def _uses(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of Loadframe in lines for a shell, with its arguments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        for separates, part in itertools.groupby(words, lambda word: set(word) <= set("();<>|&")):
            said = list(part)
            arguments = said[said.index("loadframe") + 1 :] if not separates and "loadframe" in said else []
            if arguments:
                length = 2 if " ".join(arguments[:2]) in COMMANDS else 1
                yield " ".join(arguments[:length]), arguments[length:]


USES = [
    pytest.param(name, arguments, id=f"{_name(page)}:{command.line} {name} {' '.join(arguments)}")
    for page in ALL
    for command in page.skipped
    for name, arguments in _uses(command.text)
]


@pytest.mark.parametrize(("name", "arguments"), USES)
def test_commands_that_no_test_runs_have_valid_options_phases_and_parameters(name: str, arguments: list[str]):
    context = COMMANDS[name].make_context(name, [*arguments])
    workload = context.params.get("workload") or ""
    if name == "bench" and "." not in workload:
        loaded = load_workload(workload, assignments(context.params["set_"] or ()))
        if context.params["only"]:
            loaded.choose(context.params["only"].split(","), where="--only")
