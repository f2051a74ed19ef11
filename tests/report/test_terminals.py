"""Terminal output of fits and experiments."""

import io

from rich.console import Console

from loadframe.analyze.scalability import fit
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.report.fit import print_fit, sentence
from loadframe.report.kinds.scale import print_sweep
from simulated import write_experiment

USL = [(n, 100 * n / (1 + 0.05 * (n - 1) + 0.004 * n * (n - 1))) for n in (1, 2, 4, 8, 16, 32)]


def test_a_peak_is_reported_with_its_place_and_causes():
    words = sentence(fit(USL, over="nodes"), "requests/s")
    assert words.startswith("Throughput peaks at 15.41 [15.41, 15.41] nodes, with 590.7")
    assert "contention 5.000 %" in words
    assert "coherency 0.4000 %" in words


def test_each_model_has_its_sentence():
    curves = {
        "grows linearly from 1 to 32 nodes": lambda n: 100 * n,
        "by Amdahl's law": lambda n: 100 * n / (1 + 0.05 * (n - 1)),
        "hard ceiling of 650": lambda n: min(100 * n, 650),
        "the peak is too far beyond the measurements to be located": lambda n: (
            100 * n / (1 + 0.01 * (n - 1) + 0.0001 * n * (n - 1))
        ),
    }
    for words, curve in curves.items():
        assert words in sentence(fit([(n, curve(n)) for n in (1, 2, 4, 8, 16, 32)], over="nodes"))


def test_statements_about_a_peak_are_supported_by_the_data():
    holds = [(n, min(100 * n, 620) * e) for n in (1, 2, 4, 8, 16, 32) for e in (0.99, 1, 1.01)]
    assert "no peak up to 32 nodes" in sentence(fit(holds, over="nodes"))
    falls = [(1, 100), (2, 200), (4, 380), (8, 620), (16, 600), (32, 560)]
    assert "inconclusive whether throughput falls beyond it: it changes by" in sentence(fit(falls, over="nodes"))
    alike = [(1, 100), (2, 195), (4, 350), (8, 570), (16, 600), (32, 540)]
    assert "a peak is inconclusive: the USL has one at 1" in sentence(fit(alike, over="nodes"))
    short = [(n, x) for n, x in USL if n <= 8] + [(12, 576.0)]
    assert "is expected to peak at 1" in sentence(fit(short, over="nodes"))
    assert "beyond the measured 12" in sentence(fit(short, over="nodes"))


def test_a_fit_prints_its_models_and_its_doubts():
    console = Console(file=io.StringIO(), width=90)
    print_fit(console, fit(USL[:5], over="nodes"))
    text = console.file.getvalue()
    assert "→ " in text
    assert "! only 5 different numbers of nodes were measured" in text
    assert "measure at 6 or more" in text


def test_an_experiment_prints_its_answer_speed_ups_and_exclusions(tmp_path):
    path = write_experiment(tmp_path / "e", clients=(4, 8, 16), failed=["b1-nodes1-clients4"])
    console = Console(file=io.StringIO(), width=90)
    print_sweep(read_sweep(path), console)
    text = console.file.getvalue()
    assert "Throughput grew from" in text
    assert "speed-up" in text
    assert "3 nodes: " in text
    assert "17 of 18 runs are used; left out: 1 failed." in text
    assert "! 1 run: b1-nodes1-clients4" in text
    assert "node 1 did not come up within 120 s" in text
