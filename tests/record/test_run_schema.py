"""The schema of run folders covers the content of runs."""

from recordings import manifest, summary, write_phase

from loadframe.base import event_kinds
from loadframe.record import Run, RunWriter, schema
from loadframe.record.reader import SERIES_SCHEMA, TELEMETRY_SCHEMA
from loadframe.record.schema import Field, undocumented


def test_a_run_holds_nothing_undocumented(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        write_phase(writer.phase("range", 0.5), 2)
        writer.event("gap", source="node:0", cause="timeout")
        entry = {"name": "a", "bytes": 1, "sha256": "00"}
        writer.finish(manifest(files=[entry]).as_dict(), summary())
    run = Run(tmp_path / "r1")
    assert undocumented(run.raw_manifest, schema.MANIFEST) == []
    assert undocumented(run.raw_summary, schema.SUMMARY) == []
    assert [undocumented(event, schema.EVENTS) for event in run.events] == [[]]
    assert run.series.schema.names == SERIES_SCHEMA.names
    assert run.telemetry.schema.names == TELEMETRY_SCHEMA.names
    generator = {row["metric"] for row in run.telemetry.to_pylist() if row["source"] == "generator:0"}
    assert generator == {field.name for field in schema.GENERATOR}


def test_every_documented_key_is_in_a_run(tmp_path):
    """Every key in the documentation must be in a run; only the failure's text is missing in good runs."""
    entry = {"name": "a", "bytes": 1, "sha256": "00"}
    holds = {
        "manifest": (manifest(files=[entry]).as_dict(), schema.MANIFEST),
        "summary": (summary(failure="no disk", fault="unknown"), schema.SUMMARY),
    }
    for name, (value, fields) in holds.items():
        for field in fields:
            others = [other for other in fields if other is not field]
            assert undocumented(value, others), f"{name}: nothing holds {field.name}"


def test_every_field_has_one_non_empty_description():
    tables = [
        schema.MANIFEST,
        schema.SUMMARY,
        schema.SERIES,
        schema.TELEMETRY,
        schema.EVENTS,
        schema.SAMPLES,
        *schema.METRICS.values(),
    ]
    for fields in tables:
        names = [field.name for field in fields]
        assert len(names) == len(set(names))
        assert all(field.says and field.type for field in fields)


def test_every_kind_of_event_has_a_meaning():
    kinds = [value for name, value in vars(event_kinds).items() if name.isupper() and isinstance(value, str)]
    assert sorted(kinds) == sorted(event_kinds.MEANINGS)


def test_undocumented_finds_uncovered_keys():
    fields = [Field(name, "", "", "") for name in ("a", "b.NAME", "c[].x", "d.**")]
    assert undocumented({"a": 1, "b": {"any": 2}, "c": [{"x": 3}], "d": {"e": [{"f": 4}]}}, fields) == []
    assert undocumented({"a": {"z": 1}}, fields) == ["a.z"]
    assert undocumented({"b": {"any": {"deep": 2}}}, fields) == ["b.any.deep"]
    assert undocumented({"c": [{"x": 3}, {"y": 3}]}, fields) == ["c.[].y"]
    assert undocumented({"c": [], "d": {}, "e": 1}, fields) == ["e"]
