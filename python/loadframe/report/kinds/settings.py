"""The report on a settings experiment."""

from collections.abc import Sequence
from pathlib import Path

from loadframe.analyze.effects.document import settings_document
from loadframe.analyze.effects.settings import read_settings
from loadframe.report.further import further
from loadframe.report.kinds import Report
from loadframe.report.settings.page import settings_page
from loadframe.report.settings.terminal import print_settings


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return effects, ranking and confirmation of the experiment in that folder."""
    settings = read_settings(path)
    more = further(settings.folder, bands)
    return Report(
        settings_page(settings, more.sections, more.curves),
        settings_document(settings) | more.document,
        lambda console: print_settings(settings, console, more),
    )
