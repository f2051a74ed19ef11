"""Tables on the terminal: nothing in them is cut, however narrow it is."""

import io

import pytest
from rich.console import Console

from loadframe.report.terminal_table import TerminalTable

HEADERS = ("measure", "group", "baseline", "ratio")
ROW = ("throughput of a_rather_long_operation_name", "store.settings.index.translog.durability=async", "1,234/s")


def printed(width, *rows, names=2):
    console = Console(file=io.StringIO(), width=width)
    table = TerminalTable(HEADERS, names=names)
    for row in rows:
        table.add(*row)
    table.print(console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_every_word_of_a_cell_is_printed_at_any_width(width):
    text = printed(width, (*ROW, "1.05\n[1.01, 1.09]"))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    together = "".join(text.split())
    for cell in (*ROW, "1.05", "[1.01, 1.09]"):
        assert "".join(cell.split()) in together


def test_a_table_that_fits_has_its_headers_once():
    lines = printed(200, (*ROW, "1.05"), (*ROW, "1.06")).splitlines()
    assert len(lines) == 3
    assert lines[0].split() == list(HEADERS)


def test_a_table_that_does_not_fit_names_each_figure():
    lines = printed(80, (*ROW, "1.05")).splitlines()
    assert lines[-1] == "  baseline 1,234/s  ratio 1.05"
