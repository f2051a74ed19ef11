"""Export of a report's plots and tables for papers: PDF, SVG, PNG, CSV, LaTeX, the answer and BibTeX entries."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.record import Manifest
from loadframe.report.csv_table import csv_table
from loadframe.report.page import Page
from loadframe.report.plot import Figure
from loadframe.report.plot.draw import draw
from loadframe.report.tables import Cell, Table

#: Formats of plots, and of tables.
PLOTS, TABLES = ("pdf", "svg", "png"), ("csv", "latex")
#: Widths in pixels (96 per inch) of one and two columns of a journal page: 3.5 and 7.16 inches.
_COLUMNS = {"1col": 336, "2col": 687}
#: Longer cells of LaTeX tables become notes below the table.
_LONG = 40
#: Pixels of a drawing, points and pixels of PNG, per inch.
_PIXELS, _POINTS, _DOTS = 96, 72, 300
#: Metric-compatible families; the converter brings the first and embeds it.
_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{MULTIPLICATION SIGN}": r"$\times$", "\N{MINUS SIGN}": "$-$", "\N{INFINITY}": r"$\infty$",
    "\N{GREEK SMALL LETTER LAMDA}": r"$\lambda$", "\N{GREEK SMALL LETTER SIGMA}": r"$\sigma$",
    "\N{GREEK SMALL LETTER KAPPA}": r"$\kappa$", "\N{SUPERSCRIPT TWO}": "$^2$", "\N{CHECK MARK}": "*",
    # Text fonts of the encoding OT1 have other signs in their places.
    "<": "$<$", ">": "$>$", "|": "$|$",
    "\N{RIGHTWARDS ARROW}": r"$\to$", "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
}  # fmt: skip


def export(page: Page, manifests: Sequence[Manifest], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the plots and tables of a page in these formats, `answer.txt` and `software.bib`; return the files.

    BadInput if the folder is not writable, or vl-convert is missing for PDF or PNG.
    """
    files = {
        f"{name}.{'tex' if kind == 'latex' else kind}": content
        for kind in formats
        for name, content in (_plots(page.figures, kind) if kind in PLOTS else _tables(page.tables, kind))
    }
    files["answer.txt"] = "".join(f"{line}\n" for line in page.answer).encode()
    files["software.bib"] = bibliography(manifests).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise BadInput(
            f"cannot write to the folder: {error.strerror}", where=str(folder), remedy="name another folder"
        ) from error
    return [folder / name for name in files]


def bibliography(manifests: Sequence[Manifest]) -> str:
    """Return BibTeX entries of Loadframe, the stores and Python, each with its version."""
    entries: dict[tuple[str, str], str] = {}
    for manifest in manifests:
        year = (manifest.started or "")[:4]
        versions, store = manifest.versions, manifest.store
        for name, version in (
            ("Loadframe", versions.loadframe),
            (store.kind, store.version),
            ("Python", versions.python),
        ):
            if name:
                entries.setdefault((str(name), str(version or "")), year)
    texts = []
    for (name, version), year in entries.items():
        key = re.sub(r"\W+", "-", f"{name}-{version}".lower()).strip("-")
        lines = [f"  title = {{{{{_latex(name)}}}}}"]
        lines += [f"  version = {{{_latex(version)}}}"] if version else []
        lines += [f"  year = {{{year}}}", "  note = {Version and year of the measurement}"] if year else []
        texts.append(f"@software{{{key},\n" + ",\n".join(lines) + "\n}\n")
    return "\n".join(texts)


def _plots(figures: Sequence[Figure], kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield each plot in the widths of one and of two columns."""
    for figure in figures:
        for column, width in _COLUMNS.items():
            svg = draw(replace(figure, width=width), font=_FONT)
            yield f"{_file_name(figure.name)}-{column}", _converted(svg, kind)


def _converted(svg: str, kind: str) -> bytes:
    """Convert a drawing with 96 pixels per inch. BadInput without vl-convert for PDF and PNG."""
    sides = [int(number) / _PIXELS for number in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0]]
    # The converter takes a pixel for a point.
    width, height = (f"{side:.4g}in" if kind == "svg" else f"{_POINTS * side:.5g}" for side in sides)
    svg = svg.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    if kind == "svg":
        return svg.encode()
    try:
        import vl_convert
    except ImportError:
        raise BadInput(
            f"--format {kind} needs the package vl-convert-python",
            remedy="install it with `pip install 'loadframe[figures]'`, or use --format svg",
        ) from None
    if kind == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, ppi=_DOTS))


def _tables(tables: Sequence[tuple[str, Table]], kind: str) -> Iterator[tuple[str, bytes]]:
    taken: dict[str, int] = {}
    for title, table in tables:
        name = _file_name(title)
        taken[name] = taken.get(name, 0) + 1
        text = csv_table(table) if kind == "csv" else _tabular(title, table)
        yield name if taken[name] == 1 else f"{name}-{taken[name]}", text.encode()


def _tabular(title: str, table: Table) -> str:
    """Return a table for LaTeX with the package booktabs."""
    columns = "".join("l" if at < table.names else "r" for at in range(len(table.columns)))
    notes: dict[str, int] = {}
    rows = [" & ".join(_latex_cell(cell, notes if at else None) for at, cell in enumerate(row)) + r" \\"
            for row in table.rows]  # fmt: skip
    head = " & ".join(map(_latex, table.columns)) + r" \\"
    note = f"% {' '.join(table.note.split())}\n" if table.note else ""
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize $^{{{number}}}$ {_latex(text)}}}" for text, number in notes.items()),
    ]
    return f"% {' '.join(title.split())}\n{note}" + "\n".join(lines) + "\n"


def _latex_cell(cell: Cell, notes: dict[str, int] | None) -> str:
    """Return a cell in one line, and add its long parts to `notes`, if given, with the number that refers to each."""
    written = ""
    for part in filter(None, (cell.text, cell.small)):
        if notes is not None and len(part) > _LONG:
            written += f"$^{{{notes.setdefault(part, len(notes) + 1)}}}$"
        else:
            separator = " " if part.startswith("[") else ": "
            written += f"{separator if written else ''}{_latex(part)}"
    # At the start of a row, LaTeX would read a bracket as the option of the line break before it.
    return f"{{[}}{written[1:]}" if notes is None and written.startswith("[") else written


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
    return re.sub(r"(?<=\d )us\b", r"$\\mu$s", escaped)


def _file_name(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title.lower()).strip("-.") or "table"
