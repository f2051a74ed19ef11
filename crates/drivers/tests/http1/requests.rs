//! Bytes of requests, and the reports on their answers.

use std::time::Duration;

use loadframe_engine::driver::Driver;
use loadframe_engine::plan::Target;
use loadframe_engine::util::draw::Draw;

use crate::scripted::{Client, Server, answer, bulk, search, target};

#[test]
fn requests_share_a_connection_and_arrive_as_they_were_meant() {
    let hits = answer("200 OK", r#"{"timed_out":false,"hits":{"hits":[{"_id":"1"},{"_id":"2"}]}}"#);
    let answered = hits.clone();
    let server = Server::play(move |listener| {
        let mut peer = listener.accept();
        (0..3)
            .map(|_| {
                let request = peer.request().unwrap();
                peer.send(&answered);
                request
            })
            .collect::<Vec<_>>()
    });
    let host = server.host.clone();
    let mut client = Client::new(&[&host], 0);
    let replies: Vec<_> = (0..3).map(|k| client.execute(&search(), k)).collect();
    for (k, (reply, (head, body))) in replies.into_iter().zip(server.finish()).enumerate() {
        assert!(reply.outcome.is_ok() && reply.sent < reply.done);
        assert_eq!((reply.documents, reply.node), (2, 0));
        assert_eq!(reply.bytes_sent, (head.len() + body.len()) as u64);
        assert_eq!(reply.bytes_received, hits.len() as u64);
        assert!(head.starts_with(&format!("POST /c/_search HTTP/1.1\r\nhost: {host}\r\n")), "{head}");
        assert_eq!(body, format!(r#"{{"query":{{"term":{{"k":{k}}}}}}}"#).as_bytes());
    }
}

#[test]
fn a_traced_request_carries_its_trace_context_and_others_do_not() {
    let answered = answer("200 OK", r#"{"timed_out":false,"hits":{"hits":[]}}"#);
    let server = Server::play(move |listener| {
        let mut peer = listener.accept();
        [(); 2].map(|()| {
            let (head, _) = peer.request().unwrap();
            peer.send(&answered);
            head
        })
    });
    let mut client = Client::new(&[&server.host], 0);
    let operation = client.driver.map(&search(), &client.context).unwrap();
    assert!(client.driver.has_traces() && client.driver.traces(&operation));
    let draw = Draw::new(1, 2, 3);
    let trace = draw.trace_context(1, 2, 0);
    let Client { driver, connection, context, runtime } = &mut client;
    for trace in [Some(trace), None] {
        let draw = Draw { trace, ..draw };
        let reply = runtime.block_on(driver.execute(connection, &operation, context, &draw, None));
        assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    }
    let [traced, other] = server.finish();
    let header = format!("\r\ntraceparent: 00-{}-{}-01\r\n", trace.id(), trace.span());
    assert!(traced.contains(&header), "{traced}");
    assert!(!other.contains("traceparent"), "{other}");
}

#[test]
fn a_large_request_arrives_whole_at_a_slow_reader() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        std::thread::sleep(Duration::from_millis(100));
        let (_, body) = peer.request().unwrap();
        peer.send(answer("200 OK", r#"{"took":1,"errors":false,"items":[]}"#));
        body
    });
    let mut client = Client::new(&[&server.host], 0);
    let reply = client.execute(&bulk(50_000), 0);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    assert_eq!(reply.documents, 50_000);
    let mut expected = Vec::new();
    client.context.corpora.get("trips").unwrap().append(0, 50_000, b"{\"index\":{}}\n", &mut expected);
    assert!(server.finish() == expected, "the body is not the corpus's");
    assert!(reply.bytes_sent > 20_000_000);
}

#[test]
fn a_request_and_its_answer_can_be_shown() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.answer(&answer(
            "404 Not Found",
            r#"{"error":{"type":"index_not_found_exception","reason":"no such index [c]"}}"#,
        ));
    });
    let mut client = Client::new(&[&server.host], 0);
    let operation = client.driver.map(&search(), &client.context).unwrap();
    for expected in ["HTTP/1.1 404 Not Found\n\n{\n  \"error\": {", "cannot connect: "] {
        let draw = Draw::new(1, 2, 7);
        let shown = client.driver.show(&mut client.connection, &operation, &client.context, &draw);
        let (reply, exchange) = client.runtime.block_on(shown);
        assert!(reply.outcome.is_err());
        assert!(exchange.request.starts_with("POST /c/_search HTTP/1.1\n\n{\n  \"query\": {"), "{}", exchange.request);
        assert!(exchange.request.contains("\"k\": 7"), "{}", exchange.request);
        assert!(exchange.answer.starts_with(expected), "{}", exchange.answer);
        client.pause(50);
    }
    server.finish();
}

#[test]
fn a_bad_target_is_refused_by_name() {
    let new = |hosts: &[&str]| loadframe_drivers::search::Search::new(&target(hosts)).unwrap_err().message;
    assert_eq!(new(&[]), "the target has no hosts");
    assert_eq!(new(&["localhost"]), "host \"localhost\" is not of the form name:port");
    for timeout in ["0", "-1", "1e300"] {
        let text = format!("{{\"driver\": \"search\", \"hosts\": [\"localhost:1\"], \"timeout\": {timeout}}}");
        let error = serde_json::from_str::<Target>(&text).unwrap_err().to_string();
        assert!(error.starts_with("\"timeout\" wants seconds above 0, not "), "{error}");
    }
}
