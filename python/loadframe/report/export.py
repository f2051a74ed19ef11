"""Export of a report's plots and tables for papers: PDF, SVG, PNG, CSV, LaTeX, the answer and BibTeX entries."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
#: Widths in pixels (96 per inch) of one and two columns of a page: those of LaTeX's article with two columns (229.5 and
#: 469.75 pt), which are narrower than a journal's.
_COLUMNS = {"1col": 304, "2col": 623}
#: Longer cells of LaTeX tables become notes below the table.
_LONG = 40
#: Widths of characters in em, for Computer Modern and wider than Times: capitals, narrow and wide signs, others.
_EMS = {
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ%&", 0.78),
    **dict.fromkeys("mMwW@", 0.95),
    **dict.fromkeys("+<=>\N{MULTIPLICATION SIGN}\N{MINUS SIGN}", 0.8),
    **dict.fromkeys("iljftI.,:;|!'()[]/- ", 0.4),
}
_EM = 0.53
#: Widths of these columns with a margin, and the gap beside cells, in points.
_COLUMN_POINTS, _GAP_POINTS = (227.0, 466.0), 2.0
#: Height for the rows of a table on a page of LaTeX's article (550 points), which leaves room for caption and notes.
_PAGE_POINTS = 440.0
#: Font sizes of tables and the distances of their lines, in points, and the characters to which cells are broken.
_SIZES = {"footnotesize": (8, 9.5), "scriptsize": (7, 8)}
_BREAKS = (_LONG, 24, 18, 14, 10, 8)
#: Parts of a text that stay in one line: words with the space after them, or their parts up to a hyphen or underscore.
_PIECES = re.compile(r"[^ ]+?(?:(?<=[^\W_])[-_](?=[^\W\d])|(?= |$)) ?")
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


def export(
    page: Page, manifests: Sequence[Manifest], caveat: str, folder: Path, formats: Sequence[str]
) -> tuple[list[Path], str]:
    """Write the plots and tables of a page in these formats, `answer.txt` and `software.bib`.

    Return the files, and the answer for a quotation. `caveat` says which runs count, or whether the run is valid.
    BadInput if the folder is not writable, or vl-convert is missing for PDF or PNG.
    """
    files = {
        f"{name}.{'tex' if kind == 'latex' else kind}": content
        for kind in formats
        for name, content in (_plots(page.figures, kind) if kind in PLOTS else _tables(page.tables, kind))
    }
    quotation = " ".join([*page.answer[:1], _conditions(manifests), caveat])
    files["answer.txt"] = "".join(f"{line}\n" for line in [quotation, *page.answer[1:]]).encode()
    files["software.bib"] = bibliography(manifests).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise BadInput(
            f"cannot write to the folder: {error.strerror}", where=str(folder), remedy="name another folder"
        ) from error
    return [folder / name for name in files], quotation


def _conditions(manifests: Sequence[Manifest]) -> str:
    """Write `Measured with Loadframe 0.3.0: workload nyc_taxis on opensearch 3.8.0, 2026-11-27.`"""
    days = sorted({manifest.started[:10] for manifest in manifests if manifest.started})
    tools = _listed(f"Loadframe {manifest.versions.loadframe}" for manifest in manifests)
    workloads = _listed(manifest.workload.name or "" for manifest in manifests)
    stores = _listed(" ".join(filter(None, (it.store.kind, it.store.version))) for it in manifests)
    subject = " on ".join(filter(None, (workloads and f"workload {workloads}", stores)))
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    about = ", ".join(filter(None, (subject, when)))
    return f"Measured with {tools}{about and f': {about}'}."


def _listed(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(filter(None, names)))


def bibliography(manifests: Sequence[Manifest]) -> str:
    """Return BibTeX entries of Loadframe, the stores and Python, each with its version."""
    entries: dict[tuple[str, str], str] = {}
    for manifest in manifests:
        day = (manifest.started or "")[:10]
        versions, store = manifest.versions, manifest.store
        for name, version in (
            ("Loadframe", versions.loadframe),
            (store.kind, store.version),
            ("Python", versions.python),
        ):
            if name:
                entries.setdefault((str(name), str(version or "")), day)
    texts = []
    for (name, version), day in entries.items():
        key = re.sub(r"\W+", "-", f"{name}-{version}".lower()).strip("-")
        # Styles of plain BibTeX know neither @software nor a field for versions, and sort by `key` without an author.
        notes = [f"Version {_latex(version)}"] if version else []
        notes += [f"Measured on {day}"] if day else []
        lines = [f"  title = {{{{{_latex(name)}}}}}", f"  key = {{{_latex(name)}}}"]
        lines += [f"  note = {{{'. '.join(notes)}}}"] if notes else []
        texts.append(f"@misc{{{key},\n" + ",\n".join(lines) + "\n}\n")
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
        for text in [csv_table(table)] if kind == "csv" else _tabulars(title, table):
            taken[name] = taken.get(name, 0) + 1
            yield name if taken[name] == 1 else f"{name}-{taken[name]}", text.encode()


def _tabulars(title: str, table: Table) -> list[str]:
    """Return a table for LaTeX with the package booktabs, in the largest size and longest lines that fit a column.

    Tables that do not fit one column are set for two, and those that are taller than a page in several parts.
    """
    notes: dict[str, int] = {}
    rows = [[_parts(cell, notes if at else None) for at, cell in enumerate(row)] for row in table.rows]
    size, (head, *body), fits = _fitted([[[_Part(title)] for title in table.columns], *rows])
    parts: list[_Rows] = [[]]
    for row in body:
        if parts[-1] and _height([head, *parts[-1], row], size) > _PAGE_POINTS:
            parts.append([])
        parts[-1].append(row)
    comments = [f"% {' '.join(text.split())}" for text in (title, table.note) if text]
    comments += [] if fits else ["% Wider than one column: use the environment table*."]
    texts = []
    for number, part in enumerate(parts, 1):
        named = {note.note for row in part for cell in row for note in cell}
        shown = {text: note for text, note in notes.items() if note in named}
        piece = [f"% Part {number} of {len(parts)}, for a page each."] if len(parts) > 1 else []
        texts.append("\n".join([*comments, *piece, *_tabular(size, [head, *part], table, shown)]) + "\n")
    return texts


def _tabular(size: str, rows: "_Rows", table: Table, notes: Mapping[str, int]) -> list[str]:
    """Return the lines of a part of a table; the first of `rows` is its head."""
    names = table.names
    head, *body = [" & ".join(_cell(lines, "l" if at < names else "r", at) for at, lines in enumerate(row)) + r" \\"
                   for row in rows]  # fmt: skip
    columns = "".join("l" if at < names else "r" for at in range(len(table.columns)))
    return [
        rf"{{\{size}\setlength{{\tabcolsep}}{{{_GAP_POINTS:g}pt}}%",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par $^{{{number}}}$ {_latex(text)}" for text, number in notes.items()),
        r"\par}",
    ]


@dataclass(frozen=True)
class _Part:
    """Text of a cell, and the number of the note that stands for the rest; 0 without one."""

    text: str
    note: int = 0


def _parts(cell: Cell, notes: dict[str, int] | None) -> list[_Part]:
    """Return the parts of a cell. Long parts are added to `notes`, if given, and leave their numbers."""
    parts: list[_Part] = []
    for text in filter(None, (cell.text, cell.small)):
        if notes is None or len(text) <= _LONG:
            parts.append(_Part(text))
            continue
        number = notes.setdefault(text, len(notes) + 1)
        last = parts.pop() if parts else _Part("")
        parts.append(_Part(last.text, number))
    return parts


#: Rows of cells, and the lines of each cell.
_Rows = list[list[list[_Part]]]


def _fitted(rows: _Rows) -> tuple[str, _Rows, bool]:
    """Break cells into lines. Return the size of the font, the lines, and whether the table fits one column.

    Tables that are taller than a page in one column get two, and the layout of least height if that is not enough.
    """
    narrow: list[tuple[str, _Rows, bool]] = []
    for available in _COLUMN_POINTS:
        for most in _BREAKS:
            broken = [[_broken(parts, most) for parts in row] for row in rows]
            gaps = 2 * _GAP_POINTS * (len(rows[0]) - 1)
            widths = [max((_ems(line) for cell in column for line in cell), default=0.0)
                      for column in zip(*broken, strict=True)]  # fmt: skip
            for size, (points, _) in _SIZES.items():
                if points * sum(widths) + gaps <= available:
                    layout = size, broken, available == _COLUMN_POINTS[0]
                    if _height(broken, size) <= _PAGE_POINTS:
                        return layout
                    narrow.append(layout)
    return min(narrow, key=lambda it: _height(it[1], it[0]), default=(size, broken, False))


def _height(rows: _Rows, size: str) -> float:
    """Return the height of a table's rows in points."""
    return _SIZES[size][1] * sum(max(map(len, row)) for row in rows)


def _broken(parts: Sequence[_Part], most: int) -> list[_Part]:
    """Return the lines of a cell: its parts in one line if they have at most `most` characters, else broken."""
    if len(parts) > 1 and sum(len(part.text) for part in parts) + 2 <= most:
        separator = " " if parts[1].text.startswith("[") else ": "
        return [_Part(separator.join(part.text for part in parts), parts[-1].note)]
    lines = []
    for part in parts:
        # A number and its unit stay together.
        kept = re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\N{NO-BREAK SPACE}", " ".join(part.text.split()))
        broken = [""]
        for piece in _PIECES.findall(kept):
            if broken[-1] and len(broken[-1] + piece.rstrip()) > most:
                broken.append("")
            broken[-1] += piece
        lines += [*map(_Part, broken[:-1]), _Part(broken[-1], part.note)]
    return lines


def _ems(line: _Part) -> float:
    # LaTeX drops spaces at the end of a line.
    return sum(_EMS.get(sign, _EM) for sign in line.text.rstrip()) + 0.4 * len(str(line.note or ""))


def _cell(lines: Sequence[_Part], side: str, at: int) -> str:
    """Return the lines of a cell as LaTeX, several as a table in it."""
    texts = [_latex(line.text) + (f"$^{{{line.note}}}$" if line.note else "") for line in lines]
    # After a line break, LaTeX would read a bracket as the option of the break.
    texts = [f"{{[}}{text[1:]}" if text.startswith("[") and (number or not at) else text
             for number, text in enumerate(texts)]  # fmt: skip
    if len(texts) < 2:
        return "".join(texts)
    return rf"\begin{{tabular}}[t]{{@{{}}{side}@{{}}}}" + r"\\ ".join(texts) + r"\end{tabular}"


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
    return re.sub(r"(?<=\d )us\b", r"$\\mu$s", escaped)


def _file_name(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title.lower()).strip("-.") or "table"
