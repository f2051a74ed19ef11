"""Terminal tables that print each row as a block of lines if the table is wider than the terminal."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_GAP = 2


class TerminalTable:
    """A table: the first `names` columns name the row and are left-aligned, the others are right-aligned.

    Cells may have several lines. `title` is printed above the table.
    """

    def __init__(self, headers: Sequence[str], *, names: int = 1, title: str = "") -> None:
        """Create a table without rows; the first `names` columns name a row, and `title` is printed above the table."""
        self._headers = headers
        self._names = names
        self._title = title
        self._rows: list[tuple[list[Text], str]] = []

    def add(self, *cells: Text | str, style: str = "") -> None:
        """Add a row, all in one rich `style` unless cells have their own.

        It needs as many cells as there are headers; otherwise `print` raises ValueError.
        """
        self._rows.append(([Text(cell) if isinstance(cell, str) else cell for cell in cells], style))

    def print(self, console: Console) -> None:
        """Print the title and a table that fits the width of the console, or else a block of lines for each row."""
        if self._title:
            console.print(Text(self._title, style="dim"))
        columns = zip(*([Text(header) for header in self._headers], *(cells for cells, _ in self._rows)), strict=True)
        widths = [
            max(cell_len(line.plain) for cell in column for line in cell.split("\n") or [cell]) for column in columns
        ]
        if sum(widths) + _GAP * (len(widths) - 1) <= console.width:
            self._print_table(console)
        else:
            self._print_blocks(console)

    def _print_table(self, console: Console) -> None:
        """Print the rows below the headers."""
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
        for index, header in enumerate(self._headers):
            table.add_column(header, justify="left" if index < self._names else "right", no_wrap=True)
        for cells, style in self._rows:
            table.add_row(*cells, style=style or None)
        console.print(table)

    def _print_blocks(self, console: Console) -> None:
        """Print each row as a line of names, then lines filled with figures and their headers.

        Empty cells are omitted.
        """
        for cells, style in self._rows:
            named = [cell for cell in cells[: self._names] if cell.plain]
            if named:
                console.print(Text(" · ").join(named), style=style or "bold")
            pairs = [
                Text.assemble((f"{header} ", "dim"), *(part for line in cell.split("\n") for part in (line, " ")))
                for header, cell in zip(self._headers[self._names :], cells[self._names :], strict=True)
                if cell.plain
            ]
            for pair in pairs:
                pair.rstrip()
            figures = _filled(pairs, console.width - _GAP)
            console.print(Padding(figures, (0, 0, 0, _GAP), expand=False), style=style or None)


def _filled(pairs: Sequence[Text], width: int) -> Text:
    """Return pairs of header and figure, joined by two spaces to lines of at most `width` characters.

    A longer pair is folded.
    """
    lines: list[Text] = []
    for pair in pairs:
        if lines and cell_len(lines[-1].plain) + 2 + cell_len(pair.plain) <= width:
            lines[-1].append("  ").append_text(pair)
        else:
            lines.append(pair.copy())
    text = Text("\n").join(lines)
    text.overflow = "fold"
    return text
