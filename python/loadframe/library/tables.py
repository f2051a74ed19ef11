"""Results that print as text and show in notebooks, and tables of recorded data for Arrow, polars or pandas."""

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import counted
from loadframe.base.untrusted import printable
from loadframe.library.arguments import checked, in_python

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa
    from rich.console import Console

#: Columns of printed text.
_WIDTH = 100
#: Rows and columns of a table in a notebook.
_ROWS, _COLUMNS = 10, 12
#: Arrow's integers are smaller.
_LARGEST = 2**63


def text_of(show: "Callable[[Console], None]") -> str:
    """Return the text that a function prints on a console of 100 columns, without styles."""
    file = StringIO()
    # In a notebook, rich would display the text instead of writing it to the file.
    show(
        PrintableConsole(
            file=file, width=_WIDTH, emoji=False, force_terminal=False, force_jupyter=False, color_system=None
        )
    )
    return file.getvalue()


class Answer:
    """A result of an analysis: `print` it, show it in a notebook, or take its values with `as_dict`."""

    def __init__(self, document: Mapping[str, Any], show: "Callable[[Console], None]") -> None:
        """Create the result from its values, of which it keeps a copy, and the function that prints it."""
        self._document = dict(document)
        self._show = show

    def as_dict(self) -> dict[str, Any]:
        """Return the values that the command prints with `--json`. Times are s, rates 1/s."""
        return self._document

    def show(self, console: "Console") -> None:
        """Print the result on a rich console, with options of the command line."""
        self._show(console)

    def __str__(self) -> str:
        # `show` is also for the command line, so it has options.
        return in_python(text_of(self._show).rstrip("\n"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {next(iter(str(self).splitlines()), '')}>"

    def _repr_html_(self) -> str:
        """Return the printed text as HTML for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"


class Table:
    """A table that is read on first use. Times are seconds, unless a column says otherwise.

    Any library with the Arrow PyCapsule interface reads it directly, such as `polars.DataFrame(table)` or DuckDB.

    >>> table = loadframe.open("results/tail").operations
    >>> table.columns[:3]
    ['phase', 'operation', 'prepares']
    >>> table.to_arrow().num_rows == len(table)
    True
    """

    @checked
    def __init__(self, name: str, read: "Callable[[], pa.Table]") -> None:
        """Create the table `name`; `read` returns its content, and is called once, on first use."""
        self.name = name
        self._read = read

    @cached_property
    def _content(self) -> "pa.Table":
        """The content, read on first use."""
        return self._read()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._content.column_names)

    def to_arrow(self) -> "pa.Table":
        """Return the table as a `pyarrow.Table`."""
        return self._content

    def to_polars(self) -> "polars.DataFrame":
        """Return the table as a polars data frame; BadInput if polars is not installed."""
        frame: polars.DataFrame = _module("polars").from_arrow(self._content)
        return frame

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table as a pandas data frame; BadInput if pandas is not installed."""
        _module("pandas")
        frame: pandas.DataFrame = self._content.to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the Arrow stream of the table."""
        return self._content.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._content.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dictionary."""
        for batch in self._content.to_batches():
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        return f"<Table {self.name}: {counted(len(self), 'row')}, {counted(len(self.columns), 'column')}>"

    def _repr_html_(self) -> str:
        """Return the first ten rows and twelve columns as HTML, and a note if the table has more."""
        shown = self._content.slice(0, _ROWS).select(self.columns[:_COLUMNS])
        more = [counted(len(self), "row")] * (len(self) > _ROWS) + [counted(len(self.columns), "column")] * (
            len(self.columns) > _COLUMNS
        )
        note = f"<p>Excerpt of {' and '.join(more)}.</p>" if more else ""
        return html_table(shown.column_names, (row.values() for row in shown.to_pylist())) + note


def html_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return an HTML table of escaped values."""
    head = "".join(f"<th>{cell(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def cell(value: object) -> str:
    """Return a value as escaped HTML: floats with four significant digits, None as an empty text."""
    if isinstance(value, float):
        value = f"{value:.4g}"
    return escape(printable("" if value is None else str(value)))


def table_of(rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> "pa.Table":
    """Return rows with different keys as a table; the columns `first` exist even without rows.

    Lists and mappings become JSON. Integers and floats in one column become floats, other mixed types text.
    """
    import pyarrow as pa

    names = dict.fromkeys([*first, *(key for row in rows for key in row)])
    return pa.table({name: column_of([row.get(name) for row in rows]) for name in names})


def column_of(values: Sequence[Any]) -> "pa.Array":
    """Return values as a column of one type: integers and floats become floats, other mixed types text.

    Lists and mappings become JSON, and a column with an integer beyond 64 bits becomes text.
    """
    import pyarrow as pa

    plain = [json.dumps(value) if isinstance(value, dict | list | tuple) else value for value in values]
    kinds = {type(value) for value in plain} - {type(None)}
    if kinds == {int, float}:
        plain = [None if value is None else float(value) for value in plain]
    elif len(kinds) > 1 or any(isinstance(value, int) and abs(value) >= _LARGEST for value in plain):
        plain = [None if value is None else str(value) for value in plain]
    return pa.array(plain)


def with_columns(table: "pa.Table", constants: "Mapping[str, pa.Scalar]") -> "pa.Table":
    """Return the table with further columns in front, each with the same value in every row."""
    import pyarrow as pa

    for place, (name, value) in enumerate(constants.items()):
        table = table.add_column(place, name, pa.repeat(value, table.num_rows))
    return table


def concatenate(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return the tables one after the other; missing columns are null. Without tables, return an empty table."""
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def _module(name: str) -> Any:
    """Return an installed module; BadInput with the command that installs it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(
            f"{name} is not installed", remedy=f"install it with `pip install 'loadframe[{name}]'`, or use to_arrow()"
        ) from error
