"""Progress output: figures and remaining time, on a terminal and as plain lines."""

import io
import re

import pytest
import rich.console

from loadframe.cli import console as module
from loadframe.cli import output
from loadframe.load import Progress


@pytest.fixture
def shown(monkeypatch):
    """Have standard error be a text, of a terminal or not."""

    def shown(terminal: bool, width: int = 160) -> io.StringIO:
        text = io.StringIO()
        for where in (module, output):
            monkeypatch.setattr(where, "err", rich.console.Console(file=text, force_terminal=terminal, width=width))
        return text

    return shown


def after(seconds: int, errors: int = 0) -> Progress:
    return Progress(seconds, 100 * seconds, errors, 0, 1234, 0, 0.003, 0.0125)


def test_without_a_terminal_there_is_a_line_for_each_second(shown):
    text = shown(terminal=False)
    with module.Console() as console:
        console.expect({"look": 26.0})
        console.phase("look", 26.0)
        for second in range(1, 27):
            console.progress(after(second, errors=second // 20))
        console.phase("other", None)
    lines = text.getvalue().splitlines()
    figures = [line.strip() for line in lines if "requests/s" in line]
    assert [line.split(":")[0] for line in figures] == [f"{second} s" for second in range(1, 27)]
    assert "1,234 requests/s  p50 3 ms  p99 12.5 ms  0 errors" in figures[0]
    assert "about 26 s left" in figures[0]
    assert figures[-1].split("  ")[3] == "1 error"


def test_a_run_says_how_long_all_of_them_still_take(shown):
    text = shown(terminal=False)
    with module.Console() as console:
        console.expect({"b1-a": 60.0, "b1-b": 30.0})
        console.part("b1-a")
        console.run(0, 2, "b1-a")
    assert "run 1 of 2: b1-a, about 1 min 30 s left" in text.getvalue()


def test_the_time_left_of_a_search_is_a_lower_bound_that_never_disappears(shown):
    text = shown(terminal=False)
    with module.Console("search") as console:
        console.expect({"b1-t14": 0.0}, least=True)
        console.part("b1-t14")
        console.run(0, 1, "b1-t14")
    assert "search 1 of 1: b1-t14, at least 1 s left" in text.getvalue()


def test_entries_of_a_capacity_experiment_are_searches(shown):
    text = shown(terminal=False)
    with module.Console("search") as console:
        console.run(0, 2, "b1-nodes1-rate1000-t1")
    assert "search 1 of 2: b1-nodes1-rate1000-t1" in text.getvalue()


def test_a_terminal_of_80_columns_shows_figures_and_the_time_left_uncut(shown):
    text = shown(terminal=True, width=80)
    with module.Console() as console:
        console.expect({"b1-a": 60.0})
        console.part("b1-a")
        console.run(0, 1, "b1-a")
        console.phase("look", 20.0)
        console.progress(after(1))
        console.progress(Progress(2, 123_456_789, 0, 0, 123_456, 6_172_800, 0.00652, 0.01128))
        console._bars.refresh()
    drawn = text.getvalue()
    assert all(
        len(line) <= 80 for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\r", drawn).replace("\r", "\n").splitlines()
    )
    assert "about 1 min 00 s left" in drawn
    assert "123,456 requests/s  6,172,800 docs/s  p50 6.52 ms  p99 11.3 ms  0 errors" in drawn
    assert "1 s: " not in drawn


def test_figures_of_a_finished_load_disappear_while_nodes_start(shown):
    shown(terminal=True, width=80)
    now = 100.0
    with module.Console() as console:
        console._bars.clock = lambda: now
        console.phase("look", 20.0)
        console.progress(after(1))
        assert [str(drawn).strip() for drawn in console._bars.get_renderables()][1].startswith("1,234 requests/s")
        console.step("starting node-1")
        now += 4
        assert len(list(console._bars.get_renderables())) == 1
        console.progress(after(2))
        assert len(list(console._bars.get_renderables())) == 2


def test_bars_of_a_run_with_a_long_name_take_one_line_each(shown):
    shown(terminal=True, width=80)
    text = io.StringIO()
    with module.Console() as console:
        console.expect({"b1": 4000.0})
        console.part("b1")
        console.run(0, 120, "b1-nodes12-clients1024-replicas2-shards24-documents100000")
        console.phase("distance_histogram", 20.0)
        bars = next(iter(console._bars.get_renderables()))
        rich.console.Console(file=text, width=80).print(bars)
    lines = text.getvalue().splitlines()
    assert len(lines) == 2
    assert "about 1 h 07 min left" in lines[0]


def test_changes_of_the_cluster_under_load_do_not_end_the_phase(shown):
    text = shown(terminal=False)
    with module.Console() as console:
        console.phase("look", 20.0)
        console.progress(after(3))
        console.step("starting node-1")
        console.progress(after(12))
    lines = [line.strip().split(":")[0] for line in text.getvalue().splitlines()]
    assert lines == ["phase look, 20 s", "3 s", "starting node-1", "12 s"]


def test_a_path_is_printed_in_one_piece(shown):
    text = shown(terminal=True, width=40)
    output.tell(f"report: /{'folder/' * 20}report.html")
    assert text.getvalue().count("\n") == 1
