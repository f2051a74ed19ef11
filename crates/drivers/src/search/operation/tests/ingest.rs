//! Forms that take in events, and the requests for those.

use super::*;
use crate::daily::generations::List;
use crate::ingest::tests::batch;
use crate::search::operation::ingest::{body as write_body, look, seen as read_seen};

#[test]
fn an_event_sets_its_own_field_of_its_document_in_the_collection_of_its_day() {
    let batch = batch(&[
        (0, "a", 1_488_412_799_999, r#"{"id":"a"}"#),
        (2, r#"\"é\u00e9"#, 1_488_412_800_000, r#"{"bid_id":"\"éé"}"#),
        (1, "a", 1_488_412_799_999, r#"{"bid_id":"a"}"#),
    ]);
    let body = |daily: Value, only: Option<&[u32]>| {
        let operation = map(json!({"take_in": {"collection": "ads", "daily": daily}})).unwrap();
        let mut body = b"of the request before".to_vec();
        let events = write_body(&operation.ingest.unwrap().form, &List::default(), &batch, only, &mut body);
        (events, String::from_utf8(body).unwrap())
    };
    let update = |index: &str, id: &str, doc: &str| {
        format!(
            "{{\"update\":{{{index}\"_id\":\"{id}\",\"retry_on_conflict\":100}}}}\n{{\"doc\":{{{doc}}},\"doc_as_upsert\":true}}\n"
        )
    };
    let index = |day: &str| format!("\"_index\":\"ads-{day}\",");
    let (bid, win) = (r#""bid":{"id":"a"}"#, r#""win":{"bid_id":"a"}"#);
    let click = r#""click":{"bid_id":"\"éé"}"#;
    let (first, second, third) = (index("2017.03.01"), index("2017.03.02"), index("2017.03.03"));
    let by_event = [update(&first, "a", bid), update(&second, r#"\"é\u00e9"#, click), update(&first, "a", win)];
    assert_eq!(body(json!("event"), None), (3, by_event.concat()));
    assert_eq!(body(json!("event"), Some(&[1])), (1, by_event[1].clone()));
    let by_arrival = [update(&second, "a", bid), update(&third, r#"\"é\u00e9"#, click), update(&second, "a", win)];
    assert_eq!(body(json!("arrival"), None), (3, by_arrival.concat()));
    assert_eq!(body(Value::Null, Some(&[0, 2])), (2, update("", "a", bid) + &update("", "a", win)));
}

/// Checks that an operation that ingests events refuses `repeat`, `assert` and `capture`.
#[test]
fn an_operation_that_takes_in_events_reads_nothing() {
    let ingest = |more: Value| {
        let mut form = json!({"take_in": {"collection": "ads"}});
        form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        error(form)
    };
    assert!(ingest(json!({"repeat": {"every": 1}})).contains("only a single request can be repeated"));
    assert!(ingest(json!({"assert": {"min_hits": 1}})).starts_with("assert: only searches have hits"));
    assert!(ingest(json!({"capture": {"low": {"json": "/took"}}})).starts_with("capture: "));
    let error = error(json!({"take_in": {"collection": "ads", "daily": "day"}}));
    assert!(error.starts_with("take_in: unknown kind of day \"day\""), "{error}");
}

#[test]
fn events_are_looked_for_in_their_days_as_searches_see_them_and_seen_in_documents_that_have_their_kind() {
    const NOON: i64 = 1_488_369_600_000;
    let batch = batch(&[(0, "a", NOON, ""), (1, "a", NOON, ""), (1, r#"\"b"#, NOON, ""), (2, "c", NOON, "")]);
    for (daily, days) in [(json!("event"), ["2017.03.01"; 4]), (json!("arrival"), ["2017.03.02"; 4])] {
        let target = map(json!({"take_in": {"collection": "ads", "daily": daily}})).unwrap().ingest.unwrap();
        let mut body = b"of the request before".to_vec();
        look(&target.form, &List::default(), &batch, &mut body);
        let wanted = [("a", "bid"), ("a", "win"), ("\"b", "win"), ("c", "click")];
        let docs: Vec<Value> = (wanted.iter().zip(days))
            .map(|((id, kind), day)| json!({"_index": format!("ads-{day}"), "_id": id, "_source": [kind]}))
            .collect();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({"docs": docs}));
    }
    let target = map(json!({"take_in": {"collection": "ads"}})).unwrap().ingest.unwrap();
    let mut body = Vec::new();
    look(&target.form, &List::default(), &batch, &mut body);
    assert!(body.starts_with(br#"{"docs":[{"_id":"a","_source":["bid"]},"#));
    let request = rendered(&target.look, 0);
    assert!(request.starts_with("POST /ads/_mget?realtime=false HTTP/1.1\r\n"), "{request}");

    let there = |source: Value| json!({"_index": "ads-2017.03.01", "found": true, "_source": source});
    let absent = json!({"_index": "ads-2017.03.01", "found": false});
    let answer =
        json!({"docs": [there(json!({"bid": {"id": "a"}})), there(json!({})), there(json!({"win": {}})), absent]});
    assert_eq!(read_seen(&batch, answer.to_string().as_bytes()), [true, false, true, false]);
    assert_eq!(read_seen(&batch, b"no answer"), [false; 4]);
}
