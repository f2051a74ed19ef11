//! Values captured from an HTTP answer: from its JSON body or its headers.

use std::borrow::Cow;

use loadframe_engine::driver::Failure;
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Captured;
use serde_json::Value;

use super::answer::Answer;
use crate::assertion::assertion;
use crate::capture;
use crate::capture::{Lookup, Source};
use crate::excerpt::excerpt;
use crate::form::Form;
use loadframe_engine::workload::json_pointer::Pointer;

/// All captures of an operation.
pub type Captures = capture::Captures<Place>;

/// Location of a value in an answer.
#[derive(Debug)]
pub enum Place {
    /// A JSON pointer into the body.
    Json(Pointer),
    /// A header.
    Header(String),
}

impl Source for Place {
    const KEYS: &'static [&'static str] = &["json", "header"];

    /// Reads `{"json": "/pointer"}` or `{"header": "name"}`; returns `None` if the form has neither. Refuses a header
    /// that is not a text, and an invalid pointer.
    fn read(form: &Form) -> Result<Option<Self>, PlanError> {
        Ok(match (form.get("json"), form.get("header")) {
            (Some(Value::String(pointer)), _) => Some(Self::Json(Pointer::parse(pointer)?)),
            (None, Some(_)) => Some(Self::Header(form.text("header")?.to_owned())),
            _ => None,
        })
    }
}

impl Captures {
    /// Returns whether any capture reads the body.
    pub fn read_body(&self) -> bool {
        self.sources().any(|place| matches!(place, Place::Json(_)))
    }

    /// Puts the captured values of an answer into `memory`. Fails if a value without `otherwise` is missing, or if a
    /// capture reads a body that is not JSON.
    pub fn keep_from(&self, answer: &Answer, memory: &mut Captured) -> Result<(), Failure> {
        self.keep(memory, |name, place| {
            Ok(match place {
                Place::Json(pointer) => match pointer.find(answer.body()).map_err(|_| no_json(answer.body()))? {
                    Some(json) => Lookup::Json(Cow::Borrowed(json)),
                    None => Lookup::Missing(nothing(pointer, answer.body())),
                },
                Place::Header(header) => match answer.field(header) {
                    Some(value) => Lookup::Text(String::from_utf8_lossy(value)),
                    None => Lookup::Missing(assertion(format!(
                        "cannot capture \"{name}\": the answer lacks the header \"{header}\""
                    ))),
                },
            })
        })
    }
}

/// Returns the JSON at a pointer in the body. Fails if there is none, or the body is not JSON.
pub fn pick<'a>(pointer: &Pointer, body: &'a [u8]) -> Result<&'a [u8], Failure> {
    let json = pointer.find(body).map_err(|_| no_json(body))?;
    json.ok_or_else(|| nothing(pointer, body))
}

/// Returns the failure for a body without a value at a pointer.
fn nothing(pointer: &Pointer, body: &[u8]) -> Failure {
    assertion(format!("the answer has nothing at \"{}\": {}", pointer.text(), excerpt(body)))
}

/// Returns the failure for a body that is not JSON.
pub fn no_json(body: &[u8]) -> Failure {
    assertion(format!("the answer is not JSON: {}", excerpt(body)))
}
