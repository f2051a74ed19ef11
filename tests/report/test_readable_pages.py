"""Reports in a browser, on a phone and on a wide screen: nothing is cut, texts can be read, axe finds no violation."""

import tarfile
from pathlib import Path

import pytest

import axe
import chromium
from chromium import Chromium
from commands import within
from elastic_folder import write_elastic
from loadframe.analyze.compare.warnings import ONE_SESSION_EACH, TOO_FEW_RUNS
from loadframe.report.page import _sentence
from loadframe.report.run.page import run_page
from recorded_history import write_history
from simulated import Truth, write_experiment, write_run

if lacking := chromium.missing():
    pytest.skip(lacking, allow_module_level=True)

FOLDERS = Path(__file__).parent.parent / "data" / "older_folders"
KINDS = ("scale", "settings", "capacity", "compare")
WIDTHS = (400, 1400)
#: Everything that is cut: content wider than the page, tables wider than their place, and texts outside of their plot.
CUT = """(() => {
  const bad = [];
  if (document.documentElement.scrollWidth > innerWidth) bad.push(`page ${document.documentElement.scrollWidth}`);
  for (const place of document.querySelectorAll('.scroll'))
    if (place.scrollWidth > place.clientWidth + 1) bad.push(`${place.ariaLabel}: ${place.scrollWidth} wide`);
  for (const svg of document.querySelectorAll('.plot svg')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 3 || box.right > frame.right + 3 ||
          box.top < frame.top - 3 || box.bottom > frame.bottom + 3)
        bad.push(`${text.textContent} leaves ${svg.ariaLabel}`);
    }
  }
  return bad;
})()"""
#: Texts of plots that are smaller than 9 pixels, or cover others.
ILLEGIBLE = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('.plot svg')) {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    if (!scale) continue;
    const texts = [...svg.querySelectorAll('text')];
    for (const text of texts)
      if (parseFloat(getComputedStyle(text).fontSize) * scale < 9) bad.push(`${text.textContent} is small`);
    const boxes = texts.filter((text) => !text.hasAttribute('transform'))
      .map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([text, box], at) => {
      for (const [other, there] of boxes.slice(at + 1))
        if (box.left < there.right - 1 && there.left < box.right - 1 &&
            box.top < there.bottom - 4 && there.top < box.bottom - 4)
          bad.push(`${text} covers ${other}`);
    });
  }
  return bad;
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("pages")
    for kind in KINDS:
        with tarfile.open(FOLDERS / f"{kind}.tar.xz") as members:
            members.extractall(root)
        assert within("report", root / kind)[0] == 0
    pages = {kind: root / kind / "report.html" for kind in KINDS}
    for kind, folder in (
        ("nodes", write_experiment(root / "nodes", Truth(seconds=12))),
        ("elastic", write_elastic(root / "elastic")),
    ):
        assert within("report", folder)[0] == 0
        pages[kind] = folder / "report.html"
    assert within("history", write_history(root / "history"))[0] == 0
    pages["history"] = root / "history" / "history.html"
    pages["run"] = root / "run.html"
    pages["run"].write_text(run_page(write_run(root, "r1", Truth(seconds=12, failed_share=0.01), nodes=2)))
    return pages


def show(browser: Chromium, page: Path) -> None:
    """Open a page, with all that it folds."""
    browser.open(page.as_uri())
    browser.wait_for(f"document.readyState === 'complete' && location.href === '{page.as_uri()}'")
    browser.evaluate("for (const it of document.querySelectorAll('details')) it.open = true")


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_or_illegible(pages, width):
    with Chromium(width, 900) as browser:
        for name, page in pages.items():
            show(browser, page)
            assert browser.evaluate(CUT) == [], name
            assert browser.evaluate(ILLEGIBLE) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_no_violation(pages, width):
    if lacking := axe.missing():
        pytest.skip(lacking)
    with Chromium(width, 900) as browser:
        for name, page in pages.items():
            show(browser, page)
            assert axe.violations(browser) == [], name


def test_the_legend_works_with_the_keyboard(pages):
    hidden = (
        "[...document.querySelectorAll('#c0-clients [data-group]')].filter((it) => it.style.display === 'none').length"
    )
    with Chromium(1400, 900) as browser:
        browser.open(pages["nodes"].as_uri())
        browser.wait_for("document.querySelector('#c0-clients .key[tabindex]') !== null")
        browser.evaluate("document.querySelector('#c0-clients .key').focus()")
        assert browser.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13)
        assert browser.evaluate("document.activeElement.getAttribute('aria-pressed')") == "false"
        assert browser.evaluate(hidden) > 0


def test_a_name_keeps_its_letters_at_the_start_of_a_sentence():
    assert _sentence("b1-rate50-t1 failed") == "b1-rate50-t1 failed."
    assert _sentence("things: 3 events accepted") == "things: 3 events accepted."
    assert _sentence("trials vary.") == "Trials vary."
    finding = ONE_SESSION_EACH(first="lucene", second="faiss", spread=0.05)
    assert _sentence(finding.cause, finding.figures).startswith("lucene and faiss were measured")
    finding = TOO_FEW_RUNS(first=1, second=1)
    assert _sentence(finding.cause, finding.figures).startswith("1 run against")
