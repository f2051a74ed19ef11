//! Scans with several pages: the request for each page, and closing after a failure.

use std::time::Duration;

use loadframe_engine::driver::ErrorClass;
use serde_json::{Value, json};

use crate::scripted::{Client, Server, answer, failure};

/// Sends one answer per request on one connection; returns the first lines and bodies of the requests.
fn play(answers: Vec<String>) -> Server<Vec<(String, String)>> {
    Server::play(move |listener| {
        let mut peer = listener.accept();
        let talk = |answer: String| {
            let (head, body) = peer.request().unwrap();
            peer.send(answer);
            (head.split(" HTTP").next().unwrap().to_owned(), String::from_utf8(body).unwrap())
        };
        answers.into_iter().map(talk).collect()
    })
}

fn hits(sorts: &[u64], more: Value) -> String {
    let hits: Vec<Value> = sorts.iter().map(|sort| json!({"_id": "1", "sort": [sort, "a\"b"]})).collect();
    let mut body = json!({"timed_out": false, "_shards": {"failed": 0}, "hits": {"hits": hits}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer("200 OK", &body.to_string())
}

#[test]
fn pages_continue_after_the_last_hit_with_the_newest_point_in_time() {
    let server = play(vec![
        answer("200 OK", r#"{"id": "p1"}"#),
        hits(&[1, 2], json!({"pit_id": "p2"})),
        hits(&[3], json!({"pit_id": "p3"})),
        answer("200 OK", "{}"),
    ]);
    let form = json!({"search_after": {"collection": "c", "size": 2, "body": {"sort": ["n", "t"]}}});
    let reply = Client::new(&[&server.host], 0).execute(&form, 0);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    assert_eq!(reply.documents, 3);
    assert_eq!(reply.parts.iter().map(|part| part.name).collect::<Vec<_>>(), [2, 0, 0, 1]);
    let service: Duration = reply.parts.iter().map(|part| part.done - part.sent).sum();
    assert_eq!((reply.done - reply.sent, reply.done), (service, reply.parts[3].done), "without the time between pages");
    let asked = server.finish();
    let lines: Vec<_> = asked.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(lines, ["POST /c/_pit?keep_alive=1m", "POST /_search", "POST /_search", "DELETE /_pit"]);
    let body = |n: usize| serde_json::from_str::<Value>(&asked[n].1).unwrap();
    let page = json!({"size": 2, "sort": ["n", "t"], "pit": {"id": "p1", "keep_alive": "1m"}});
    assert_eq!(body(1), page);
    let mut next = page;
    next["pit"]["id"] = json!("p2");
    next["search_after"] = json!([2, "a\"b"]);
    assert_eq!(body(2), next);
    assert_eq!(body(3), json!({"id": "p3"}));
}

#[test]
fn a_page_that_fails_ends_the_scan_and_its_scroll_is_cleared() {
    let server = play(vec![
        hits(&[1, 2], json!({"_scroll_id": "s=="})),
        answer("500 Internal Server Error", r#"{"error": "lost"}"#),
        answer("200 OK", "{}"),
    ]);
    let form = json!({"scroll": {"collection": "c", "size": 2}});
    let reply = Client::new(&[&server.host], 0).execute(&form, 0);
    let parts: Vec<_> = reply.parts.iter().map(|part| (part.documents, part.failed)).collect();
    assert_eq!(parts, [(2, None), (0, Some(ErrorClass::Server)), (0, None)]);
    assert_eq!(reply.documents, 0, "a retry reads the first page again");
    assert_eq!(failure(reply.outcome).0, ErrorClass::Server);
    let asked = server.finish();
    assert_eq!(asked[1].0, "POST /_search/scroll");
    assert_eq!(asked[1].1, r#"{"scroll":"1m","scroll_id":"s=="}"#);
    assert_eq!(asked[2], ("DELETE /_search/scroll".to_owned(), r#"{"scroll_id":"s=="}"#.to_owned()));
}

#[test]
fn an_aggregation_goes_on_after_the_key_of_its_last_bucket_until_there_is_none() {
    let page =
        |all: Value| answer("200 OK", &json!({"_shards": {"failed": 0}, "aggregations": {"all": all}}).to_string());
    let server = play(vec![
        page(json!({"after_key": {"k": "b"}, "buckets": [{}, {}]})),
        page(json!({"after_key": {"k": "c"}, "buckets": [{}]})),
        page(json!({"buckets": []})),
    ]);
    let sources = json!([{"k": {"terms": {"field": "k"}}}]);
    let form = json!({"composite": {"collection": "c", "size": 2, "sources": sources, "query": {"match_all": {}}},
        "assert": {"min_hits": 4}});
    let reply = Client::new(&[&server.host], 0).execute(&form, 0);
    assert_eq!(reply.parts.iter().map(|part| part.documents).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(reply.documents, 0);
    assert_eq!(failure(reply.outcome).1, "3 hits, fewer than the 4 that are asserted");
    let asked = server.finish();
    let composite = |n: usize| serde_json::from_str::<Value>(&asked[n].1).unwrap()["aggs"]["all"]["composite"].clone();
    assert_eq!(composite(0), json!({"size": 2, "sources": sources}));
    assert_eq!(composite(2), json!({"size": 2, "sources": sources, "after": {"k": "c"}}));
}
