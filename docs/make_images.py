"""Make the pictures of the documentation from real runs: `python docs/make_images.py [--runs FOLDER] [NAME...]`.

The runs load the simulated store for about nine minutes; runs that the folder has already are not repeated. Pictures
are taken by Chromium.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadframe.analyze.elastic import read_elasticity
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.report.plot import COLORS, Axis, Figure, LineStyle, Mark, Panel, Trace
from loadframe.report.plot.draw import draw
from loadframe.report.plots.elastic import run_plot
from loadframe.report.plots.scale import throughput_over_nodes

IMAGES = Path(__file__).parent / "images"
LAB = Path(__file__).parents[1] / "lab" / "reports"
LOADFRAME = Path(sys.executable).with_name("loadframe")

SCALE = """\
experiment: nodes
question: How far does the store scale with nodes?
store:
  kind: sim
  settings: {service: 50ms, sigma: 0.05, kappa: 0.02}
workload: nyc_taxis
with: {documents: 1000}
measure: range_100
kind: scale
factors: {nodes: [1, 2, 3, 4, 6, 8], clients: [64]}
warmup: 1s
duration: 8s
repetitions: 3
"""
ELASTIC = """\
experiment: grow
question: What does a second node cost, and what does it bring?
store:
  kind: sim
  nodes: 1
  settings: {service: 20ms, shard_size: 40m, bandwidth: 5m, move_cost: 0.3}
workload: nyc_taxis
with: {documents: 1000, shards: 4}
measure: range_100
kind: elastic
transitions:
  grow: {timeline: [{at: 15s, add: 1}]}
loads:
  saturated: {clients: 8}
warmup: 2s
duration: 60s
window: 10s
repetitions: 2
"""
#: A store that stalls for a second in every five: a closed loop sends few requests meanwhile, an open loop all.
STALLS = """\
workload: stalls
collections:
  things: {elasticsearch: {}}
operations:
  read: {search: {collection: things, body: {query: {match_all: {}}}}}
phases:
  - {name: read, operation: read, clients: 2, warmup: 1s, duration: 40s}
"""
STALLING = ("service=10ms", "servers=4", "stall=1s", "stall_every=5s")
PERCENTILES = {"p50": "50 %", "p90": "90 %", "p99": "99 %", "p999": "99.9 %"}

_PLAIN = "body{margin:12px;background:#fff;font-family:sans-serif}svg{width:100%;display:block}"


def main() -> None:
    """Make the named pictures, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "loadframe-images")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MAKERS | ON_REQUEST))
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    IMAGES.mkdir(exist_ok=True)
    for name in arguments.names or MAKERS:
        (MAKERS | ON_REQUEST)[name](arguments.runs)
        print(name)


def report(runs: Path) -> None:
    """Make the picture of the upper part of a report."""
    photograph((experiment(runs, "nodes", SCALE) / "report.html").as_uri(), "report.png", 1000, 1010)


def speedup(runs: Path) -> None:
    """Make the picture of throughput over nodes, with the band of the fitted model."""
    curves = read_sweep(experiment(runs, "nodes", SCALE)).curves[0]
    show(throughput_over_nodes(curves, "speedup"), "speedup.png", 940)


def elastic(runs: Path) -> None:
    """Make the picture of a run in which a node joins."""
    group = read_elasticity(experiment(runs, "grow", ELASTIC)).groups[0]
    show(run_plot(group, "elastic"), "elastic.png", 940)


def open_closed(runs: Path) -> None:
    """Make the picture of response times of a store that stalls, under a closed and under an open loop."""
    traces = []
    places = list(range(len(PERCENTILES)))
    for number, (name, words) in enumerate(
        (("closed loop", ("--clients", "2")), ("open loop", ("--rate", "120/s"))),
    ):
        measured = percentiles(runs, name.replace(" ", "-"), words)
        values = [1000 * measured[key]["value"] for key in PERCENTILES]
        style = LineStyle(COLORS[number], 2.2), Mark(COLORS[number], ("circle", "square")[number])
        traces.append(Trace(places, values, name, *style))
    axis = Axis("percentile", range=(-0.3, 3.3), ticks=[*zip(map(float, places), PERCENTILES.values(), strict=True)])
    panel = Panel(Axis("response time, ms", "log"))
    caption = "The store stalls for 1 s in every 5 s."
    show(Figure("loops", axis, [panel], traces, caption, width=760, height=360), "open-closed.png", 760)


def live_page(runs: Path) -> None:
    """Make the picture of the live page of a run in which a node joins."""
    shutil.rmtree(runs / "live", ignore_errors=True)
    options = ("--web", "--web-address", "0", "--output", str(runs / "live"))
    with subprocess.Popen(
        [LOADFRAME, "bench", "nyc_taxis/range_100", "--store", "sim", "--set", "documents=1000", "--set", "shards=4",
         "--clients", "8",
         "--warmup", "2s", "--duration", "60s", "--at", "15s=grow", *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        assert command.stderr is not None
        address = next(match[0] for line in command.stderr if (match := re.search(r"http://\S+", line)))
        time.sleep(45)
        photograph(address, "live-page.png", 1000, 860, wait=4)
        command.terminate()
        command.stderr.read()


def lab_reports(runs: Path) -> None:
    """Make the pictures of today's reports for lab/reports, from the finished runs `run` and `stores` in the folder."""
    for name, width in itertools.product(("run", "stores"), (1400, 400)):
        page = runs / f"{name}.html"
        subprocess.run([LOADFRAME, "report", runs / name, "--output", page], check=True, stdout=subprocess.DEVNULL)
        photograph(page.as_uri(), str(LAB / f"after-{name}-{width}.png"), width, 2600)


def architecture(_: Path) -> None:
    """Draw the way of the data."""
    boxes = (
        ("experiment file", "design, repetitions"),
        ("cluster", "start, limits, changes"),
        ("load", "Rust engine, ranks"),
        ("run folder", "histograms, series"),
        ("analysis", "fits, intervals, verdict"),
        ("report", "HTML, terminal, CI"),
    )
    width, height, gap, margin = 150, 64, 30, 10
    total = len(boxes) * width + (len(boxes) - 1) * gap + 2 * margin
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} 190" font-family="sans-serif" font-size="14"'
        ' role="img" aria-label="Data flows from the experiment file to the report">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#222222"/></marker></defs>',
    ]
    for number, (title, words) in enumerate(boxes):
        x = margin + number * (width + gap)
        middle = x + width / 2
        parts.append(f'<rect x="{x}" y="10" width="{width}" height="{height}" rx="6" fill="#eef3f8" stroke="#0072B2"/>')
        parts.append(f'<text x="{middle}" y="37" text-anchor="middle" font-weight="bold">{title}</text>')
        parts.append(f'<text x="{middle}" y="57" text-anchor="middle" font-size="12" fill="#555555">{words}</text>')
        if number:
            parts.append(_arrow(x - gap, 42, x, 42))
    load, store = margin + 2 * (width + gap), margin + width + gap
    parts += [
        f'<rect x="{store}" y="116" width="{2 * width + gap}" height="64" rx="6" fill="#fdf3ea" stroke="#D55E00"/>',
        f'<text x="{store + width + gap / 2}" y="143" text-anchor="middle" font-weight="bold">data store</text>',
        f'<text x="{store + width + gap / 2}" y="163" text-anchor="middle" font-size="12" fill="#555555">'
        "on this machine, in containers, by SSH or Slurm</text>",
        _arrow(store + width / 2, 74, store + width / 2, 116),
        _arrow(load + width / 2 - 12, 74, load + width / 2 - 12, 116),
        _arrow(load + width / 2 + 12, 116, load + width / 2 + 12, 74),
        "</svg>\n",
    ]
    (IMAGES / "architecture.svg").write_text("\n".join(parts))


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1} {y1} {x2} {y2}" stroke="#222222" stroke-width="1.5" marker-end="url(#tip)"/>'


MAKERS: dict[str, Callable[[Path], None]] = {
    "report": report,
    "speedup": speedup,
    "elastic": elastic,
    "open-closed": open_closed,
    "live-page": live_page,
    "architecture": architecture,
}
#: Pictures of finished runs, which `main` makes only by name.
ON_REQUEST: dict[str, Callable[[Path], None]] = {"lab-reports": lab_reports}


def experiment(runs: Path, name: str, text: str) -> Path:
    """Run an experiment, unless its report exists, and return its folder."""
    folder = runs / name
    if not (folder / "report.html").exists():
        file = runs / f"{name}.yaml"
        file.write_text(text)
        subprocess.run([LOADFRAME, "run", file, "--output", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def percentiles(runs: Path, name: str, words: Sequence[str]) -> dict[str, Any]:
    """Load the stalling store, unless the run exists, and return the percentiles of the response time."""
    folder = runs / name
    if not folder.exists():
        (runs / "stalls.yaml").write_text(STALLS)
        settings = [word for setting in STALLING for word in ("--set", setting)]
        subprocess.run([LOADFRAME, "cluster", "up", name, "--store", "sim", *settings], check=True)
        try:
            bench = [LOADFRAME, "bench", runs / "stalls.yaml", "--cluster", name, "--replace", "--output", folder]
            subprocess.run([*bench, *words], check=True, stdout=subprocess.DEVNULL)
        finally:
            subprocess.run([LOADFRAME, "cluster", "down", name, "--delete-data"], check=True)
    done = subprocess.run([LOADFRAME, "report", folder, "--json"], check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)["percentiles"]["read"]["read"]
    return measured


def show(figure: Figure | None, name: str, width: int) -> None:
    """Make the picture of a figure."""
    assert figure is not None
    drawn = draw(figure)
    # A drawing with many legend entries is higher than its figure.
    _, _, wide, high = map(float, drawn.partition('viewBox="')[2].partition('"')[0].split())
    height = 24 + round((width - 24) * high / wide)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><style>{_PLAIN}</style>{drawn}")
        photograph(page.as_uri(), name, width, height, scale=1.5)


def photograph(address: str, name: str, width: int, height: int, *, scale: float = 1.0, wait: float = 0) -> None:
    """Photograph an address with Chromium after `wait` seconds. `name`: in the images, or an absolute path."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            ["chromium", "--headless=new", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
             *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--force-device-scale-factor={scale}",
             f"--window-size={width},{height}", *([f"--timeout={1000 * wait:.0f}"] if wait else []),
             f"--screenshot={IMAGES / name}", address],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip


if __name__ == "__main__":
    main()
