//! Bulk requests.

use super::*;

#[test]
fn bulk_requests_walk_through_the_corpus_and_begin_again_after_its_end() {
    let form = |size: u64| json!({"bulk": {"collection": "c", "corpus": "trips", "size": size}});
    let documents = |k: u64| {
        let text = sent(form(10), k);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /c/_bulk HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-ndjson\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let lines: Vec<String> = body.lines().map(str::to_owned).collect();
        assert!(lines.iter().step_by(2).all(|line| line == "{\"index\":{}}"));
        lines.into_iter().skip(1).step_by(2).collect::<Vec<_>>()
    };
    let batches: Vec<_> = (0..4).map(documents).collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5, 10]);
    assert_eq!(batches[0], batches[3]);
    assert!(batches[0] != batches[1] && batches[1] != batches[2]);
    for (size, requests) in [(10, 3), (25, 1), (1, 25), (1000, 1)] {
        assert_eq!(map(form(size)).unwrap().step.request.requests(), Some(requests));
    }
    let create = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 1, "action": "create"}});
    assert!(sent(create, 0).contains("\r\n\r\n{\"create\":{}}\n"));
}

/// Returns the lines of a bulk request's body, for request `k`.
fn lines(form: Value, k: u64) -> Vec<Value> {
    let text = sent(form, k);
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_action_of_a_bulk_request_has_its_lines() {
    let form = |action: &str| json!({"bulk": {"collection": "c", "corpus": "records", "size": 2, "action": action, "id": "key"}});
    let documents: Vec<Value> = lines(form("index"), 1).into_iter().skip(1).step_by(2).collect();
    assert_eq!(documents.len(), 1, "the corpus ends");
    let document = &documents[0];
    let id = json!({"_id": document["key"]});
    assert_eq!(lines(form("index"), 1), [json!({"index": id}), document.clone()]);
    assert_eq!(lines(form("create"), 1), [json!({"create": id}), document.clone()]);
    let again = json!({"_id": document["key"], "retry_on_conflict": 100});
    assert_eq!(lines(form("update"), 1), [json!({"update": again}), json!({"doc": document})]);
    let upsert = json!({"doc": document, "doc_as_upsert": true});
    assert_eq!(lines(form("upsert"), 1), [json!({"update": again}), upsert]);
    assert_eq!(lines(form("delete"), 1), [json!({"delete": id})]);
    assert_eq!(lines(form("delete"), 0).len(), 2);
}

/// A file that a test writes, gone when it ends.
struct Lines(std::path::PathBuf);

impl Lines {
    /// Writes `text` to a temporary file. `name` distinguishes the files of one process.
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loadframe-bulk-{}-{name}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    /// Maps an operation with this file, which has action lines, as the corpus `lines`.
    fn map(&self, form: Value) -> Result<Operation, PlanError> {
        let corpora = BTreeMap::from([("lines".to_owned(), json!({"files": [&self.0], "actions": true}))]);
        let context = Context { corpora: Corpora::open(&corpora, 1).unwrap(), ..context() };
        Operation::map(&form, &context, (&Dialect::new(None).unwrap(), &Register::default()), Duration::from_secs(60))
    }
}

impl Drop for Lines {
    /// Deletes the file.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn action_lines_of_a_corpus_keep_their_metadata() {
    let lines = Lines::new(
        "kept",
        "{\"index\": {\"_index\": \"c\", \"_type\": \"_doc\", \"_id\": \"a\\\"1\", \"routing\": 7}}\n{\"n\": 0}\n\
         {\"create\" : {\"_id\": \"k1\"}}\n{\"n\": 1}\n\
         {\"index\": {\"_index\": \"d\", \"_id\": \"k2\"}}\n{\"n\": 2}\n\
         {\"index\": {}}\n{\"n\": 3}\n{\"index\": {\"_id\"}\n{\"n\": 4}\n",
    );
    let body = |extra: Value, k| {
        let mut form = json!({"bulk": {"collection": "c", "corpus": "lines", "size": 3}});
        form["bulk"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let text = rendered(&lines.map(form).unwrap().step, k);
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    assert_eq!(
        body(json!({}), 0),
        "{\"index\":{\"_id\":\"a\\\"1\",\"routing\":7}}\n{\"n\": 0}\n{\"create\":{\"_id\":\"k1\"}}\n{\"n\": 1}\n\
         {\"index\":{\"_index\":\"d\",\"_id\":\"k2\"}}\n{\"n\": 2}\n"
    );
    assert_eq!(body(json!({}), 1), "{\"index\":{}}\n{\"n\": 3}\n{\"index\": {\"_id\"}\n{\"n\": 4}\n");
    let create = body(json!({"action": "create"}), 0);
    assert!(create.starts_with("{\"create\":{\"_id\":\"a\\\"1\",\"routing\":7}}\n{\"n\": 0}\n"), "{create}");
    let per = body(json!({"per": "n"}), 0);
    assert!(per.starts_with("{\"index\":{\"_index\":\"c-0\",\"_id\":\"a\\\"1\",\"routing\":7}}\n"), "{per}");
    let field = body(json!({"id": "n"}), 0);
    assert!(field.starts_with("{\"index\":{\"_id\":\"0\"}}\n{\"n\": 0}\n"), "{field}");
}

#[test]
fn action_lines_that_cannot_be_kept_are_refused() {
    let lines = Lines::new("refused", "{\"index\": {\"_index\": \"logs\", \"_id\": \"k\"}}\n{\"n\": 0}\n");
    let error = |form: Value| lines.map(form).unwrap_err().message;
    let other = error(json!({"bulk": {"collection": "c", "corpus": "lines", "size": 1}}));
    assert!(other.contains("action lines write to the index \"logs\", not to the collection \"c\""), "{other}");
    let conflicts = json!({"bulk": {"collection": "logs", "corpus": "lines", "size": 1, "conflicts": "random"}});
    assert!(error(conflicts).contains("action lines have \"_id\": \"conflicts\" make other ids"));
    let corpora = BTreeMap::from([("lines".to_owned(), json!({"files": [&lines.0], "actions": true}))]);
    let context = Context { corpora: Corpora::open(&corpora, 1).unwrap(), ..context() };
    let neutral = |form: Value| crate::crud::Neutral::map("bulk", &form, &context).unwrap();
    let form = json!({"collection": "logs", "corpus": "lines", "size": 1});
    assert!(neutral(form).unwrap_err().message.contains("this store's driver does not take them"));
    let named = json!({"collection": "logs", "corpus": "lines", "size": 1, "id": "n"});
    assert!(neutral(named).is_ok());
    for unreadable in ["{\"index\": {\"_id\"}", "{\"index\": \"k\"}", "{\"create\": {\"_id\": \"1\""] {
        let lines = Lines::new("unreadable", &format!("{unreadable}\n{{\"n\": 0}}\n"));
        let corpora = BTreeMap::from([("lines".to_owned(), json!({"files": [&lines.0], "actions": true}))]);
        let context = Context { corpora: Corpora::open(&corpora, 1).unwrap(), ..self::context() };
        let form = json!({"collection": "logs", "corpus": "lines", "size": 1});
        let refused = crate::crud::Neutral::map("bulk", &form, &context).unwrap().unwrap_err().message;
        assert!(refused.contains("first action line cannot be read"), "{unreadable}: {refused}");
        for extra in [json!({}), json!({"conflicts": "random"})] {
            let mut form = json!({"bulk": {"collection": "c", "corpus": "lines", "size": 1}});
            form["bulk"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let refused = lines.map(form).unwrap_err().message;
            assert!(refused.contains("first action line cannot be read"), "{unreadable}: {refused}");
        }
    }
}

#[test]
fn a_bulk_request_has_the_parameters_of_its_form() {
    let form = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 1, "pipeline": "a b", "routing": "u",
        "refresh": "wait_for", "parameters": {"timeout": "5s", "require_alias": true}}});
    let line = "POST /c/_bulk?pipeline=a%20b&routing=u&refresh=wait_for&timeout=5s&require_alias=true HTTP/1.1";
    assert_eq!(sent(form, 0).lines().next(), Some(line));
}

#[test]
fn a_number_can_be_an_id() {
    let form = json!({"bulk": {"collection": "c", "corpus": "records", "size": 3, "id": "number"}});
    let ids: Vec<Value> = lines(form, 0).into_iter().step_by(2).map(|line| line["index"]["_id"].clone()).collect();
    assert_eq!(ids, ["0", "1", "2"]);
}

#[test]
fn a_field_can_give_each_of_its_values_a_collection() {
    let form = |extra: Value| {
        let mut form = json!({"bulk": {"collection": "c", "corpus": "records", "size": 2, "per": "number"}});
        form["bulk"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        lines(form, 0).into_iter().step_by(2).collect::<Vec<_>>()
    };
    assert_eq!(form(json!({})), [json!({"index": {"_index": "c-0"}}), json!({"index": {"_index": "c-1"}})]);
    let with_ids = form(json!({"id": "number", "action": "create"}));
    assert_eq!(with_ids[1], json!({"create": {"_index": "c-1", "_id": "1"}}));
    let unknown = json!({"bulk": {"collection": "c", "corpus": "records", "size": 2, "per": "page"}});
    assert!(
        map(unknown)
            .unwrap_err()
            .message
            .contains("\"per\": the corpus's first document lacks a text or number \"page\"")
    );
}

#[test]
fn documents_whose_ids_conflict_are_indexed_again_or_updated() {
    let form = |on_conflict: &str| {
        json!({"bulk": {"collection": "c", "corpus": "trips", "size": 25, "conflicts": "sequential",
            "conflict_probability": 0.5, "recency": 0.5, "on_conflict": on_conflict}})
    };
    let seen = |lines: &[Value], action: &str| {
        let ids = lines.iter().filter_map(|line| line[action]["_id"].as_str());
        ids.map(|id| (id.len(), id.parse().unwrap())).collect::<Vec<(usize, usize)>>()
    };
    let (again, changed) = (lines(form("index"), 0), lines(form("update"), 0));
    let (all, new, old) = (seen(&again, "index"), seen(&changed, "index"), seen(&changed, "update"));
    assert_eq!((all.len(), new.len() + old.len()), (25, 25));
    assert!(old.len() > 4 && new.len() > 4, "{old:?}");
    assert!(all.iter().all(|(length, id)| *length == 10 && *id < 25));
    assert!(old.iter().all(|id| new.contains(id)), "what conflicts was sent before");
    assert_eq!(changed.iter().filter(|line| line["doc_as_upsert"] == true).count(), old.len());
    assert_eq!(changed.iter().filter(|line| line["update"]["retry_on_conflict"] == 100).count(), old.len());
    assert_eq!(lines(form("index"), 1), again, "after the last document comes the first, with the same id");
}

#[test]
fn a_bulk_request_without_ids_is_refused_where_they_are_needed() {
    let with = |extra: Value| {
        let mut form = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 1}});
        form["bulk"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        error(form)
    };
    for (extra, message) in [
        (json!({"action": "update"}), "bulk: \"id\" is missing: the name of the field"),
        (json!({"id": "key"}), "bulk: \"id\": the corpus's first document lacks a text or number \"key\""),
        (json!({"conflicts": "some"}), "bulk: unknown kind of conflicts \"some\""),
        (json!({"conflicts": "random", "recency": 2}), "bulk: \"recency\" wants a number from 0 to 1, not 2"),
        (json!({"conflicts": "random", "action": "create"}), "bulk: \"conflicts\" make the ids"),
        (json!({"conflicts": "random", "on_conflict": "delete"}), "bulk: unknown action \"delete\""),
    ] {
        assert!(with(extra.clone()).starts_with(message), "{extra}: {}", with(extra.clone()));
    }
}
