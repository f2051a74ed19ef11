//! Operations on documents by id, and scans in the order of ids.

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::template::Template;
use serde_json::{Value, json};

use super::{AGAIN, Mapped, MappedSteps, Mapping, OVERTAKEN, SearchStep, id, routed};
use crate::form::Form;
use crate::http1::request::{Body, RequestHead};
use crate::search::answer::Judge;

/// Keys of an operation that writes one document.
const WRITE: [&str; 5] = ["collection", "id", "document", "routing", "refresh"];

/// Appends the routing value and the refresh policy to the query string, if given. Refuses an unknown policy.
pub(super) fn place<'a>(mut line: RequestHead<'a>, form: &Form) -> Result<RequestHead<'a>, PlanError> {
    line = routed(line, form)?;
    match form.get("refresh") {
        None => Ok(line),
        Some(refresh) if refresh.is_boolean() || refresh == "wait_for" => line.parameter("refresh", refresh),
        Some(other) => Err(PlanError::new(format!("\"refresh\" wants true, false or \"wait_for\", not {other}"))),
    }
}

impl Mapping<'_> {
    /// Maps a read of a document or some of its fields. `known` are the allowed keys; refuses others and wrong types.
    pub(super) fn read(&self, argument: &Value, known: &[&str]) -> Mapped {
        let form = Form::new(argument, known)?;
        let mut line = routed(self.at("GET", &form, self.dialect.document())?, &form)?;
        if let Some(fields) = form.get("fields") {
            let wrong = || PlanError::new(format!("\"fields\" wants a list of names, not {fields}"));
            let names = fields.as_array().ok_or_else(wrong)?;
            let names = names.iter().map(Value::as_str).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
            line = line.parameter("_source_includes", &names.join(",").into())?;
        }
        Ok((line.finish(Body::None), Judge::Document))
    }

    /// Maps a read of a document, followed by its update. Refuses unknown keys and wrong types.
    pub(super) fn read_modify_write(&self, argument: &Value) -> Result<MappedSteps, PlanError> {
        let (write, judge) = self.update(argument)?;
        let read = MappedSteps::from(self.read(argument, &WRITE)?);
        Ok(MappedSteps { then: vec![SearchStep::new(write, judge)], parts: &["read", "write"], ..read })
    }

    /// Maps the deletion of a document. Refuses unknown keys and wrong types.
    pub(super) fn delete(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "id", "routing", "refresh"])?;
        let line = place(self.at("DELETE", &form, self.dialect.document())?, &form)?;
        Ok((line.finish(Body::None), Judge::Shards { documents: 1 }))
    }

    /// Maps a request that stores a document, replacing an existing one. Without an id, the store generates one.
    /// Refuses unknown keys and wrong types.
    pub(super) fn index(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &WRITE)?;
        let line = match form.get("id") {
            Some(_) => self.at("PUT", &form, self.dialect.document())?,
            None => self.line("POST", &form)?.segment("_doc")?,
        };
        let body = self.json(form.mapping("document")?)?;
        Ok((place(line, &form)?.finish(body), Judge::Shards { documents: 1 }))
    }

    /// Maps a bulk request that stores the listed documents, each `{"id": ID, "document": {...}}`. Refuses an empty
    /// list, unknown keys and wrong types.
    pub(super) fn index_many(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "documents", "routing", "refresh"])?;
        let documents = form.require("documents")?;
        let wrong = || PlanError::new(format!("\"documents\" wants a list of {{id, document}}, not {documents}"));
        let list = documents.as_array().filter(|list| !list.is_empty()).ok_or_else(wrong)?;
        let mut lines = Template::default();
        for given in list {
            let given = Form::new(given, &["id", "document"])?;
            lines.push_literal("{\"index\":{\"_id\":\"");
            lines.push_json_text(&id("id", given.require("id")?)?, self.variables())?;
            lines.push_literal("\"}}\n");
            lines.push_json(given.mapping_or_hole("document")?, self.variables())?;
            lines.push_literal("\n");
        }
        let line = self.dialect.bulk().iter().try_fold(self.line("POST", &form)?, |line, name| line.segment(name))?;
        Ok((place(line, &form)?.finish(Body::Lines(lines)), Judge::Items { documents: list.len() as u64 }))
    }

    /// Maps a request that adds a document. The store answers 409 if it exists. Refuses unknown keys and wrong types.
    pub(super) fn insert(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &WRITE)?;
        let body = self.json(form.mapping("document")?)?;
        let line = place(self.at("PUT", &form, self.dialect.create())?, &form)?;
        Ok((line.finish(body), Judge::Shards { documents: 1 }))
    }

    /// Maps a change of some fields of a document. The store answers 404 if it does not exist. Refuses unknown keys and
    /// wrong types.
    pub(super) fn update(&self, argument: &Value) -> Mapped {
        self.change(argument, |document| json!({"doc": document}))
    }

    /// Maps a change of some fields of a document, which creates it if it does not exist. Refuses unknown keys and
    /// wrong types.
    pub(super) fn upsert(&self, argument: &Value) -> Mapped {
        self.change(argument, |document| json!({"doc": document, "doc_as_upsert": true}))
    }

    /// Maps a change of a document; `body` converts its fields to the request body. The store repeats it after a
    /// conflict. Refuses unknown keys and wrong types.
    fn change(&self, argument: &Value, body: fn(&Value) -> Value) -> Mapped {
        let form = Form::new(argument, &WRITE)?;
        let body = self.json(&body(form.mapping("document")?))?;
        let line = self.at("POST", &form, self.dialect.update())?.parameter(AGAIN, &OVERTAKEN.into())?;
        Ok((place(line, &form)?.finish(body), Judge::Shards { documents: 1 }))
    }

    /// Maps a search in the order of the field `by`, which holds the documents' ids, from the id `from` on.
    /// The store keeps no order of ids. Refuses a form without `by`, unknown keys and wrong types.
    pub(super) fn scan(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "from", "count", "by"])?;
        let by = form.get("by").map(|_| form.text("by")).transpose()?.ok_or_else(|| {
            let cause = "this store keeps ids unordered";
            PlanError::new(format!("{cause}; say by: the name of a keyword field that holds the id"))
        })?;
        let count = form.require("count")?;
        if !(count.is_string() || count.as_u64().is_some_and(|count| count > 0)) {
            return Err(PlanError::new(format!("\"count\" wants a whole number above 0, not {count}")));
        }
        let from = id("from", form.require("from")?)?;
        // Without a total count, the store stops at the last requested document.
        let query = json!({"query": {"range": {by: {"gte": from}}}, "sort": [{by: "asc"}], "track_total_hits": false});
        let line = self.line("POST", &form)?.segment("_search")?.parameter("size", count)?;
        Ok((line.finish(self.json(&self.dialect.search(&query))?), Judge::Search))
    }
}
