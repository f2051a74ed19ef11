//! The driver for REST APIs: its requests, captures and judgement of answers.

use loadframe_drivers::http::Http;
use loadframe_engine::driver::{Driver, ErrorClass};
use loadframe_engine::util::draw::Draw;
use serde_json::{Value, json};

use crate::erased::start;
use crate::nodes::HttpNode;
use crate::scripted::{Client, Server, answer, failure, target};

/// A client with a variable `k`, which can capture a token and an id.
fn client(host: &str) -> Client<Http> {
    let variables = json!({"k": {"sequential": {"from": 0}}, "token": {"captured": {}}, "id": {"captured": {}}});
    Client::with(&target(&[host]), 0, &variables)
}

fn get(more: Value) -> Value {
    let mut form = json!({"method": "GET", "path": "/"});
    form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "http": form })
}

/// Sends one answer per request; returns the requests.
fn play(answers: Vec<String>) -> Server<Vec<(String, Vec<u8>)>> {
    Server::play(move |listener| {
        let mut peer = listener.accept();
        let talk = |answer: String| {
            let request = peer.request().unwrap();
            peer.send(answer);
            request
        };
        answers.into_iter().map(talk).collect()
    })
}

#[test]
fn a_request_is_sent_as_it_was_written() {
    let server = play(vec![answer("201 Created", "{}"), answer("200 OK", "<ok/>"), answer("204 No Content", "")]);
    let mut client = client(&server.host);
    let forms = [
        json!({"http": {
            "method": "POST", "path": "/users/${k}/items?all=1", "parameters": {"q": "a b&${k}", "n": 5},
            "headers": {"X-Trace": "t-${k}", "Accept": "*/*"}, "body": {"n": "${k}", "list": [1, "x ${k}"]},
        }}),
        json!({"http": {"method": "PUT", "path": "/x", "headers": {"Content-Type": "text/xml"}, "text": "<n>${k}</n>"}}),
        json!({"http": {"method": "DELETE", "path": "/x", "headers": {"Host": "inside.example", "X-Number": 7}}}),
    ];
    for form in &forms {
        let reply = client.execute(form, 3);
        assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
        assert_eq!(reply.documents, 0);
    }
    let host = server.host.clone();
    let requests = server.finish();
    let body = r#"{"n":3,"list":[1,"x 3"]}"#;
    let head = format!(
        "POST /users/3/items?all=1&q=a%20b%263&n=5 HTTP/1.1\r\nhost: {host}\r\nX-Trace: t-3\r\nAccept: */*\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    assert_eq!(requests[0], (head, body.as_bytes().to_vec()));
    let head = format!("PUT /x HTTP/1.1\r\nhost: {host}\r\nContent-Type: text/xml\r\ncontent-length: 8\r\n\r\n");
    assert_eq!(requests[1], (head, b"<n>3</n>".to_vec()));
    let head = "DELETE /x HTTP/1.1\r\nHost: inside.example\r\nX-Number: 7\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(requests[2], (head.to_owned(), Vec::new()));
}

#[test]
fn captured_values_are_used_in_later_requests() {
    let created = "HTTP/1.1 201 Created\r\nLocation: /items/a b\r\ncontent-length: 2\r\n\r\n{}".to_owned();
    let login = answer("200 OK", r#"{"session": {"token": "t\u0022k", "user": 17}}"#);
    let server = play(vec![login, created, answer("200 OK", "{}"), answer("200 OK", "{}")]);
    let mut client = client(&server.host);
    let login = json!({"http": {
        "method": "POST", "path": "/login", "body": {},
        "capture": {"token": {"json": "/session/token"}, "id": {"json": "/session/user"}},
    }});
    assert!(client.execute(&login, 0).outcome.is_ok());
    let create = json!({"http": {
        "method": "POST", "path": "/users/${id}/items", "headers": {"Authorization": "Bearer ${token}"},
        "body": {"owner": "${id}", "by": "user ${id} with ${token}"}, "capture": {"id": {"header": "location"}},
    }});
    assert!(client.execute(&create, 1).outcome.is_ok());
    let read = json!({"http": {"method": "GET", "path": "/read", "parameters": {"at": "${id}"}}});
    assert!(client.execute(&read, 2).outcome.is_ok());
    let text = json!({"http": {"method": "PUT", "path": "/read", "text": "${token}"}});
    assert!(client.execute(&text, 3).outcome.is_ok());
    let requests = server.finish();
    assert!(requests[1].0.starts_with("POST /users/17/items HTTP/1.1\r\n"), "{}", requests[1].0);
    assert!(requests[1].0.contains("\r\nAuthorization: Bearer t\"k\r\n"), "{}", requests[1].0);
    assert_eq!(requests[1].1, br#"{"owner":17,"by":"user 17 with t\"k"}"#);
    assert!(requests[2].0.starts_with("GET /read?at=%2Fitems%2Fa%20b HTTP/1.1\r\n"), "{}", requests[2].0);
    assert_eq!(requests[3].1, b"t\"k");
}

#[test]
fn each_client_keeps_its_own_values_until_its_user_leaves() {
    let server = play(vec![answer("200 OK", r#"{"t": 1}"#), answer("200 OK", "{}")]);
    let mut first = client(&server.host);
    let mut other = client(&server.host);
    let login = get(json!({"capture": {"token": {"json": "/t"}}}));
    let read = get(json!({"parameters": {"token": "${token}"}}));
    assert!(first.execute(&login, 0).outcome.is_ok());
    let expected = "not sent: no answer has given this client a value for \"token\" yet".to_owned();
    let reply = other.execute(&read, 0);
    assert_eq!((reply.bytes_sent, reply.bytes_received), (0, 0));
    assert_eq!(failure(reply.outcome), (ErrorClass::Assertion, expected.clone()));
    assert!(first.execute(&read, 1).outcome.is_ok());
    first.driver.depart(&mut first.connection);
    assert_eq!(failure(first.execute(&read, 2).outcome).1, expected);
    server.finish();
}

#[test]
fn a_missing_captured_value_is_a_failed_assertion() {
    for (capture, body, cause) in [
        (
            json!({"json": "/a/token"}),
            r#"{"a": {"tokn": 1}}"#,
            "the answer has nothing at \"/a/token\": {\"a\": {\"tokn\": 1}}",
        ),
        (json!({"json": "/a"}), "<html>", "the answer is not JSON: <html>"),
        (json!({"header": "X-Token"}), "{}", "cannot capture \"token\": the answer lacks the header \"X-Token\""),
    ] {
        let server = play(vec![answer("200 OK", body)]);
        let reply = client(&server.host).execute(&get(json!({"capture": {"token": capture}})), 0);
        assert_eq!(failure(reply.outcome), (ErrorClass::Assertion, cause.to_owned()));
        server.finish();
    }
}

#[test]
fn an_answer_is_judged_by_its_status_unless_others_are_expected() {
    let cases = [
        (json!({}), "200 OK", None),
        (json!({}), "302 Found", Some((ErrorClass::Client, "HTTP 302: {\"a\": 1}; redirects are not followed"))),
        (json!({}), "404 Not Found", Some((ErrorClass::Client, "HTTP 404: {\"a\": 1}"))),
        (json!({}), "429 Too Many", Some((ErrorClass::Rejected, "HTTP 429: {\"a\": 1}"))),
        (json!({}), "503 Away", Some((ErrorClass::Server, "HTTP 503: {\"a\": 1}"))),
        (json!({"status": [200, 404]}), "404 Not Found", None),
        (json!({"status": 302}), "302 Found", None),
        (json!({"status": [201, 202]}), "200 OK", Some((ErrorClass::Assertion, "HTTP 200, and not 201 or 202"))),
        (json!({"status": [201]}), "500 Error", Some((ErrorClass::Server, "HTTP 500: {\"a\": 1}"))),
    ];
    for (expect, status, outcome) in cases {
        let server = play(vec![answer(status, r#"{"a": 1}"#)]);
        let reply = client(&server.host).execute(&get(json!({"expect": expect})), 0);
        let judged = reply.outcome.err().map(|failure| (failure.class, failure.message));
        assert_eq!(judged, outcome.map(|(class, message)| (class, message.to_owned())), "{expect} of {status}");
        server.finish();
    }
}

#[test]
fn bodies_are_compared_with_the_expected_ones() {
    let body = r#"{"user": {"id": 3, "tags": ["a", {"b": 2.0}], "gone": null}, "ok": true}"#;
    for (expect, cause) in [
        (json!({"json": {"/ok": true, "/user/id": "${k}", "/user/tags": ["a", {"b": 2}], "/user/gone": null}}), None),
        (json!({"json": {"/ok": false}}), Some("at \"/ok\" there is true, and not false")),
        (json!({"json": {"/user/tags/0": "b"}}), Some("at \"/user/tags/0\" there is \"a\", and not \"b\"")),
        (json!({"json": {"/user/name": "x"}}), Some("the answer has nothing at \"/user/name\": ")),
        (json!({"contains": "\"id\": ${k},"}), None),
        (json!({"contains": "nothing"}), Some("the answer does not contain \"nothing\": {\"user\"")),
    ] {
        let server = play(vec![answer("200 OK", body)]);
        let reply = client(&server.host).execute(&get(json!({"expect": expect})), 3);
        match cause {
            None => assert!(reply.outcome.is_ok(), "{expect}: {:?}", reply.outcome),
            Some(cause) => {
                let (class, message) = failure(reply.outcome);
                assert_eq!(class, ErrorClass::Assertion);
                assert!(message.starts_with(cause), "{message}");
            }
        }
        server.finish();
    }
}

#[test]
fn the_target_says_who_asks_unless_the_request_does() {
    let server = play(vec![answer("200 OK", "{}"), answer("200 OK", "{}")]);
    let mut target = target(&[&server.host]);
    target.auth = serde_json::from_str(r#"{"bearer": "hush"}"#).unwrap();
    let mut client = Client::<Http>::with(&target, 0, &json!({}));
    assert!(client.execute(&get(json!({})), 0).outcome.is_ok());
    assert!(client.execute(&get(json!({"headers": {"authorization": "Basic own"}})), 1).outcome.is_ok());
    let requests = server.finish();
    assert!(requests[0].0.contains("\r\nauthorization: Bearer hush\r\n"));
    assert!(requests[1].0.contains("\r\nauthorization: Basic own\r\n") && !requests[1].0.contains("hush"));
}

#[test]
fn sent_and_unsent_requests_are_shown() {
    let server = play(vec![answer("200 OK", r#"{"t": 1}"#)]);
    let mut client = client(&server.host);
    let show = |client: &mut Client<Http>, form: &Value| {
        let operation = client.driver.map(form, &client.context).unwrap();
        let draw = Draw::new(1, 2, 0);
        let shown = client.driver.show(&mut client.connection, &operation, &client.context, &draw);
        client.runtime.block_on(shown).1
    };
    let login = get(json!({"headers": {"authorization": "hush"}, "capture": {"token": {"json": "/t"}}}));
    let exchange = show(&mut client, &login);
    assert_eq!(exchange.request, "GET / HTTP/1.1");
    assert_eq!(exchange.answer, "HTTP/1.1 200 OK\n\n{\n  \"t\": 1\n}");
    let exchange = show(&mut client, &get(json!({"path": "/${id}"})));
    assert_eq!(exchange.request, "");
    assert_eq!(exchange.answer, "not sent: no answer has given this client a value for \"id\" yet");
    server.finish();
}

/// Runs a phase of `stream` against one node that distinguishes logins; returns its outcome.
fn phase(stream: &Value, seconds: f64) -> Value {
    let server = HttpNode::new();
    let folder = std::env::temp_dir().join(format!("loadframe-rest-{}-{}", std::process::id(), stream["name"]));
    std::fs::create_dir(&folder).unwrap();
    let mut stream = stream.clone();
    stream["stop"] = json!({"duration": seconds});
    let plan = json!({
        "seed": 1, "phase": "p", "target": {"driver": "http", "hosts": [server.host]},
        "variables": {"token": {"captured": {}}},
        "operations": {
            "login": get(json!({"capture": {"token": {"header": "content-type"}}})),
            "failed": get(json!({"capture": {"token": {"header": "x-none"}}})),
            "use": get(json!({"headers": {"x": "${token}"}})),
        },
        "streams": [stream],
    });
    let running = start::<Http>(serde_json::from_value(plan).unwrap(), &folder).unwrap();
    let outcome = running.outcome().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    outcome["operations"].clone()
}

#[test]
fn a_client_that_cannot_even_ask_does_not_turn_in_circles() {
    let stream = json!({"name": "s", "mix": [["use", 1]], "pacing": {"closed": {"clients": 2}}});
    let operation = &phase(&stream, 1.0)[0];
    let requests = operation["requests"].as_u64().unwrap();
    assert!((10..=24).contains(&requests), "two clients that pause for a tenth of a second: {requests}");
    assert_eq!((&operation["successes"], &operation["errors"][0]["class"]), (&json!(0), &json!("assertion")));
}

#[test]
fn a_new_user_starts_without_captured_values() {
    let journey = |first: &str| {
        json!({
            "name": first, "journey": [{"operation": first, "think_time": 0}, {"operation": "use", "think_time": 0}],
            "pacing": {"open": {"rate": 50}},
        })
    };
    let operations = phase(&journey("login"), 1.0);
    for operation in [&operations[0], &operations[1]] {
        // The last user to arrive may be in flight at the end.
        assert!(operation["successes"].as_u64().unwrap() > 10 && operation["successes"] == operation["requests"]);
    }
    let operations = phase(&journey("failed"), 1.0);
    assert_eq!((&operations[0]["successes"], &operations[1]["successes"]), (&json!(0), &json!(0)));
}

#[test]
fn times_that_an_answer_tells_are_parts_of_the_operation() {
    let told = "HTTP/1.1 200 OK\r\nServer-Timing: store;dur=2.500\r\nServer-Timing: app;dur=0.25\r\nX-Id: r-0\r\n\
                content-length: 0\r\n\r\n";
    let server = play(vec![told.to_owned(), told.to_owned(), answer("200 OK", ""), answer("500 Broken", "")]);
    let mut client = client(&server.host);
    let form = get(json!({"timing": ["app", "store"], "expect": {"headers": {"x-id": "r-${k}"}}}));
    let reply = client.execute(&form, 0);
    assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
    let times = reply.parts.iter().map(|part| (part.name, (part.done - part.sent).as_micros())).collect::<Vec<_>>();
    assert_eq!(times, [(0, 250), (1, 2500)]);
    assert!(reply.parts.iter().all(|part| part.failed.is_none() && part.done == reply.done));
    // Stands for the answer to another request.
    let reply = client.execute(&form, 1);
    assert!(reply.parts.iter().all(|part| part.failed == Some(ErrorClass::Assertion)));
    let message = "in the header \"x-id\" there is r-0, and not \"r-1\"";
    assert_eq!(failure(reply.outcome), (ErrorClass::Assertion, message.to_owned()));
    let untold = get(json!({"timing": ["store"]}));
    let reply = client.execute(&untold, 0);
    let message = "the answer's Server-Timing does not tell \"store\": \"\"";
    assert_eq!(failure(reply.outcome), (ErrorClass::Assertion, message.to_owned()));
    let reply = client.execute(&untold, 0);
    assert!(reply.parts.is_empty());
    assert_eq!(failure(reply.outcome).0, ErrorClass::Server);
    server.finish();
}
