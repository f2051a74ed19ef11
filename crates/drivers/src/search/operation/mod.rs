//! Operations of the protocol: maps a form of the workload to requests and the judgement of their answers.

mod admin;
mod bulk;
mod captured;
mod documents;
mod index_management;
pub mod ingest;
mod paging;
mod searching;
pub mod shrink;

use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::Context;
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Variables;
use loadframe_engine::workload::variables::template::Template;
use serde_json::Value;

use super::answer::Judge;
use super::dialect::{Dialect, DocumentPath};
use super::index_management::Managing;
use super::paging::Paging;
use super::repeat;
use super::repeat::Repeat;
use super::request::SearchStep;
use crate::assertion::Assertion;
use crate::daily::generations::{Generations, Register};
use crate::form;
use crate::form::Form;
use crate::http1::captured::Captures;
use crate::http1::request::{Body, Request, RequestHead};
use crate::ingest::{Ingest, TAKE_IN};
use crate::timeout;

/// A mapped operation.
#[derive(Debug)]
pub struct Operation {
    /// The first request and the judgement of its answer.
    pub step: SearchStep,
    /// Further steps, each sent after the previous one succeeded, such as the write of a read_modify_write.
    pub then: Vec<SearchStep>,
    /// Names of the steps, if several.
    pub parts: &'static [&'static str],
    /// Paging, if the operation reads several pages.
    pub pages: Option<Box<Paging>>,
    /// End of a repeated operation.
    pub repeat: Option<Repeat>,
    /// Assertion on the answer to the first step.
    pub assertion: Option<Assertion>,
    /// Time limit of all steps together; with pages or attempts, of each one.
    pub timeout: Duration,
    /// Captures from the answer to the last step.
    pub captures: Captures,
    /// Destination of events, if the operation ingests a source.
    pub ingest: Option<IngestTarget>,
    /// Index management, if the operation manages indices.
    pub managing: Option<Box<Managing>>,
}

/// Destination of ingested events.
#[derive(Debug)]
pub struct IngestTarget {
    /// The form.
    pub form: Ingest,
    /// With one index per day: the known generations, and the request that lists those of the store.
    pub generations: Option<(Arc<Generations>, SearchStep)>,
    /// Queries ingested events.
    pub look: SearchStep,
}

/// Steps of an operation, before its options are read.
struct MappedSteps {
    step: SearchStep,
    then: Vec<SearchStep>,
    parts: &'static [&'static str],
    pages: Option<Box<Paging>>,
    managing: Option<Box<Managing>>,
}

impl From<(Request, Judge)> for MappedSteps {
    /// Creates the steps of an operation with this one request.
    fn from((request, judge): (Request, Judge)) -> Self {
        Self::of(SearchStep::new(request, judge))
    }
}

impl MappedSteps {
    /// Creates the steps of an operation with one step.
    fn of(step: SearchStep) -> Self {
        Self { step, then: Vec::new(), parts: &[], pages: None, managing: None }
    }

    /// Creates the steps of an operation with pages, of which `step` reads the first.
    fn paged(step: SearchStep, pages: Paging) -> Self {
        Self { pages: Some(Box::new(pages)), ..Self::of(step) }
    }
}

/// The kinds of operations.
const KINDS: [&str; 40] = [
    "insert",
    "read",
    "update",
    "upsert",
    "delete",
    "scan",
    "read_modify_write",
    "bulk",
    "search",
    "get",
    "index",
    "index_many",
    "multi_search",
    "aggregation",
    "count",
    "sql",
    "esql",
    "eql",
    "knn",
    "scroll",
    "search_after",
    "composite",
    "create_collection",
    "delete_collection",
    "put_settings",
    "put_template",
    "delete_template",
    "aliases",
    "refresh",
    "flush",
    "force_merge",
    "rollover",
    "shrink",
    MANAGE,
    "create_repository",
    "snapshot",
    "delete_snapshot",
    "wait_for_health",
    "request",
    TAKE_IN,
];

/// How often the store repeats an update after a concurrent update of the same document. Stores with locks let the
/// second update wait. Without repetition, hot documents would fail on this store only.
const OVERTAKEN: &str = "100";
/// Parameter with this number.
const AGAIN: &str = "retry_on_conflict";

/// Name of the index management operation.
const MANAGE: &str = "manage_indices";

/// Options besides the kind.
const OPTIONS: [&str; 4] = ["timeout", "assert", "repeat", "capture"];

/// Context of mapping a form.
struct Mapping<'a> {
    context: &'a Context,
    dialect: &'a Dialect,
    register: &'a Register<Generations>,
}

impl Operation {
    /// Maps `{"search": {...}, "timeout": 5}`. `register` holds the generations of all operations, `timeout` is the
    /// default. Refuses an unknown kind, options that do not fit the kind, unknown keys and wrong types.
    pub fn map(
        form: &Value,
        context: &Context,
        (dialect, register): (&Dialect, &Register<Generations>),
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        let (kind, argument) = form::kind(form, &KINDS, &OPTIONS)?;
        let mapping = Mapping { context, dialect, register };
        let ingest = match kind {
            TAKE_IN => Some(Ingest::map(argument).map_err(|error| error.within(kind))?),
            _ => None,
        };
        let MappedSteps { mut step, mut then, parts, pages, managing } = match kind {
            "read_modify_write" => mapping.read_modify_write(argument),
            "scroll" => mapping.scroll(argument),
            "search_after" => mapping.search_after(argument),
            "composite" => mapping.composite(argument),
            "shrink" => mapping.shrink(argument),
            MANAGE => mapping.manage(argument),
            _ => match &ingest {
                Some(ingest) => mapping.ingest(ingest),
                None => mapping.single(kind, argument),
            }
            .map(MappedSteps::from),
        }
        .map_err(|error| error.within(kind))?;
        let assertion = match form.get("assert").filter(|assert| !assert.is_null()) {
            Some(assert) if pages.is_some() => {
                Some(asserted(Assertion::map_without_recall(assert, &context.variables)?, step.judge, kind)?)
            }
            Some(assert) => Some(asserted(Assertion::map(assert, &context.variables)?, step.judge, kind)?),
            None => None,
        };
        let repeat = match form.get("repeat").filter(|repeat| !repeat.is_null()) {
            Some(_)
                if pages.is_some()
                    || !then.is_empty()
                    || step.request.requests().is_some()
                    || ingest.is_some()
                    || managing.is_some() =>
            {
                return Err(PlanError::new(format!(
                    "repeat: only a single request can be repeated, and this is {kind}"
                )));
            }
            Some(repeat) => Some(Repeat::map(repeat, &context.variables)?),
            None => None,
        };
        if ingest.is_some() && form.get("capture").is_some_and(|capture| !capture.is_null()) {
            return Err(PlanError::new(
                "capture: an operation that ingests events cannot capture values; remove \"capture\"",
            ));
        }
        let captures = Captures::new(captured::located(form.get("capture"), kind)?.as_ref(), &context.variables)?;
        if captures.read_body() && (pages.is_some() || !then.is_empty() || managing.is_some()) {
            return Err(PlanError::new(format!("capture: only one answer gives values, and {kind} has several")));
        }
        let parts = if repeat.is_some() { &repeat::PARTS } else { parts };
        if pages.is_none() && managing.is_none() && repeat.as_ref().is_none_or(|repeat| !repeat.reads_body()) {
            let asserted = assertion.as_ref().is_some_and(Assertion::reads_body);
            let unread = |step: &&mut SearchStep| !step.judge.reads_body() && step.keep.is_none();
            let read = asserted || captures.read_body() && then.is_empty();
            let first = Some(&mut step).filter(|_| !read);
            first.into_iter().chain(&mut then).filter(unread).for_each(|step| step.request.ignore_answer());
        }
        let timeout = timeout::of_operation(form, timeout)?;
        let ingest = ingest.map(|form| mapping.ingest_target(form)).transpose().map_err(|error| error.within(kind))?;
        Ok(Self { step, then, parts, pages, repeat, assertion, timeout, captures, ingest, managing })
    }

    /// Returns whether the number of exchanges per request varies: pages, attempts or index management.
    pub fn exchanges_often(&self) -> bool {
        self.pages.is_some() || self.repeat.is_some() || self.managing.is_some()
    }
}

impl Mapping<'_> {
    /// Maps an operation of one step; `kind` is its name. Refuses an unknown name.
    fn single(&self, kind: &str, argument: &Value) -> Mapped {
        match kind {
            "insert" => self.insert(argument),
            "read" => self.read(argument, &["collection", "id", "fields", "routing"]),
            "update" => self.update(argument),
            "upsert" => self.upsert(argument),
            "delete" => self.delete(argument),
            "scan" => self.scan(argument),
            "bulk" => self.bulk(argument),
            "search" => self.search(argument),
            "get" => self.read(argument, &["collection", "id", "routing"]),
            "index" => self.index(argument),
            "index_many" => self.index_many(argument),
            "multi_search" => self.multi_search(argument),
            "aggregation" => self.aggregation(argument),
            "count" => self.count(argument),
            "sql" => self.sql(argument),
            "esql" => self.esql(argument),
            "eql" => self.eql(argument),
            "knn" => self.knn(argument),
            "request" => self.request(argument),
            _ => self.administration(kind, argument),
        }
    }
}

/// Returns the assertion, or an error if answers of this kind lack the hits or fields that it checks.
fn asserted(assertion: Assertion, judge: Judge, kind: &str) -> Result<Assertion, PlanError> {
    if assertion.counts() && !judge.counts() {
        return Err(PlanError::new(format!("assert: only searches have hits, and this is {kind}")));
    }
    if assertion.has_recall() && judge != Judge::Search {
        return Err(PlanError::new(format!("assert: only a search has \"recall\", and this is {kind}")));
    }
    if assertion.has_fields() && !matches!(judge, Judge::Search | Judge::Aggregation | Judge::Document) {
        return Err(PlanError::new(format!(
            "assert: \"fields\" requires an operation that reads documents, not {kind}"
        )));
    }
    Ok(assertion)
}

/// A request and how to judge its answer, or why the form is refused.
type Mapped = Result<(Request, Judge), PlanError>;

impl Mapping<'_> {
    /// Returns the workload's variables.
    fn variables(&self) -> &Variables {
        &self.context.variables
    }

    /// Returns a JSON body with a template for `value`. Refuses unknown variables.
    fn json(&self, value: &Value) -> Result<Body, PlanError> {
        Template::json(value, self.variables()).map(Body::Json)
    }

    /// Returns the request head `METHOD /collection`. Refuses a form without a collection.
    fn line(&self, method: &str, form: &Form) -> Result<RequestHead<'_>, PlanError> {
        RequestHead::new(method, self.variables()).segment(form.text("collection")?)
    }

    /// Returns the request head `METHOD /collection/place/id`, or with a verb behind the id. Refuses a form without
    /// `collection` or `id`.
    fn at(&self, method: &str, form: &Form, place: DocumentPath) -> Result<RequestHead<'_>, PlanError> {
        let line = self.line(method, form)?.segment(place.before)?.segment(&id("id", form.require("id")?)?)?;
        match place.behind {
            Some(verb) => line.segment(verb),
            None => Ok(line),
        }
    }
}

/// Converts a document id, a number or a non-empty text, to text. Refuses other values; `key` names it in the error.
fn id(key: &str, value: &Value) -> Result<String, PlanError> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(PlanError::new(format!("\"{key}\" wants a text or a number, not {value}"))),
    }
}

/// Appends the routing value, a number or a text, to the query string, if given. Refuses other values.
fn routed<'a>(line: RequestHead<'a>, form: &Form) -> Result<RequestHead<'a>, PlanError> {
    match form.get("routing") {
        Some(routing) => line.parameter("routing", &id("routing", routing)?.into()),
        None => Ok(line),
    }
}

/// Appends the query parameters in the mapping `parameters` of a form, if given. Refuses values that are lists or
/// mappings.
fn parameters<'a>(mut line: RequestHead<'a>, form: &Form) -> Result<RequestHead<'a>, PlanError> {
    if form.get("parameters").is_some() {
        for (name, value) in form.mapping("parameters")?.as_object().into_iter().flatten() {
            line = line.parameter(name, value)?;
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests;
