"""The report on a comparison: each variant against the first."""

from pathlib import Path

from loadframe.analyze.comparison import compare_variants
from loadframe.analyze.experiment import read_experiment
from loadframe.report.comparison_page import comparison_page
from loadframe.report.comparison_terminal import print_comparison
from loadframe.report.kinds import Report


def read(path: Path) -> Report:
    """Return ratios, tests and doubts of the experiment in that folder."""
    folder = read_experiment(path)
    comparison = compare_variants(folder)
    document = {
        "experiment": folder.description["experiment"],
        "question": folder.description.get("question"),
        **comparison.as_dict(),
        "runs": [run.as_dict() for run in folder.runs],
    }
    page = comparison_page(comparison, folder.description)
    return Report(page, document, lambda console: print_comparison(comparison, console))
