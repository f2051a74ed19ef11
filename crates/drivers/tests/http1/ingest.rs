//! Ingest by the search driver against a scripted server.

use std::sync::Arc;
use std::time::Instant;

use loadframe_engine::driver::{Driver, ErrorClass, Reply};
use loadframe_engine::workload::event::{Batch, Event};
use serde_json::{Value, json};

use crate::scripted::{Client, Server, answer, failure};

/// Noon on 2017-03-01.
const NOON: i64 = 1_488_369_600_000;

/// Returns a batch with a bid per line; the id is the line's index.
pub fn bids(lines: &[&str]) -> Batch {
    let mut batch = Batch { kinds: Arc::new(["bid".to_owned()]), ..Batch::default() };
    for (place, line) in lines.iter().enumerate() {
        let start = batch.bytes.len();
        batch.bytes.extend_from_slice(line.as_bytes());
        let end = batch.bytes.len();
        batch.bytes.extend_from_slice(place.to_string().as_bytes());
        let id = end..batch.bytes.len();
        batch.events.push(Event { arrived: Instant::now(), line: start..end, id, kind: 0, time: NOON, arrival: NOON });
    }
    batch
}

/// A store for one client, without indices at first. It answers 401 to "secret", cannot parse a request with "poison",
/// refuses documents with "wrong", and rejects "busy" ones for a retry. It returns the ids in each request.
fn store() -> Server<Vec<Vec<String>>> {
    Server::play(|listener| {
        let mut peer = listener.accept();
        let mut requests = Vec::new();
        while let Some((head, body)) = peer.request() {
            if head.starts_with("GET ") {
                peer.send(answer("200 OK", "{}"));
                continue;
            }
            assert!(head.starts_with("POST /ads/_bulk HTTP/1.1\r\n"), "{head}");
            let body = String::from_utf8(body).unwrap();
            let lines: Vec<&str> = body.lines().collect();
            let json = |line: &str| serde_json::from_str::<Value>(line).unwrap();
            requests.push(
                lines.iter().step_by(2).map(|line| json(line)["update"]["_id"].as_str().unwrap().to_owned()).collect(),
            );
            if body.contains("secret") {
                peer.send(answer(
                    "401 Unauthorized",
                    r#"{"error": {"type": "security_exception", "reason": "expired"}}"#,
                ));
                continue;
            }
            if body.contains("poison") {
                peer.send(answer("400 Bad Request", r#"{"error": {"type": "x", "reason": "Duplicate field"}}"#));
                continue;
            }
            let status = |line: &&str| match line {
                line if line.contains("wrong") => 400,
                line if line.contains("busy") => 429,
                _ => 200,
            };
            let statuses: Vec<u16> = lines.iter().skip(1).step_by(2).map(status).collect();
            let error = |status: u16| if status == 200 { Value::Null } else { json!({"type": "t", "reason": "no"}) };
            let items: Vec<_> =
                statuses.iter().map(|status| json!({"update": {"status": status, "error": error(*status)}})).collect();
            let errors = statuses.iter().any(|status| *status != 200);
            peer.send(answer("200 OK", &json!({"errors": errors, "items": items}).to_string()));
        }
        requests
    })
}

fn ingest(lines: &[&str], only: Option<&[u32]>) -> (Reply, Vec<Vec<String>>) {
    let server = store();
    let mut client = Client::new(&[&server.host], 0);
    let form = json!({"take_in": {"collection": "ads", "daily": "event"}});
    let operation = client.driver.map(&form, &client.context).unwrap();
    assert!(client.driver.ingests(&operation));
    let batch = bids(lines);
    let Client { driver, connection, context, runtime } = &mut client;
    let reply = runtime.block_on(driver.ingest(connection, &operation, context, &batch, only));
    drop(client);
    (reply, server.finish())
}

#[test]
fn a_batch_is_one_request_and_its_events_are_its_documents() {
    let (reply, requests) = ingest(&["{}", "{}", "{}"], None);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    assert_eq!((reply.documents, requests), (3, vec![vec!["0".to_owned(), "1".to_owned(), "2".to_owned()]]));
    assert!(reply.bytes_sent > 300 && reply.bytes_received > 0);
}

#[test]
fn failed_events_are_named_by_index() {
    let lines = ["{}", r#"{"a":"busy"}"#, r#"{"a":"wrong"}"#, r#"{"b":"busy"}"#];
    let (reply, _) = ingest(&lines, None);
    assert_eq!((reply.documents, &reply.rejected[..], &reply.refused[..]), (1, &[1, 3][..], &[2][..]));
    assert!(reply.lost);
    assert_eq!(failure(reply.outcome), (ErrorClass::Item, "3 of 4 items failed, the first with 429: t: no".to_owned()));
    let (reply, requests) = ingest(&lines, Some(&[1, 3]));
    assert_eq!((reply.documents, &reply.rejected[..], reply.lost), (0, &[0, 1][..], false));
    assert_eq!(requests, [["1", "3"]]);
}

#[test]
fn an_unreadable_line_is_isolated_from_its_neighbours() {
    let lines = ["{}", r#"{"a":"wrong"}"#, "{}", r#"{"a":"poison"}"#, "{}", r#"{"a":"busy"}"#, "{}"];
    let (reply, requests) = ingest(&lines, None);
    assert_eq!((reply.documents, &reply.rejected[..], &reply.refused[..]), (4, &[5][..], &[1, 3][..]));
    assert_eq!(failure(reply.outcome).0, ErrorClass::Item);
    let sizes: Vec<usize> = requests.iter().map(Vec::len).collect();
    assert_eq!(sizes, [7, 3, 4, 2, 1, 1, 2]);
    // Positions count within the request; the poison is the second document sent.
    let (reply, requests) = ingest(&lines, Some(&[2, 3, 4]));
    assert_eq!((reply.documents, &reply.refused[..]), (2, &[1][..]));
    assert_eq!(requests.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 2, 1, 1]);
}

#[test]
fn one_event_that_cannot_be_read_is_refused_at_once() {
    let (reply, requests) = ingest(&[r#"{"a":"poison"}"#], None);
    assert_eq!((reply.documents, requests.len()), (0, 1));
    assert_eq!(reply.refused, [0]);
    assert_eq!(failure(reply.outcome), (ErrorClass::Client, "HTTP 400: x: Duplicate field".to_owned()));
}

#[test]
fn events_are_not_refused_where_their_sender_is() {
    let (reply, requests) = ingest(&["{}", r#"{"a":"secret"}"#], None);
    assert_eq!((reply.documents, reply.refused.len(), requests.len()), (0, 0, 1), "nothing is halved");
    assert_eq!(failure(reply.outcome).0, ErrorClass::Client);
    // The same while a batch is halved: the poison is refused, and the others may be retried.
    let lines = ["{}", r#"{"a":"poison"}"#, r#"{"a":"secret"}"#, "{}"];
    let (reply, _) = ingest(&lines[..2], None);
    assert_eq!((reply.documents, &reply.rejected[..], &reply.refused[..]), (1, &[][..], &[1][..]));
    let (reply, _) = ingest(&lines, None);
    assert_eq!((reply.documents, &reply.refused[..]), (0, &[][..]), "the request is refused for its sender first");
}
