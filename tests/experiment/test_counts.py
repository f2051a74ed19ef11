"""Expected number of documents in a collection, from acknowledged writes, and the cases without one."""

import pytest

from loadframe.analyze.verdict.rules import documents_lost
from loadframe.experiment.runner.document_counts import AcknowledgedDocuments, unanswered_documents
from loadframe.workload.collection_use import may_change_number

BULK = {"collection": "c", "corpus": "c", "size": 10}


GENERATING = {"new_ids": True, "blind_writes": False}
NUMBERING = {"new_ids": False, "blind_writes": False}
BLIND = {"new_ids": False, "blind_writes": True}


@pytest.fixture
def counts(request) -> AcknowledgedDocuments:
    counts = AcknowledgedDocuments(**getattr(request, "param", GENERATING), uncountable=["capped"])
    counts.created("c")
    return counts


def test_documents_without_ids_add_up_over_phases(counts):
    assert counts.add({"bulk": BULK}, 100) == "c"
    counts.add({"index": {"collection": "c", "document": {}}}, 5)
    counts.add({"bulk": {**BULK, "action": "create", "id": "key"}}, 20)
    assert counts.difference("c", 125) is None
    assert counts.difference("c", 124) == "c holds 124 documents, but 125 were acknowledged"


def test_a_store_that_removes_documents_has_no_expected_number(counts):
    counts.created("capped")
    assert counts.add({"bulk": BULK | {"collection": "capped"}}, 100) == "capped"
    assert counts.difference("capped", 7) is None
    assert counts.held is None


def test_writes_without_acknowledgement_are_not_lost(counts):
    counts.add({"bulk": BULK, "write_concern": "unacknowledged"}, 100)
    assert counts.difference("c", 100) is None
    missing = counts.difference("c", 99)
    assert missing == "c holds 99 documents, but 100 were written without acknowledgement"
    assert documents_lost(missing) is None
    counts.created("c")
    counts.add({"bulk": BULK}, 100)
    assert documents_lost(counts.difference("c", 99)) is not None


def test_requests_without_an_answer_may_have_been_carried_out(counts):
    errors = [{"class": "timeout", "count": 2}, {"class": "rejected", "count": 5}]
    outcome = {"requests": 17, "successes": 10, "warmup": {"requests": 4, "successes": 3}, "errors": errors}
    outcome |= {"in_flight_at_end": 1, "retries": 0}
    assert unanswered_documents({"bulk": BULK}, outcome) == 40
    assert unanswered_documents({"insert": {"collection": "c", "document": {}}}, outcome) == 4
    # All answers are known, also those before retries.
    answered = outcome | {"errors": errors[1:], "retries": 100, "in_flight_at_end": 0}
    assert unanswered_documents({"bulk": BULK | {"action": "delete"}}, answered) == 0
    # An attempt without an answer before a retry, in the warm-up alone.
    late = outcome | {
        "requests": 10,
        "warmup": {"requests": 4, "successes": 4},
        "errors": [{"class": "timeout", "count": 0}],
    }
    assert unanswered_documents({"bulk": BULK}, late | {"in_flight_at_end": 0}, 3) == 30
    # A bulk in which some items had an answer.
    partly = outcome | {"errors": [{"class": "item", "count": 1}, {"class": "rejected", "count": 7}]}
    assert unanswered_documents({"bulk": BULK}, partly) == 20
    counts.add({"bulk": BULK}, 100, unanswered=40)
    assert [counts.difference("c", stored) for stored in (100, 117, 140)] == [None, None, None]
    assert counts.difference("c", 141) == "c holds 141 documents, but 100 were acknowledged"
    assert documents_lost(counts.difference("c", 99)) is not None
    counts.add({"delete": {"collection": "c", "id": "${id}"}}, 10, unanswered=3)
    assert counts.difference("c", 87) is None
    assert counts.difference("c", 86) == "c holds 86 documents, but 90 were acknowledged"
    counts.created("c")
    assert counts.difference("c", 1) is not None


def test_evictions_explain_as_many_missing_documents(counts):
    counts.add({"bulk": BULK}, 100)
    evicted = counts.difference("c", 90, evicted=10)
    assert evicted == "c holds 90 documents, but 100 were acknowledged: the store evicted documents for lack of memory"
    assert documents_lost(evicted) is None
    assert documents_lost(counts.difference("c", 90, evicted=9)) is not None
    assert counts.difference("c", 101, evicted=10) == "c holds 101 documents, but 100 were acknowledged"


def test_an_eviction_explains_a_document_of_one_collection(counts):
    counts.created("d")
    counts.add({"bulk": BULK}, 100)
    counts.add({"bulk": BULK | {"collection": "d"}}, 100)
    assert documents_lost(counts.difference("c", 90, evicted=15)) is None
    assert documents_lost(counts.difference("d", 94, evicted=15)) is not None
    assert documents_lost(counts.difference("d", 95, evicted=15)) is None
    assert documents_lost(counts.difference("c", 90, evicted=15)) is None


def test_acknowledged_documents_are_lost_despite_writes_without_acknowledgement(counts):
    counts.add({"bulk": BULK}, 100)
    counts.add({"delete": {"collection": "c", "id": "${id}"}, "write_concern": "unacknowledged"}, 10)
    assert counts.difference("c", 95) == "c holds 95 documents, but 90 were written without acknowledgement"
    assert counts.difference("c", 89) == "c holds 89 documents, but 90 were acknowledged"
    counts.add({"bulk": BULK, "write_concern": "unacknowledged"}, 20)
    assert counts.difference("c", 90) == "c holds 90 documents, but 110 were written without acknowledgement"
    assert documents_lost(counts.difference("c", 89)) is not None


@pytest.mark.parametrize("counts", [NUMBERING, BLIND], indirect=True)
def test_a_second_load_without_ids_can_replace_the_first(counts):
    counts.add({"bulk": BULK}, 100)
    assert counts.difference("c", 99) is not None
    counts.add({"bulk": BULK}, 100)
    assert counts.difference("c", 100) is None
    assert counts.held is None


@pytest.mark.parametrize("counts", [BLIND], indirect=True)
@pytest.mark.parametrize("kind", ["insert", "delete", "update"])
def test_blind_writes_may_meet_missing_and_existing_documents(counts, kind):
    counts.add({"bulk": BULK}, 100)
    counts.add({kind: {"collection": "c", "id": "${id}", "document": {}}}, 40)
    assert counts.difference("c", 7) is None


def test_documents_of_another_target_are_left_out(counts):
    assert counts.add({"bulk": BULK, "target": "other"}, 100) is None
    assert counts.held == 0


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        ({"request": {"method": "POST", "path": "/c/_delete_by_query"}}, True),
        ({"request": {"method": "GET", "path": "/c/_count"}}, False),
        ({"sql": {"statement": "DELETE FROM c"}}, True),
        ({"command": ["DEL", "c:1"]}, True),
        ({"command": ["GET", "c:1"]}, False),
        ({"force_merge": {"collection": "c"}}, False),
        ({"snapshot": {"repository": "r", "snapshot": "s"}}, False),
        ({"delete_template": {"name": "t"}}, False),
        ({"read_modify_write": {"collection": "c", "id": "1", "document": {}}}, False),
    ],
)
def test_some_requests_may_change_the_number_of_documents(form, changes):
    assert may_change_number(form) == changes


def test_a_first_load_with_ids_is_compared_and_a_second_cannot_be(counts):
    counts.add({"bulk": {**BULK, "id": "key"}}, 100)
    assert counts.difference("c", 99) is not None
    counts.add({"bulk": {**BULK, "id": "key"}}, 100)
    assert counts.difference("c", 100) is None
    assert counts.difference("c", 200) is None


@pytest.mark.parametrize(
    ("form", "counted"),
    [
        ({"bulk": {**BULK, "action": "update", "id": "key"}}, 100),
        ({"bulk": {**BULK, "action": "delete", "id": "key"}}, 60),
        ({"delete": {"collection": "c", "id": "${id}"}}, 60),
        ({"update": {"collection": "c", "id": "${id}", "document": {}}}, 100),
        ({"insert": {"collection": "c", "id": "${id}", "document": {}}}, 140),
    ],
)
def test_effects_of_updates_and_deletes_are_known(counts, form, counted):
    counts.add({"bulk": BULK}, 100)
    assert counts.add(form, 40) == "c"
    assert counts.difference("c", counted) is None
    assert counts.difference("c", counted + 1) is not None


@pytest.mark.parametrize("corpus", [{"actions": True}, {"encrypted": {"of": {"actions": True}}}])
def test_action_lines_may_repeat_an_id_and_only_the_store_can_count(counts, corpus):
    corpora = {"c": {"files": [], **corpus}}
    assert not counts.gains({"b": {"bulk": BULK}}, corpora)["b"]["sure"]
    counts.add({"bulk": {**BULK, "action": "create"}}, 4, corpora)
    assert counts.difference("c", 3) is not None
    counts.add({"bulk": BULK}, 6, corpora)
    assert counts.difference("c", 7) is None


@pytest.mark.parametrize("kind", ["index", "upsert"])
def test_possibly_existing_documents_can_only_be_counted_by_the_store(counts, kind):
    counts.add({"bulk": BULK}, 100)
    counts.add({kind: {"collection": "c", "id": "${id}", "document": {}}}, 40)
    assert counts.difference("c", 7) is None


def test_counts_ignore_other_operations_and_collections(counts):
    assert counts.add({"search": {"collection": "c"}}, 100) is None
    assert counts.add({"bulk": {**BULK, "collection": "theirs"}}, 100) is None
    assert counts.difference("theirs", 3) is None
    assert counts.difference("c", 0) is None


def test_documents_that_meet_others_with_their_id_only_the_store_can_count(counts):
    counts.created("trips")
    counts.add({"bulk": {"collection": "trips", "corpus": "c", "size": 5, "conflicts": "random"}}, 300)
    assert counts.difference("trips", 115) is None


@pytest.mark.parametrize(
    ("form", "gain"),
    [
        ({"insert": {"collection": "c", "id": "${id}", "document": {}}}, (1, "documents", True)),
        ({"delete": {"collection": "c", "id": "${id}"}}, (-1, "documents", True)),
        ({"upsert": {"collection": "c", "id": "${id}", "document": {}}}, (1, "documents", False)),
        ({"upsert": {"collection": "c", "id": "${id}", "document": {}}, "new_documents": 1}, (1, "successes", True)),
        ({"bulk": {**BULK, "id": "key"}}, (1, "documents", True)),
        ({"bulk": {**BULK, "id": "key"}, "new_documents": 0.5}, (0.5, "documents", True)),
        ({"request": {"method": "POST", "path": "/c/_doc"}, "new_documents": 2}, (2, "successes", True)),
    ],
)
def test_what_an_operation_adds_follows_from_its_form_or_is_said(counts, form, gain):
    amount, by, sure = gain
    assert counts.gains({"o": form}) == {"o": {"amount": amount, "by": by, "sure": sure}}


def test_operations_that_add_nothing_are_left_out_and_ids_that_were_loaded_may_be_there(counts):
    update = {"update": {"collection": "c", "id": "${id}", "document": {}}}
    none = {"index": {"collection": "c", "id": "${id}", "document": {}}, "new_documents": 0}
    assert counts.gains({"u": update, "r": {"read": {"collection": "c", "id": "1"}}, "n": none}) == {}
    assert counts.held == 0
    counts.add({"bulk": BULK}, 100)
    assert counts.held == 100
    assert not counts.gains({"o": {"bulk": {**BULK, "id": "key"}}})["o"]["sure"]
    counts.add({"bulk": {**BULK, "id": "key"}}, 100)
    assert counts.held is None


def test_growth_is_unknown_beside_removals_and_uncertain_without_acknowledgement(counts):
    capped, command = {"bulk": BULK | {"collection": "capped"}}, {"command": {"insert": "c", "documents": []}}
    assert counts.gains({"b": {"bulk": BULK}, "o": capped}) == {}
    assert counts.gains({"b": {"bulk": BULK}, "o": command}) == {}
    assert counts.gains({"b": {"bulk": BULK}, "o": command | {"new_documents": 0}}).keys() == {"b"}
    assert counts.gains({"b": {"bulk": BULK}, "o": {"command": {"find": "c"}}})["b"]["sure"]
    assert not counts.gains({"b": {"bulk": BULK, "write_concern": "unacknowledged"}})["b"]["sure"]


@pytest.mark.parametrize("counts", [BLIND], indirect=True)
def test_blind_writes_have_no_certain_gain(counts):
    insert = {"insert": {"collection": "c", "id": "${id}", "document": {}}}
    update = {"update": {"collection": "c", "id": "${id}", "document": {}}}
    delete = {"delete": {"collection": "c", "id": "${id}"}}
    assert counts.gains({"b": {"bulk": BULK}})["b"]["sure"]
    assert counts.gains({"i": insert}) == {"i": {"amount": 1, "by": "documents", "sure": False}}
    assert counts.gains({"u": update}) == {"u": {"amount": 0, "by": "documents", "sure": False}}
    assert counts.gains({"i": insert, "d": delete}) == {}
    assert counts.gains({"b": {"bulk": BULK}, "d": {"bulk": {**BULK, "action": "delete", "id": "key"}}}) == {}


def test_writes_to_another_target_or_to_derived_collections_are_no_certain_gain(counts):
    assert counts.gains({"o": {"bulk": BULK, "target": "other"}}) == {}
    assert not counts.gains({"o": {"bulk": {**BULK, "id": "key", "per": "day"}}})["o"]["sure"]
