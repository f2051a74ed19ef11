//! The one operation there is, `http`: from its form in the workload to a request and what is made of the answer.

use std::time::Duration;

use loadframe_engine::driver::Failure;
use loadframe_engine::nearest::unknown;
use loadframe_engine::plan::PlanError;
use loadframe_engine::template::Template;
use loadframe_engine::variables::{Captured, Variables};
use serde_json::Value;

use super::expect::{Expect, pick};
use crate::assertion::assertion;
use crate::form::Form;
use crate::http1::answer::Answer;
use crate::http1::request::{Body, Line, Request};
use crate::json::pointer::Pointer;
use crate::timeout;

/// An operation, ready to be executed.
#[derive(Debug)]
pub struct Operation {
    /// What is sent.
    pub request: Request,
    /// What the answer has to be like.
    pub expect: Expect,
    /// How long it is waited for.
    pub timeout: Duration,
    captures: Vec<Capture>,
    /// The captured variables that the operation uses: their slots and their names.
    needs: Vec<(usize, String)>,
}

/// A value that is taken from an answer.
#[derive(Debug)]
struct Capture {
    name: String,
    slot: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Json(Pointer),
    Header(String),
}

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

const KEYS: [&str; 8] = ["method", "path", "headers", "parameters", "body", "text", "capture", "expect"];

impl Operation {
    /// Maps `{"http": {...}, "timeout": 5}`. `timeout` holds unless the form has its own.
    pub fn map(form: &Value, variables: &Variables, timeout: Duration) -> Result<Self, PlanError> {
        let timeout = timeout::of_operation(form, timeout)?;
        let form = Form::new(form, &["http", "timeout"])?;
        Self::http(form.require("http")?, variables, timeout).map_err(|error| error.within("http"))
    }

    fn http(form: &Value, variables: &Variables, timeout: Duration) -> Result<Self, PlanError> {
        let form = Form::new(form, &KEYS)?;
        let (method, path) = (form.text("method")?, form.text("path")?);
        if !METHODS.contains(&method) {
            return Err(PlanError::new(unknown("method", method, METHODS)));
        }
        if !path.starts_with('/') {
            return Err(PlanError::new(format!("\"path\" begins with a slash; {path:?} does not")));
        }
        let mut line = Line::new(method, variables).path(path)?;
        for (name, value) in members(&form, "parameters")? {
            line = line.parameter(name, value)?;
        }
        for (name, value) in members(&form, "headers")? {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            line = line.field(name, &text)?;
        }
        let body = match (form.get("body"), form.get("text")) {
            (Some(_), Some(_)) => return Err(PlanError::new("a request has a \"body\" or a \"text\", not both")),
            (Some(body), None) => Body::Json(Template::json(body, variables)?),
            (None, Some(_)) => {
                let mut template = Template::default();
                template.push_verbatim(form.text("text")?, variables)?;
                Body::Text(template)
            }
            (None, None) => Body::None,
        };
        let mut request = line.finish(body);
        let captures = members(&form, "capture")?
            .map(|(name, source)| Capture::new(name, source, variables))
            .collect::<Result<Vec<_>, _>>()?;
        let expect = match form.get("expect") {
            Some(expect) => Expect::new(expect, variables).map_err(|error| error.within("expect"))?,
            None => Expect::default(),
        };
        let reads = |capture: &Capture| matches!(capture.source, Source::Json(_));
        if !expect.reads_body() && !captures.iter().any(reads) {
            request.ignore_answer();
        }
        let used = request.templates().chain(expect.templates()).flat_map(Template::variables);
        let needs =
            used.filter_map(|id| variables.slot(id).map(|slot| (slot, variables.name(id).to_owned()))).collect();
        Ok(Self { request, expect, timeout, captures, needs })
    }

    /// The name of a value that the request needs and its client has not got.
    pub fn missing(&self, captured: &Captured) -> Option<&str> {
        self.needs.iter().find(|(slot, _)| !captured.has(*slot)).map(|(_, name)| name.as_str())
    }

    /// Takes from an answer what later requests need.
    pub fn keep(&self, answer: &Answer, captured: &mut Captured) -> Result<(), Failure> {
        for Capture { name, slot, source } in &self.captures {
            match source {
                Source::Json(pointer) => {
                    let json = pick(pointer, answer.body())?;
                    let broken = |_| assertion(format!("what the answer has at \"{}\" is not JSON", pointer.text()));
                    captured.keep_json(*slot, json).map_err(broken)?;
                }
                Source::Header(header) => {
                    let missing =
                        || assertion(format!("the answer has no header \"{header}\" to take \"{name}\" from"));
                    let value = answer.field(header).ok_or_else(missing)?;
                    captured.keep_text(*slot, &String::from_utf8_lossy(value));
                }
            }
        }
        Ok(())
    }
}

impl Capture {
    fn new(name: &str, source: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let read = || {
            let slot = variables.find(name).map(|id| variables.slot(id))?;
            let slot = slot.ok_or_else(|| PlanError::new("it is drawn, and not taken from answers"))?;
            let form = Form::new(source, &["json", "header"])?;
            let source = match (form.get("json"), form.get("header")) {
                (Some(Value::String(pointer)), None) => Source::Json(Pointer::parse(pointer)?),
                (None, Some(_)) => Source::Header(form.text("header")?.to_owned()),
                _ => return Err(PlanError::new(format!("wants {{json: POINTER}} or {{header: NAME}}, not {source}"))),
            };
            Ok(Self { name: name.to_owned(), slot, source })
        };
        read().map_err(|error| error.within(format!("capture \"{name}\"")))
    }
}

/// The members of the mapping at `key`, if there is one.
fn members<'a>(form: &Form<'a>, key: &str) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, PlanError> {
    let mapping = form.get(key).map(|_| form.mapping(key)).transpose()?;
    Ok(mapping.and_then(Value::as_object).into_iter().flatten())
}

#[cfg(test)]
mod tests;
