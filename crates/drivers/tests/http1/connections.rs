//! Opening, reusing, losing and replacing connections.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use loadframe_engine::driver::{Driver, ErrorClass};
use loadframe_engine::util::draw::Draw;
use serde_json::json;

use crate::scripted::{Client, Server, answer, failure, ping};

#[test]
fn a_connection_that_the_server_announced_to_close_is_not_used_again() {
    let server = Server::play(|listener| {
        for _ in 0..3 {
            let mut peer = listener.accept();
            peer.answer("HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\n{}");
            assert!(peer.is_closed());
        }
    });
    let mut client = Client::new(&[&server.host], 0);
    for k in 0..3 {
        assert!(client.execute(&ping(), k).outcome.is_ok());
    }
    drop(client);
    server.finish();
}

#[test]
fn a_connection_that_was_closed_while_idle_is_replaced_before_anything_is_sent() {
    let server = Server::play(|listener| {
        for _ in 0..3 {
            listener.accept().answer(&answer("200 OK", "{}"));
        }
    });
    let mut client = Client::new(&[&server.host], 0);
    for k in 0..3 {
        assert!(client.execute(&ping(), k).outcome.is_ok(), "request {k}");
        client.pause(50);
    }
    server.finish();
}

#[test]
fn a_connection_that_breaks_is_an_error_and_mended_at_the_next_request() {
    for part in ["", "HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{"] {
        let server = Server::play(move |listener| {
            let mut peer = listener.accept();
            peer.answer(part);
            peer.end();
            listener.accept().answer(&answer("200 OK", "{}"));
        });
        let mut client = Client::new(&[&server.host], 0);
        let (class, message) = failure(client.execute(&ping(), 0).outcome);
        assert_eq!(class, ErrorClass::Connect);
        assert!(message.starts_with("the server closed the connection"), "{message}");
        assert!(client.execute(&ping(), 1).outcome.is_ok());
        server.finish();
    }
}

#[test]
fn a_refused_connection_moves_the_client_to_the_next_host() {
    let refusing = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.answer(&answer("200 OK", "{}"));
        peer.answer(&answer("200 OK", "{}"));
    });
    let mut client = Client::new(&[&refusing, &server.host], 0);
    let reply = client.execute(&ping(), 0);
    assert_eq!(reply.node, 0);
    let (class, message) = failure(reply.outcome);
    assert_eq!(class, ErrorClass::Connect);
    assert!(message.starts_with("cannot connect: Connection refused"), "{message}");
    for k in 1..3 {
        let reply = client.execute(&ping(), k);
        assert!(reply.outcome.is_ok());
        assert_eq!(reply.node, 1);
    }
    server.finish();
}

#[test]
fn clients_take_the_hosts_in_turn() {
    let servers: Vec<_> =
        (0..3).map(|_| Server::play(|listener| listener.accept().answer(&answer("200 OK", "{}")))).collect();
    let hosts: Vec<&str> = servers.iter().map(|server| server.host.as_str()).collect();
    for number in [0, 4, 5] {
        let mut client = Client::new(&hosts, number);
        let reply = client.execute(&ping(), 0);
        assert!(reply.outcome.is_ok());
        assert_eq!(u64::from(reply.node), number % 3);
    }
    servers.into_iter().for_each(|server| server.finish());
}

#[test]
fn a_request_that_is_abandoned_leaves_no_answer_behind_for_the_next() {
    let server = Server::play(|listener| {
        let mut first = listener.accept();
        first.request().unwrap();
        assert!(first.is_closed());
        listener.accept().answer(&answer("200 OK", "{}"));
    });
    let mut client = Client::new(&[&server.host], 0);
    let operation = client.driver.map(&ping(), &client.context).unwrap();
    let draw = Draw::new(1, 2, 0);
    let abandoned = client.runtime.block_on(async {
        let request = client.driver.execute(&mut client.connection, &operation, &client.context, &draw, None);
        tokio::time::timeout(Duration::from_millis(50), request).await
    });
    assert!(abandoned.is_err());
    assert!(client.execute(&ping(), 1).outcome.is_ok());
    server.finish();
}

#[test]
fn a_late_answer_after_a_timeout_is_discarded() {
    let server = Server::play(|listener| {
        let mut slow = listener.accept();
        slow.request().unwrap();
        assert!(slow.is_closed(), "the client has given the request up");
        listener.accept().answer(&answer("200 OK", "{}"));
    });
    let mut client = Client::new(&[&server.host], 0);
    let mut form = ping();
    form["timeout"] = json!(0.1);
    // The time limit includes the time to connect.
    let start = Instant::now();
    let reply = client.execute(&form, 0);
    let waited = reply.done - start;
    assert!((0.1..10.0).contains(&waited.as_secs_f64()), "{waited:?}");
    assert_eq!(failure(reply.outcome), (ErrorClass::Timeout, "no answer within 0.1 s".to_owned()));
    form["timeout"] = json!(30);
    assert!(client.execute(&form, 1).outcome.is_ok());
    server.finish();
}

#[test]
fn each_request_has_its_own_timeout() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        for pause in [100; 12].into_iter().chain([1200]) {
            peer.request().unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            peer.send(answer("200 OK", "{}"));
        }
        // The last request gets no answer; its timeout is shorter than the previous one.
        peer.request().unwrap();
        assert!(peer.is_closed());
    });
    let mut client = Client::new(&[&server.host], 0);
    let mut form = ping();
    for k in 0..13 {
        form["timeout"] = if k < 12 { json!(1) } else { json!(30) };
        assert!(client.execute(&form, k).outcome.is_ok(), "request {k}");
    }
    form["timeout"] = json!(0.05);
    let reply = client.execute(&form, 13);
    let waited = reply.done - reply.sent;
    assert!((0.05..10.0).contains(&waited.as_secs_f64()), "{waited:?}");
    assert_eq!(failure(reply.outcome).0, ErrorClass::Timeout);
    server.finish();
}
