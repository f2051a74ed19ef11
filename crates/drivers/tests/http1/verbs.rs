//! Neutral verbs with several steps, and assertions on answers, over a socket.

use loadframe_engine::driver::{Driver, ErrorClass};
use loadframe_engine::util::draw::Draw;
use serde_json::{Value, json};

use crate::scripted::{Client, Server, answer, failure};

const FOUND: &str = r#"{"found":true,"_source":{"name":"old","n":3}}"#;
const WRITTEN: &str = r#"{"result":"updated","_shards":{"failed":0}}"#;

fn read_modify_write() -> Value {
    json!({"read_modify_write": {"collection": "c", "id": "${k}", "document": {"name": "new"}}})
}

/// A server that sends one answer per request, and reports the first line and body of each request.
fn answering(answers: Vec<(&'static str, &'static str)>) -> Server<Vec<(String, String)>> {
    Server::play(move |listener| {
        let mut peer = listener.accept();
        let mut asked = Vec::new();
        for (status, body) in answers {
            let (head, sent) = peer.request().unwrap();
            asked.push((head.lines().next().unwrap().to_owned(), String::from_utf8(sent).unwrap()));
            peer.send(answer(status, body));
        }
        asked
    })
}

#[test]
fn a_read_modify_write_reads_then_writes_and_tells_both() {
    let server = answering(vec![("200 OK", FOUND), ("200 OK", WRITTEN)]);
    let mut client = Client::new(&[&server.host], 0);
    let operation = client.driver.map(&read_modify_write(), &client.context).unwrap();
    assert_eq!(client.driver.parts(&operation), ["read", "write"]);
    let reply = client.execute(&read_modify_write(), 7);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    let [read, write] = reply.parts[..] else { panic!("{:?}", reply.parts) };
    assert_eq!((read.name, write.name, read.documents, write.documents), (0, 1, 1, 1));
    assert!(read.done <= write.sent);
    let service = (read.done - read.sent) + (write.done - write.sent);
    assert_eq!((reply.done - reply.sent, reply.done), (service, write.done), "without the time between the two");
    assert_eq!(reply.documents, 1, "the written document");
    let update = r#"{"doc":{"name":"new"}}"#.to_owned();
    assert_eq!(
        server.finish(),
        [
            ("GET /c/_doc/7 HTTP/1.1".into(), String::new()),
            ("POST /c/_update/7?retry_on_conflict=100 HTTP/1.1".into(), update)
        ]
    );
}

#[test]
fn a_missing_document_is_not_written() {
    let server = answering(vec![("404 Not Found", r#"{"found":false}"#)]);
    let reply = Client::new(&[&server.host], 0).execute(&read_modify_write(), 7);
    assert_eq!(reply.parts.len(), 1);
    assert_eq!(reply.parts[0].failed, Some(ErrorClass::Client));
    assert_eq!(failure(reply.outcome), (ErrorClass::Client, "HTTP 404: the document does not exist".to_owned()));
    server.finish();
}

#[test]
fn a_write_that_fails_fails_the_operation() {
    let server = answering(vec![("200 OK", FOUND), ("409 Conflict", r#"{"error":"version conflict"}"#)]);
    let reply = Client::new(&[&server.host], 0).execute(&read_modify_write(), 7);
    assert_eq!(reply.parts.iter().map(|part| part.failed).collect::<Vec<_>>(), [None, Some(ErrorClass::Client)]);
    assert_eq!(failure(reply.outcome), (ErrorClass::Client, "HTTP 409: version conflict".to_owned()));
    server.finish();
}

#[test]
fn both_steps_are_shown() {
    let server = answering(vec![("200 OK", FOUND), ("200 OK", WRITTEN)]);
    let mut client = Client::new(&[&server.host], 0);
    let operation = client.driver.map(&read_modify_write(), &client.context).unwrap();
    let Client { driver, connection, context, runtime } = &mut client;
    let (_, shown) = runtime.block_on(driver.show(connection, &operation, context, &Draw::new(1, 2, 3)));
    assert!(shown.request.contains("GET /c/_doc/3") && shown.request.contains("POST /c/_update/3"), "{shown:?}");
    assert!(shown.answer.contains("old") && shown.answer.contains("updated"), "{shown:?}");
    server.finish();
}

#[test]
fn another_value_than_the_asserted_one_is_a_failed_assertion() {
    let server = answering(vec![("200 OK", FOUND), ("200 OK", FOUND), ("200 OK", FOUND)]);
    let mut client = Client::new(&[&server.host], 0);
    let form = json!({"read": {"collection": "c", "id": 1}, "assert": {"fields": {"name": "old", "n": "${k}"}}});
    assert!(client.execute(&form, 3).outcome.is_ok());
    let (class, message) = failure(client.execute(&form, 4).outcome);
    assert_eq!((class, message.as_str()), (ErrorClass::Assertion, "the field \"n\" is 3, and not 4"));
    let mut form = read_modify_write();
    form["assert"] = json!({"fields": {"name": "new"}});
    let reply = client.execute(&form, 0);
    assert_eq!((reply.parts.len(), failure(reply.outcome).0), (1, ErrorClass::Assertion));
    server.finish();
}
