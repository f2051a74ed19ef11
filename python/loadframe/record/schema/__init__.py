"""Schema of run folders: all columns and keys, with types, units and descriptions.

`python -m docs.generate` writes it to docs/reference/run-folder.md. The writer takes its columns from it, and
`undocumented` finds keys that it lacks.
"""

from loadframe.record.schema.columns import (
    ERROR_CLASSES,
    GENERATOR,
    HOST,
    METRICS,
    NODES,
    OWN_GROUP,
    SAMPLES,
    SERIES,
    SERIES_LATER,
    SERIES_RECORDED,
    TARGETS,
    TELEMETRY,
    TELEMETRY_LATER,
    WORKERS,
)
from loadframe.record.schema.manifest import FORMAT, Manifest
from loadframe.record.schema.model import Field, documented, undocumented
from loadframe.record.schema.summary import Summary

EVENTS = (
    Field("time", "number", "s", "since the run began"),
    Field("wall", "string", "ISO 8601, UTC", "the time by the wall clock"),
    Field("kind", "string", "", "kind of event, such as `phase started`, `gap`"),
    Field("**", "any", "", "further keys of the kind"),
)

MANIFEST = documented(Manifest)
SUMMARY = documented(Summary)

MANIFEST_FILE = "manifest.json"
SUMMARY_FILE = "summary.json"
SERIES_FILE = "series.parquet"
TELEMETRY_FILE = "telemetry.parquet"
EVENTS_FILE = "events.jsonl"
HISTOGRAMS_FILE = "histograms.hlog"
#: Only in runs with `samples`.
SAMPLES_FILE = "samples.parquet"
MEMBERS = (MANIFEST_FILE, SUMMARY_FILE, SERIES_FILE, TELEMETRY_FILE, EVENTS_FILE, HISTOGRAMS_FILE)

__all__ = [
    "ERROR_CLASSES",
    "EVENTS",
    "EVENTS_FILE",
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
    "TARGETS",
    "TELEMETRY",
    "TELEMETRY_FILE",
    "TELEMETRY_LATER",
    "WORKERS",
    "Field",
    "undocumented",
]
