//! The operations of the protocol: from the form in the workload to a request and the way its answer is judged.

mod admin;
mod bulk;
mod documents;
mod searching;

use std::time::Duration;

use loadframe_engine::driver::Context;
use loadframe_engine::nearest::unknown;
use loadframe_engine::plan::PlanError;
use loadframe_engine::template::Template;
use loadframe_engine::variables::Variables;
use serde_json::Value;

use super::dialect::{Dialect, Place};
use super::judge::Judge;
use crate::assertion::Assertion;
use crate::form::Form;
use crate::http1::request::{Body, Line, Request};
use crate::http1::{duration, no_timeout};

/// An operation, ready to be executed.
#[derive(Debug)]
pub struct Operation {
    /// What is sent, and what is made of the answer.
    pub step: Step,
    /// What is sent then, once that has succeeded: the write of a read-modify-write.
    pub write: Option<Step>,
    /// What is asserted of the answer to the first step.
    pub assertion: Option<Assertion>,
    /// How long an answer is waited for, of both steps together.
    pub timeout: Duration,
}

/// A request and the way to judge its answer.
#[derive(Debug)]
pub struct Step {
    /// What is sent.
    pub request: Request,
    /// What is made of the answer.
    pub judge: Judge,
}

/// The kinds of operations.
const KINDS: [&str; 14] = [
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
    "refresh",
    "force_merge",
    "request",
];

/// What may stand beside the kind.
const OPTIONS: [&str; 2] = ["timeout", "assert"];

/// What a form may refer to while it is mapped.
struct Mapping<'a> {
    context: &'a Context,
    dialect: &'a Dialect,
}

impl Operation {
    /// Maps `{"search": {...}, "timeout": 5}`. `timeout` holds unless the form has its own.
    pub fn map(form: &Value, context: &Context, dialect: &Dialect, timeout: Duration) -> Result<Self, PlanError> {
        let (kind, argument) = kind(form)?;
        let mapping = Mapping { context, dialect };
        let within = |error: PlanError| error.within(kind);
        let (request, judge) = match kind {
            "insert" => mapping.insert(argument),
            "read" => mapping.read(argument, &["collection", "id", "fields"]),
            "update" => mapping.update(argument),
            "upsert" => mapping.upsert(argument),
            "delete" => mapping.delete(argument),
            "scan" => mapping.scan(argument),
            "read_modify_write" => mapping.read(argument, &["collection", "id", "document"]),
            "bulk" => mapping.bulk(argument),
            "search" => mapping.search(argument),
            "get" => mapping.read(argument, &["collection", "id"]),
            "index" => mapping.index(argument),
            "refresh" => mapping.refresh(argument),
            "force_merge" => mapping.force_merge(argument),
            "request" => mapping.request(argument),
            _ => Err(PlanError(unknown("operation", kind, KINDS))),
        }
        .map_err(within)?;
        let write = match kind {
            "read_modify_write" => Some(mapping.update(argument).map_err(within)?),
            _ => None,
        };
        let assertion = match form.get("assert").filter(|assert| !assert.is_null()) {
            Some(assert) => Some(asserted(Assertion::map(assert, &context.variables)?, judge, kind)?),
            None => None,
        };
        let timeout = match form.get("timeout").filter(|timeout| !timeout.is_null()) {
            Some(own) => own.as_f64().and_then(duration).ok_or_else(|| no_timeout(own))?,
            None => timeout,
        };
        let write = write.map(|(request, judge)| Step { request, judge });
        Ok(Self { step: Step { request, judge }, write, assertion, timeout })
    }
}

/// The assertion, if answers that are judged so have what it is about.
fn asserted(assertion: Assertion, judge: Judge, kind: &str) -> Result<Assertion, PlanError> {
    let searches = judge == Judge::Search;
    if assertion.counts() && !searches {
        return Err(PlanError(format!("assert: only searches have hits, and this is {kind}")));
    }
    if assertion.has_fields() && !searches && judge != Judge::Document {
        return Err(PlanError(format!("assert: only what reads documents has \"fields\", and this is {kind}")));
    }
    Ok(assertion)
}

/// The one key of a form that is no option, and what stands there.
fn kind(form: &Value) -> Result<(&str, &Value), PlanError> {
    let mapping = form.as_object().ok_or_else(|| PlanError(format!("an operation is a mapping, not {form}")))?;
    let mut kinds = mapping.iter().filter(|(key, _)| !OPTIONS.contains(&key.as_str()));
    match (kinds.next(), kinds.next()) {
        (Some((kind, argument)), None) => Ok((kind, argument)),
        (None, _) => Err(PlanError(format!("an operation names its kind, one of {}", KINDS.join(", ")))),
        (Some((first, _)), Some((second, _))) => {
            let known = |key: &str| KINDS.contains(&key);
            match [first, second].into_iter().find(|key| !known(key)) {
                Some(key) => Err(PlanError(unknown("key", key, KINDS.into_iter().chain(OPTIONS).collect::<Vec<_>>()))),
                None => Err(PlanError(format!("an operation has one kind, not both {first} and {second}"))),
            }
        }
    }
}

type Mapped = Result<(Request, Judge), PlanError>;

impl Mapping<'_> {
    fn variables(&self) -> &Variables {
        &self.context.variables
    }

    fn json(&self, value: &Value) -> Result<Body, PlanError> {
        Template::json(value, self.variables()).map(Body::Json)
    }

    /// `METHOD /collection`
    fn line(&self, method: &str, form: &Form) -> Result<Line<'_>, PlanError> {
        Line::new(method, self.variables()).segment(form.text("collection")?)
    }

    /// `METHOD /collection/place/id`
    fn at(&self, method: &str, form: &Form, place: Place) -> Result<Line<'_>, PlanError> {
        let line = self.line(method, form)?.segment(place.before)?.segment(&id("id", form.require("id")?)?)?;
        match place.behind {
            Some(verb) => line.segment(verb),
            None => Ok(line),
        }
    }
}

/// The number or text at `key` that names a document.
fn id(key: &str, value: &Value) -> Result<String, PlanError> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(PlanError(format!("\"{key}\" wants a text or a number, not {value}"))),
    }
}

/// Appends the query parameters of a form.
fn parameters<'a>(mut line: Line<'a>, form: &Form) -> Result<Line<'a>, PlanError> {
    if form.get("parameters").is_some() {
        for (name, value) in form.mapping("parameters")?.as_object().into_iter().flatten() {
            line = line.parameter(name, value)?;
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests;
