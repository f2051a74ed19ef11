"""The report on a settings experiment."""

from pathlib import Path

from loadframe.analyze.effects.document import settings_document
from loadframe.analyze.effects.settings import read_settings
from loadframe.report.kinds import Report
from loadframe.report.settings.page import settings_page
from loadframe.report.settings.terminal import print_settings


def read(path: Path) -> Report:
    """Return effects, ranking and confirmation of the experiment in that folder."""
    settings = read_settings(path)
    return Report(
        settings_page(settings), settings_document(settings), lambda console: print_settings(settings, console)
    )
