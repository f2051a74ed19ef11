"""Exported plots and tables: sizes, embedded fonts, numbers, and the checks of options."""

import csv
import io
import re
import xml.etree.ElementTree as ET

import pytest

from commands import within
from loadframe.report.export import _tabular
from loadframe.report.kinds import read_report
from loadframe.report.tables import Cell, Table
from simulated import Truth, write_experiment

pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_experiment(tmp_path_factory.mktemp("export") / "nodes", Truth(seconds=3), clients=(1, 4))


def exported(folder, kind):
    target = folder.parent / kind
    status, told, said = within("report", folder, "--export", target, "--format", kind)
    assert status == 0, said
    return target, told


def test_pdf_has_the_width_of_a_column_and_embeds_its_font(folder):
    target, _ = exported(folder, "pdf")
    for column, points in (("1col", 252), ("2col", 515.25)):
        content = (target / f"c0-nodes-{column}.pdf").read_bytes()
        assert content.startswith(b"%PDF")
        width = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+)", content)
        assert float(width[1]) == pytest.approx(points, abs=0.5)
        assert b"/FontFile" in content
    names = {path.name for path in target.glob("*-1col.pdf")}
    figures = {figure.name for figure in read_report(folder).page.figures}
    assert names == {f"{name}-1col.pdf" for name in figures}


def test_png_has_300_dots_per_inch(folder):
    target, _ = exported(folder, "png")
    content = (target / "c0-nodes-1col.png").read_bytes()
    assert int.from_bytes(content[16:20], "big") == pytest.approx(3.5 * 300, abs=2)


def test_svg_is_whole_and_has_a_width_in_inches(folder):
    target, _ = exported(folder, "svg")
    assert ET.parse(target / "c0-nodes-2col.svg").getroot().get("width") == "7.156in"


def test_tables_have_the_figures_of_the_page(folder):
    target, _ = exported(folder, "csv")
    (table,) = [table for title, table in read_report(folder).page.tables if title == "speedups"]
    rows = list(csv.reader(io.StringIO((target / "speedups.csv").read_text())))
    assert [row[0] for row in rows[1:]] == [row[0].text for row in table.rows]
    throughput = rows[0].index("requests/s")
    assert [row[throughput] for row in rows[1:]] == [row[throughput].text for row in table.rows]
    assert rows[1][throughput + 1].startswith("[")
    latex = (exported(folder, "latex")[0] / "speedups.tex").read_text()
    assert latex.count(r"\\") == len(table.rows) + 1
    assert r"\begin{tabular}" in latex
    assert not re.search(r"(?<!\\)[#$&]", latex.split("midrule")[1].replace(" & ", ""))


def test_the_answer_and_the_software_can_be_quoted(folder):
    target, told = exported(folder, "csv")
    answer = (target / "answer.txt").read_text().splitlines()[0]
    assert answer in read_report(folder).page
    assert " ".join(told.split()) == answer
    software = (target / "software.bib").read_text()
    assert "title = {{Loadframe}}" in software
    assert "title = {{opensearch}}" in software
    assert software.count("{") == software.count("}")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--format", "pdf"), "requires --export"),
        (("--export", "x", "--output", "y"), "has no --output"),
        (("--export", "x", "--format", "queries"), "takes one run"),
    ],
)
def test_contradicting_options_are_refused(folder, words, problem):
    status, _, said = within("report", folder, *words)
    assert status == 2
    assert problem in said


def test_cells_of_latex_tables_are_short_and_have_their_unit():
    long = "the load generator left a figure without a bound of the whole run"
    rows = [[Cell("p50"), Cell("inconclusive", long), Cell("290 us", "[280 us, 300 us]")],
            [Cell("p99"), Cell("worse", "2 runs"), Cell(long)]]  # fmt: skip
    table, notes = _tabular("contrasts", Table(("measure", "result", "mean"), rows)).split(r"\end{tabular}")
    assert r"p50 & inconclusive$^{1}$ & 290 $\mu$s [280 $\mu$s, 300 $\mu$s] \\" in table
    assert r"p99 & worse: 2 runs & $^{1}$ \\" in table
    assert notes.strip() == rf"\par{{\footnotesize $^{{1}}$ {long}}}"


def test_plots_of_resources_have_the_name_of_their_run(tmp_path):
    figures = read_report(
        write_experiment(tmp_path / "e", Truth(seconds=3), clients=(1, 4), repetitions=1)
    ).page.figures
    names = [figure.name for figure in figures if figure.name.startswith("resources")]
    assert names == ["resources-b1-nodes1-clients1", "resources-b1-nodes3-clients4"]
