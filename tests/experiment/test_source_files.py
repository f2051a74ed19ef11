"""Each source of a phase has its own dead-letter file in the run folder, and its own spill file."""

from loadframe.experiment.runner import source_files


def test_a_plan_says_where_dead_letters_go_and_the_outcome_which_files_there_are(tmp_path):
    plan = source_files.with_dead_letter_files(
        {"phase": "p", "sources": {"a": {"stdin": True}, "b": {"files": []}}}, tmp_path
    )
    assert plan["sources"]["a"] == {"stdin": True, "dead_letters": str(tmp_path / "dead-letters-p-a.ndjson")}
    (tmp_path / "dead-letters-p-b.ndjson").write_text("{}")
    sources = source_files.with_dead_letter_names(
        {"phase": "p", "sources": {"a": {"lines": 1}, "b": {"lines": 2}}}, tmp_path
    )
    assert sources == {"a": {"lines": 1}, "b": {"lines": 2, "kept": "dead-letters-p-b.ndjson"}}


def test_the_outcome_of_a_source_has_the_sizes_of_its_queue():
    sources = {"a": {"buffer": 9, "spill": 5}, "b": {"buffer": 8}}
    assert source_files.with_limits({"a": {"lines": 1}, "b": {"lines": 2}}, sources) == {
        "a": {"lines": 1, "buffer": 9, "spill": 5},
        "b": {"lines": 2, "buffer": 8, "spill": 0},
    }


def test_a_plan_without_sources_stays_as_it_is(tmp_path):
    assert source_files.with_dead_letter_files({"phase": "p"}, tmp_path) == {"phase": "p"}
    assert source_files.with_dead_letter_names({"phase": "p"}, tmp_path) == {}


def test_a_source_that_spills_does_so_beside_the_records_of_its_phase(tmp_path):
    plan = source_files.with_spill_folder({"phase": "p", "sources": {"a": {"spill": 5}, "b": {"files": []}}}, tmp_path)
    assert plan["sources"] == {"a": {"spill": 5, "spill_folder": str(tmp_path)}, "b": {"files": []}}
    assert source_files.with_spill_folder({"phase": "p"}, tmp_path) == {"phase": "p"}
