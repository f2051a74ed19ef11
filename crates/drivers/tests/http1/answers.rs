//! Valid, early, late, truncated and hostile answers.

use std::time::Duration;

use loadframe_engine::driver::ErrorClass;
use serde_json::json;

use crate::scripted::{Client, Server, answer, bulk, failure, ping, search};

#[test]
fn an_answer_may_come_byte_by_byte() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        for text in
            [answer("200 OK", "{}"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".into()]
        {
            peer.request().unwrap();
            for byte in text.bytes() {
                peer.send([byte]);
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let mut client = Client::new(&[&server.host], 0);
    for k in 0..2 {
        assert!(client.execute(&ping(), k).outcome.is_ok());
    }
    server.finish();
}

#[test]
fn an_unread_endless_body_costs_time_but_no_memory() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.answer("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        peer.send_for_ever(&format!("10000\r\n{}\r\n", "x".repeat(1 << 16)));
    });
    let mut client = Client::new(&[&server.host], 0);
    let begun = std::time::Instant::now();
    let patient = json!({"read": {"collection": "c", "id": 1}, "timeout": 2});
    let reply = client.execute(&patient, 0);
    let (class, message) = failure(reply.outcome);
    assert_eq!((class, message.as_str()), (ErrorClass::Timeout, "no complete answer within 2 s"));
    assert!(begun.elapsed() < Duration::from_secs(60), "a server that never pauses is given up all the same");
    assert!(reply.bytes_received > 1 << 20, "{}", reply.bytes_received);
    drop(client);
    server.finish();
}

#[test]
fn an_answer_that_stops_in_its_middle_is_late_and_not_missing() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.answer("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
        peer.request()
    });
    let mut client = Client::new(&[&server.host], 0);
    let reply = client.execute(&json!({"request": {"method": "GET", "path": "/"}, "timeout": 0.5}), 0);
    assert_eq!(failure(reply.outcome), (ErrorClass::Timeout, "no complete answer within 0.5 s".to_owned()));
    drop(client);
    server.finish();
}

#[test]
fn only_the_documents_that_were_rejected_are_sent_again() {
    let item = |status: u16| match status {
        201 => json!({"index": {"status": 201}}),
        _ => json!({"index": {"status": status, "error": {"type": "t", "reason": "r"}}}),
    };
    let items = |statuses: &[u16]| {
        let items: Vec<_> = statuses.iter().map(|status| item(*status)).collect();
        answer("200 OK", &json!({"errors": true, "items": items}).to_string())
    };
    let first = items(&[201, 429, 400, 429]);
    let second = items(&[201, 429]);
    let server = Server::play(move |listener| {
        let mut peer = listener.accept();
        [first, second].map(|answer| {
            let (_, body) = peer.request().expect("a request");
            peer.send(&answer);
            String::from_utf8(body).unwrap()
        })
    });
    let mut client = Client::new(&[&server.host], 0);
    let form = bulk(4);
    let reply = client.execute(&form, 0);
    assert_eq!((reply.documents, &reply.rejected[..]), (1, &[1, 3][..]));
    let reply = client.resume(&form, 0, &[1, 3]);
    assert_eq!((reply.documents, &reply.rejected[..]), (1, &[1][..]), "places are those of the attempt");
    let (class, _) = failure(reply.outcome);
    assert_eq!(class, ErrorClass::Rejected);
    let [whole, rest] = server.finish();
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 8);
    assert_eq!(rest, [&lines[2..4], &lines[6..8]].concat().concat());
}

#[test]
fn a_failed_search_counts_no_documents() {
    let search_answer = |timed_out: bool, failed: u64| {
        let hits = json!({"hits": [{"_id": "1"}, {"_id": "2"}]});
        answer("200 OK", &json!({"timed_out": timed_out, "_shards": {"failed": failed}, "hits": hits}).to_string())
    };
    let stored = json!({"_id": "1", "_shards": {"total": 2, "successful": 1, "failed": 1}}).to_string();
    let answers = [
        search_answer(true, 0),
        search_answer(false, 1),
        search_answer(false, 0),
        search_answer(false, 0),
        answer("201 Created", &stored),
    ];
    let server = Server::play(move |listener| {
        let mut peer = listener.accept();
        answers.iter().for_each(|answer| peer.answer(answer));
    });
    let mut client = Client::new(&[&server.host], 0);
    let mut asserting = search();
    asserting["assert"] = json!({"hits": 3});
    let index = json!({"index": {"collection": "c", "id": 1, "document": {"a": 1}}});
    let counted = [(search(), 0), (search(), 0), (asserting, 0), (search(), 2), (index, 0)].map(|(form, documents)| {
        let reply = client.execute(&form, 0);
        assert_eq!(reply.outcome.is_ok(), documents > 0, "{:?}", reply.outcome);
        (reply.documents, documents)
    });
    assert!(counted.iter().all(|(counted, documents)| counted == documents), "{counted:?}");
    server.finish();
}

#[test]
fn a_large_answer_in_chunks_is_read_whole() {
    let hit = json!({"_id": "1", "_source": {"text": "{\"x\": [\"".repeat(50)}});
    let body = json!({"hits": {"hits": vec![hit; 10_000]}}).to_string();
    let length = body.len();
    let server = Server::play(move |listener| {
        let mut peer = listener.accept();
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for chunk in body.as_bytes().chunks(100_000) {
            peer.send(format!("{:x}\r\n", chunk.len()));
            peer.send(chunk);
            peer.send("\r\n");
        }
        peer.send("0\r\n\r\n");
    });
    let mut client = Client::new(&[&server.host], 0);
    let reply = client.execute(&search(), 0);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    assert_eq!(reply.documents, 10_000);
    assert!(reply.bytes_received > length as u64);
    server.finish();
}

#[test]
fn the_answer_to_head_has_no_body_despite_its_content_length() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.answer("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        peer.answer(&answer("200 OK", "{}"));
    });
    let mut client = Client::new(&[&server.host], 0);
    assert!(client.execute(&json!({"request": {"method": "HEAD", "path": "/c/_doc/1"}}), 0).outcome.is_ok());
    assert!(client.execute(&ping(), 1).outcome.is_ok());
    server.finish();
}

#[test]
fn unrequested_bytes_do_not_answer_the_next_request() {
    for pause in [0, 50] {
        let server = Server::play(|listener| {
            listener.accept().answer(&(answer("200 OK", "{}") + &answer("500 Error", "surplus")));
            listener.accept().answer(&answer("404 Not Found", "right"));
        });
        let mut client = Client::new(&[&server.host], 0);
        assert!(client.execute(&ping(), 0).outcome.is_ok());
        client.pause(pause);
        let expected = (ErrorClass::Client, "HTTP 404: right".to_owned());
        assert_eq!(failure(client.execute(&ping(), 1).outcome), expected);
        server.finish();
    }
}

#[test]
fn a_server_that_refuses_a_large_request_before_it_has_read_it_is_heard() {
    for (status, class) in
        [("413 Payload Too Large", ErrorClass::Client), ("429 Too Many Requests", ErrorClass::Rejected)]
    {
        let server = Server::play(move |listener| {
            // Closing with unread bytes resets the connection, so the client's write fails.
            listener.accept().send(answer(status, "{\"error\":\"too much\"}"));
            listener.accept().answer(&answer("200 OK", "{}"));
        });
        let mut client = Client::new(&[&server.host], 0);
        let reply = client.execute(&bulk(50_000), 0);
        assert_eq!((reply.documents, reply.rejected.len()), (0, 0), "all of it may be sent again");
        assert_eq!(failure(reply.outcome), (class, format!("HTTP {}: too much", &status[..3])));
        assert!(client.execute(&ping(), 1).outcome.is_ok());
        server.finish();
    }
}

#[test]
fn a_server_that_answers_early_and_stays_does_not_get_the_rest() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.send(answer("429 Too Many Requests", "{}"));
        listener.accept().answer(&answer("200 OK", "{}"));
        drop(peer);
    });
    let mut client = Client::new(&[&server.host], 0);
    let reply = client.execute(&bulk(50_000), 0);
    assert!(reply.bytes_sent < 20_000_000);
    assert_eq!(failure(reply.outcome).0, ErrorClass::Rejected);
    assert!(client.execute(&ping(), 1).outcome.is_ok());
    server.finish();
}

#[test]
fn answers_other_than_http_are_errors_and_memory_stays_bounded() {
    let head = "HTTP/1.1 200 OK\r\n";
    for (start, more) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", ""),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", ""),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n", ""),
        (head, "a: b\r\n"),
        (head, "a"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let server = Server::play(move |listener| {
            let mut peer = listener.accept();
            peer.answer(start);
            if !more.is_empty() {
                peer.send_for_ever(&more.repeat(1000));
            }
            listener.accept().answer(&answer("200 OK", "{}"));
        });
        let mut client = Client::new(&[&server.host], 0);
        let reply = client.execute(&ping(), 0);
        assert!(reply.bytes_received <= 1 << 20);
        let (class, message) = failure(reply.outcome);
        assert_eq!(class, ErrorClass::Connect);
        assert!(message.starts_with("malformed HTTP answer: "), "{message}");
        assert!(client.execute(&ping(), 1).outcome.is_ok());
        server.finish();
    }
}
