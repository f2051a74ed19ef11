//! The `http` operation: parses the workload's form into a request, its assertions and its captures.

use std::time::Duration;

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Captured, Variables};
use serde_json::Value;

use super::answer::Expect;
use super::server_timing::Timing;
use crate::form::Form;
use crate::http1::captured::Captures;
use crate::http1::request::{Body, Request, RequestHead};
use crate::timeout;

/// A parsed operation, ready to execute.
#[derive(Debug)]
pub struct Operation {
    /// The request.
    pub request: Request,
    /// Assertions on the answer.
    pub expect: Expect,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// Values captured from the answer.
    pub captures: Captures,
    /// Times to read from the answer.
    pub timing: Timing,
    /// Slots and names of the captured variables that the operation uses.
    needs: Vec<(usize, String)>,
}

/// The methods that a workload can use.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// The keys of an `http` operation.
const KEYS: [&str; 9] = ["method", "path", "headers", "parameters", "body", "text", "capture", "expect", "timing"];

impl Operation {
    /// Parses `{"http": {...}, "timeout": 5}`, in seconds. `timeout` is the default if the form has none. Refuses what
    /// it does not support.
    pub fn map(form: &Value, variables: &Variables, timeout: Duration) -> Result<Self, PlanError> {
        let timeout = timeout::of_operation(form, timeout)?;
        let form = Form::new(form, &["http", "timeout"])?;
        Self::http(form.require("http")?, variables, timeout).map_err(|error| error.within("http"))
    }

    /// Parses the value of `http`. Refuses unknown keys, an unknown method, and a path without a leading slash.
    fn http(form: &Value, variables: &Variables, timeout: Duration) -> Result<Self, PlanError> {
        let form = Form::new(form, &KEYS)?;
        let (method, path) = (form.text("method")?, form.text("path")?);
        if !METHODS.contains(&method) {
            return Err(PlanError::new(unknown("method", method, METHODS)));
        }
        if !path.starts_with('/') {
            return Err(PlanError::new(format!("\"path\" begins with a slash; {path:?} does not")));
        }
        let mut line = RequestHead::new(method, variables).path(path)?;
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
        let captures = Captures::new(form.get("capture"), variables)?;
        let timing = Timing::new(form.get("timing"))?;
        let expect = match form.get("expect") {
            Some(expect) => Expect::new(expect, variables).map_err(|error| error.within("expect"))?,
            None => Expect::default(),
        };
        if !expect.reads_body() && !captures.read_body() {
            request.ignore_answer();
        }
        let used = request.templates().chain(expect.templates()).flat_map(Template::variables);
        let needs =
            used.filter_map(|id| variables.slot(id).map(|slot| (slot, variables.name(id).to_owned()))).collect();
        Ok(Self { request, expect, timeout, captures, timing, needs })
    }

    /// Returns the name of a value that the request needs and the client has not captured; `None` if there is none.
    pub fn missing(&self, captured: &Captured) -> Option<&str> {
        self.needs.iter().find(|(slot, _)| !captured.has(*slot)).map(|(_, name)| name.as_str())
    }
}

/// Returns the members of the mapping at `key`; none if it is missing or null. Refuses another value.
fn members<'a>(form: &Form<'a>, key: &str) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, PlanError> {
    let mapping = form.get(key).map(|_| form.mapping(key)).transpose()?;
    Ok(mapping.and_then(Value::as_object).into_iter().flatten())
}

#[cfg(test)]
mod tests;
