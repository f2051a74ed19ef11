"""Each source of a phase has a file of its own for dead letters, in the run folder."""

from loadframe.experiment import letters


def test_a_plan_says_where_dead_letters_go_and_the_outcome_which_files_there_are(tmp_path):
    plan = letters.told({"phase": "p", "sources": {"a": {"stdin": True}, "b": {"files": []}}}, tmp_path)
    assert plan["sources"]["a"] == {"stdin": True, "dead_letters": str(tmp_path / "dead-letters-p-a.ndjson")}
    (tmp_path / "dead-letters-p-b.ndjson").write_text("{}")
    sources = letters.kept({"phase": "p", "sources": {"a": {"lines": 1}, "b": {"lines": 2}}}, tmp_path)
    assert sources == {"a": {"lines": 1}, "b": {"lines": 2, "kept": "dead-letters-p-b.ndjson"}}


def test_a_plan_without_sources_stays_as_it_is(tmp_path):
    assert letters.told({"phase": "p"}, tmp_path) == {"phase": "p"}
    assert letters.kept({"phase": "p"}, tmp_path) == {}
