//! Assertions that decide whether an answer is a success.

use loadframe_engine::driver::Failure;
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::Value;

use crate::assertion::{alike, assertion};
use crate::excerpt::excerpt;
use crate::form::Form;
use crate::http1::answer::Answer;
use crate::http1::captured::{no_json, pick};
use crate::http1::status::class_of;
use loadframe_engine::workload::json_pointer::Pointer;

/// Assertions on an answer. Without any, a success status is enough.
#[derive(Debug, Default)]
pub struct Expect {
    /// Accepted statuses. Empty accepts 200 to 299.
    status: Vec<u16>,
    json: Vec<(Pointer, Template)>,
    contains: Option<Template>,
    headers: Vec<(String, Template)>,
}

impl Expect {
    /// Parses `{"status": [200, 201], "json": {"/pointer": value}, "contains": "text", "headers": {"name": "text"}}`.
    /// All keys are optional; texts and values may hold variables. Refuses unknown keys and variables, and wrong types.
    pub fn new(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let form = Form::new(form, &["status", "json", "contains", "headers"])?;
        let status = match form.get("status") {
            None => Vec::new(),
            Some(Value::Array(all)) if !all.is_empty() => all.iter().map(status).collect::<Result<_, _>>()?,
            Some(one) => vec![status(one)?],
        };
        let mut json = Vec::new();
        if form.get("json").is_some() {
            for (pointer, value) in form.mapping("json")?.as_object().into_iter().flatten() {
                json.push((Pointer::parse(pointer)?, Template::json(value, variables)?));
            }
        }
        let mut contains = None;
        if form.get("contains").is_some() {
            let template = contains.insert(Template::default());
            template.push_verbatim(form.text("contains")?, variables)?;
        }
        let mut headers = Vec::new();
        if form.get("headers").is_some() {
            for (name, value) in form.mapping("headers")?.as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let mut template = Template::default();
                template.push_verbatim(&text, variables)?;
                headers.push((name.clone(), template));
            }
        }
        Ok(Self { status, json, contains, headers })
    }

    /// Returns the templates, so that the caller can check the variables that they use.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let headers = self.headers.iter().map(|(_, template)| template);
        self.json.iter().map(|(_, template)| template).chain(&self.contains).chain(headers)
    }

    /// Returns whether an assertion reads the body.
    pub fn reads_body(&self) -> bool {
        !self.json.is_empty() || self.contains.is_some()
    }

    /// Checks a complete answer: status, JSON values, headers, then text. Returns the first failure.
    pub fn judge(&self, answer: &Answer, values: &Values) -> Result<(), Failure> {
        let (status, body) = (answer.status(), answer.body());
        if !self.status.contains(&status) {
            if let Some(class) = class_of(status) {
                let hint = if (300..400).contains(&status) { "; redirects are not followed" } else { "" };
                let message = format!("HTTP {status}: {}{hint}", excerpt(body));
                return Err(Failure::new(class, message));
            }
            if !self.status.is_empty() {
                return Err(assertion(format!("HTTP {status}, and not {}", listed(&self.status))));
            }
        }
        let rendered = |template: &Template| {
            let mut out = Vec::new();
            template.render(values, &mut out);
            out
        };
        for (pointer, template) in &self.json {
            let expected: Value = serde_json::from_slice(&rendered(template)).unwrap_or(Value::Null);
            let json = pick(pointer, body)?;
            let value = serde_json::from_slice(json).map_err(|_| no_json(body))?;
            if !alike(&value, &expected) {
                let text = pointer.text();
                return Err(assertion(format!("at \"{text}\" there is {}, and not {expected}", excerpt(json))));
            }
        }
        for (name, template) in &self.headers {
            let (wanted, there) = (rendered(template), answer.field(name));
            if there != Some(wanted.as_slice()) {
                let wanted = String::from_utf8_lossy(&wanted).into_owned();
                let there = there.map_or_else(|| "nothing".to_owned(), excerpt);
                return Err(assertion(format!("in the header \"{name}\" there is {there}, and not {wanted:?}")));
            }
        }
        if let Some(template) = &self.contains {
            let text = rendered(template);
            if memchr::memmem::find(body, &text).is_none() {
                let text = String::from_utf8_lossy(&text).into_owned();
                return Err(assertion(format!("the answer does not contain {text:?}: {}", excerpt(body))));
            }
        }
        Ok(())
    }
}

/// Reads a status from 200 to 599. Refuses other values.
fn status(value: &Value) -> Result<u16, PlanError> {
    let status = value.as_u64().and_then(|status| u16::try_from(status).ok()).filter(|s| (200..600).contains(s));
    status.ok_or_else(|| PlanError::new(format!("\"status\" wants numbers from 200 to 599, not {value}")))
}

/// Joins statuses with "or" for a message.
fn listed(status: &[u16]) -> String {
    status.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ")
}
