"""Detection of answers that wait for delayed acknowledgements."""

import io

import pytest
from rich.console import Console

from loadframe.analyze.delayed import delayed_of, looks_delayed
from loadframe.report.run.document import run_document
from loadframe.report.run.page import run_page
from loadframe.report.run.terminal import print_run
from simulated import Truth, write_run


@pytest.mark.parametrize(
    ("quantiles", "cpu", "expected"),
    [
        ((0.0434, 0.0452, 0.0490), 0.00024, True),
        ((0.0810, 0.0870, 0.0930), None, True),
        ((0.2000, 0.2040, 0.2100), 0.001, True),
        ((0.0434, 0.0452, 0.0490), 0.030, False),
        ((0.0200, 0.0452, 0.0900), 0.00024, False),
        ((0.0590, 0.0600, 0.0620), 0.00024, False),
        ((0.0003, 0.0006, 0.0048), 0.00032, False),
    ],
)
def test_the_pattern_is_a_narrow_band_at_the_delay_of_an_idle_service(quantiles, cpu, expected):
    assert looks_delayed(quantiles, cpu) is expected


def constant(seconds, **changed):
    """Return a cluster that answers each of 8 clients after `seconds`."""
    shape = {"sigma": 0.0, "kappa": 0.0, "node_sigma": 0.0, "noise": 0.0, "spread": 0.02, "node_cpu": 0.05}
    return Truth(lam=1 / seconds, **{**shape, **changed})


@pytest.mark.parametrize(
    ("truth", "shown"),
    [
        (constant(0.044), True),
        (constant(0.044, spread=0.5), False),
        (constant(0.044, node_cpu=4.0), False),
        (constant(0.06), False),
    ],
)
def test_the_reports_of_a_run_hint_at_it(tmp_path, truth, shown):
    run = write_run(tmp_path, "r", truth)
    (phase,) = run.summary.phases
    console = Console(file=io.StringIO(), width=300)
    print_run(run, console)
    texts = (run_page(run), console.file.getvalue())
    assert ["typical of delayed acknowledgements" in text for text in texts] == [shown, shown]
    assert ("delayed" in run_document(run)) is shown
    hint = delayed_of(run, phase)
    assert (hint.operations if hint else None) == (("range_100",) if shown else None)
