"""The run folder: written whole or not at all, and read back years later.

It knows how results are kept, not how they are made or judged.
"""

from loadframe.record.manifest import Manifest, file_record
from loadframe.record.reader import Recordings, Run
from loadframe.record.writer import RunWriter

__all__ = ["Manifest", "Recordings", "Run", "RunWriter", "file_record"]
