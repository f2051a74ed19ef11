//! Credentials and compressed bodies: the bytes on the wire, and their display without secrets.

use std::io::Read;

use flate2::read::GzDecoder;
use loadframe_engine::driver::Driver;
use loadframe_engine::util::draw::Draw;
use serde_json::json;

use crate::scripted::{Client, Server, answer, bulk, ping, search};

#[test]
fn every_request_says_who_asks_and_nothing_shows_it() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        let mut heads = Vec::new();
        for status in ["200 OK", "401 Unauthorized"] {
            heads.push(peer.request().unwrap().0);
            peer.send(answer(status, "{}"));
        }
        heads
    });
    let target = json!({
        "driver": "search", "hosts": [server.host], "auth": {"basic": {"user": "ann", "password": "hush"}},
    });
    let mut client = Client::of(&serde_json::from_value(target).unwrap(), 0);
    let reply = client.execute(&search(), 0);
    let operation = client.driver.map(&ping(), &client.context).unwrap();
    let draw = Draw::new(1, 2, 1);
    let (failed, exchange) =
        client.runtime.block_on(client.driver.show(&mut client.connection, &operation, &client.context, &draw));
    let encoded = "YW5uOmh1c2g=";
    for head in server.finish() {
        assert!(head.contains(&format!("\r\nauthorization: Basic {encoded}\r\n")), "{head}");
    }
    let shown = format!("{reply:?} {failed:?} {exchange:?} {:?}", client.driver);
    assert!(shown.contains("401") && !shown.contains("hush") && !shown.contains(encoded), "{shown}");
}

#[test]
fn large_bodies_are_compressed_when_that_is_asked_for() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        let mut take = || {
            let request = peer.request().unwrap();
            peer.send(answer("200 OK", r#"{"errors":false,"items":[],"hits":{"hits":[]}}"#));
            request
        };
        [take(), take(), take()]
    });
    let target = json!({"driver": "search", "hosts": [server.host], "compress": true});
    let mut client = Client::of(&serde_json::from_value(target).unwrap(), 0);
    let sent: Vec<u64> = [bulk(1000), search(), ping()].iter().map(|form| client.execute(form, 0).bytes_sent).collect();
    let [(head, body), (search, _), (ping, _)] = server.finish();
    assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");
    assert_eq!(sent[0], (head.len() + body.len()) as u64);
    let mut read = Vec::new();
    GzDecoder::new(body.as_slice()).read_to_end(&mut read).unwrap();
    let mut documents = Vec::new();
    client.context.corpora.get("trips").unwrap().append(0, 1000, b"{\"index\":{}}\n", &mut documents);
    assert!(read == documents, "the body is not the corpus's");
    assert!(body.len() * 3 < read.len(), "{} of {} bytes", body.len(), read.len());
    assert!(!search.contains("gzip") && !ping.contains("gzip"), "small bodies are sent as they are");
}
