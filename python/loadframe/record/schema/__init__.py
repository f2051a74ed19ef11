"""What a run folder holds: every column and key once, with its unit.

These tables are the documentation: `python -m loadframe.record.schema` prints them as docs/run-folder.md, the
writer takes its columns from them, and `undocumented` finds keys that they lack.
"""

from loadframe.record.schema.event_kinds import EVENT_KINDS
from loadframe.record.schema.manifest import FORMAT, Manifest
from loadframe.record.schema.model import Field, documented, undocumented
from loadframe.record.schema.series import ERROR_CLASSES, SAMPLES, SERIES, SERIES_LATER, SERIES_RECORDED
from loadframe.record.schema.summary import Summary
from loadframe.record.schema.telemetry import (
    GENERATOR,
    HOST,
    METRICS,
    NODES,
    OWN_GROUP,
    TELEMETRY,
    TELEMETRY_LATER,
    WORKERS,
)

EVENTS = (
    Field("time", "number", "s", "since the run began"),
    Field("wall", "string", "ISO 8601, UTC", "the same instant on the wall clock"),
    Field("kind", "string", "", "what happened, such as `phase started`, `gap`"),
    Field("**", "any", "", "what belongs to the kind"),
)

MANIFEST = documented(Manifest)
SUMMARY = documented(Summary)

MANIFEST_FILE = "manifest.json"
SUMMARY_FILE = "summary.json"
SERIES_FILE = "series.parquet"
TELEMETRY_FILE = "telemetry.parquet"
EVENTS_FILE = "events.jsonl"
HISTOGRAMS_FILE = "histograms.hlog"
#: Of a run whose requests were recorded one by one.
SAMPLES_FILE = "samples.parquet"
MEMBERS = (MANIFEST_FILE, SUMMARY_FILE, SERIES_FILE, TELEMETRY_FILE, EVENTS_FILE, HISTOGRAMS_FILE)

__all__ = [
    "ERROR_CLASSES",
    "EVENTS",
    "EVENTS_FILE",
    "EVENT_KINDS",
    "FORMAT",
    "GENERATOR",
    "HISTOGRAMS_FILE",
    "HOST",
    "MANIFEST",
    "MANIFEST_FILE",
    "MEMBERS",
    "METRICS",
    "NODES",
    "OWN_GROUP",
    "SAMPLES",
    "SAMPLES_FILE",
    "SERIES",
    "SERIES_FILE",
    "SERIES_LATER",
    "SERIES_RECORDED",
    "SUMMARY",
    "SUMMARY_FILE",
    "TELEMETRY",
    "TELEMETRY_FILE",
    "TELEMETRY_LATER",
    "WORKERS",
    "Field",
    "undocumented",
]
