//! Forms and the requests that they become.

use std::collections::BTreeMap;

use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::corpus::Corpora;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::json;

use super::*;
use crate::http1::access::Access;
use crate::http1::request::Buffers;
use crate::net::target_node::Host;

mod bulk;
mod ingest;

/// Returns a context with the variables `low`, `k` and `name`, and the corpora `trips` (25 documents) and `records`
/// (3).
fn context() -> Context {
    let variables = json!({"low": {"constant": 7}, "k": {"sequential": {"from": 0}}, "name": {"constant": "a b"}});
    let corpora = BTreeMap::from([
        ("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 25})),
        ("records".to_owned(), json!({"generate": "ycsb_record", "documents": 3})),
    ]);
    Context {
        variables: Variables::parse(variables.as_object().unwrap()).unwrap(),
        corpora: Corpora::open(&corpora, 1).unwrap(),
    }
}

/// Maps an operation for the newest Elasticsearch, with a default timeout of 60 s.
fn map(form: Value) -> Result<Operation, PlanError> {
    Operation::map(&form, &context(), (&Dialect::new(None).unwrap(), &Register::default()), Duration::from_secs(60))
}

/// Returns the text of request number `k`, as it is sent.
fn sent(form: Value, k: u64) -> String {
    rendered(&map(form).unwrap().step, k)
}

/// Returns the text of request number `k` of a step, as it is sent.
fn rendered(step: &SearchStep, k: u64) -> String {
    let host = Host::resolve("127.0.0.1:9200").unwrap();
    let mut buffers = Buffers::default();
    let draw = Draw::new(1, 2, k);
    let variables = context().variables;
    let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
    let rendered = step.request.render(&host, &Access::default(), &values, &mut buffers).unwrap();
    String::from_utf8(rendered.parts.concat()).unwrap()
}

/// Returns the message that refuses an operation.
fn error(form: Value) -> String {
    map(form).unwrap_err().message
}

/// Checks that only operations with one answer capture values from its body.
#[test]
fn one_answer_gives_values() {
    let context = Context {
        variables: Variables::parse(json!({"total": {"captured": null}}).as_object().unwrap()).unwrap(),
        corpora: Corpora::default(),
    };
    let map = |form: Value| {
        let mapped = Operation::map(
            &form,
            &context,
            (&Dialect::new(None).unwrap(), &Register::default()),
            Duration::from_secs(60),
        );
        mapped.map(drop).map_err(|error| error.message)
    };
    let (key, json) = (json!({"collection": "c", "id": "x"}), json!({"total": {"json": "/_version"}}));
    let write = json!({"collection": "c", "id": "x", "document": {"a": 1}});
    assert_eq!(map(json!({"index": write, "capture": json})), Ok(()));
    assert_eq!(map(json!({"get": key, "capture": {"total": {"field": "a.b"}}})), Ok(()));
    assert_eq!(
        map(json!({"scroll": {"collection": "c", "size": 1}, "capture": {"total": {"header": "date"}}})),
        Ok(())
    );
    for (form, message) in [
        (
            json!({"read_modify_write": write, "capture": json}),
            "capture: only one answer gives values, and read_modify",
        ),
        (json!({"scroll": {"collection": "c", "size": 1}, "capture": json}), "capture: only one answer gives values"),
        (json!({"index": write, "capture": {"total": {"field": "a"}}}), "capture \"total\": index reads no documents"),
        (json!({"get": key, "capture": {"total": {"field": "a", "json": "/b"}}}), "capture \"total\": unknown key"),
        (json!({"get": key, "capture": {"other": {"json": "/a"}}}), "capture \"other\": unknown variable"),
        (json!({"get": key, "capture": ["total"]}), "\"capture\" wants {NAME: SOURCE}"),
    ] {
        let error = map(form).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn a_search_is_sent_with_its_size_and_parameters_in_the_query() {
    let form = json!({"search": {
        "collection": "taxis", "size": 100, "request_cache": false, "parameters": {"routing": "a&b"},
        "body": {"query": {"range": {"total": {"gte": "${low}", "lt": 15}}}},
    }});
    let body = r#"{"query":{"range":{"total":{"gte":7,"lt":15}}}}"#;
    let head = "POST /taxis/_search?request_cache=false&size=100&routing=a%26b HTTP/1.1\r\nhost: 127.0.0.1:9200\r\n";
    let fields = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    assert_eq!(sent(form, 0), format!("{head}{fields}{body}"));
}

/// Checks that a fixed body and a rendered one are sent in the same form.
#[test]
fn a_request_without_holes_is_the_same_as_one_with() {
    let search = |gte: Value| json!({"search": {"collection": "taxis", "body": {"gte": gte}}});
    assert_eq!(sent(search(json!(7)), 0), sent(search(json!("${low}")), 0));
}

#[test]
fn operations_on_documents_have_their_paths_and_bodies() {
    let first_line_and_body = |form: Value| {
        let text = sent(form, 3);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split("\r\n").next().unwrap().to_owned(), body.to_owned())
    };
    let id = "${name}/${k}";
    for (form, line, body) in [
        (json!({"get": {"collection": "c", "id": id}}), "GET /c/_doc/a%20b%2F3", ""),
        (json!({"delete": {"collection": "c", "id": 12}}), "DELETE /c/_doc/12", ""),
        (
            json!({"index": {"collection": "c", "id": id, "document": {"a": "${k}"}}}),
            "PUT /c/_doc/a%20b%2F3",
            "{\"a\":3}",
        ),
        (json!({"index": {"collection": "c", "document": {"a": 1}}}), "POST /c/_doc", "{\"a\":1}"),
        (
            json!({"update": {"collection": "c", "id": "x", "document": {"a": 1}}}),
            "POST /c/_update/x?retry_on_conflict=100",
            "{\"doc\":{\"a\":1}}",
        ),
        (json!({"read": {"collection": "c", "id": id}}), "GET /c/_doc/a%20b%2F3", ""),
        (
            json!({"read": {"collection": "c", "id": 1, "fields": ["a", "b.c"]}}),
            "GET /c/_doc/1?_source_includes=a,b.c",
            "",
        ),
        (
            json!({"insert": {"collection": "c", "id": id, "document": {"a": 1}}}),
            "PUT /c/_create/a%20b%2F3",
            "{\"a\":1}",
        ),
        (
            json!({"upsert": {"collection": "c", "id": "x", "document": {"a": "${k}"}}}),
            "POST /c/_update/x?retry_on_conflict=100",
            "{\"doc\":{\"a\":3},\"doc_as_upsert\":true}",
        ),
        (json!({"read_modify_write": {"collection": "c", "id": "x", "document": {"a": 1}}}), "GET /c/_doc/x", ""),
        (
            json!({"scan": {"collection": "c", "from": "user${k}", "count": "${k}", "by": "key"}}),
            "POST /c/_search?size=3",
            "{\"query\":{\"range\":{\"key\":{\"gte\":\"user3\"}}},\"sort\":[{\"key\":\"asc\"}],\"track_total_hits\":false}",
        ),
        (json!({"get": {"collection": "c", "id": "x", "routing": "u/${k}"}}), "GET /c/_doc/x?routing=u%2F3", ""),
        (
            json!({"read": {"collection": "c", "id": "x", "fields": ["a"], "routing": 7}}),
            "GET /c/_doc/x?routing=7&_source_includes=a",
            "",
        ),
        (
            json!({"index": {"collection": "c", "id": "x", "routing": "u", "refresh": "wait_for", "document": {}}}),
            "PUT /c/_doc/x?routing=u&refresh=wait_for",
            "{}",
        ),
        (
            json!({"update": {"collection": "c", "id": "x", "routing": "u", "refresh": true, "document": {}}}),
            "POST /c/_update/x?retry_on_conflict=100&routing=u&refresh=true",
            "{\"doc\":{}}",
        ),
        (json!({"delete": {"collection": "c", "id": "x", "routing": "u"}}), "DELETE /c/_doc/x?routing=u", ""),
        (
            json!({"index_many": {"collection": "c-${k}", "routing": "u", "refresh": false, "documents": [
                {"id": "a\"${k}", "document": {"n": "${k}"}}, {"id": 5, "document": {}}]}}),
            "POST /c-3/_bulk?routing=u&refresh=false",
            "{\"index\":{\"_id\":\"a\\\"3\"}}\n{\"n\":3}\n{\"index\":{\"_id\":\"5\"}}\n{}\n",
        ),
        (
            json!({"force_merge": {"collection": "c", "only_expunge_deletes": false, "flush": true}}),
            "POST /c/_forcemerge?only_expunge_deletes=false&flush=true",
            "",
        ),
        (json!({"refresh": {"collection": "a,b-*"}}), "POST /a,b-*/_refresh", ""),
        (json!({"force_merge": {"collection": "c"}}), "POST /c/_forcemerge", ""),
        (json!({"force_merge": {"collection": "c", "max_segments": 1}}), "POST /c/_forcemerge?max_num_segments=1", ""),
        (json!({"request": {"method": "PUT", "path": "/c?x=1", "parameters": {"y": true}}}), "PUT /c?x=1&y=true", ""),
        (json!({"request": {"method": "HEAD", "path": "/c/_doc/${name}"}}), "HEAD /c/_doc/a%20b", ""),
        (json!({"request": {"method": "POST", "path": "/_x", "body": ["${k}"]}}), "POST /_x", "[3]"),
    ] {
        assert_eq!(first_line_and_body(form), (format!("{line} HTTP/1.1"), body.to_owned()));
    }
}

/// Checks that an operation without a corpus has an unlimited number of requests.
#[test]
fn only_a_corpus_has_an_end() {
    assert_eq!(map(json!({"refresh": {"collection": "c"}})).unwrap().step.request.requests(), None);
}

#[test]
fn an_operation_may_have_its_own_timeout_and_assertion() {
    let operation = map(json!({"search": {"collection": "c"}, "timeout": 0.5, "assert": {"min_hits": 3}})).unwrap();
    assert_eq!(operation.timeout, Duration::from_millis(500));
    assert!(operation.assertion.unwrap().counts());
    assert_eq!(map(json!({"search": {"collection": "c"}})).unwrap().timeout, Duration::from_secs(60));
}

#[test]
fn an_unknown_word_gets_its_nearest_neighbour() {
    for (form, message) in [
        (json!({"serch": {}}), "unknown operation \"serch\"; did you mean \"search\"?"),
        (json!({"search": {"colection": "c"}}), "unknown key \"colection\"; did you mean \"collection\"?"),
        (json!({"search": {"collection": "c"}, "timout": 1}), "unknown key \"timout\"; did you mean \"timeout\"?"),
        (
            json!({"search": {"collection": "c", "body": {"a": "${lo}"}}}),
            "unknown variable \"lo\"; did you mean \"low\"?",
        ),
        (
            json!({"bulk": {"collection": "c", "corpus": "trip", "size": 1}}),
            "unknown corpus \"trip\"; did you mean \"trips\"?",
        ),
        (
            json!({"bulk": {"collection": "c", "corpus": "trips", "size": 1, "action": "creat"}}),
            "unknown action \"creat\"; did you mean \"create\"?",
        ),
        (json!({"request": {"method": "PUST", "path": "/"}}), "unknown method \"PUST\"; did you mean \"POST\"?"),
        (
            json!({"search": {"collection": "c"}, "assert": {"min_hit": 1}}),
            "unknown key \"min_hit\"; did you mean \"min_hits\"?",
        ),
    ] {
        assert!(error(form.clone()).ends_with(message), "{form}: {}", error(form.clone()));
    }
}

#[test]
fn a_bad_form_is_refused_with_the_reason() {
    for (form, message) in [
        (json!("search"), "an operation is a mapping, not \"search\""),
        (json!({}), "an operation names its kind, one of insert, read, "),
        (json!({"timeout": 1}), "an operation names its kind, one of insert, read, "),
        (json!({"search": {}, "get": {}}), "an operation has one kind, not both search and get"),
        (json!({"search": []}), "search: wants a mapping, not []"),
        (json!({"search": {}}), "search: \"collection\" is missing"),
        (json!({"search": {"collection": ""}}), "search: \"collection\" wants a text, not \"\""),
        (json!({"search": {"collection": "c", "size": -1}}), "search: \"size\" wants a whole number, not -1"),
        (
            json!({"search": {"collection": "c", "request_cache": "no"}}),
            "search: \"request_cache\" wants true or false",
        ),
        (json!({"search": {"collection": "c", "body": "x"}}), "search: \"body\" wants a mapping, not \"x\""),
        (
            json!({"search": {"collection": "c", "parameters": {"a": []}}}),
            "search: parameter \"a\" wants a text, a number",
        ),
        (
            json!({"bulk": {"collection": "c", "corpus": "trips", "size": 0}}),
            "bulk: \"size\" wants a whole number above 0",
        ),
        (json!({"get": {"collection": "c"}}), "get: \"id\" is missing"),
        (json!({"get": {"collection": "c", "id": ""}}), "get: \"id\" wants a text or a number, not \"\""),
        (json!({"index": {"collection": "c"}}), "index: \"document\" is missing"),
        (json!({"request": {"method": "GET", "path": "x"}}), "request: \"path\" begins with a slash; \"x\" does not"),
        (
            json!({"request": {"method": "GET", "path": "/a b"}}),
            "request: path \"/a b\" contains ' '; percent-encode it",
        ),
        (json!({"search": {"collection": "c"}, "timeout": 0}), "\"timeout\" wants seconds above 0, not 0"),
        (json!({"search": {"collection": "c"}, "timeout": "1s"}), "\"timeout\" wants seconds above 0, not \"1s\""),
        (
            json!({"refresh": {"collection": "c"}, "assert": {"min_hits": 1}}),
            "assert: only searches have hits, and this is refresh",
        ),
        (
            json!({"scroll": {"collection": "c", "size": 5}, "assert": {"recall": {"of": [1], "k": 1}}}),
            "assert: only a search in one request has \"recall\"; remove \"recall\"",
        ),
        (
            json!({"delete": {"collection": "c", "id": 1}, "assert": {"fields": {"a": 1}}}),
            "assert: \"fields\" requires an operation that reads documents, not delete",
        ),
        (
            json!({"scan": {"collection": "c", "from": "a", "count": 5}}),
            "scan: this store keeps ids unordered; say by: the name of a keyword field that holds the id",
        ),
        (json!({"scan": {"collection": "c", "from": "a", "count": 0, "by": "k"}}), "scan: \"count\" wants a whole"),
        (json!({"read": {"collection": "c", "id": 1, "fields": "a"}}), "read: \"fields\" wants a list of names"),
        (json!({"insert": {"collection": "c", "document": {}}}), "insert: \"id\" is missing"),
    ] {
        assert!(error(form.clone()).starts_with(message), "{form}: {}", error(form.clone()));
    }
}

#[test]
fn an_older_version_is_asked_in_its_own_paths() {
    let store =
        loadframe_engine::plan::Store { distribution: "elasticsearch".to_owned(), version: "6.8.23".to_owned() };
    let dialect = Dialect::new(Some(&store)).unwrap();
    let line = |form: Value| {
        let operation =
            Operation::map(&form, &context(), (&dialect, &Register::default()), Duration::from_secs(60)).unwrap();
        let (variables, mut buffers) = (context().variables, Buffers::default());
        let values = Values { variables: &variables, draw: &Draw::new(1, 2, 3), captured: &Captured::NONE };
        let host = Host::resolve("127.0.0.1:9200").unwrap();
        let parts =
            operation.step.request.render(&host, &Access::default(), &values, &mut buffers).unwrap().parts.concat();
        String::from_utf8(parts).unwrap().split(" HTTP/1.1").next().unwrap().to_owned()
    };
    let update = json!({"update": {"collection": "c", "id": "${k}", "document": {"a": 1}}});
    assert_eq!(line(update), "POST /c/_doc/3/_update?retry_on_conflict=100");
    let bulk = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 10}});
    assert_eq!(line(bulk), "POST /c/_doc/_bulk");
    assert_eq!(line(json!({"take_in": {"collection": "c", "daily": "event"}})), "POST /c/_doc/_bulk");
    assert_eq!(line(json!({"get": {"collection": "c", "id": 1}})), "GET /c/_doc/1");
}

/// Checks the body and the parameters of queries in ES|QL, EQL and SQL.
#[test]
fn a_query_has_all_that_stands_beside_it() {
    let last = |form: Value| {
        let text = sent(form, 0);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split("\r\n").next().unwrap().to_owned(), body.to_owned())
    };
    let esql = json!({"esql": {"query": "FROM t | LIMIT ${low}", "body": {"params": [1], "filter": {"a": "${low}"}},
        "parameters": {"drop_null_columns": true}}});
    let body = r#"{"query":"FROM t | LIMIT 7","params":[1],"filter":{"a":7}}"#;
    assert_eq!(last(esql), ("POST /_query?drop_null_columns=true HTTP/1.1".to_owned(), body.to_owned()));
    let eql = json!({"eql": {"collection": "logs", "query": "any where true", "body": {"size": 5}}});
    let body = r#"{"query":"any where true","size":5}"#;
    assert_eq!(last(eql), ("POST /logs/_eql/search HTTP/1.1".to_owned(), body.to_owned()));
    let sql = json!({"sql": {"query": "SELECT 1", "fetch_size": 5, "body": {"filter": {}}}});
    assert_eq!(last(sql).1, r#"{"query":"SELECT 1","filter":{},"fetch_size":5}"#);
    assert!(error(json!({"sql": {"query": "a", "body": {"query": "b"}}})).contains("belongs beside"));
}

#[test]
fn a_table_by_columns_is_judged_by_its_rows() {
    for kind in ["sql", "esql"] {
        let judge = |body: Value| map(json!({kind: {"query": "a", "body": body}})).unwrap().step.judge;
        assert_eq!(judge(json!({"columnar": true})), Judge::Columns);
        assert_eq!(judge(json!({"columnar": false})), Judge::Rows);
    }
}

#[test]
fn data_streams_have_their_own_place_and_their_templates() {
    let request = |form: Value| {
        let text = sent(form, 0);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(" HTTP").next().unwrap().to_owned(), body.to_owned())
    };
    let none = String::new();
    let make = json!({"create_collection": {"collection": "logs", "data_stream": true}});
    assert_eq!(request(make), ("PUT /_data_stream/logs".to_owned(), none.clone()));
    let drop = json!({"delete_collection": {"collection": "logs", "data_stream": true}});
    assert_eq!(request(drop), ("DELETE /_data_stream/logs".to_owned(), none));
    let template = json!({"put_template": {"name": "t", "patterns": ["logs-*"], "priority": 200, "data_stream": true,
        "composed_of": ["a"], "settings": {"b": 1}}});
    let (line, body) = request(template);
    assert_eq!(line, "PUT /_index_template/t");
    let expected = json!({"index_patterns": ["logs-*"], "priority": 200, "data_stream": {}, "composed_of": ["a"],
        "template": {"settings": {"b": 1}}});
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
    let both = json!({"create_collection": {"collection": "logs", "data_stream": true, "settings": {}}});
    assert!(error(both).contains("defined by its template"));
}

#[test]
fn a_body_may_be_drawn_whole() {
    let search = json!({"search": {"collection": "c", "body": "${low}"}});
    assert!(sent(search, 0).ends_with("\r\n\r\n7"));
    assert!(error(json!({"search": {"collection": "c", "body": "x ${low}"}})).contains("wants a mapping"));
}

#[test]
fn only_a_single_request_is_repeated() {
    let bulk = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 1}, "repeat": {"every": 1}});
    assert!(error(bulk).contains("only a single request can be repeated"));
    let scroll = json!({"scroll": {"collection": "c", "size": 1}, "repeat": {"every": 1}});
    assert!(error(scroll).contains("only a single request can be repeated"));
    assert_eq!(map(json!({"count": {"collection": "c"}, "repeat": {}})).unwrap().parts, ["attempt"]);
}
