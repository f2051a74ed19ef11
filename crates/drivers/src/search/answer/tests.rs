//! Judgement of recorded answers.

use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::{Captured, Variables};
use serde_json::json;

use super::*;

const SEARCH: Judge = Judge::Search;

/// Judges an answer to a request that carried `sent` documents. Returns the number of documents, and class and message
/// of the failure.
fn judged(judge: Judge, status: u16, body: &Value, sent: u64) -> (u64, Option<(ErrorClass, String)>) {
    let verdict = judge.judge(status, body.to_string().as_bytes(), sent);
    let failure = verdict.outcome.err().map(|failure| (failure.class, failure.message));
    (verdict.documents, failure)
}

/// The judgement of a search's answer with an assertion.
fn asserted(form: Value, body: &Value) -> (u64, Option<(ErrorClass, String)>) {
    let (variables, draw) = (Variables::default(), Draw::new(1, 2, 3));
    let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
    let body = body.to_string();
    let mut verdict = SEARCH.judge(200, body.as_bytes(), 0);
    verdict.assert(SEARCH, &Assertion::map(&form, &variables).unwrap(), &values, body.as_bytes());
    let failure = verdict.outcome.err().map(|failure| (failure.class, failure.message));
    (verdict.documents, failure)
}

/// Returns the answer to a search with `count` returned hits of 1234 found ones.
fn hits(count: usize) -> Value {
    let hit = json!({"_id": "1", "_source": {"text": "\"hits\":[{\"_id\":{}}]", "inner": [{"_id": 1}, {}]}});
    json!({
        "took": 3, "timed_out": false, "_shards": {"total": 2, "successful": 2, "skipped": 0, "failed": 0},
        "hits": {"total": {"value": 1234, "relation": "eq"}, "max_score": null, "hits": vec![hit; count]},
    })
}

#[test]
fn a_search_counts_the_hits_that_it_returned() {
    for count in [0, 1, 2, 100] {
        assert_eq!(judged(SEARCH, 200, &hits(count), 0), (count as u64, None));
    }
}

#[test]
fn a_search_that_ran_out_of_time_or_shards_is_no_success() {
    let mut late = hits(2);
    late["timed_out"] = json!(true);
    let (documents, failure) = judged(SEARCH, 200, &late, 0);
    assert_eq!((documents, failure.unwrap().0), (2, ErrorClass::Timeout));

    let mut partial = hits(2);
    let why = json!({"type": "query_shard_exception", "reason": "no mapping"});
    partial["_shards"] = json!({"total": 2, "failed": 1, "failures": [{"shard": 0, "reason": why}]});
    let (_, failure) = judged(SEARCH, 200, &partial, 0);
    let expected = "1 shards failed: query_shard_exception: no mapping".to_owned();
    assert_eq!(failure, Some((ErrorClass::Server, expected)));

    // A store without a copy of a shard does not call the shard failed.
    let shards = json!({"total": 3, "successful": 2, "skipped": 0, "failed": 0});
    partial["_shards"] = shards.clone();
    let count = json!({"count": 7, "_shards": shards});
    let buckets = json!({"aggregations": {"all": {"buckets": [{}]}}, "_shards": shards});
    for (judge, answer) in [(SEARCH, partial), (Judge::Count, count), (Judge::Aggregation, buckets)] {
        let expected = "1 of 3 shards have no available copy".to_owned();
        assert_eq!(judged(judge, 200, &answer, 0).1, Some((ErrorClass::Server, expected)), "{judge:?}");
    }
}

#[test]
fn assertions_count_found_hits_or_else_returned_ones() {
    assert_eq!(asserted(json!({"min_hits": 1234}), &hits(10)), (10, None));
    assert_eq!(asserted(json!({"hits": 1234}), &hits(10)), (10, None));
    let expected = "1234 hits, fewer than the 1235 that are asserted".to_owned();
    assert_eq!(asserted(json!({"min_hits": 1235}), &hits(10)), (10, Some((ErrorClass::Assertion, expected))));

    let mut cut_off = hits(10);
    cut_off["hits"]["total"] = json!({"value": 10000, "relation": "gte"});
    let (_, message) = asserted(json!({"min_hits": 20_000}), &cut_off).1.unwrap();
    assert!(message.ends_with("the store counted no further, track_total_hits makes it"), "{message}");

    let mut untold = hits(10);
    untold["hits"].as_object_mut().unwrap().remove("total");
    assert_eq!(asserted(json!({"min_hits": 10}), &untold).1, None);
    assert_eq!(asserted(json!({"min_hits": 11}), &untold).1.unwrap().0, ErrorClass::Assertion);
    let old = json!({"hits": {"total": 5, "hits": []}});
    assert_eq!(asserted(json!({"min_hits": 5}), &old).1, None);
    let uncounted = json!({"hits": {"total": -1, "hits": [{}, {}]}});
    assert_eq!(asserted(json!({"hits": 2}), &uncounted).1, None);
}

#[test]
fn field_assertions_apply_to_the_first_hit() {
    let mut answer = hits(2);
    answer["hits"]["hits"][0]["_source"] = json!({"a": {"b": 5}});
    assert_eq!(asserted(json!({"fields": {"a.b": 5}}), &answer).1, None);
    let (class, message) = asserted(json!({"fields": {"a.b": 6}}), &answer).1.unwrap();
    assert_eq!((class, message.as_str()), (ErrorClass::Assertion, "the field \"a.b\" is 5, and not 6"));
    let (_, message) = asserted(json!({"fields": {"a.b": 6}}), &hits(0)).1.unwrap();
    assert!(message.starts_with("cannot check field \"a.b\""), "{message}");
}

/// Checks that an answer with status 200 but of another form is a failure of the server.
#[test]
fn a_success_that_is_no_answer_to_the_question_is_none() {
    for body in [json!({}), json!([]), json!("ok"), json!({"hits": 3}), json!({"hits": {"total": 3}})] {
        assert_eq!(judged(SEARCH, 200, &body, 0).1.unwrap().0, ErrorClass::Server, "{body}");
    }
    let html = SEARCH.judge(200, b"<html>\r\n welcome</html>", 0).outcome.unwrap_err();
    assert_eq!(html.message, "HTTP 200, but not the answer that was expected: <html> welcome</html>");
    assert_eq!(judged(Judge::Bulk, 200, &json!({"took": 3}), 5).1.unwrap().0, ErrorClass::Server);
    assert_eq!(judged(Judge::Searches, 200, &json!({"responses": []}), 0).1.unwrap().0, ErrorClass::Server);
}

#[test]
fn statuses_have_their_classes() {
    for (status, class) in [
        (301, ErrorClass::Client),
        (400, ErrorClass::Client),
        (404, ErrorClass::Client),
        (408, ErrorClass::Timeout),
        (429, ErrorClass::Rejected),
        (500, ErrorClass::Server),
        (503, ErrorClass::Server),
        (504, ErrorClass::Timeout),
    ] {
        let verdict = Judge::Status { documents: 1 }.judge(status, b"no", 0);
        let failure = verdict.outcome.unwrap_err();
        assert_eq!((failure.class, failure.message), (class, format!("HTTP {status}: no")));
    }
    assert!(Judge::Status { documents: 1 }.judge(201, b"", 0).outcome.is_ok());
}

#[test]
fn messages_contain_the_stores_error() {
    let reason = |body: &Value| judged(SEARCH, 400, body, 0).1.unwrap().1;
    let root = json!({"type": "parsing_exception", "reason": "unknown query [rnge]"});
    let body = json!({"error": {"root_cause": [root], "type": "parsing_exception", "reason": "unknown query [rnge]"}});
    assert_eq!(reason(&body), "HTTP 400: parsing_exception: unknown query [rnge]");
    let cause = json!({"type": "illegal_argument_exception", "reason": "too large"});
    let body =
        json!({"error": {"type": "search_phase_execution_exception", "reason": "all failed", "caused_by": cause}});
    let expected = "search_phase_execution_exception: all failed (illegal_argument_exception: too large)";
    assert_eq!(reason(&body), format!("HTTP 400: {expected}"));
    assert_eq!(reason(&json!({"error": "no handler"})), "HTTP 400: no handler");
    assert_eq!(reason(&json!({"found": false})), "HTTP 400: the document does not exist");
    assert_eq!(SEARCH.judge(400, b"", 0).outcome.unwrap_err().message, "HTTP 400: an empty body");
}

#[test]
fn a_write_to_failed_shards_is_no_success() {
    let judge = Judge::Shards { documents: 1 };
    let written = json!({"_index": "c", "result": "created", "_shards": {"total": 2, "successful": 1, "failed": 0}});
    assert_eq!(judged(judge, 201, &written, 0), (1, None));
    let partly = json!({"_shards": {"total": 2, "successful": 1, "failed": 1}});
    assert_eq!(judged(judge, 200, &partly, 0).1.unwrap().0, ErrorClass::Server);
    assert_eq!(judged(judge, 200, &json!({"acknowledged": true}), 0), (1, None));
}

/// Returns the item of a bulk answer with this status, and an error from status 300 on.
fn item(status: u16) -> Value {
    let error = json!({"type": "kind", "reason": format!("reason {status}")});
    let error = if status < 300 { Value::Null } else { error };
    let mut item = json!({"index": {"_index": "c", "_id": "\"errors\":true", "status": status}});
    if !error.is_null() {
        item["index"]["error"] = error;
    }
    item
}

/// Returns a bulk answer with an item for each status.
fn bulk_answer(statuses: &[u16]) -> Value {
    let errors = statuses.iter().any(|status| *status >= 300);
    json!({"took": 30, "errors": errors, "items": statuses.iter().map(|status| item(*status)).collect::<Vec<_>>()})
}

#[test]
fn a_bulk_request_counts_the_items_that_the_store_took() {
    assert_eq!(judged(Judge::Bulk, 200, &bulk_answer(&[201, 201, 200]), 3), (3, None));
    assert_eq!(judged(Judge::Items { documents: 3 }, 200, &bulk_answer(&[201, 201, 200]), 0), (3, None));
    assert_eq!(judged(Judge::Items { documents: 2 }, 200, &bulk_answer(&[201, 400]), 0).0, 1);
    let (documents, failure) = judged(Judge::Bulk, 200, &bulk_answer(&[201, 400, 201, 429, 409]), 5);
    let expected = "3 of 5 items failed, the first with 400: kind: reason 400".to_owned();
    assert_eq!((documents, failure), (2, Some((ErrorClass::Item, expected))));
    let verdict = Judge::Bulk.judge(200, bulk_answer(&[201, 400, 201, 429, 409]).to_string().as_bytes(), 5);
    assert_eq!((verdict.rejected, verdict.refused, verdict.lost), (vec![3], vec![1, 4], true));
}

#[test]
fn a_bulk_request_whose_failed_items_were_all_pushed_back_is_rejected() {
    let (documents, failure) = judged(Judge::Bulk, 200, &bulk_answer(&[201, 429, 429]), 3);
    assert_eq!((documents, failure.unwrap().0), (1, ErrorClass::Rejected));
}

#[test]
fn only_events_that_are_wrong_by_themselves_are_refused() {
    let blocked =
        json!({"type": "cluster_block_exception", "reason": "index [ads] blocked by: [FORBIDDEN/8/index write (api)]"});
    let item = |error: &Value| json!({"update": {"status": 403, "error": error}});
    let wrong = |kind: &str| json!({"update": {"status": 400, "error": {"type": kind}}});
    let conflict = json!({"update": {"status": 409, "error": {"type": "version_conflict_engine_exception"}}});
    let items = [
        item(&blocked),
        item(&json!({"type": "security_exception"})),
        wrong("mapper_parsing_exception"),
        wrong("validation_exception"),
        conflict,
    ];
    let answer = json!({"errors": true, "items": items});
    let places = |judge: Judge| {
        let verdict = judge.judge(200, answer.to_string().as_bytes(), 5);
        (verdict.rejected, verdict.refused)
    };
    assert_eq!(places(Judge::TakenIn), (vec![0, 1, 3, 4], vec![2]));
    assert_eq!(places(Judge::Bulk), (vec![], vec![0, 1, 2, 3, 4]));
    let all = json!({"errors": true, "items": [item(&blocked)]});
    assert_eq!(judged(Judge::TakenIn, 200, &all, 1).1.unwrap().0, ErrorClass::Rejected);
}

#[test]
fn an_index_is_closed_to_writes_when_all_its_shards_are() {
    let answer = |all: bool| json!({"acknowledged": true, "shards_acknowledged": all, "indices": []});
    assert_eq!(judged(Judge::Blocked, 200, &answer(true), 0), (0, None));
    assert_eq!(judged(Judge::Blocked, 200, &answer(false), 0).1.unwrap().0, ErrorClass::Server);
}

#[test]
fn an_existing_object_is_a_success_for_create() {
    let answer = |kind: &str| json!({"error": {"type": kind, "reason": "index [a] already exists"}, "status": 400});
    assert_eq!(judged(Judge::Present, 400, &answer("resource_already_exists_exception"), 0), (0, None));
    assert!(judged(Judge::Present, 400, &answer("validation_exception"), 0).1.is_some());
}

#[test]
fn a_bulk_request_that_fails_as_a_whole_says_why() {
    let (documents, failure) = judged(Judge::Bulk, 413, &json!({"error": "too large"}), 5000);
    let expected = (ErrorClass::Client, "HTTP 413: too large".to_owned());
    assert_eq!((documents, failure), (0, Some(expected)));
}

/// Checks that `errors` counts as the last member of an answer, and not inside an id.
#[test]
fn errors_are_found_wherever_they_stand() {
    let mut late = bulk_answer(&[201, 400]);
    let errors = late.as_object_mut().unwrap().shift_remove("errors").unwrap();
    late["errors"] = errors;
    assert_eq!(judged(Judge::Bulk, 200, &late, 2).1.unwrap().0, ErrorClass::Item);
    let all_well = bulk_answer(&[201]);
    assert_eq!(judged(Judge::Bulk, 200, &all_well, 1), (1, None));
}

#[test]
fn rows_and_events_are_documents_and_hits() {
    let table = |rows: &str| json!({"columns": [{"name": "n"}], rows: [[1], [null], ["]"]], "is_partial": false});
    for rows in ["rows", "datarows", "values"] {
        assert_eq!(judged(Judge::Rows, 200, &table(rows), 0), (3, None));
    }
    let columns = json!({"columns": [{"name": "n"}, {"name": "m"}], "values": [[1, null, 3], ["a", ["b"], "c"]]});
    assert_eq!(judged(Judge::Columns, 200, &columns, 0), (3, None));
    assert_eq!(judged(Judge::Columns, 200, &json!({"columns": [], "values": []}), 0), (0, None));
    assert_eq!(judged(Judge::Columns, 200, &table("datarows"), 0), (3, None), "OpenSearch lists rows");
    let event = json!({"_id": "1", "_source": {"a": []}});
    let answer = |hits: Value| json!({"is_partial": false, "is_running": false, "timed_out": false, "hits": hits});
    let events = answer(json!({"total": {"value": 2}, "events": [event, event]}));
    assert_eq!(judged(Judge::Events, 200, &events, 0), (2, None));
    let sequences = answer(json!({"sequences": [{"events": [event, event]}]}));
    assert_eq!(judged(Judge::Events, 200, &sequences, 0), (1, None));
    assert_eq!(judged(Judge::Events, 200, &answer(json!({"total": {"value": 0}})), 0), (0, None));
}

#[test]
fn a_table_or_events_that_are_not_complete_are_no_success() {
    let class = |judge, body: Value| judged(judge, 200, &body, 0).1.unwrap().0;
    assert_eq!(class(Judge::Rows, json!({"is_partial": true, "values": [[1]]})), ErrorClass::Server);
    assert_eq!(class(Judge::Events, json!({"is_partial": true, "hits": {"events": []}})), ErrorClass::Server);
    assert_eq!(class(Judge::Events, json!({"timed_out": true, "hits": {"events": []}})), ErrorClass::Timeout);
    assert_eq!(class(Judge::Rows, json!({"columns": []})), ErrorClass::Server);
}

#[test]
fn documents_by_their_ids_are_there_or_not_and_only_an_index_may_be_missing() {
    let judged = |docs: Value| judged(Judge::Documents, 200, &json!({"docs": docs}), 0);
    let (there, absent) = (json!({"_id": "1", "found": true, "_source": {}}), json!({"_id": "2", "found": false}));
    let error = |kind: &str| json!({"_id": "3", "error": {"type": kind, "reason": "r"}});
    assert_eq!(judged(json!([there, absent, there])), (2, None));
    assert_eq!(judged(json!([there, error("index_not_found_exception")])), (1, None));
    let (documents, failure) = judged(json!([there, error("no_shard_available_action_exception")]));
    let expected = (ErrorClass::Item, "no_shard_available_action_exception: r".to_owned());
    assert_eq!((documents, failure), (1, Some(expected)));
    let (_, failure) = self::judged(Judge::Documents, 200, &json!({"hits": {}}), 0);
    assert_eq!(failure.unwrap().0, ErrorClass::Server);
}

#[test]
fn any_request_fails_by_the_errors_that_its_answer_reports() {
    let of = |body: Value| judged(Judge::Unfailed, 200, &body, 0).1;
    assert_eq!(
        of(json!({"took": 3, "timed_out": false, "_shards": {"failed": 0}, "errors": false, "failures": []})),
        None
    );
    assert_eq!(of(json!([{"errors": true}])), None);
    assert_eq!(of(json!({"errors": 3, "timed_out": 7, "_shards": 1, "responses": {}})), None);
    assert!(Judge::Unfailed.judge(200, b"green open c 1 0\n", 0).outcome.is_ok());
    assert!(Judge::Unfailed.judge(200, b"", 0).outcome.is_ok());
    assert!(Judge::Unfailed.reads_body());

    let error = json!({"type": "mapper_parsing_exception", "reason": "no number"});
    let words = "mapper_parsing_exception: no number";
    let items = json!([{"index": {"status": 201}}, {"index": {"status": 400, "error": error}}]);
    assert_eq!(of(json!({"errors": true, "items": items})), Some((ErrorClass::Item, words.into())));
    assert_eq!(of(json!({"errors": true})), Some((ErrorClass::Item, "\"errors\" is true".into())));
    let failures = json!([{"index": "c", "id": "1", "cause": error, "status": 400}]);
    assert_eq!(of(json!({"failures": failures})), Some((ErrorClass::Item, format!("1 failures: {words}"))));
    assert_eq!(of(json!({"timed_out": true})).unwrap().0, ErrorClass::Timeout);
    let shards = json!({"_shards": {"failed": 2, "failures": [{"reason": error}]}});
    assert_eq!(of(shards.clone()), Some((ErrorClass::Server, format!("2 shards failed: {words}"))));
    assert_eq!(
        of(json!({"responses": [{"hits": {}}, {"error": error, "status": 400}]})),
        Some((ErrorClass::Item, words.into()))
    );
    assert_eq!(of(json!({"responses": [{"hits": {}}, shards]})).unwrap().0, ErrorClass::Server);
    let nested = format!("{}1{}", "{\"responses\":[".repeat(20_000), "]}".repeat(20_000));
    assert!(Judge::Unfailed.judge(200, nested.as_bytes(), 0).outcome.is_ok(), "it does not recurse");
    let deep = format!("{{\"failures\":{}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(Judge::Unfailed.judge(200, deep.as_bytes(), 0).outcome.is_err(), "an unreadable list is not an empty one");
}

#[test]
fn a_document_that_is_not_there_cannot_be_deleted() {
    let item = |status: u16, result: &str| json!({"delete": {"_id": "a", "result": result, "status": status}});
    let failed = json!({"delete": {"status": 429, "error": {"type": "rejected", "reason": "not_found"}}});
    let answer = |errors: bool, items: Value| json!({"errors": errors, "items": items}).to_string();
    let all = answer(false, json!([item(200, "deleted"), item(200, "deleted")]));
    assert!(Judge::Deletions.judge(200, all.as_bytes(), 2).outcome.is_ok());
    let some = answer(false, json!([item(200, "deleted"), item(404, "not_found")]));
    let verdict = Judge::Deletions.judge(200, some.as_bytes(), 2);
    assert_eq!((verdict.documents, verdict.refused, verdict.lost), (1, vec![1], true));
    assert_eq!(verdict.outcome.unwrap_err().message, "1 of 2 documents do not exist");
    let both = answer(true, json!([failed, item(404, "not_found"), item(200, "deleted")]));
    let verdict = Judge::Deletions.judge(200, both.as_bytes(), 3);
    assert_eq!((verdict.documents, verdict.rejected, verdict.refused), (1, vec![0], vec![1]));
    assert_eq!(verdict.outcome.unwrap_err().class, ErrorClass::Item);
}
