//! TLS over real sockets: successful exchanges, and refusals that name the host and the reason.

use std::net::TcpListener;
use std::sync::Arc;

use loadframe_drivers::search::Search;
use loadframe_engine::driver::{Driver, ErrorClass};
use loadframe_engine::plan::{PlanErrorKind, Target};
use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;

use crate::certificates::Authority;
use crate::scripted::{Client, Server, answer, bulk, failure, ping, search};

/// A year after all tests.
const LATER: i32 = 2100;

fn target(host: &str, tls: Value) -> Target {
    serde_json::from_value(json!({"driver": "search", "hosts": [host], "timeout": 10, "tls": tls})).unwrap()
}

/// A server that answers every request of every client; returns whether it received any.
fn answering(config: Arc<ServerConfig>, clients: usize) -> Server<bool> {
    Server::play(move |listener| {
        let mut asked = false;
        for _ in 0..clients {
            let mut peer = listener.accept_tls(&config);
            while peer.request().is_some() {
                asked = true;
                peer.send(answer("200 OK", "{}"));
            }
        }
        asked
    })
}

fn verified(client: &Client) -> Result<(), String> {
    client.runtime.block_on(client.driver.verify()).map_err(|error| {
        assert_eq!(error.kind, PlanErrorKind::Target);
        error.message
    })
}

#[test]
fn requests_and_answers_of_any_size_pass_through_one_connection() {
    let authority = Authority::new();
    let config = authority.server(&authority.sign("127.0.0.1", LATER), false);
    let hit = json!({"_id": "1", "_source": {"text": "x".repeat(200)}});
    let hits = answer("200 OK", &json!({"hits": {"hits": vec![hit; 10_000]}}).to_string());
    let server = Server::play(move |listener| {
        let mut peer = listener.accept_tls(&config);
        peer.answer(&answer("200 OK", "{}"));
        let (_, body) = peer.request().unwrap();
        peer.send(answer("200 OK", r#"{"errors":false,"items":[]}"#));
        peer.answer(&hits);
        body.len()
    });
    let mut client = Client::of(&target(&server.host, json!({"ca": authority.file()})), 0);
    assert!(client.execute(&ping(), 0).outcome.is_ok());
    // By now the server has sent session tickets unprompted; they must not end the connection.
    client.pause(50);
    let reply = client.execute(&bulk(50_000), 1);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    let reply = client.execute(&search(), 2);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    assert_eq!(reply.documents, 10_000);
    assert!(server.finish() > 20_000_000);
}

#[test]
fn a_connection_that_was_closed_while_idle_is_replaced() {
    let authority = Authority::new();
    let config = authority.server(&authority.sign("127.0.0.1", LATER), false);
    let server = Server::play(move |listener| {
        for _ in 0..2 {
            listener.accept_tls(&config).answer(&answer("200 OK", "{}"));
        }
    });
    let mut client = Client::of(&target(&server.host, json!({"ca": authority.file()})), 0);
    for k in 0..2 {
        let reply = client.execute(&ping(), k);
        assert!(reply.outcome.is_ok(), "request {k}: {:?}", reply.outcome);
        client.pause(50);
    }
    server.finish();
}

#[test]
fn an_unverifiable_certificate_is_refused_before_the_load_with_the_reason() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (name, year, ca, cause) in [
        ("127.0.0.1", LATER, &stranger, "its issuer is not trusted; name the issuer's certificate as ca"),
        ("127.0.0.1", 2020, &authority, "it expired "),
        ("elsewhere.test", LATER, &authority, "it is for elsewhere.test, and not for 127.0.0.1"),
    ] {
        let server = answering(authority.server(&authority.sign(name, year), false), 2);
        let mut client = Client::of(&target(&server.host, json!({"ca": ca.file()})), 0);
        let cause = format!("its certificate does not verify: {cause}");
        let error = verified(&client).unwrap_err();
        assert!(error.starts_with(&format!("host \"{}\": {cause}", server.host)), "{error}");
        let (class, message) = failure(client.execute(&ping(), 0).outcome);
        assert_eq!(class, ErrorClass::Connect);
        assert!(message.starts_with(&format!("cannot connect: {cause}")), "{message}");
        assert!(!server.finish(), "a request was sent");
    }
}

#[test]
fn a_certificate_is_believed_unseen_only_when_that_is_said() {
    let authority = Authority::new();
    let server = answering(authority.server(&authority.sign("elsewhere.test", 2020), false), 2);
    let mut client = Client::of(&target(&server.host, json!({"verify": false})), 0);
    verified(&client).unwrap();
    assert!(client.execute(&ping(), 0).outcome.is_ok());
    drop(client);
    assert!(server.finish());
}

#[test]
fn a_certificate_that_verifies_is_no_error_before_the_load_nor_is_a_host_that_is_not_there() {
    let authority = Authority::new();
    let server = answering(authority.server(&authority.sign("127.0.0.1", LATER), false), 1);
    let client = Client::of(&target(&server.host, json!({"ca": authority.file()})), 0);
    verified(&client).unwrap();
    server.finish();
    verified(&client).unwrap();
}

#[test]
fn a_server_that_wants_the_clients_certificate_gets_it() {
    let authority = Authority::new();
    let server = answering(authority.server(&authority.sign("127.0.0.1", LATER), true), 2);
    let client_certificate = authority.sign("client", LATER);
    let (certificate, key) = (
        authority.write("own.pem", &client_certificate.certificate.pem()),
        authority.write("own.key", &client_certificate.key.serialize_pem()),
    );
    let mut client =
        Client::of(&target(&server.host, json!({"ca": authority.file(), "certificate": certificate, "key": key})), 0);
    assert!(client.execute(&ping(), 0).outcome.is_ok());
    drop(client);

    let mut client = Client::of(&target(&server.host, json!({"ca": authority.file()})), 0);
    let (class, message) = failure(client.execute(&ping(), 0).outcome);
    assert_eq!(class, ErrorClass::Connect);
    assert!(message.ends_with("it wants a client's certificate"), "{message}");
    server.finish();
}

#[test]
fn an_unencrypted_server_is_refused_before_the_load() {
    let authority = Authority::new();
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        peer.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        peer.end();
    });
    let client = Client::of(&target(&server.host, json!({"ca": authority.file()})), 0);
    assert_eq!(verified(&client).unwrap_err(), format!("host \"{}\": it does not speak TLS", server.host));
    server.finish();
}

#[test]
fn files_that_cannot_serve_are_refused_by_name() {
    let authority = Authority::new();
    let (client_certificate, other) = (authority.sign("client", LATER), authority.sign("client", LATER));
    let (ca, certificate) = (authority.file(), authority.write("own.pem", &client_certificate.certificate.pem()));
    let other_key = authority.write("other.key", &other.key.serialize_pem());
    let (empty, missing) = (authority.write("empty.pem", ""), authority.write("gone.pem", ""));
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = authority.write("locked.key", locked);
    std::fs::remove_file(&missing).unwrap();
    let host = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (tls, cause) in [
        (json!({"ca": missing}), format!("{}: No such file or directory", missing.display())),
        (json!({"ca": empty}), format!("{} holds no certificate in PEM", empty.display())),
        (json!({"ca": other_key}), format!("{} holds no certificate in PEM", other_key.display())),
        (json!({"ca": ca, "certificate": certificate}), "a client's certificate needs its key: give both".to_owned()),
        (json!({"ca": ca, "key": other_key}), "a client's key needs its certificate: give both".to_owned()),
        (
            json!({"ca": ca, "certificate": certificate, "key": locked}),
            format!("{} holds no private key that is not encrypted in PEM", locked.display()),
        ),
        (
            json!({"ca": ca, "certificate": certificate, "key": other_key}),
            format!("{} and {} do not go together: ", certificate.display(), other_key.display()),
        ),
    ] {
        let error = Search::new(&target(&host, tls)).unwrap_err().message;
        assert!(error.starts_with(&cause), "{error}");
    }
}
