"""The run folder: written whole or not at all, and read back years later.

It knows how results are kept, not how they are made or judged.
"""

from typing import TYPE_CHECKING

from loadframe.record.draft import ManifestDraft, file_record
from loadframe.record.reader import Recordings, Run
from loadframe.record.schema.manifest import Manifest
from loadframe.record.schema.summary import Summary
from loadframe.record.subscriber import Subscriber
from loadframe.record.writer import RunWriter

if TYPE_CHECKING:
    # The types of a run's histograms, for those that may not import the engine.
    from loadframe._engine import Histogram as Histogram
    from loadframe._engine import HistogramLog as HistogramLog

__all__ = ["Manifest", "ManifestDraft", "Recordings", "Run", "RunWriter", "Subscriber", "Summary", "file_record"]
