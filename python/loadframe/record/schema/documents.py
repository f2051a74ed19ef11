"""The keys of manifest.json, summary.json and of each line of events.jsonl."""

from loadframe.record.schema.field import Field
from loadframe.record.schema.manifest import Manifest
from loadframe.record.schema.model import documented
from loadframe.record.schema.summary import Summary

EVENTS = (
    Field("time", "number", "s", "since the run began"),
    Field("wall", "string", "ISO 8601, UTC", "the same instant on the wall clock"),
    Field("kind", "string", "", "what happened, such as `phase started`, `gap`"),
    Field("**", "any", "", "what belongs to the kind"),
)

MANIFEST = documented(Manifest)
SUMMARY = documented(Summary)
