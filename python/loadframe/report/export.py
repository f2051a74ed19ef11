"""Export of a report's plots and tables for papers: PDF, SVG, PNG, CSV, LaTeX, the answer and BibTeX entries."""

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import get_args

from loadframe.analyze.experiment import EXPERIMENT_FILE
from loadframe.base.errors import BadInput
from loadframe.base.untrusted import printable
from loadframe.record import Manifest
from loadframe.record.gate_log import GATE_LOG
from loadframe.record.schema import MEMBERS
from loadframe.report import PlotFormat
from loadframe.report.csv_table import base_value, csv_table
from loadframe.report.page import Page
from loadframe.report.plot import SMALL, Figure
from loadframe.report.plot.draw import draw
from loadframe.report.tables import Cell, Table

PLOTS: tuple[PlotFormat, ...] = get_args(PlotFormat)
#: Widths in pixels (96 per inch) of one and two columns of a page: those of LaTeX's article with two columns (229.5 and
#: 469.75 pt), which are narrower than a journal's.
_COLUMNS = {"1col": 304, "2col": 623}
#: Maximum length of a file's name without suffixes, bytes. File systems allow 255.
_LONGEST_NAME = 200
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
#: Environments of tables, their widths with a margin in points, and the characters to which cells are broken. `table*`
#: spans both columns of an article with two (466 points), and is as wide as the text of an article with one (345).
_ENVIRONMENTS = (("table", 227.0, (40, 24, 18, 14)), ("table*", 343.0, (40, 24, 18, 14, 10, 8)))
#: Gap beside cells, in points.
_GAP_POINTS = 2.0
#: Gap between rows of several lines, in points.
_ROW_GAP = 3.0
#: Begin of the notes below a table: as wide as the table, but at least a share of the column.
_NOTES_SHARE = 0.65
_NOTES = rf"\begin{{minipage}}{{\ifdim\wd0<{_NOTES_SHARE}\linewidth {_NOTES_SHARE}\linewidth\else\wd0\fi}}\raggedright"
#: Height for the rows and notes of a table on a page of LaTeX's article (550 points), which leaves room for a caption.
_PAGE_POINTS = 500.0
#: Font sizes of tables and the distances of their lines, in points. Computer Modern is wider at 7 points.
_SIZES = {"footnotesize": (8, 9.5), "scriptsize": (7.4, 8)}
#: Quantities in a text, as `base_value` reads them, but no digits of names, versions, addresses, times and lists.
#: A number with a decimal point and without a unit may be a version, such as 16.2.
_QUANTITY = re.compile(
    r"(?<![\w.,:-])(?<!version )\d+(?:,\d{3})*(?:(?:\.\d+)? (?:us|ms|s|min \d\d s|h \d\d min|%)"
    r"|\.\d+(?=/s| (?:times|requests|documents|events|cores|CPUs|[KMGT]iB)\b)|)(?![\w-]|[.,:]+\d)"
)
#: Parts of a text that stay in one line: words with the space after them, or their parts up to a hyphen or underscore.
_PIECES = re.compile(r"[^ ]+?(?:(?<=[^\W_])[-_](?=[^\W\d])|(?= |$)) ?")
#: Places in names and paths where a line may end.
_BREAK = re.compile(r"(?<=[_/=])(?=\w)|(?<=[^\W\d]\.)(?=\w)")
#: A number with an exponent, such as 9e-08.
_POWER = re.compile(r"(?<![\w.-])(\d(?:\.\d+)?)e\+?(-?)0*(?=\d)(\d+)(?![\w.-])")
#: The end of a sentence before another one, which may begin with a number or a name, and names that keep their capital.
_SENTENCE_END = re.compile(r"\.\s+(?=\S)")
_NAMES = ("Loadframe",)
#: Pixels of a drawing, points and pixels of PNG, per inch.
_PIXELS, _POINTS, _DOTS = 96, 72, 300
#: Metric-compatible families: SVG embeds the first, a part of the second; the converter brings and embeds the second.
FONT = "'Loadframe Sans', 'Liberation Sans', Arial, Helvetica, sans-serif"
_FONT_FILE = Path(__file__).parent / "templates" / "sans.woff2"
#: The paper that defines the workload `ycsb`.
_YCSB = r"""@inproceedings{ycsb,
  author = {Cooper, Brian F. and Silberstein, Adam and Tam, Erwin and Ramakrishnan, Raghu and Sears, Russell},
  title = {{Benchmarking cloud serving systems with {YCSB}}},
  booktitle = {Proceedings of the 1st {ACM} Symposium on Cloud Computing},
  year = {2010},
  pages = {143--154},
  doi = {10.1145/1807128.1807152},
  url = {https://doi.org/10.1145/1807128.1807152}
}
"""
#: Authors, web addresses and titles of software other than stores. Loadframe has no public address.
_OTHERS = {
    "Loadframe": ("Loadframe contributors", "", "Loadframe: load tests of data stores"),
    "Python": ("Python Software Foundation", "https://www.python.org", "Python"),
}
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{MULTIPLICATION SIGN}": r"$\times$", "\N{MINUS SIGN}": "$-$", "\N{INFINITY}": r"$\infty$",
    "\N{GREEK SMALL LETTER LAMDA}": r"$\lambda$", "\N{GREEK SMALL LETTER SIGMA}": r"$\sigma$",
    "\N{GREEK SMALL LETTER KAPPA}": r"$\kappa$", "\N{SUPERSCRIPT TWO}": "$^2$", "\N{CHECK MARK}": "*",
    # Text fonts of the encoding OT1 have other signs in their places.
    "<": "$<$", ">": "$>$", "|": "$|$",
    "\N{ZERO WIDTH SPACE}": r"\allowbreak{}",
    "\N{RIGHTWARDS ARROW}": r"$\to$", "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
}  # fmt: skip


def export(
    page: Page,
    manifests: Sequence[Manifest],
    caveat: str,
    folder: Path,
    formats: Sequence[str],
    makers: Mapping[str, tuple[str, str, str]],
) -> tuple[list[Path], str]:
    """Write the plots and tables of a page in `formats` (pdf, svg, png, csv, latex), `answer.txt` and `software.bib`.

    Create the folder and replace existing files. Return the files, and the first line of `answer.txt`: a sentence for a
    quotation. Further sentences have their own lines. `caveat` says which runs count, or whether the run is valid; only
    its first sentence is in the quotation. `makers` has author, web address and product name by kind of store. BadInput
    if the folder holds a run, an experiment or a history, or is not writable, a file to write is a link, or vl-convert
    is missing for PDF or PNG.
    """
    if recorded := [name for name in (*MEMBERS, EXPERIMENT_FILE, GATE_LOG) if (folder / name).exists()]:
        raise BadInput(
            f"the folder holds recorded data ({recorded[0]}), and an export would mix its files with them",
            where=str(folder),
            remedy="name another folder, such as figures",
        )
    files = {
        f"{name}.{'tex' if kind == 'latex' else kind}": content
        for kind in formats
        for name, content in (_plots(page.figures, kind) if kind in PLOTS else _tables(page.tables, kind))
    }
    runs, *warnings = _SENTENCE_END.split(caveat.removesuffix("."))
    conditions = f"({_conditions(manifests)}; {_uncapitalised(runs)})"
    quotation = printable(" ".join([*map(_one_sentence, page.answer[:1]), conditions]) + ".")
    others = [*page.answer[1:], *(f"{warning}." for warning in warnings)]
    files["answer.txt"] = "".join(f"{line}\n" for line in [quotation, *map(printable, others)]).encode()
    files["software.bib"] = bibliography(manifests, makers).encode()
    if links := [folder / name for name in files if (folder / name).is_symlink()]:
        raise BadInput(
            "the file is a symbolic link, and writing it would overwrite another file",
            where=str(links[0]),
            remedy="remove the link, or name another folder",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise BadInput(
            f"cannot write to the folder: {error.strerror}", where=str(folder), remedy="name another folder"
        ) from error
    return [folder / name for name in files], quotation


def _one_sentence(text: str) -> str:
    """Join the sentences of a text by `; `, without the last full stop.

    So a quotation of one sentence keeps the reservations that follow a claim.
    """
    first, *more = _SENTENCE_END.split(text.removesuffix("."))
    return "; ".join([first, *map(_uncapitalised, more)])


def _uncapitalised(sentence: str) -> str:
    """Return a sentence with a small first letter, unless it begins with a name or an abbreviation."""
    word = sentence.partition(" ")[0]
    keeps = word in _NAMES or word.endswith("'s") or not word[1:].islower()
    return sentence if keeps else sentence[0].lower() + sentence[1:]


def _conditions(manifests: Sequence[Manifest]) -> str:
    """Write `measured with Loadframe 0.3.0: workload nyc_taxis on opensearch 3.8.0, 2026-11-27`.

    Different versions, workloads and stores are joined by ` and `, the first and last day by ` to `. Unknown parts are
    omitted.
    """
    days = sorted({manifest.started[:10] for manifest in manifests if manifest.started})
    tools = _listed(f"Loadframe {manifest.versions.loadframe}" for manifest in manifests)
    workloads = _listed(manifest.workload.name or "" for manifest in manifests)
    stores = _listed(" ".join(filter(None, (it.store.kind, it.store.version))) for it in manifests)
    subject = " on ".join(filter(None, (workloads and f"workload {workloads}", stores)))
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    about = ", ".join(filter(None, (subject, when)))
    return f"measured with {tools}{about and f': {about}'}"


def _listed(names: Iterable[str]) -> str:
    """Join the distinct names that are not empty by ` and `, in order of first appearance."""
    return " and ".join(dict.fromkeys(filter(None, names)))


def bibliography(manifests: Sequence[Manifest], makers: Mapping[str, tuple[str, str, str]]) -> str:
    """Return BibTeX entries of Loadframe, the stores and Python: one for each version, with the day of a run.

    The day comes from the first of `manifests` with this version. `makers` has author, web address and
    product name by kind of store. The workload `ycsb` adds its paper.
    """
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
        notes = [f"Version {_bibtex(version)}"] if version else []
        notes += [f"Measured on {_bibtex(day)}"] if day else []
        author, address, product = _OTHERS.get(name) or makers.get(name, ("", "", ""))
        fields = {"author": author, "url": address, "title": _bibtex(product or name)}
        lines = [
            f"  {field} = {{{text}}}" if field == "url" else f"  {field} = {{{{{text}}}}}"
            for field, text in fields.items()
            if text
        ]
        lines += ["  howpublished = {Computer software}", f"  key = {{{_bibtex(name)}}}"]
        lines += [f"  note = {{{'. '.join(notes)}}}"] if notes else []
        texts.append(f"@misc{{{key},\n" + ",\n".join(lines) + "\n}\n")
    texts += [_YCSB] if any(manifest.workload.name == "ycsb" for manifest in manifests) else []
    return "\n".join(texts)


def _bibtex(text: str) -> str:
    """Return a text escaped for a field of BibTeX, which counts braces even after a backslash."""
    return _latex(text).replace(r"\{", r"\textbraceleft{}").replace(r"\}", r"\textbraceright{}")


def _plots(figures: Sequence[Figure], kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield the file name (without suffix) and content of each plot in the format `kind`: pdf, svg or png.

    Each has two files, one and two columns wide: `TITLE-1col` and `TITLE-2col`. If figures have the same name, only the
    last counts. Small figures, of which a report can have hundreds, are left out. BadInput for pdf and png without
    vl-convert.
    """
    taken: set[str] = set()
    for figure in {figure.name: figure for figure in figures if figure.width > SMALL}.values():
        # Names can differ in capitals only, such as names of runs.
        name = next(_free_names(_file_name(figure.title or figure.name), taken))
        for column, width in _COLUMNS.items():
            svg = draw(replace(figure, width=width), font=FONT)
            yield f"{name}-{column}", converted(svg, kind)


def converted(svg: str, kind: str) -> bytes:
    """Return an SVG drawing without a size (96 pixels per inch) in the format `kind`: pdf, svg or png (300 dpi).

    All embed the font, PNG as pixels. BadInput for PDF and PNG without vl-convert.
    """
    sides = [int(number) / _PIXELS for number in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0]]
    # The converter takes a pixel for a point.
    width, height = (f"{side:.4g}in" if kind == "svg" else f"{_POINTS * side:.5g}" for side in sides)
    svg = svg.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    if kind == "svg":
        return svg.replace(">", f">{_font_rule()}", 1).encode()
    try:
        import vl_convert
    except ImportError:
        raise BadInput(
            f"plots as {kind} need the package vl-convert-python",
            remedy="install it with `pip install 'loadframe[figures]'`, or use svg",
        ) from None
    if kind == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, ppi=_DOTS))


@cache
def _font_rule() -> str:
    """Return the SVG element that embeds the font of plots."""
    font = b64encode(_FONT_FILE.read_bytes()).decode()
    return f"<style>@font-face{{font-family:'Loadframe Sans';src:url(data:font/woff2;base64,{font})}}</style>"


def _tables(tables: Sequence[tuple[str, Table]], kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield the file name (without suffix) and content of each table, or of each of its LaTeX parts.

    `kind` is csv or latex.
    """
    taken: set[str] = set()
    for title, table in tables:
        names = _free_names(_file_name(title), taken)
        if kind == "csv":
            yield next(names), csv_table(table).encode()
        else:
            yield from ((name, text.encode()) for name, text in _tabulars(title, table, names))


def _free_names(name: str, taken: set[str]) -> Iterator[str]:
    """Yield `name`, `name-2`, `name-3` and so on without end, but none in `taken`; add each yielded name to `taken`."""
    for number in count(1):
        free = name if number == 1 else f"{name}-{number}"
        if free not in taken:
            taken.add(free)
            yield free


def _tabulars(title: str, table: Table, names: Iterator[str]) -> list[tuple[str, str]]:
    """Return name and LaTeX text of each part of a table, in the largest size and longest lines that fit.

    A table wider than a column gets the environment for the width of the page. Larger tables have several parts. Each
    part has one of `names`, which is also its label. Texts above 40 characters become notes, except in the first
    column. The text needs the package booktabs.
    """
    long = [text for row in table.rows for cell in row[1:] for text in _noted(cell.text, cell) + _noted(cell.small)]
    notes = _Notes(_merged(long), " ".join(table.note.split()))
    rows = [
        [_parts(cell, notes if at and table.columns[at] != "treatment" else None) for at, cell in enumerate(row)]
        for row in table.rows
    ]
    parts = [
        replace(layout, rows=[layout.rows[0], *body])
        for layout in _layouts([[[_Part(name)] for name in table.columns], *rows], table.names, notes)
        for body in _pages(layout, notes)
    ]
    comments = [f"% {printable(' '.join(title.split()))}"] if title else []
    words = (table.caption or f"{title[:1].upper()}{title[1:]}").removesuffix(".")
    captions = [f"{words}, part {number} of {len(parts)}." if len(parts) > 1 else f"{words}."
                for number in range(1, len(parts) + 1)]  # fmt: skip
    return [
        (name, "\n".join([*comments, *_float(part, caption, name, notes)]) + "\n")
        for part, caption, name in zip(parts, captions, names, strict=False)
    ]


def _float(part: "_Layout", caption: str, label: str, notes: "_Notes") -> list[str]:
    """Return the LaTeX lines of a table or of a part of it, with its caption, the label `tab:LABEL`, and its notes.

    The first row of `part` is the head. `caption` is escaped here; `label` is not.
    """
    gaps = [rf" \addlinespace[{_ROW_GAP:g}pt]" * (max(map(len, row)) > 1) for row in part.rows]
    # Rules have their own gaps.
    gaps[0] = gaps[-1] = ""
    head, *body = [
        " & ".join(_cell(lines, part.sides[at], at) for at, lines in enumerate(row)) + r" \\" + gap
        for row, gap in zip(part.rows, gaps, strict=True)
    ]
    told = [rf"$^{{{number}}}$ {_latex(text, breaks=True)}\par" for text, number in notes.of(part.rows)]
    told += [rf"{_latex(notes.general, breaks=True)}\par"] if notes.general else []
    return [
        rf"\begin{{{part.environment}}}",
        r"\centering",
        # Classes for articles leave no space below captions.
        rf"\caption{{{_latex(caption)}}}\label{{tab:{label}}}\vskip\abovecaptionskip",
        rf"\{part.size}\setlength{{\tabcolsep}}{{{_GAP_POINTS:g}pt}}%",
        (r"\sbox0{" if told else "") + rf"\begin{{tabular}}{{@{{}}{part.sides}@{{}}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}" + (r"}\usebox0\par" if told else ""),
        *([_NOTES] if told else []),
        *told,
        *([r"\end{minipage}"] if told else []),
        rf"\end{{{part.environment}}}",
    ]


@dataclass(frozen=True)
class _Part:
    """Text of a cell, and the numbers of the notes that stand for the rest."""

    text: str
    notes: tuple[int, ...] = ()

    @property
    def numbers(self) -> str:
        """The numbers of the notes, such as `1,2`; empty without notes."""
        return ",".join(map(str, self.notes))


#: Rows of cells, and the lines of each cell.
_Rows = list[list[list[_Part]]]


@dataclass
class _Notes:
    """Numbered notes below a table, and a general one. `merged` has the note of each text."""

    merged: Mapping[str, str]
    general: str = ""

    def __post_init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text's note, from 1; a new note gets the next number.

        Texts with the same entry in `merged` share a note.
        """
        return self._numbers.setdefault(self.merged.get(text, text), len(self._numbers) + 1)

    def of(self, rows: _Rows) -> list[tuple[str, int]]:
        """Return the notes that `rows` refer to, as (text, number), by ascending number."""
        named = {number for row in rows for cell in row for part in cell for number in part.notes}
        return [(text, number) for text, number in self._numbers.items() if number in named]


def _merged(texts: Iterable[str]) -> dict[str, str]:
    """Return text -> note for each of `texts`, the long texts of a table.

    Texts that differ only in quantities share one note with ranges, such as `3 ms to 64 ms`.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for text in dict.fromkeys(texts):
        alike.setdefault(tuple(_QUANTITY.split(text)), []).append(text)
    merged: dict[str, str] = {}
    for words, group in alike.items():
        columns = zip(*(_QUANTITY.findall(text) for text in group), strict=True)
        note = "".join(word + quantity for word, quantity in zip(words, [*map(_range, columns), ""], strict=True))
        merged |= dict.fromkeys(group, note)
    return merged


def _range(quantities: Sequence[str]) -> str:
    """Write the smallest and largest of some quantities: `3 ms to 64 ms`; a single quantity stays as it is.

    ValueError for a text that is not a quantity.
    """
    ordered = sorted(set(quantities), key=base_value)
    return " to ".join(dict.fromkeys((ordered[0], ordered[-1])))


def _noted(text: str, cell: Cell | None = None) -> list[str]:
    """Return the texts of the notes that replace a text above 40 characters; empty for a shorter one.

    If `text` joins the sentences of its `cell`, each has its note.
    """
    if len(text) <= _LONG:
        return []
    return list(cell.sentences) if cell and text == "; ".join(cell.sentences) else [text]


def _parts(cell: Cell, notes: _Notes | None) -> list[_Part]:
    """Return a cell's text and small text as parts, without empty ones.

    With `notes`, a text above 40 characters is added to them, and its numbers to the part before it or to an empty
    part.
    """
    parts: list[_Part] = []
    for text, noted in ((cell.text, _noted(cell.text, cell)), (cell.small, _noted(cell.small))):
        if not text:
            continue
        if notes is None or not noted:
            parts.append(_Part(text))
            continue
        last = parts.pop() if parts else _Part("")
        parts.append(_Part(last.text, tuple(sorted({*last.notes, *map(notes.number, noted)}))))
    return parts


@dataclass(frozen=True)
class _Layout:
    """Cells of a table in lines, its environment, size of the font, and the side of each column: l or r."""

    rows: _Rows
    environment: str
    size: str
    width: float  #: available width, points
    sides: str

    def height(self, notes: _Notes) -> float:
        """Return the height in points of all rows, of the notes that they refer to, and of the general note."""
        points, distance = _SIZES[self.size]
        tall = [max(map(len, row)) for row in self.rows]
        lines = sum(tall)
        for text in filter(None, (notes.general, *(text for text, _ in notes.of(self.rows)))):
            lines += math.ceil(points * _ems(_Part(text)) / (0.95 * _NOTES_SHARE * self.width))
        return distance * lines + _ROW_GAP * sum(of_row > 1 for of_row in tall)


def _layouts(rows: _Rows, names: int, notes: _Notes) -> list[_Layout]:
    """Return the layout of a table with its head as first row; several layouts if it has too many columns.

    `names` is the number of first columns with names; each part repeats them, or the first column if 0. A table that is
    taller than a page in one column spans both columns; if it is taller in both, it gets the layout of least height. If
    columns cannot be divided further, the layout may be too wide.
    """
    fitting: list[_Layout] = []
    sides = "".join("l" if at < names else "r" for at in range(len(rows[0])))
    gaps = 2 * _GAP_POINTS * (len(sides) - 1)
    for environment, available, breaks in _ENVIRONMENTS:
        for most in breaks:
            broken = [[_broken(parts, most) for parts in row] for row in rows]
            widths = [max((_ems(line) for cell in column for line in cell), default=0.0)
                      for column in zip(*broken, strict=True)]  # fmt: skip
            for size, (points, _) in _SIZES.items():
                layout = _Layout(broken, environment, size, available, sides)
                if points * sum(widths) + gaps <= available:
                    if layout.height(notes) <= _PAGE_POINTS:
                        return [layout]
                    fitting.append(layout)
    if fitting:
        return [min(fitting, key=lambda it: it.height(notes))]
    first = max(names, 1)
    middle = (first + len(sides) + 1) // 2
    if middle >= len(sides):
        return [layout]
    return [
        layout
        for columns in (range(first, middle), range(middle, len(sides)))
        for layout in _layouts([row[:first] + [row[at] for at in columns] for row in rows], names, notes)
    ]


def _pages(layout: _Layout, notes: _Notes) -> list[_Rows]:
    """Return the rows of each page of a table, without its head, so that rows and notes fit the page's height.

    A row that alone exceeds the height gets its own page. A table without rows has one empty page.
    """
    head, *body = layout.rows
    pages: list[_Rows] = [[]]
    for row in body:
        if pages[-1] and replace(layout, rows=[head, *pages[-1], row]).height(notes) > _PAGE_POINTS:
            pages.append([])
        pages[-1].append(row)
    return pages


def _broken(parts: Sequence[_Part], most: int) -> list[_Part]:
    """Return the lines of a cell, broken to at most `most` characters; a longer word is not broken.

    Two parts share a line if they fit, after a colon, or after a space before an interval. Numbers stay with their
    units.
    """
    if len(parts) > 1 and sum(len(part.text) for part in parts) + 2 <= most:
        separator = " " if parts[1].text.startswith(("[", "of ", "over ")) else ": "
        return [_Part(separator.join(part.text for part in parts), parts[-1].notes)]
    lines = []
    for part in parts:
        # A number and its unit stay together.
        kept = re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\N{NO-BREAK SPACE}", " ".join(part.text.split()))
        broken = [""]
        for piece in _PIECES.findall(kept):
            if broken[-1] and len(broken[-1] + piece.rstrip()) > most:
                broken.append("")
            broken[-1] += piece
        lines += [*map(_Part, broken[:-1]), _Part(broken[-1], part.notes)]
    return lines


def _ems(line: _Part) -> float:
    """Estimate the width of a line in em, the unit of the font's size, including the numbers of its notes."""
    # LaTeX drops spaces at the end of a line.
    powers = 0.8 * len(_POWER.findall(line.text))
    return sum(_EMS.get(sign, _EM) for sign in line.text.rstrip()) + 0.4 * len(line.numbers) + powers


def _cell(lines: Sequence[_Part], side: str, at: int) -> str:
    """Return the lines of the cell in column `at` (from 0) as LaTeX, several lines as a table in it.

    `side` is l or r.
    """
    texts = [_latex(line.text) + (f"$^{{{line.numbers}}}$" if line.notes else "") for line in lines]
    # After a line break, LaTeX would read a bracket as the option of the break.
    texts = [f"{{[}}{text[1:]}" if text.startswith("[") and (number or not at) else text
             for number, text in enumerate(texts)]  # fmt: skip
    if len(texts) < 2:
        return "".join(texts)
    return rf"\begin{{tabular}}[t]{{@{{}}{side}@{{}}}}" + r"\\ ".join(texts) + r"\end{tabular}"


def _latex(text: str, *, breaks: bool = False) -> str:
    """Return a text escaped for LaTeX, in one line.

    With `breaks`, the line may be broken inside paths and names with underscores. White space is collapsed, and control
    characters are removed. `9e-08` becomes a power of ten, `us` after a number µs.
    """
    if breaks:
        text = _BREAK.sub("\N{ZERO WIDTH SPACE}", text)
    escaped = "".join(_LATEX.get(sign, sign) for sign in printable(" ".join(text.split())))
    escaped = _POWER.sub(r"$\1\\times10^{\2\3}$", escaped)
    escaped = re.sub(r"(?<![^\s[(])-(?=\d)", "$-$", escaped)
    return re.sub(r"(?<=\d )us\b", r"$\\mu$s", escaped)


def _file_name(title: str) -> str:
    """Return a title as a file name of at most 200 bytes: lower case, with hyphens for other characters.

    `table` if nothing is left.
    """
    name = re.sub(r"[^\w.]+", "-", title.lower()).encode()[:_LONGEST_NAME].decode(errors="ignore")
    return name.strip("-.") or "table"
