"""The live page in a browser: it shows the figures of a real run, updates them, and shows the end."""

import signal
from pathlib import Path

import pytest
from feeds import command, feed, served

import chromium
from chromium import Chromium
from commands import Running, open_folder

if lacking := chromium.missing():
    pytest.skip(lacking, allow_module_level=True)

WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 500}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 50}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 2, duration: DURATION}
"""
TEXT = "(document.body?.innerText ?? '')"
#: No text of a chart covers another, and none stands outside of its chart.
OVERLAPS = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('.chart > svg')) {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([text, box], at) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) bad.push(`${text} leaves its chart`);
      for (const [other, there] of boxes.slice(at + 1))
        if (box.left < there.right && there.left < box.right &&
            box.top < there.bottom - 2 && there.top < box.bottom - 2)
          bad.push(`${text} covers ${other}`);
    });
  }
  return bad;
})()"""


@pytest.fixture
def folder(monkeypatch):
    with open_folder("page") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        yield folder


def address(running: Running) -> str:
    running.wait_for("live page: http", "\n")
    return running.stderr.partition("live page: ")[2].split()[0]


def latest(title: str) -> str:
    """Return the expression for the first latest value of a chart, empty without one."""
    return (
        f"([...document.querySelectorAll('.chart')].find((box) => box.querySelector('h2').textContent === '{title}')"
        "?.querySelector('.now b')?.textContent ?? '–').replace('–', '')"
    )


@pytest.mark.store
def test_a_real_run_is_shown_live_with_its_events_and_its_end(folder):
    Path("small.yaml").write_text(WORKLOAD.replace("DURATION", "2m"))
    words = ("bench", "./small.yaml", "--store", "sim", "--nodes", 2, "--at", "2s=grow", "--web", "--web-address", 0)
    with Chromium(dark=True) as browser, Running(*words, "--output", "runs/first", folder=folder) as bench:
        browser.open(address(bench))
        assert browser.wait_for(latest("Throughput")).endswith("/s")
        assert browser.wait_for(latest("Response time")).split()[1] in ("µs", "ms", "s")
        assert float(browser.wait_for(latest("CPU of the nodes"))) >= 0
        assert browser.wait_for(f"{TEXT}.includes('phase started (phase look)')")
        assert browser.wait_for("document.querySelectorAll('.chart path').length > 3")
        assert browser.wait_for(f"{TEXT}.includes('node joined: node-2')")
        assert browser.wait_for("document.querySelectorAll('.chart .event').length > 0")
        assert browser.wait_for(latest("Shards and other data in motion"))
        browser.wait_for(f"{OVERLAPS}.length === 0")
        bench.send(signal.SIGINT)
        said = browser.wait_for(f"{TEXT}.includes('The command has ended.') && {TEXT}")
        assert "The run first: interrupted" in said
        assert str(folder / "runs" / "first") in said
        assert browser.evaluate("document.getElementById('lost').hidden"), "it is over, so nothing is lost"


@pytest.mark.store
def test_an_experiment_goes_from_run_to_run_on_one_page_and_ends_with_the_report(folder):
    Path("small.yaml").write_text(WORKLOAD.replace("DURATION", "3s"))
    Path("e.yaml").write_text(
        "experiment: two\nstore: {kind: sim}\nworkload: ./small.yaml\nkind: scale\nfactors: {clients: [1, 2]}\n"
    )
    with Chromium() as browser, served() as url, Running("run", "e.yaml", folder=folder):
        browser.open(url)
        said = browser.wait_for(f"{TEXT}.includes('The command has ended.') && {TEXT}")
        assert "of 2 runs of this command are valid." in said
        assert browser.evaluate("document.querySelectorAll('#runs tbody tr').length") == 2
        assert str(folder / "results" / "two" / "report.html") in said
        assert browser.evaluate(latest("Throughput")), "the last figures stay"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(360, False), (1400, True)])
def test_the_page_of_a_long_run_with_many_nodes_and_events_can_be_read(folder, width, dark):
    with Chromium(width, 800, dark=dark) as browser, feed(*long_run()) as written, served() as url:
        browser.open(url)
        said = browser.wait_for(f"{TEXT}.includes('run 3 of 12') && {TEXT}")
        assert "phase look · 700 s of 3,600 s" in said
        assert browser.evaluate(latest("Throughput")) == "2,300/s"
        assert browser.evaluate(latest("Errors")) == "0/s"
        assert "median of 20" in said
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        browser.wait_for(f"{OVERLAPS}.length === 0")
        written.append([{"kind": "run", "run": "r4"}])
        assert browser.wait_for("document.querySelectorAll('.chart path').length === 0"), "the next run clears the page"


@pytest.mark.slow
def test_a_trial_shows_its_load_the_slo_and_its_outcome(folder):
    def load(second, p99):
        return {"kind": "load", "time": float(second), "second": second, "requests": 673, "documents": 0, "p50": 0.002,
                "p99": p99, "errors": 0.0, "all_errors": 0}  # fmt: skip

    begun = [
        command("nodes"),
        {"kind": "trial", "number": 5, "load": "673/s", "percentile": "p99", "limit": 0.05},
        {"kind": "run", "run": "r5"},
        {"kind": "phase", "phase": "look", "seconds": 10.0, "time": 0.0},
    ]
    with Chromium() as browser, feed(*begun, load(1, 0.021)) as written, served() as url:
        browser.open(url)
        browser.wait_for(f"{TEXT}.includes('trial 5: 673/s, p99 21 ms (SLO 50 ms): passing')")
        written.append([load(2, 0.08)])
        browser.wait_for(f"{TEXT}.includes('trial 5: 673/s, p99 80 ms (SLO 50 ms): failing')")
        written.append(
            [
                {
                    "kind": "finished",
                    "run": "r5",
                    "path": "/r/r5",
                    "status": "done",
                    "valid": False,
                    "reasons": ["late"],
                },
                {"kind": "judged", "run": "r5", "text": "trial 5: 673/s, p99 21 ms: passed", "outcome": "passed"},
            ]
        )
        said = browser.wait_for(f"{TEXT}.includes('p99 21 ms: passed') && {TEXT}")
        assert "invalid" not in said


def long_run():
    yield command("taxis")
    yield {"kind": "finished", "run": "r1", "path": "/r/r1", "status": "done", "valid": True, "reasons": []}
    why = "the generator was the limit: worker 0 used 93 % of a core"
    yield {"kind": "finished", "run": "r2", "path": "/r/r2", "status": "done", "valid": False, "reasons": [why]}
    yield {"kind": "part", "number": 3, "of": 12}
    yield {"kind": "run", "run": "r3"}
    yield {"kind": "phase", "phase": "look", "seconds": 3600.0, "time": 1.0}
    for second in range(1, 701):
        yield {"kind": "load", "time": second + 1.2, "second": second, "requests": 2000 + second % 400, "documents": 0,
               "p50": None if 500 < second < 520 else 0.002, "p99": 0.02 + second % 9 / 1000, "errors": 0.0,
               "all_errors": 3}  # fmt: skip
        cpu = {f"node-{node}": node / 10 + second % 7 / 20 for node in range(20)}
        yield {"kind": "watched", "time": second + 1.0, "cpu": cpu, "machine": 0.87, "moving": second % 5,
               "missing": 0, "nodes": 20}  # fmt: skip
    for at, kind in (
        (180, "node killed"),
        (183, "node restarted"),
        (400, "node joined"),
        (401, "cluster balanced"),
        (690, "x"),
    ):
        yield {"kind": "event", "event": {"time": at, "wall": "", "kind": kind, "nodes": ["node-3"]}}


HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(360, True), (1400, False)])
def test_answers_are_always_drawn_as_text(folder, width, dark):
    rows = [[HOSTILE, 20.0, [1.0]], *([f"https://site{n}.example/", 12.0 - n, [None]] for n in range(12))]
    answers = [
        {"kind": "answer", "operation": "top", "title": "Publishers", "chart": "bars", "unit": "wins", "rows": rows,
         "beside": ["clicks"], "more": 87, "time": 4.0},
        {"kind": "answer", "operation": "days", "title": "By day", "chart": "columns", "unit": "", "beside": [],
         "more": 0, "rows": [[f"2017-03-{day:02}", float(day % 7), []] for day in range(1, 29)], "time": 4.0},
        {"kind": "answer", "operation": "totals", "title": "Totals", "chart": "figures", "unit": "",
         "figures": {"clicks": 3.0, "spend": None}, "time": 4.0},
    ]  # fmt: skip
    events = {"accepted": 220.0, "indexed": 219.0, "all_accepted": 900, "all_indexed": 890, "unacknowledged": 10}
    events |= {"dead_letters": 2, "visible": 850}
    load = {"kind": "load", "time": 4.0, "second": 4, "requests": 2, "documents": 219, "p50": 0.01, "p99": 0.02,
            "errors": 0.0, "all_errors": 0, "events": events}  # fmt: skip
    phase = {"kind": "phase", "phase": "live", "seconds": None, "time": 0.0}
    begun = [command("ads"), {"kind": "run", "run": "r1"}, phase]
    with Chromium(width, 800, dark=dark) as browser, feed(*begun, load, *answers) as written, served() as url:
        browser.open(url)
        said = browser.wait_for(f"{TEXT}.includes('site11.example') && {TEXT}")
        assert HOSTILE in said
        assert "87 more are not shown" in said
        assert "visible, about 850" in " ".join(said.split())
        assert browser.evaluate("document.title") == "live · ads · loadframe"
        assert browser.evaluate("document.querySelectorAll('#drawn script, #drawn img').length") == 0
        assert browser.evaluate("document.querySelectorAll('.answer').length") == 3
        assert browser.evaluate(latest("Events of sources")) == "220/s"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("document.querySelector('.answer .fill').getBoundingClientRect().width") > 20
        written.append([{"kind": "run", "run": "r2"}])
        assert browser.wait_for("document.getElementById('answers').hidden"), "the next run clears the page"
