//! Tests of invalid request forms.

use serde_json::json;

use super::*;

/// Returns the message that refuses an operation.
fn error(form: &Value) -> String {
    let variables = json!({"k": {"sequential": {"from": 0}}, "token": {"captured": {}}});
    let variables = Variables::parse(variables.as_object().unwrap()).unwrap();
    Operation::map(form, &variables, Duration::from_secs(1)).unwrap_err().message
}

#[test]
fn a_bad_form_is_refused_with_the_place_and_the_reason() {
    let with = |more: Value| {
        let mut form = json!({"method": "GET", "path": "/"});
        form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "http": form })
    };
    for (form, message) in [
        (json!([]), "wants a mapping, not []"),
        (json!({"htp": {}}), "unknown key \"htp\"; did you mean \"http\"?"),
        (json!({"http": {"path": "/"}}), "http: \"method\" is missing"),
        (json!({"http": {"method": "GET", "path": "x"}}), "http: \"path\" begins with a slash; \"x\" does not"),
        (with(json!({"method": "PATC"})), "http: unknown method \"PATC\"; did you mean \"PATCH\"?"),
        (with(json!({"heders": {}})), "http: unknown key \"heders\"; did you mean \"headers\"?"),
        (with(json!({"headers": []})), "http: \"headers\" wants a mapping, not []"),
        (with(json!({"headers": {"a b": "x"}})), "http: header \"a b\": it is not a valid header name"),
        (
            with(json!({"headers": {"Content-Length": "5"}})),
            "http: header \"Content-Length\": the generator sets it; leave it out",
        ),
        (with(json!({"headers": {"x": "a\r\nb: c"}})), "http: header \"x\": \"a\\r\\nb: c\" contains '\\r', which"),
        (
            with(json!({"headers": {"x": "${tokn}"}})),
            "http: header \"x\": unknown variable \"tokn\"; did you mean \"token\"?",
        ),
        (with(json!({"body": {}, "text": "x"})), "http: a request has a \"body\" or a \"text\", not both"),
        (with(json!({"text": {}})), "http: \"text\" wants a text, not {}"),
        (with(json!({"body": "${lost}"})), "http: unknown variable \"lost\""),
        (with(json!({"capture": {"k": {"json": "/k"}}})), "http: capture \"k\": it is drawn, not captured"),
        (
            with(json!({"capture": {"tokn": {"json": "/k"}}})),
            "http: capture \"tokn\": unknown variable \"tokn\"; did you mean \"token\"?",
        ),
        (
            with(json!({"capture": {"token": {"json": "k"}}})),
            "http: capture \"token\": \"k\" is not a JSON pointer; write a slash",
        ),
        (with(json!({"capture": {"token": {"cookie": "k"}}})), "http: capture \"token\": unknown key \"cookie\""),
        (
            with(json!({"capture": {"token": {}}})),
            "http: capture \"token\": wants {json: ...} or {header: ...}, not {}",
        ),
        (with(json!({"expect": {"status": [99]}})), "http: expect: \"status\" wants numbers from 200 to 599, not 99"),
        (with(json!({"expect": {"status": []}})), "http: expect: \"status\" wants numbers from 200 to 599, not []"),
        (with(json!({"expect": {"json": {"a": 1}}})), "http: expect: \"a\" is not a JSON pointer"),
        (
            with(json!({"expect": {"contain": "x"}})),
            "http: expect: unknown key \"contain\"; did you mean \"contains\"?",
        ),
        (json!({"http": {"method": "GET", "path": "/"}, "timeout": 0}), "\"timeout\" wants seconds above 0, not 0"),
    ] {
        let error = error(&form);
        assert!(error.starts_with(message), "{form}: {error}");
    }
}
