"""The report on a comparison: each variant against the first."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from loadframe.analyze.comparison import compare_variants
from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.experiment import read_experiment
from loadframe.report.comparison.page import comparison_page
from loadframe.report.comparison.terminal import print_comparison
from loadframe.report.further import further
from loadframe.report.kinds import Report
from loadframe.report.trust import print_trust


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return ratios, tests and doubts of the experiment in that folder."""
    folder = read_experiment(path)
    comparison = compare_variants(folder)
    document = {
        "experiment": folder.description["experiment"],
        "question": folder.description.get("question"),
        **excluded_document(folder),
        **comparison.as_dict(),
        "runs": [run.as_dict() for run in folder.runs],
    }
    more = further(folder, bands)

    def show(console: Console) -> None:
        print_comparison(comparison, console)
        more.print(console)
        print_trust(folder, console)

    page = comparison_page(comparison, folder.description, more.sections)
    return Report(page, document | more.document, show)
