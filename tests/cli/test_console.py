"""What is told while work goes on: figures and the time left, on a terminal and as plain lines."""

import io

import pytest
import rich.console

from loadframe.cli import console as module
from loadframe.load import Progress


@pytest.fixture
def shown(monkeypatch):
    """Have standard error be a text, of a terminal or not."""

    def shown(terminal: bool) -> io.StringIO:
        text = io.StringIO()
        monkeypatch.setattr(module, "err", rich.console.Console(file=text, force_terminal=terminal, width=160))
        return text

    return shown


def after(seconds: int, errors: int = 0) -> Progress:
    return Progress(seconds, 100 * seconds, errors, 0, 1234, 0, 0.003, 0.0125)


def test_without_a_terminal_figures_come_every_ten_seconds_and_at_the_end_of_a_phase(shown):
    text = shown(terminal=False)
    with module.Console() as console:
        console.expect({"look": 26.0})
        console.phase("look", 26.0)
        for second in range(1, 27):
            console.progress(after(second, errors=second // 20))
        console.phase("other", None)
    lines = text.getvalue().splitlines()
    figures = [line.strip() for line in lines if "requests/s" in line]
    assert [line.split(":")[0] for line in figures] == ["10 s", "20 s", "26 s"]
    assert "1,234 requests/s  p50 3 ms  p99 12.5 ms  0 errors" in figures[0]
    assert "about 26 s left" in figures[0]
    assert "1 errors" in figures[-1]


def test_a_run_says_how_long_all_of_them_still_take(shown):
    text = shown(terminal=False)
    with module.Console() as console:
        console.expect({"b1-a": 60.0, "b1-b": 30.0})
        console.part("b1-a")
        console.run(0, 2, "b1-a")
    assert "run 1 of 2: b1-a, about 1 min 30 s left" in text.getvalue()


def test_a_terminal_shows_figures_and_the_time_left_beside_the_bars(shown):
    text = shown(terminal=True)
    with module.Console() as console:
        console.expect({"b1-a": 60.0})
        console.part("b1-a")
        console.run(0, 1, "b1-a")
        console.phase("look", 20.0)
        console.progress(after(1))
        console._bars.refresh()
    drawn = text.getvalue()
    assert "about 1 min 00 s left" in drawn
    assert "p50 3 ms" in drawn
    assert "1 s: " not in drawn


def test_what_is_done_to_the_cluster_under_load_does_not_end_the_phase(shown):
    text = shown(terminal=False)
    with module.Console() as console:
        console.phase("look", 20.0)
        console.progress(after(3))
        console.step("starting node-1")
        console.progress(after(12))
    lines = [line.strip().split(":")[0] for line in text.getvalue().splitlines()]
    assert lines == ["phase look, 20 s", "3 s", "starting node-1", "12 s"]
