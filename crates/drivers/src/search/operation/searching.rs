//! Maps searches.

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::template::Template;
use serde_json::{Value, json};

use super::{Mapped, Mapping, parameters, routed};
use crate::form::Form;
use crate::http1::request::{Body, RequestHead};
use crate::search::answer::Judge;

impl Mapping<'_> {
    /// Maps a search: `{"collection": NAME, "body": {...}, "size": 10, ...}`. Without a body, it finds all documents.
    /// Refuses unknown keys and wrong types.
    pub(super) fn search(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "body", "size", "request_cache", "parameters", "routing"])?;
        let mut line = routed(self.line("POST", &form)?.segment("_search")?, &form)?;
        if let Some(cache) = form.switch("request_cache")? {
            line = line.parameter("request_cache", &Value::Bool(cache))?;
        }
        if let Some(size) = form.get("size") {
            if !(size.is_u64() || size.is_string()) {
                return Err(PlanError::new(format!("\"size\" wants a whole number, not {size}")));
            }
            line = line.parameter("size", size)?;
        }
        line = parameters(line, &form)?;
        let body = match form.get("body") {
            Some(_) => self.json(&self.dialect.search(form.mapping_or_hole("body")?))?,
            None => Body::None,
        };
        Ok((line.finish(body), Judge::Search))
    }

    /// Maps several searches in one request, each with a line for its collection and a line for its body. Refuses an
    /// empty list, unknown keys, wrong types, and a `size` besides a body that is a variable.
    pub(super) fn multi_search(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["searches"])?;
        let searches = form.require("searches")?;
        let wrong = || PlanError::new(format!("\"searches\" wants a list of searches, not {searches}"));
        let mut lines = Template::default();
        for search in searches.as_array().filter(|list| !list.is_empty()).ok_or_else(wrong)? {
            let form = Form::new(search, &["collection", "body", "size", "request_cache"])?;
            let mut head = json!({"index": form.text("collection")?});
            if let Some(cache) = form.switch("request_cache")? {
                head["request_cache"] = cache.into();
            }
            let mut body = match form.get("body") {
                Some(_) => self.dialect.search(form.mapping_or_hole("body")?),
                None => json!({}),
            };
            if let (Some(size), Some(_)) = (form.get("size"), body.as_str()) {
                return Err(PlanError::new(format!(
                    "the body is drawn whole, and \"size\" {size} has no place beside it"
                )));
            }
            if let Some(size) = form.get("size") {
                body["size"] = size.clone();
            }
            for line in [&head, &body] {
                lines.push_json(line, self.variables())?;
                lines.push_literal("\n");
            }
        }
        let line = RequestHead::new("POST", self.variables()).path("/_msearch")?;
        Ok((line.finish(Body::Lines(lines)), Judge::Searches))
    }

    /// Maps a search that returns aggregations and no hits; `query` limits its documents. Refuses unknown keys and
    /// wrong types.
    pub(super) fn aggregation(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "aggregations", "query", "request_cache"])?;
        let mut body = json!({"size": 0, "aggs": form.mapping_or_hole("aggregations")?});
        if form.get("query").is_some() {
            body["query"] = form.mapping_or_hole("query")?.clone();
        }
        let mut line = self.line("POST", &form)?.segment("_search")?;
        if let Some(cache) = form.switch("request_cache")? {
            line = line.parameter("request_cache", &Value::Bool(cache))?;
        }
        Ok((line.finish(self.json(&self.dialect.search(&body))?), Judge::Aggregation))
    }

    /// Maps a count of all documents, or of documents that match `query`. Refuses unknown keys and wrong types.
    pub(super) fn count(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "query"])?;
        let body = match form.get("query") {
            Some(_) => self.json(&json!({"query": form.mapping_or_hole("query")?}))?,
            None => Body::None,
        };
        Ok((self.line("POST", &form)?.segment("_count")?.finish(body), Judge::Count))
    }

    /// Maps a query in SQL: `{"query": "SELECT ...", "fetch_size": 100, "body": {...}}`. Refuses unknown keys and wrong
    /// types.
    pub(super) fn sql(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["query", "fetch_size", "body"])?;
        let mut body = with_query(&form)?;
        if form.get("fetch_size").is_some() {
            body["fetch_size"] = form.count("fetch_size")?.into();
        }
        let line = RequestHead::new("POST", self.variables()).path(self.dialect.sql())?;
        Ok((line.finish(self.json(&body)?), table(&body)))
    }

    /// Maps a query in ES|QL: `{"query": "FROM ...", "body": {...}}`.
    /// Refuses stores without ES|QL, unknown keys and wrong types.
    pub(super) fn esql(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["query", "body", "parameters"])?;
        let line = parameters(RequestHead::new("POST", self.variables()).path(self.dialect.esql()?)?, &form)?;
        let body = with_query(&form)?;
        Ok((line.finish(self.json(&body)?), table(&body)))
    }

    /// Maps a query in EQL, which finds events or sequences of events.
    /// Refuses stores without EQL, unknown keys and wrong types.
    pub(super) fn eql(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "query", "body", "parameters"])?;
        let (first, second) = self.dialect.eql()?;
        let line = parameters(self.line("POST", &form)?.segment(first)?.segment(second)?, &form)?;
        Ok((line.finish(self.json(&with_query(&form)?)?), Judge::Events))
    }

    /// Maps a search for the `k` nearest neighbours of a vector. Refuses stores without it, unknown keys and wrong
    /// types.
    pub(super) fn knn(&self, argument: &Value) -> Mapped {
        let known = ["collection", "field", "vector", "k", "candidates", "filter", "parameters"];
        let form = Form::new(argument, &known)?;
        let k = form.count("k")?;
        let candidates = form.get("candidates").map(|_| form.count("candidates")).transpose()?;
        let filter = form.get("filter").map(|_| form.mapping("filter")).transpose()?;
        let body = self.dialect.knn(form.text("field")?, form.require("vector")?, k, candidates, filter)?;
        let line = parameters(self.line("POST", &form)?.segment("_search")?, &form)?;
        Ok((line.finish(self.json(&body)?), Judge::Search))
    }
}

/// Returns how to judge the table that answers a query with this body: by rows, or by columns if the body says so.
fn table(body: &Value) -> Judge {
    if body["columnar"] == true { Judge::Columns } else { Judge::Rows }
}

/// Returns the body of a query in SQL, ES|QL or EQL: its text, and the members of `body`. Refuses a `query` in `body`.
fn with_query(form: &Form) -> Result<Value, PlanError> {
    let mut body = json!({"query": form.text("query")?});
    if form.get("body").is_some() {
        for (key, value) in form.mapping("body")?.as_object().into_iter().flatten() {
            if key == "query" {
                return Err(PlanError::new("\"query\" belongs beside \"body\", not in it"));
            }
            body[key] = value.clone();
        }
    }
    Ok(body)
}
