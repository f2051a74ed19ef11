"""Run folders: writing, which is atomic, reading, and their schema."""

from typing import TYPE_CHECKING

from loadframe.record.machine import ManifestDraft, file_record
from loadframe.record.reader import Recordings, Run
from loadframe.record.schema.manifest import Manifest
from loadframe.record.schema.summary import Summary
from loadframe.record.writer import RunWriter, Subscriber

if TYPE_CHECKING:
    # Types of a run's histograms, for modules that must not import the engine.
    from loadframe._engine import Histogram as Histogram
    from loadframe._engine import HistogramLog as HistogramLog

__all__ = ["Manifest", "ManifestDraft", "Recordings", "Run", "RunWriter", "Subscriber", "Summary", "file_record"]
