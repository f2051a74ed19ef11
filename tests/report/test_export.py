"""Exported plots and tables: sizes, embedded fonts, numbers, and the checks of options."""

import csv
import io
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import replace
from statistics import fmean

import pytest

import chromium
import loadframe
from chromium import Chromium
from commands import within
from loadframe.base.units import format_duration, format_size, parse_duration
from loadframe.record import Manifest, RunWriter
from loadframe.record.schema import FORMAT
from loadframe.record.schema.manifest import RecordedStore, RecordedWorkload
from loadframe.report.csv_table import csv_table
from loadframe.report.export import _plots, _tables, bibliography, export
from loadframe.report.kinds import read_report
from loadframe.report.page import Page
from loadframe.report.plot import SMALL
from loadframe.report.tables import Cell, Table
from loadframe.store import stores
from simulated import Truth, write_experiment, write_run, write_variants

pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_experiment(tmp_path_factory.mktemp("export") / "nodes", Truth(seconds=3), clients=(1, 4))


def exported(folder, kind):
    target = folder.parent / kind
    status, told, said = within("report", folder, "--export", target, "--format", kind)
    assert status == 0, said
    return target, told


def seconds(text):
    return parse_duration(text.replace(" ", ""))


def tabular(title, table):
    """The LaTeX of a table that a page holds."""
    (text,) = tabulars((title, table)).values()
    return text


def tabulars(*tables):
    """The LaTeX files of the tables of a page, by their names without the suffix."""
    return {name: text.decode() for name, text in _tables(tables, "latex")}


#: Author and web address by kind of store.
MAKERS = {kind: store.maker for kind, store in stores().items()}


def columns(*rows, titles=("measure", "value"), names=1):
    """The CSV columns of a table, by their titles."""
    lines = list(csv.reader(io.StringIO(csv_table(Table(titles, rows, names=names)))))
    return {title: list(cells) for title, *cells in zip(*lines, strict=True)}


@pytest.mark.slow
def test_pdf_has_the_width_of_a_column_and_embeds_its_font(folder):
    target, _ = exported(folder, "pdf")
    for column, points in (("1col", 228), ("2col", 467.25)):
        content = (target / f"range_100-throughput-over-nodes-{column}.pdf").read_bytes()
        assert content.startswith(b"%PDF")
        width = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+)", content)
        assert float(width[1]) == pytest.approx(points, abs=0.5)
        assert b"/FontFile" in content
        assert set(re.findall(rb"/BaseFont\s*/[A-Z]{6}\+(\w+)", content)) == {b"LiberationSans"}
    names = {path.name for path in target.glob("*-1col.pdf")}
    figures = [figure for figure in read_report(folder).page.figures if figure.width > SMALL]
    assert len(names) == len(figures)
    # The last curve is of one client.
    assert {"range_100-over-time-1-node-4-clients-1col.pdf", "range_100-response-over-clients-1col.pdf"} <= names


def test_an_export_does_not_write_through_a_link(folder, tmp_path):
    (tmp_path / "record").write_text("kept")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "software.bib").symlink_to(tmp_path / "record")
    status, _, messages = within("report", folder, "--export", tmp_path / "x", "--format", "csv")
    assert (status, "symbolic link" in messages) == (2, True)
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["software.bib"]
    assert (tmp_path / "record").read_text() == "kept"


def test_an_export_does_not_mix_with_recorded_data(folder, tmp_path):
    run = shutil.copytree(next((folder / "runs").iterdir()), tmp_path / "run")
    history = tmp_path / "history"
    history.mkdir()
    (history / "gates.jsonl").touch()
    for target in (run, folder, history):
        before = sorted(path.name for path in target.iterdir())
        status, _, messages = within("report", run, "--export", target, "--format", "csv")
        assert (status, "the folder holds recorded data" in messages) == (2, True), messages
        assert sorted(path.name for path in target.iterdir()) == before
    assert within("report", run, "--export", run / "figures", "--format", "csv")[0] in (0, 4)


@pytest.mark.slow
def test_png_has_300_dots_per_inch(folder):
    target, _ = exported(folder, "png")
    content = (target / "range_100-throughput-over-nodes-1col.png").read_bytes()
    assert int.from_bytes(content[16:20], "big") == pytest.approx(304 / 96 * 300, abs=2)


def test_svg_is_whole_and_has_a_width_in_inches(folder):
    target, _ = exported(folder, "svg")
    assert ET.parse(target / "range_100-throughput-over-nodes-2col.svg").getroot().get("width") == "6.49in"


@pytest.mark.slow
@pytest.mark.skipif(bool(chromium.missing()), reason="needs chromium")
def test_svg_brings_the_font_of_all_its_texts(folder):
    target, _ = exported(folder, "svg")
    with Chromium() as browser:
        browser.call("DOM.enable")
        browser.call("CSS.enable")
        for path in target.glob("*-1col.svg"):
            browser.open(path.as_uri())
            browser.wait_for(f"document.readyState === 'complete' && location.href === '{path.as_uri()}'")
            browser.wait_for("document.fonts.status === 'loaded'")
            root = browser.call("DOM.getDocument")["root"]["nodeId"]
            texts = browser.call("DOM.querySelectorAll", nodeId=root, selector="text")["nodeIds"]
            fonts = [
                (font["familyName"], font["isCustomFont"])
                for text in texts
                for font in browser.call("CSS.getPlatformFontsForNode", nodeId=text)["fonts"]
            ]
            assert len(fonts) == len(texts) > 5, "a text without a letter, or in two fonts"
            assert set(fonts) == {("Loadframe Sans", True)}
    assert path.stat().st_size < 100_000


@pytest.mark.slow
def test_tables_have_the_figures_of_the_page(folder):
    target, _ = exported(folder, "csv")
    (table,) = [table for title, table in read_report(folder).page.tables if title == "speedups"]
    rows = list(csv.reader(io.StringIO((target / "speedups.csv").read_text())))
    assert [row[0] for row in rows[1:]] == [row[0].text for row in table.rows]
    read = {title: [row[at] for row in rows[1:]] for at, title in enumerate(rows[0])}
    throughput = table.columns.index("requests/s")
    shown = [float(row[throughput].text.replace(",", "")) for row in table.rows]
    assert list(map(float, read["requests/s"])) == pytest.approx(shown, rel=0.01)
    p50 = table.columns.index("p50")
    assert list(map(float, read["p50 (s)"])) == pytest.approx([seconds(row[p50].text) for row in table.rows], rel=0.005)
    ends = zip(read["requests/s low"], read["requests/s"], read["requests/s high"], strict=True)
    assert all(float(low) <= float(value) <= float(high) for low, value, high in ends)
    latex = (exported(folder, "latex")[0] / "speedups.tex").read_text()
    body = latex.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == len(table.rows)
    assert r"\begin{tabular}" in latex
    assert not re.search(r"(?<!\\)[#$&]", latex.split("midrule")[1].replace(" & ", ""))


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_csv_has_the_throughput_of_the_run_folders_without_rounding(folder):
    target, _ = exported(folder, "csv")
    of_run = defaultdict(list)
    for planned in loadframe.open(folder).runs.to_arrow().to_pylist():
        run = loadframe.open(folder / "runs" / planned["run"])
        of_run[planned["nodes"], planned["clients"]].append(throughput_of(run))
    for row in read_csv(target / "speedups.csv"):
        expected = fmean(of_run[int(row["nodes"]), int(row["clients"])])
        assert float(row["requests/s"]) == pytest.approx(expected, rel=1e-9)
    assert not float(row["requests/s"]).is_integer(), "a rounded figure would pass"


def throughput_of(run):
    """Requests answered in the measured window, per second, from the run's seconds."""
    seconds = run.seconds.to_arrow().to_pylist()
    (phase,) = run.summary["phases"]
    return sum(row["successes"] for row in seconds if row["segment"] == "measure") / phase["duration"]


def test_csv_of_a_run_has_a_row_of_numbers_for_each_operation(tmp_path):
    truth = Truth(seconds=7, failed_share=0.01)
    folder = write_run(tmp_path, "r1", truth, nodes=2).path
    assert within("report", folder, "--export", tmp_path / "csv", "--format", "csv")[0] == 0
    run = loadframe.open(folder)
    (row,) = read_csv(tmp_path / "csv" / "operations.csv")
    figures = run.summary["phases"][0]["operations"]["range_100"]
    assert (row["phase"], row["operation"], row["clients"], row["prepares"]) == ("range_100", "range_100", "8", "no")
    assert float(row["requests/s"]) == pytest.approx(throughput_of(run), rel=1e-9)
    assert float(row["p99 (s)"]) == figures["response"]["p99"]
    assert float(row["p99 with failures (s)"]) == figures["all"]["p99"]
    assert float(row["p99 low (s)"]) < figures["response"]["p99"] < float(row["p99 high (s)"])
    assert int(row["failures"]) == int(row["timeout failures"]) == figures["errors"]["timeout"] > 0


def test_models_name_the_unit_of_the_throughput_of_one(folder):
    (models,) = exported(folder, "csv")[0].glob("over-nodes-*.csv")
    row, *_ = read_csv(models)
    assert row["parameter"] == "λ, throughput of one, requests/s"
    assert row["linear unit"] == "1/s"


@pytest.mark.slow
def test_the_answer_and_the_software_can_be_quoted(folder):
    target, told = exported(folder, "csv")
    answer, *_ = (target / "answer.txt").read_text().splitlines()
    sentence, conditions = answer.split(" (measured with Loadframe ")
    assert f"{sentence}." in read_report(folder).page
    assert re.fullmatch(
        r"\S+: workload nyc_taxis on opensearch \S+, 20\d\d-\d\d-\d\d; all \d+ runs are valid\)\.", conditions
    )
    assert " ".join(told.split()) == answer
    software = (target / "software.bib").read_text()
    assert "title = {{Loadframe: load tests of data stores}}" in software
    assert "title = {{OpenSearch}}" in software
    assert re.search(r"note = \{Version CPython 3\.\d+\S*\. Measured on 20\d\d-\d\d-\d\d\}", software)
    assert "year" not in software, "a measurement may be published in another year"
    assert software.count("{") == software.count("}")


@pytest.mark.parametrize(
    ("claim", "quoted"),
    [
        ("2 nodes: 90 requests/s. But a trial at 80 failed.", "2 nodes: 90 requests/s; but a trial at 80 failed"),
        ("A grew 1.5 times. Gustafson's law fits.", "A grew 1.5 times; Gustafson's law fits"),
        ("opensearch 3.8.0 is faster.", "opensearch 3.8.0 is faster"),
        ("All passed. 3 attempts failed. redis is faster.", "All passed; 3 attempts failed; redis is faster"),
    ],
)
def test_the_first_line_of_the_answer_is_one_sentence_and_warnings_follow(tmp_path, claim, quoted):
    page = Page("")
    page.figures, page.tables, page.answer = [], [], [claim, "A second answer."]
    caveat = "1 of 2 runs is used; left out: 1 invalid. Loadframe or the machine changed between sessions: cpu."
    (answer, _), told = export(page, [], caveat, tmp_path, [], {})
    first, *others = answer.read_text().splitlines()
    assert first.startswith(f"{quoted} (measured with")
    assert first.endswith("; 1 of 2 runs is used; left out: 1 invalid).")
    assert others == ["A second answer.", "Loadframe or the machine changed between sessions: cpu."]
    assert told == first


@pytest.mark.skipif(not shutil.which("bibtex"), reason="needs bibtex")
def test_plain_bibtex_prints_the_versions(folder):
    target, _ = exported(folder, "csv")
    (target / "paper.aux").write_text("\\citation{*}\n\\bibstyle{plain}\n\\bibdata{software}\n")
    done = subprocess.run(["bibtex", "paper"], cwd=target, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Warning" not in done.stdout
    printed = " ".join((target / "paper.bbl").read_text().split())
    assert re.search(r"Python Software Foundation.*Python.*Version CPython 3\.\d+", printed)
    assert "OpenSearch contributors" in printed


def test_several_formats_are_exported_at_once(folder):
    target, _ = exported(folder, "svg,latex")
    assert {path.suffix for path in target.iterdir()} == {".svg", ".tex", ".txt", ".bib"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--format", "pdf"), "requires --export"),
        (("--export", "x", "--output", "y"), "has no --output"),
        (("--export", "x", "--format", "queries"), "takes one run"),
        (("--export", "x", "--format", "pdf,k6"), "takes one run"),
        (("--format", "pdf,latex"), "takes one format without --export"),
        (("--format", "pfd"), "unknown format 'pfd'"),
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
    table, notes = tabular("contrasts", Table(("measure", "result", "mean"), rows)).split(r"\end{tabular}")
    assert r"p50 & inconclusive$^{1}$ & 290 $\mu$s [280 $\mu$s, 300 $\mu$s] \\" in table
    assert r"p99 & worse: 2 runs & $^{1}$ \\" in table
    assert notes.splitlines()[0] == r"}\usebox0\par"
    assert notes.splitlines()[2:4] == [rf"$^{{1}}$ {long}\par", r"\end{minipage}"]


def test_latex_numbers_have_signs_and_powers_of_mathematics():
    rows = [[Cell("a-1, 10-20, v1e-3"), Cell("9e-08", "[1.2e+10, 3]"), Cell("-1.00", "[-2, 5]")]]
    text = tabular("contrasts", Table(("measure", "ratio", "delta"), rows))
    assert "a-1, 10-20, v1e-3 & " in text
    assert r"$9\times10^{-8}$ [$1.2\times10^{10}$, 3] & $-$1.00 [$-$2, 5] \\" in text


def test_treatments_of_latex_tables_are_all_spelled_out_and_tall_rows_apart():
    treatments = ("variant Redis, kind redis, appendfsync always", "variant PostgreSQL, kind postgresql")
    rows = [[Cell("a"), Cell(text), Cell("2"), Cell("70.1 us", "[0 us, 143 us]")] for text in treatments]
    text = tabular("cpu", Table(("phase", "treatment", "runs", "CPU per request"), rows, names=2))
    assert "$^{" not in text
    first, last = re.findall(r"^a & .*", text, re.MULTILINE)
    assert first.endswith(r"\\ \addlinespace[3pt]")
    assert last.endswith(r" \\")


def test_latex_counts_read_as_on_the_page():
    rows = [[Cell("a"), Cell("1", "of 2"), Cell("0.5", "over 3 s")], [Cell("b"), Cell("2"), Cell("0.4")]]
    text = tabular("cpu", Table(("phase", "runs", "cores"), rows))
    assert "a & 1 of 2 & 0.5 over 3 s" in text


def test_notes_of_latex_tables_that_differ_in_figures_only_are_one():
    why = "in phase c event loops lagged: p99 {} ms, {} % of the p99 response time (limit 3 ms)"
    rows = [[Cell("r1"), Cell(why.format("63.9", 119))], [Cell("r2"), Cell(why.format("4.43", 7))],
            [Cell("r3"), Cell(why.format("1,200", 40).replace("phase c", "phase d"))]]  # fmt: skip
    text = tabular("runs", Table(("run", "why"), rows))
    assert re.findall(r"^r\d & .*", text, re.MULTILINE) == [r"r1 & $^{1}$ \\", r"r2 & $^{1}$ \\", r"r3 & $^{2}$ \\"]
    assert "p99 4.43 ms to 63.9 ms, 7 \\% to 119 \\% of the p99 response time (limit 3 ms)\\par" in text
    assert text.count("of the p99 response time") == 2


def test_reasons_of_several_runs_share_their_notes():
    lag, busy = "in phase c event loops lagged: p99 {} ms (limit 3 ms)", "other programs used {} % of the processors"
    cells = [
        Cell("; ".join(reasons), sentences=reasons)
        for reasons in ([lag.format("63.9")], [busy.format(9), lag.format("4.4")], [busy.format(80), busy.format(7)])
    ]
    text = tabular("runs", Table(("run", "why"), [[Cell(f"r{at}"), cell] for at, cell in enumerate(cells)]))
    rows = re.findall(r"^r\d & .*", text, re.MULTILINE)
    assert rows == [r"r0 & $^{1}$ \\", r"r1 & $^{1,2}$ \\", r"r2 & $^{2}$ \\"]
    assert (text.count("event loops"), text.count("other programs used 7 \\% to 80 \\%")) == (1, 1)


def test_names_with_digits_and_durations_of_several_units_are_not_mixed_up():
    texts = [f"the store did not survive the load: node-{node} is gone after {time}" for node, time in
             ((1, "3 min 20 s"), (1, "900 ms"), (2, "1 s"))]  # fmt: skip
    notes = tabular("runs", Table(("run", "why"), [[Cell("r"), Cell(text)] for text in texts])).split("raggedright")[1]
    assert "node-1 is gone after 900 ms to 3 min 20 s" in notes
    assert "node-2 is gone after 1 s" in notes


@pytest.mark.parametrize(
    ("form", "first", "second"),
    [
        ("cannot connect to {}: connection refused", "127.0.0.1:9200", "127.0.0.1:9201"),
        ("the nodes have different versions of the store: {}", "3.8.0 and 3.8.1", "3.8.0 and 3.9.0"),
        ("the nodes have different versions of the store, such as {}", "16.2", "15.18"),
        ("the nodes have another version than the first run: version {}", "5", "4"),
        ("the setting is outside of the range {} of this version", "3..4", "5..6"),
        ("the fitted points are {} and the first is left out", "1.5,2.5", "1.5,3.5"),
        ("the machine restarted and had this time of the day: {}", "12:30:05", "12:31:05"),
    ],
)
def test_notes_with_addresses_versions_and_lists_are_not_merged(form, first, second):
    rows = [[Cell("r"), Cell(form.format(text))] for text in (first, second)]
    notes = tabular("runs", Table(("run", "why"), rows)).split("raggedright")[1]
    assert [form.format(text) in notes for text in (first, second)] == [True, True]


def test_notes_that_differ_in_decimal_numbers_with_a_noun_are_merged():
    form = "requests were {} times as late as the limit allows: {} requests in a second on {} cores of this machine"
    rows = [[Cell("r"), Cell(form.format(*texts))] for texts in (("1.5", "2.5", "0.5"), ("12", "7.25", "1.5"))]
    assert form.format("1.5 to 12", "2.5 to 7.25", "0.5 to 1.5") in tabular("runs", Table(("run", "why"), rows))


def test_a_quantity_may_end_a_sentence_and_a_text_may_have_a_null_character():
    rows = [
        [Cell("r"), Cell(f"the store\0 ended after a response time of {time}, p99 {time}.")]
        for time in ("1,200 s", "3 ms")
    ]
    assert "of 3 ms to 1,200 s, p99 3 ms to 1,200 s." in tabular("runs", Table(("run", "why"), rows))


_LABEL = "refresh_interval 30s, b1-with-a-long-name"
_WIDE = Table(
    ("measure", "result", "Redis", "PostgreSQL", "ratio", "p", "Cliff's delta"),
    [[Cell(f"a read p99, {_LABEL}"), Cell("worse"),
      Cell("499.5 us", "[1,230 us, 1.95 ms]"), Cell("1.32 ms", "[100 us, 3.6 ms]"), Cell("2.65", "[generator limit]"),
      Cell("0.02"), Cell("+1.00")]],
    names=2,
)  # fmt: skip


_MANY = Table(
    ("measure", *(f"variant {number}" for number in range(12))), [[Cell("p50"), *[Cell("1,234,567 requests/s")] * 12]]
)


def test_latex_tables_have_the_environment_that_their_width_needs():
    narrow = tabular("speed", Table(("nodes", "requests/s"), [[Cell("1"), Cell("1,234", "[1,200, 1,270]")]]))
    assert narrow.splitlines()[1] == r"\begin{table}"
    assert r"1 & 1,234 [1,200, 1,270] \\" in narrow
    wide = tabular("contrasts", _WIDE)
    assert wide.splitlines()[1] == r"\begin{table*}"
    assert r"a read p99,\\ refresh\_interval\\ 30s, b1-with-a-\\ long-name" in wide
    assert r"2.65\\ {[}generator limit]" in wide


def test_captions_of_exported_tables_say_what_a_table_has(folder):
    target, _ = exported(folder, "latex")
    captions = {
        path.stem: re.search(r"\\caption\{(.+?)\}\\label", path.read_text())[1] for path in target.glob("*.tex")
    }
    assert captions["speedups"] == r"Throughput, speed-up and response times by number of nodes (range\_100)."
    assert captions["runs"] == "Verdict, treatment and load generator of each run."
    assert all(table.caption for _, table in read_report(folder).page.tables)
    assert all(caption[0].isupper() and caption.endswith(".") and " " in caption for caption in captions.values())


def test_latex_tables_with_too_many_columns_for_a_page_are_split_and_repeat_the_names():
    parts = list(tabulars(("many", _MANY)).values())
    assert len(parts) > 1
    heads = [part.split(r"\toprule")[1].splitlines()[1].removesuffix(r" \\").split(" & ") for part in parts]
    assert {head[0] for head in heads} == {"measure"}
    assert [name for head in heads for name in head[1:]] == list(_MANY.columns[1:])
    assert rf"\caption{{Many, part 1 of {len(parts)}.}}\label{{tab:many}}" in parts[0]


def test_latex_tables_have_the_label_of_their_file_and_every_file_its_own_name():
    small = Table(("nodes",), [[Cell("1")]])
    files = tabulars(("many 2", small), ("many", _MANY), ("Many", small), ("many", small))
    labels = {name: re.findall(r"\\label\{tab:(.+?)\}", text) for name, text in files.items()}
    assert labels == {name: [name] for name in files}
    assert list(files)[:3] == ["many-2", "many", "many-3"]
    assert sum(r"\caption{Many, part " in text for text in files.values()) == len(files) - 3
    assert len(tables := list(_tables([("many 2", small), ("many", small), ("many", small)], "csv"))) == 3
    assert [name for name, _ in tables] == ["many-2", "many", "many-3"]


def test_latex_tables_that_are_taller_than_a_page_have_a_file_for_each_page(tmp_path):
    long = "the load generator left a figure without a bound of the whole run"
    rows = [[Cell(f"run {number}"), Cell(long if number == 149 else "valid")] for number in range(150)]
    parts = list(tabulars(("runs", Table(("run", "verdict"), rows))).values())
    assert len(parts) > 1
    listed = [line for part in parts for line in re.findall(r"^run \d+", part, re.MULTILINE)]
    assert listed == [f"run {number}" for number in range(150)]
    assert [long in part for part in parts] == [False] * (len(parts) - 1) + [True]
    assert f", part 1 of {len(parts)}." in parts[0]


def warnings(target, options, lines):
    """The warnings of an article with these lines."""
    (target / "paper.tex").write_text(
        rf"\pdfminorversion=7\documentclass{options}{{article}}\usepackage{{booktabs,graphicx}}\begin{{document}}"
        + "\n".join(lines)
        + r"\end{document}"
    )
    # A second run would change the numbers of labels only.
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, check=False, cwd=target, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    printed = re.findall(r"^.*(?:Overfull|[Ww]arning|too large|Missing character).*$", done.stdout, re.MULTILINE)
    return [line for line in printed if "Rerun to get cross-references right" not in line]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_articles_of_one_and_of_two_columns_with_every_plot_and_table_have_no_warning(folder, tmp_path):
    target, _ = exported(folder, "pdf,latex")
    variants = {name: Truth(lam=lam, seconds=2) for name, lam in (("Redis", 90), ("PostgreSQL", 70))}
    compared = read_report(write_variants(tmp_path / "stores", variants, repetitions=2)).page.tables
    made_up = [("wide", _WIDE), ("many", _MANY)]
    for name, text in tabulars(*compared, *made_up).items():
        (target / f"compared-{name}.tex").write_text(text.replace("{tab:", "{tab:compared-"))
    assert "contrasts" in dict(compared)
    tables = [rf"\input{{{path.stem}}}\clearpage" for path in sorted(target.glob("*.tex"))]
    plots = [
        rf"\begin{{figure{star}}}\includegraphics{{{path.stem}}}\caption{{a}}\end{{figure{star}}}\clearpage"
        for path in sorted(target.glob("*.pdf"))
        for star in ["*" * path.stem.endswith("-2col")]
    ]
    assert len(tables) > 10
    assert len(plots) > 4
    assert warnings(target, "", tables) == []
    assert warnings(target, "[twocolumn]", tables + plots) == []


def test_plots_of_resources_have_the_name_of_their_run(tmp_path):
    figures = read_report(
        write_experiment(tmp_path / "e", Truth(seconds=3), clients=(1, 4), repetitions=1)
    ).page.figures
    first, *others, last = (figure for figure in figures if figure.name.startswith("resources"))
    assert (first.name, last.name) == ("resources-b1-nodes1-clients1", "resources-b1-nodes3-clients4")
    assert ", the first of 6 treatments. " in first.caption
    assert ", the last of 6 treatments. " in last.caption
    assert [figure.name for figure in others] == [
        f"resources-b1-nodes{treatment}" for treatment in ("1-clients4", "2-clients1", "2-clients4", "3-clients1")
    ]


def test_an_export_of_a_run_has_every_plot_of_the_run(tmp_path):
    run = loadframe.open(write_run(tmp_path, "r", Truth(seconds=3)).path)
    files = run.export(tmp_path / "x", formats="svg").files
    plots = {file.name.removesuffix("-1col.svg") for file in files if file.name.endswith("-1col.svg")}
    assert plots == {"run-over-time", "resources", "percentiles"}


def test_a_run_that_failed_before_its_load_is_exported(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        path = writer.finish({"format": FORMAT}, {"status": "failed", "failure": "no answer"})
    assert loadframe.open(path).export(tmp_path / "x", formats="svg").files


def test_files_of_long_titles_fit_into_a_file_system(folder):
    figure, *_ = read_report(folder).page.figures
    ((name, _), *_) = _plots([figure.titled("ä" * 300)], "svg")
    assert len(name.encode()) < 220


def test_plots_whose_names_differ_in_capitals_only_have_a_file_each(folder):
    figure, *_ = read_report(folder).page.figures
    figures = [replace(figure, name=name, title="") for name in ("of-Redis", "of-redis", "of-Redis")]
    assert [name for name, _ in _plots(figures, "svg")] == [
        *("of-redis-1col", "of-redis-2col", "of-redis-2-1col", "of-redis-2-2col")
    ]


def test_csv_has_numbers_of_one_unit_that_the_header_names():
    rows = [
        [Cell("1"), Cell("164 us", "[98 us, 1.2 ms]*"), Cell("81 %", "[78, unknown]"), Cell("12,345", "[unknown]")],
        [Cell("2"), Cell("3 min 20 s", "[1.5 s, unknown]"), Cell("–"), Cell("0.42")],
    ]
    titles = ("nodes", "p99", "efficiency", "requests/s")
    assert columns(*rows, titles=titles, names=0) == {
        "nodes": ["1", "2"],
        "p99 (s)": ["0.000164", "200"],
        "p99 low (s)": ["0.000098", "1.5"],
        "p99 high (s)": ["0.0012", ""],
        "p99 note": ["*", ""],
        "efficiency (%)": ["81", ""],
        "efficiency low (%)": ["78", ""],
        "efficiency high (%)": ["", ""],
        "requests/s": ["12345", "0.42"],
    }


def test_csv_names_the_unit_of_each_row_where_rows_differ():
    rows = [[Cell("throughput"), Cell("20.2/s", "[19.4/s, 21.8/s]")], [Cell("p99"), Cell("259 ms", "[245 ms, 2 s]")]]
    assert columns(*rows) == {
        "measure": ["throughput", "p99"],
        "value": ["20.2", "0.259"],
        "value unit": ["1/s", "s"],
        "value low": ["19.4", "0.245"],
        "value high": ["21.8", "2"],
    }


def test_csv_keeps_words_levels_and_bounds():
    rows = [[Cell("3.10"), Cell("3ms"), Cell("< 0.001"), Cell("0.59 to 0.70"), Cell("> 99.9 %"), Cell("2 timeout")],
            [Cell("1,000"), Cell("–"), Cell("0.02"), Cell("at most 3"), Cell("50.0 %"), Cell("0")]]  # fmt: skip
    assert columns(*rows, titles=("version", "service", "p", "cost", "better", "failures")) == {
        "version": ["3.10", "1,000"],
        "service": ["3ms", ""],
        "p": ["", "0.02"],
        "p low": ["", ""],
        "p high": ["0.001", ""],
        "cost": ["", ""],
        "cost low": ["0.59", ""],
        "cost high": ["0.70", "3"],
        "better (%)": ["", "50.0"],
        "better low (%)": ["99.9", ""],
        "better high (%)": ["", ""],
        "failures": ["2 timeout", "0"],
    }


def test_csv_tells_columns_of_one_title_apart():
    row = [Cell("a"), Cell("1"), Cell("2 ms"), Cell("3"), Cell("4 ms")]
    assert list(columns(row, titles=("phase", "first", "mean", "repeated", "mean"))) == [
        "phase", "first", "first mean (s)", "repeated", "repeated mean (s)",
    ]  # fmt: skip


@pytest.mark.parametrize("number", [2e-6, 164e-6, 0.9994e-3, 0.259, 42.0, 59.94, 61.0, 200.0, 3599.0, 4500.0, 1e6])
def test_csv_reads_every_duration_and_size_of_reports(number):
    row = [Cell("a"), Cell(format_duration(number)), Cell(format_size(number * 1e6))]
    read = columns(row, titles=("name", "time", "memory"))
    # Durations from 10 h on are written to the minute.
    assert float(read["time (s)"][0]) == pytest.approx(number, rel=0.01)
    assert float(read["memory (B)"][0]) == pytest.approx(number * 1e6, rel=0.01)


def test_latex_prints_comparison_signs_in_every_font_encoding():
    assert r"$<$ 0.001 & a$|$b \\" in tabular("t", Table(("p", "name"), [[Cell("< 0.001"), Cell("a|b")]]))


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "@SUM(A1)", "-2+cmd|' /C calc'!A0", "+HYPERLINK(x)", "\t=1+1", "\r@a"]
)
def test_csv_has_no_formula_that_a_spreadsheet_evaluates(text):
    (header, *rows) = csv.reader(io.StringIO(csv_table(Table(["variant", "note"], [[Cell(text), Cell("a", text)]]))))
    assert header == ["variant", "note", "note note"]
    inert = "'" + text.replace("\r", "\n")
    assert rows == [[inert, "a", inert]]


def test_csv_keeps_signed_numbers_quotes_and_line_breaks():
    words = ["-3 % worse", 'a "b", c', "two\nlines", "-∞", "+1.5"]
    (_, *rows) = csv.reader(io.StringIO(csv_table(Table(["variant"], [[Cell(word)] for word in words]))))
    assert [row[0] for row in rows] == words


def test_tables_have_no_control_characters():
    table = Table(["variant"], [[Cell("a\x1b[31mb\x00\ud800c\rd")]], note="e\x1b]0;f\x07g")
    assert csv_table(table) == 'variant\n"abc\nd"\n'
    text = tabular("t\x1b[1m", table)
    assert "abc d" in text
    assert text.isprintable() or set(re.findall(r"[^ -~]", text)) == {"\n"}


def test_versions_with_braces_leave_entries_of_bibtex_whole():
    manifest = Manifest(FORMAT, store=RecordedStore(kind="open{search", version="1}2{{"), started="2026-01-0}")
    text = bibliography([manifest], MAKERS)
    entries = re.split(r"^@misc", text, flags=re.MULTILINE)[1:]
    assert len(entries) == 3
    for entry in entries:
        depth = 0
        for sign in entry.strip():
            depth += (sign == "{") - (sign == "}")
            assert depth >= 0
        assert depth == 0
    assert r"open\textbraceleft{}search" in text


def test_every_store_of_others_has_an_author_and_an_address():
    names = set(stores()) - {"http", "sim"}
    manifests = [Manifest(FORMAT, store=RecordedStore(kind=name, version="1.0")) for name in names]
    entries = {
        re.search(r"key = \{(.+?)\}", entry)[1]: entry for entry in bibliography(manifests, MAKERS).split("\n\n")
    }
    assert set(entries) == {"Loadframe", "Python", *names}
    for name, entry in entries.items():
        assert re.search(r"^  author = \{\{\w.+\}\},$", entry, re.MULTILINE), name
        # Product names have capitals, unlike kinds.
        assert re.search(r"^  title = \{\{[A-Z].+\}\},$", entry, re.MULTILINE), name
        has_address = re.search(r"^  url = \{https://[\w./]+\},$", entry, re.MULTILINE) is not None
        assert has_address == (name != "Loadframe"), name


def test_only_the_workload_ycsb_cites_its_paper():
    of_ycsb, of_other = (Manifest(FORMAT, workload=RecordedWorkload(name=name)) for name in ("ycsb", "nyc_taxis"))
    text = bibliography([of_other, of_ycsb, of_ycsb], MAKERS)
    assert text.count("doi = {10.1145/1807128.1807152}") == 1
    assert "author = {Cooper, Brian F." in text
    assert text.count("{") == text.count("}")
    assert "@inproceedings" not in bibliography([of_other], MAKERS)


def test_the_definitions_of_a_table_are_printed_below_it():
    table = Table(["a"], [[Cell("1")]], note="p is adjusted by Holm,\nunlike the 95 % intervals.")
    lines = tabular("one", table).splitlines()
    assert r"p is adjusted by Holm, unlike the 95 \% intervals.\par" in lines
    assert [line for line in lines if line.startswith("%")] == ["% one"]


def test_latex_rows_survive_line_breaks_brackets_and_commands():
    table = Table(["variant"], [[Cell("[a]\n\n\\input{/etc/passwd} 5 % $x$")]])
    text = tabular("one\n\\input{x}", table)
    assert text.splitlines()[0] == "% one \\input{x}"
    assert "{[}a] \\textbackslash{}input\\{/etc/passwd\\} 5 \\% \\$x\\$ \\\\" in text.splitlines()
