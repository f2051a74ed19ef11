"""The page of `loadframe explore`: a recorded run in a browser, hostile values, and who may open it."""

import json
import signal
from contextlib import contextmanager

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import axe
import chromium
from chromium import Chromium
from commands import PATIENCE, Running, loadframe, open_folder, until, within
from loadframe.base.errors import BadInput
from loadframe.live.exploration import Exploration
from loadframe.live.recorded_run import RecordedRun
from loadframe.live.server import Server
from loadframe.record import Run
from loadframe.store.exploring import PERIODS, Question, period_width
from simulated import Truth, write_run

#: Texts and lines outside of their chart.
OUTSIDE = """[...document.querySelectorAll('.chart > svg')].flatMap((svg) => [...svg.querySelectorAll('text, path')]
  .filter((it) => it.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1))"""
SHOW = "document.querySelector('form button').click()"
HOSTILE = "<img src=x onerror=\"document.title='broken'\"></script><script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with events and dead letters, also with hostile values and fields."""
    events = ((2.0, HOSTILE, {HOSTILE: HOSTILE}), (3.0, "node joined", {"nodes": ["node-2"]}))
    run = write_run(tmp_path_factory.mktemp("runs"), "first", Truth(seconds=12, events=events), nodes=2)
    letters = [{"reason": "no type", "line": HOSTILE, "source": "a:1"}, {"reason": "too long", "line": "x"}]
    (run.path / "dead-letters-load-log.ndjson").write_text("".join(json.dumps(letter) + "\n" for letter in letters))
    return run.path


class TwoOperations:
    """A run with copies of its rows for a second operation, in some `seconds` only."""

    def __init__(self, folder, seconds):
        run = Run(folder)
        one = run.series
        other = one.set_column(one.column_names.index("operation"), "operation", pa.array(["insert"] * one.num_rows))
        self.path, self.raw_manifest, self.events = run.path, {}, []
        self.series = pa.concat_tables([one, other.filter(pc.is_in(other["second"], pa.array(seconds)))])


@contextmanager
def served(folder):
    with Server("127.0.0.1", 0, Exploration(RecordedRun(Run(folder)))) as server:
        yield server.url


def findings(url, **given):
    answer = httpx.get(f"{url}findings", params=given, timeout=PATIENCE)
    return answer.status_code, answer.json()


def test_figures_per_second_are_counted_and_measured_as_they_were_recorded(folder):
    series = Run(folder).series
    with served(folder) as url:
        status, of_all = findings(url, collection="seconds", time="time", field="successes", largest="1")
        _, some = findings(url, collection="seconds", time="time", field="operation", where="segment", value="warmup")
    values = series["successes"].to_pylist()
    assert status == 200
    assert of_all["total"] == series.num_rows == sum(period["count"] for period in of_all["periods"])
    assert of_all["statistics"]["sum"] == sum(values)
    assert of_all["statistics"]["max"] == max(values) == json.loads(of_all["documents"][0])["successes"]
    assert sum(period["count"] * period["mean"] for period in of_all["periods"]) == pytest.approx(sum(values))
    assert some["total"] == series["segment"].to_pylist().count("warmup") > 0
    assert [count for _, count in some["values"]] == [some["total"]]
    assert some["statistics"] == {}


def test_each_operation_has_a_line_and_its_warm_up_another(folder):
    run = RecordedRun(TwoOperations(folder, [0, 2, 3, 7]))
    answer = run.explore(Question("seconds", time="time", field="successes"))
    assert [one.name for one in answer.series] == ["range_100", "range_100, warm-up", "insert", "insert, warm-up"]
    assert [one.of for one in answer.series] == [0, 0, 1, 1]
    assert (answer.width, answer.measure) == (1.0, "requests/s")
    measured, warmup, insert, _ = answer.series
    assert max(time for time, *_ in warmup.points) < min(time for time, *_ in measured.points)
    rows = [row for row in run._run.series.to_pylist() if (row["operation"], row["segment"]) == ("insert", "measure")]
    known = [(time, mean) for time, mean, _ in insert.points if mean is not None]
    assert known == [(row["time"], row["successes"]) for row in rows]
    # Seconds 2 and 3 are joined; 7 stands between two gaps.
    assert [mean is None for _, mean, _ in insert.points] == [False, False, True, False]
    assert insert.statistics["sum"] == sum(row["successes"] for row in rows)


def test_telemetry_is_drawn_for_one_metric_in_its_unit(folder):
    run = RecordedRun(Run(folder))
    mixed = run.explore(Question("telemetry", time="time", field="value"))
    assert (mixed.series, mixed.statistics) == ([], {})
    assert all(period.mean is None for period in mixed.periods)
    assert any("add a filter by metric" in note for note in mixed.notes)
    cpu = run.explore(Question("telemetry", time="time", field="value", filters=(("metric", "process.cpu"),)))
    assert [one.name for one in cpu.series] == ["node:0", "node:1"]
    assert cpu.measure == "cores"
    assert cpu.width == 1.0


def test_a_time_range_selects_from_its_start_to_before_its_end(folder):
    with served(folder) as url:
        _, inside = findings(url, collection="telemetry", time="time", field="source", start="2.5", end="4.5")
    telemetry = Run(folder).telemetry
    wanted = [row for row in telemetry.to_pylist() if 2.5 <= row["time"] < 4.5]
    assert inside["total"] == len(wanted) > 0
    assert sum(count for _, count in inside["values"]) == len(wanted)
    assert all(2.5 <= json.loads(row)["time"] < 4.5 for row in inside["documents"])


WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
operations:
  look: {search: {collection: trips, size: 1}, chart: {kind: figures, figures: {hits: /hits/total/value}}}
phases:
  - {name: look, operation: look, clients: 2, warmup: 0s, duration: 1s}
"""


@pytest.mark.store
def test_single_requests_come_with_the_slowest_first_and_recorded_answers_are_drawn(monkeypatch):
    with open_folder("explore") as place:
        monkeypatch.setenv("LOADFRAME_STATE", str(place / "state"))
        (place / "small.yaml").write_text(WORKLOAD)
        done = loadframe("bench", "./small.yaml", "--store", "sim", "--samples", "--output", "sampled", cwd=place)
        assert done.returncode == 0, done.stderr
        run = RecordedRun(Run(place / "sampled"))
        assert "requests" in run.collections()
        answer = run.explore(Question("requests", time="done", field="response", largest=True))
        slowest = [row["response"] for row in answer.documents]
        assert slowest == sorted(slowest, reverse=True)
        assert slowest[0] == answer.statistics["max"] > answer.statistics["mean"] > 0
        assert answer.total == sum(batch.num_rows for batch in Run(place / "sampled").samples())
        [chart] = run.answers()
        assert chart["figures"].keys() == {"hits"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"collection": "../manifest.json"}, "lacks ../manifest.json"),
        ({"collection": "seconds", "field": HOSTILE}, "lacks the field"),
        ({"collection": "seconds", "time": "operation"}, "not a time field"),
        ({"collection": "seconds", "time": "time", "start": "soon"}, "invalid time 'soon'"),
        ({"collection": "seconds", "time": "time", "start": "nan"}, "invalid time 'nan'"),
        ({"collection": "seconds", "time": "time", "start": "5", "end": "4"}, "the time range is empty"),
        ({"collection": "seconds", "where": "successes", "value": "many"}, "successes is a number; got 'many'"),
    ],
)
def test_wrong_questions_are_answered_with_one_sentence(folder, given, message):
    with served(folder) as url:
        status, answer = findings(url, **given)
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize("line", ["not json", "[1]", "[" * 100_000], ids=["text", "list", "deep"])
def test_a_damaged_dead_letter_is_named_with_its_line(tmp_path, line):
    run = write_run(tmp_path, "first", Truth(seconds=12))
    (run.path / "dead-letters-load-log.ndjson").write_text(f'{{"line": "a"}}\n{line}\n')
    with served(run.path) as url:
        status, answer = findings(url, collection="dead letters load-log", field="line")
    assert (status, "dead-letters-load-log.ndjson:2: expected a JSON object" in answer["error"]) == (400, True)


def test_odd_dead_letters_are_counted(tmp_path):
    """Line separators of Unicode, halves of surrogate pairs, and integers that no float64 can hold."""
    run = write_run(tmp_path, "first", Truth(seconds=12))
    letters = run.path / "dead-letters-load-log.ndjson"
    letters.write_text('{"line": "a\u2028b\x85c"}\n{"line": "\\ud800", "size": 1%s}\n' % ("0" * 400))
    (run.path / "dead-letters-load-none.ndjson").write_text("")
    with served(run.path) as url:
        status, lines = findings(url, collection="dead letters load-log", field="line")
        _, sizes = findings(url, collection="dead letters load-log", field="size")
        empty, answer = findings(url, collection="dead letters load-none")
    assert (status, lines["values"]) == (200, [["a\u2028b\x85c", 1], ["\\ud800", 1]])
    assert (sizes["total"], sizes["notes"]) == (2, ["Without size: 1 row."])
    assert (empty, answer["total"]) == (200, 0)


def test_all_filters_must_match_and_rows_outside_of_the_counts_are_noted(folder):
    series = Run(folder).series.to_pylist()
    wanted = [row for row in series if row["segment"] == "measure" and row["second"] == 3]
    with served(folder) as url:
        _, some = findings(url, collection="seconds", where=["segment", "second"], value=["measure", "3"])
        status, _ = findings(url, collection="seconds", where=["segment", "second"], value="measure")
        _, events = findings(url, collection="events", time="time", field="nodes")
        _, lacking = findings(url, collection="events", where="nodes", value="")
        _, smooth = findings(url, collection="seconds", where="failure_p50", value="")
    assert lacking["total"] == sum("nodes" not in event for event in Run(folder).events) > 0
    assert smooth["total"] == sum(row["failure_p50"] is None for row in series) > 0
    assert some["total"] == len(wanted) > 0
    assert status == 400
    assert "Without nodes: 2 rows." in events["notes"]


def test_a_value_in_a_column_without_values_selects_no_row(folder):
    run = TwoOperations(folder, [])
    run.events = [{"time": 1.0, "node": None}]
    assert RecordedRun(run).explore(Question("events", filters=(("node", "node-0"),))).total == 0


def test_periods_are_no_shorter_than_the_interval_of_rows():
    assert [period_width(0.0, 12.0), period_width(0.0, 12.0, 1.0), period_width(0.0, 90.0, 1.0)] == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("seconds", [0.0, 0.003, 59.0, 3600.0, 86400.0 * 400, 86400.0 * 365 * 5000])
def test_periods_are_at_most_as_many_as_the_limit(seconds):
    assert seconds / period_width(0.0, seconds) < PERIODS + 1


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("10.0.0.5", 421), ("[::2]:8350", 421), ("127.0.0.1:80", 200), ("localhost", 200),
     ("[::1]:8350", 200)],
)  # fmt: skip
def test_only_loopback_names_are_answered(folder, host, status):
    with served(folder) as url:
        assert httpx.get(url, headers={"Host": host}).status_code == status
        assert httpx.get(f"{url}source", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_other_addresses_than_loopback_are_refused(folder, address):
    with pytest.raises(BadInput, match="served to this machine only"):
        Server(address, 0, Exploration(RecordedRun(Run(folder))))


@pytest.mark.parametrize("path", ["", "source", "fields?collection=seconds", "findings?collection=seconds"])
def test_without_its_token_the_page_tells_nothing(folder, path):
    with served(folder) as url:
        base, token = url.rstrip("/").rsplit("/", 1)
        for wrong in ("", f"{token}x", token.swapcase()):
            assert httpx.get(f"{base}/{wrong}/{path}").status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_write_requests_are_not_answered(folder, method):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with served(folder) as url:
        assert httpx.request(method, f"{url}findings?collection=seconds").status_code == 501
        assert httpx.get(f"{url}summary.json").status_code == 404
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explore",), "expected one of"),
        (("explore", "RUN", "--hosts", "127.0.0.1:1"), "expected one of"),
        (("explore", "RUN", "--user", "ann"), "--user requires an existing cluster"),
        (("explore", "RUN", "--web-address", "0.0.0.0:0"), "served to this machine only"),
        (("explore", "RUN", "--web-address", "a..b:0"), "a..b:0: cannot serve the page"),
        (("explore", "RUN", "--web-address", "9" * 5000), "invalid address '999"),
        (("explore", "--store", "redis", "--hosts", "127.0.0.1:1"), "cannot explore the documents of redis"),
        (("explore", "--store", "sim", "--hosts", "127.0.0.1:1"), "cannot explore the documents of sim"),
    ],
)
def test_wrong_options_are_refused_with_one_message(folder, words, message):
    status, output, errors = within(*(folder if word == "RUN" else word for word in words))
    assert (status, output) == (2, "")
    assert message in errors


@pytest.mark.slow
def test_the_command_prints_the_address_as_json_and_ends_with_ctrl_c(folder):
    with open_folder("explore") as place, Running("explore", folder, "--web-address", 0, "--json", folder=place) as run:
        printed = place / "stdout.txt"
        until(lambda: printed.read_text().endswith("}\n"))
        said = json.loads(printed.read_text())
        assert said.keys() == {"source", "url"}
        assert httpx.get(said["url"]).status_code == 200
        assert run.send(signal.SIGINT)[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "")
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_shows_a_run_with_hostile_values_as_text(folder, width):
    with served(folder) as url, Chromium(width, 900, dark=width > 400) as browser:
        browser.open(url)
        browser.wait_for("document.querySelectorAll('.chart path').length > 0")
        select(browser, "field", "successes")
        browser.wait_for("document.body.innerText.includes('Statistics of successes')")
        for collection, field in (("dead letters load-log", "line"), ("events", HOSTILE)):
            select(browser, "collection", collection)
            browser.wait_for(
                f"[...document.querySelectorAll('#field option')].some((it) => it.value === {text(field)})"
            )
            select(browser, "field", field)
            browser.wait_for("[...document.querySelectorAll('td')].some((it) => it.textContent.startsWith('<img'))")
            assert browser.evaluate("document.querySelectorAll('img, body script').length") == 1
            assert "broken" not in browser.evaluate("document.title")
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            if not axe.missing():
                assert axe.violations(browser) == [], collection
        for name, value in (("reason", "no type"), ("source", "a:1")):
            select(browser, "collection", "dead letters load-log") if name == "reason" else None
            browser.wait_for(f"[...document.querySelectorAll('#where option')].some((it) => it.value === '{name}')")
            browser.wait_for("!document.getElementById('value').disabled")
            browser.evaluate(f"part('where').value = '{name}'; part('value').value = '{value}'; {SHOW}")
        stand = "document.getElementById('stand').innerText"
        browser.wait_for(f"{stand}.startsWith('1 row, where reason is ') && {stand}.endsWith(' and source is a:1')")
        assert browser.evaluate("[...document.querySelectorAll('#filters button')].map((it) => it.textContent)") == [
            "reason = no type ×",
            "source = a:1 ×",
        ]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        browser.evaluate(f"document.getElementById('start').value = 'soon'; {SHOW}")
        assert browser.wait_for("!document.getElementById('lost').hidden && document.getElementById('lost').innerText")


@pytest.mark.slow
@pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "")
def test_the_page_lists_events_and_draws_single_values_as_dots(folder):
    run = RecordedRun(TwoOperations(folder, [0, 2, 3, 7]))
    many = [{"time": 5.0, "wall": "2026-01-01T00:00:00Z", "kind": "gap"}] * 1300
    known = Run(folder).events
    run.events = lambda: [*known, *many]
    with Server("127.0.0.1", 0, Exploration(run)) as server, Chromium() as browser:
        browser.open(server.url)
        browser.wait_for("document.querySelectorAll('.chart path').length > 0")
        select(browser, "field", "response_p50")
        browser.wait_for("document.querySelectorAll('.chart path.dot').length > 0")
        legend = "[...document.querySelectorAll('.chart .now span')].map((it) => it.textContent)"
        assert {"range_100", "range_100, warm-up", "insert", "insert, warm-up"} <= set(browser.evaluate(legend))
        units = browser.evaluate(
            "[...document.querySelectorAll('.chart > svg')].map((it) => it.firstChild.textContent)"
        )
        assert units == ["rows", "ms"]
        events = browser.evaluate("document.getElementById('events').innerText")
        assert "node joined: node-2" in events
        assert f"The first 200 of {len(known) + 1300:,} are listed" in events
        assert browser.evaluate("document.querySelector('#documents h2').innerText") == "Rows"
        assert browser.evaluate("document.getElementById('order').labels[0].innerText").startswith("Rows")
        browser.evaluate(f"part('start').value = '2'; part('until').value = '9'; {SHOW}")
        browser.wait_for("document.getElementById('stand').innerText.endsWith('rows, from 2 s and before 9 s')")


@pytest.mark.slow
@pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "")
def test_small_large_and_negative_numbers_are_written_and_drawn(folder):
    with served(folder) as url, Chromium() as browser:
        browser.open(url)
        browser.wait_for("document.querySelectorAll('.chart path').length > 0")
        numbers = "[0, 0.0000825, 4e-7, -0.25, 99.97, 1234.6, 2 ** 60].map(number)"
        assert browser.evaluate(numbers) == ["0", "0.0000825", "4.00e-7", "-0.25", "100", "1,235", "1.15e+18"]
        # The page draws its charts again when its scroll bar appears.
        draw = (
            "charts.count.draw({ from: 0, to: 2, events: [], unit: '', clock: true, lines:"
            " [{ name: 'a', text: '', style: 's0', points: [[0, -40], [1, 20], [2, -10]] }] })"
        )
        texts = "[...document.querySelectorAll('.chart > svg text')].map((it) => it.textContent)"
        labels = browser.evaluate(f"({draw}, {texts})")
        assert {"-40", "-20", "0", "20"} <= set(labels)
        box = "document.querySelector('.chart > svg path.line').getBBox()"
        assert browser.evaluate(f"({draw}, {box}.y + {box}.height <= HEIGHT - BOTTOM)")
        assert browser.evaluate("clockText(1e13, 86400)").startswith("year")


def text(value):
    return json.dumps(value)


def select(browser, name, value):
    """Select an entry as a user does."""
    browser.evaluate(
        f"(() => {{ const it = document.getElementById('{name}'); it.value = {text(value)};"
        " it.dispatchEvent(new Event('change')); })()"
    )
