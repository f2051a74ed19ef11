//! Captures: values from an answer for later requests of the same user, such as a token, an id or a total.
//!
//! Each protocol finds the values in its own answers; this module stores them.

use std::borrow::Cow;

use loadframe_engine::driver::Failure;
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::{Captured, Variables};
use serde_json::Value;

use crate::assertion::{assertion, field};
use crate::form::Form;
use loadframe_engine::workload::json_pointer::Pointer;

/// All captures of an operation.
#[derive(Debug)]
pub struct Captures<S>(Vec<Capture<S>>);

/// One captured value.
#[derive(Debug)]
struct Capture<S> {
    name: String,
    slot: usize,
    source: S,
    /// JSON to use if the answer lacks the value.
    otherwise: Option<String>,
}

/// Location of a value in an answer.
pub trait Source: Sized {
    /// The keys of its form.
    const KEYS: &'static [&'static str];

    /// Reads the form; returns `None` if it contains no location. Refuses a location of another form.
    fn read(form: &Form) -> Result<Option<Self>, PlanError>;
}

/// Result of looking up a value in an answer.
pub enum Lookup<'a> {
    /// A value, as JSON.
    Json(Cow<'a, [u8]>),
    /// A string.
    Text(Cow<'a, str>),
    /// No value; the failure to report if the capture has no `otherwise`.
    Missing(Failure),
}

impl<S> Default for Captures<S> {
    /// Creates it without captures.
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Source> Captures<S> {
    /// Reads `{"token": {"json": "/token"}, "total": {"field": "sum", "otherwise": 0}}`; empty without a form. Refuses
    /// another form, and names that are not captured variables.
    pub fn new(form: Option<&Value>, variables: &Variables) -> Result<Self, PlanError> {
        let mapping = match form.filter(|form| !form.is_null()) {
            Some(Value::Object(mapping)) => mapping,
            Some(other) => return Err(PlanError::new(format!("\"capture\" wants {{NAME: SOURCE}}, not {other}"))),
            None => return Ok(Self::default()),
        };
        mapping.iter().map(|(name, source)| Capture::new(name, source, variables)).collect::<Result<_, _>>().map(Self)
    }
}

impl<S> Captures<S> {
    /// Returns whether the operation captures nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the locations of all captures, in the order of the form.
    pub fn sources(&self) -> impl Iterator<Item = &S> {
        self.0.iter().map(|capture| &capture.source)
    }

    /// Puts each captured value of an answer into `memory`. `find` gets the name and the location of a value and looks
    /// it up. The capture's `otherwise` replaces a missing or null value. Fails at the first missing value without
    /// `otherwise`, and if a value is not JSON.
    pub fn keep<'a>(
        &self,
        memory: &mut Captured,
        mut find: impl FnMut(&str, &S) -> Result<Lookup<'a>, Failure>,
    ) -> Result<(), Failure> {
        for Capture { name, slot, source, otherwise } in &self.0 {
            let broken = |_| assertion(format!("the value for \"{name}\" in the answer is not JSON"));
            match (find(name, source)?, otherwise) {
                (Lookup::Missing(_), Some(json)) => memory.keep_json(*slot, json.as_bytes()).map_err(broken)?,
                (Lookup::Json(null), Some(json)) if *null == *b"null" => {
                    memory.keep_json(*slot, json.as_bytes()).map_err(broken)?;
                }
                (Lookup::Json(json), _) => memory.keep_json(*slot, &json).map_err(broken)?,
                (Lookup::Text(text), _) => memory.keep_text(*slot, &text),
                (Lookup::Missing(failure), None) => return Err(failure),
            }
        }
        Ok(())
    }
}

impl<S: Source> Capture<S> {
    /// Reads one capture. Refuses a `name` that is not a captured variable, and a `source` without exactly one of
    /// `S::KEYS`.
    fn new(name: &str, source: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let read = || -> Result<Self, PlanError> {
            let slot = variables.find(name).map(|id| variables.slot(id))?;
            let slot = slot.ok_or_else(|| PlanError::new("it is drawn, not captured"))?;
            let keys: Vec<_> = S::KEYS.iter().copied().chain(["otherwise"]).collect();
            let form = Form::new(source, &keys)?;
            let wanted = || {
                let keys: Vec<_> = S::KEYS.iter().map(|key| format!("{{{key}: ...}}")).collect();
                PlanError::new(format!("wants {}, not {source}", keys.join(" or ")))
            };
            let named = S::KEYS.iter().filter(|key| form.get(key).is_some()).count();
            let place = S::read(&form)?.filter(|_| named == 1).ok_or_else(wanted)?;
            let otherwise = form.get("otherwise").map(Value::to_string);
            Ok(Self { name: name.to_owned(), slot, source: place, otherwise })
        };
        read().map_err(|error| error.within(format!("capture \"{name}\"")))
    }
}

/// A location in the first document of an answer.
#[derive(Debug)]
pub enum Place {
    /// A field; a dot separates nested fields.
    Field(String, Pointer),
    /// A JSON pointer.
    Json(Pointer),
}

impl Source for Place {
    const KEYS: &'static [&'static str] = &["field", "json"];

    /// Reads `{"field": "a.b"}` or `{"json": "/a/b"}`; returns `None` if the form has neither. Refuses a field that is
    /// not a text, and an invalid pointer.
    fn read(form: &Form) -> Result<Option<Self>, PlanError> {
        Ok(match (form.get("field"), form.get("json")) {
            (Some(_), _) => {
                let name = form.text("field")?;
                Some(Self::Field(name.to_owned(), Pointer::dotted(name)?))
            }
            (None, Some(Value::String(pointer))) => Some(Self::Json(Pointer::parse(pointer)?)),
            _ => None,
        })
    }
}

impl Place {
    /// Returns a [`Lookup::Missing`] for the captured value `name`. `there`: whether the answer has a document.
    fn nothing(&self, name: &str, there: bool) -> Lookup<'static> {
        let what = match self {
            Self::Field(field, _) => format!("field {field:?}"),
            Self::Json(pointer) => format!("value at {:?}", pointer.text()),
        };
        let place = if there { "the document of the answer" } else { "the answer has no document and" };
        Lookup::Missing(assertion(format!("cannot capture \"{name}\": {place} lacks {what}")))
    }

    /// Looks up the location in a document; `None` stands for an answer without documents. `name` is the captured
    /// value's name, for the failure.
    pub fn in_value(&self, name: &str, document: Option<&Value>) -> Lookup<'static> {
        let value = document.and_then(|document| match self {
            Self::Field(name, _) => field(document, name),
            Self::Json(pointer) => document.pointer(pointer.text()),
        });
        let nothing = || self.nothing(name, document.is_some());
        value.map_or_else(nothing, |value| Lookup::Json(Cow::Owned(value.to_string().into_bytes())))
    }

    /// Looks up the location in a JSON `document`; `None` stands for an answer without documents. `name` is the
    /// captured value's name, for the failure.
    pub fn in_json<'a>(&self, name: &str, document: Option<&'a [u8]>) -> Lookup<'a> {
        let (Self::Field(_, pointer) | Self::Json(pointer)) = self;
        let json = document.and_then(|document| pointer.find(document).ok().flatten());
        json.map_or_else(|| self.nothing(name, document.is_some()), |json| Lookup::Json(Cow::Borrowed(json)))
    }
}

impl Captures<Place> {
    /// Reads the key `capture` of an operation; empty if it is missing. Refuses captures unless `reads`, that is,
    /// unless its answers contain documents.
    pub fn of_documents(form: &Value, reads: bool, variables: &Variables) -> Result<Self, PlanError> {
        let captures = Self::new(form.get("capture"), variables)?;
        if !reads && !captures.is_empty() {
            return Err(PlanError::new(
                "capture: only operations that read documents in one answer can capture values",
            ));
        }
        Ok(captures)
    }

    /// Captures values from the document that `document` returns into `memory`, where they are known after `settle`.
    /// Fails if one is missing. Calls `document` only if there are captures.
    pub fn keep_of(&self, memory: &mut Memory, document: impl FnOnce() -> Option<Value>) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let document = document();
        self.keep(&mut memory.news, |name, place| Ok(place.in_value(name, document.as_ref())))
    }
}

/// Captured values of one user, and values from the answer to the current request.
#[derive(Debug, Default)]
pub struct Memory {
    /// Values from earlier answers.
    pub known: Captured,
    news: Captured,
}

impl Memory {
    /// Returns the known values and leaves none, until `settle` returns them.
    pub fn lend(&mut self) -> Captured {
        std::mem::take(&mut self.known)
    }

    /// Puts the values from `lend` back. Adds the values captured from the answer if `good`, that is, if the request
    /// succeeded; drops them otherwise.
    pub fn settle(&mut self, mut known: Captured, good: bool) {
        if good {
            known.learn(&mut self.news);
        } else {
            self.news.forget();
        }
        self.known = known;
    }

    /// Captures values from an answer with [`Captures::keep`]. They are known only after `settle`. Fails if one is
    /// missing or is not JSON.
    pub fn take<'a, S>(
        &mut self,
        captures: &Captures<S>,
        find: impl FnMut(&str, &S) -> Result<Lookup<'a>, Failure>,
    ) -> Result<(), Failure> {
        captures.keep(&mut self.news, find)
    }
}

/// Methods of [`Driver`](loadframe_engine::driver::Driver) for a driver whose connection has a `memory` and an exchange
/// `shown`. Requests are executed by `self.ask` with the captured values of the user.
macro_rules! execute_with_memory {
    () => {
        /// Executes a request with the user's captured values. Adds values captured from its answer if it succeeds.
        async fn execute(
            &self,
            connection: &mut Connection,
            operation: &Operation,
            context: &loadframe_engine::driver::Context,
            draw: &loadframe_engine::util::draw::Draw,
            only: Option<&[u32]>,
        ) -> loadframe_engine::driver::Reply {
            let known = connection.memory.lend();
            let variables = &context.variables;
            let values = loadframe_engine::workload::variables::Values { variables, draw, captured: &known };
            let reply = self.ask(connection, operation, &values, only).await;
            connection.memory.settle(known, reply.outcome.is_ok());
            reply
        }

        /// Returns the captured values of the client's current user; never `None`.
        fn memory<'a>(
            &self,
            connection: &'a mut Connection,
        ) -> Option<&'a mut loadframe_engine::workload::variables::Captured> {
            Some(&mut connection.memory.known)
        }

        /// Returns the client's slot for the request and answer to display.
        fn exchange(connection: &mut Connection) -> Option<&mut Option<loadframe_engine::driver::Exchange>> {
            Some(&mut connection.shown)
        }
    };
}

pub(crate) use execute_with_memory;

#[cfg(test)]
mod tests {
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::variables::Values;
    use loadframe_engine::workload::variables::template::Template;
    use serde_json::json;

    use super::*;

    /// Returns a captured variable `total` and a drawn one, `drawn`.
    fn variables() -> Variables {
        let forms = json!({"total": {"captured": null}, "drawn": {"uniform": [1, 2]}});
        Variables::parse(forms.as_object().unwrap()).unwrap()
    }

    /// Reads captures of an operation that reads documents. Returns the error's message.
    fn captures(form: Value) -> Result<Captures<Place>, String> {
        Captures::of_documents(&json!({"capture": form}), true, &variables()).map_err(|error| error.message)
    }

    /// Returns the captured values that the user's next request sends.
    fn carried(memory: &Memory) -> String {
        let (variables, draw) = (variables(), Draw::new(1, 2, 3));
        let values = Values { variables: &variables, draw: &draw, captured: &memory.known };
        let mut out = Vec::new();
        Template::json(&json!("${total}"), &variables).unwrap().render(&values, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_of_the_first_document_is_known_once_its_request_was_a_success() {
        let captures = captures(json!({"total": {"field": "sum.steps"}})).unwrap();
        let mut memory = Memory::default();
        let known = memory.lend();
        captures.keep_of(&mut memory, || Some(json!({"sum": {"steps": 12.5}}))).unwrap();
        memory.settle(known, true);
        assert_eq!(carried(&memory), "12.5");
        let known = memory.lend();
        captures.keep_of(&mut memory, || Some(json!({"sum.steps": "x"}))).unwrap();
        memory.settle(known, false);
        assert_eq!(carried(&memory), "12.5", "what a failed request answered is not taken");
        let known = memory.lend();
        captures.keep_of(&mut memory, || Some(json!({"sum.steps": "x"}))).unwrap();
        memory.settle(known, true);
        assert_eq!(carried(&memory), "\"x\"", "a field's name may have a dot itself");
    }

    #[test]
    fn a_missing_value_fails_or_uses_otherwise() {
        let taken = |form: Value, document: Option<Value>| {
            let mut memory = Memory::default();
            let known = memory.lend();
            let kept = captures(form).unwrap().keep_of(&mut memory, || document);
            memory.settle(known, kept.is_ok());
            kept.map(|()| carried(&memory)).map_err(|failure| failure.message)
        };
        let strict = json!({"total": {"json": "/a/b"}});
        assert_eq!(taken(strict.clone(), Some(json!({"a": {"b": [1]}}))), Ok("[1]".into()));
        let missing = "cannot capture \"total\": the document of the answer lacks value at \"/a/b\"";
        assert_eq!(taken(strict.clone(), Some(json!({"a": 1}))), Err(missing.into()));
        let none = "cannot capture \"total\": the answer has no document and lacks value at \"/a/b\"";
        assert_eq!(taken(strict, None), Err(none.into()));
        let lenient = json!({"total": {"field": "sum", "otherwise": 0}});
        assert_eq!(taken(lenient.clone(), None), Ok("0".into()));
        assert_eq!(taken(lenient.clone(), Some(json!({"sum": null}))), Ok("0".into()));
        assert_eq!(taken(lenient, Some(json!({"sum": 7}))), Ok("7".into()));
    }

    #[test]
    fn a_source_that_says_nothing_or_two_things_is_refused() {
        for (form, message) in [
            (json!({"total": {}}), "capture \"total\": wants {field: ...} or {json: ...}, not {}"),
            (json!({"total": {"field": "a", "json": "/a"}}), "capture \"total\": wants {field"),
            (json!({"total": {"feld": "a"}}), "capture \"total\": unknown key \"feld\"; did you mean \"field\"?"),
            (json!({"drawn": {"field": "a"}}), "capture \"drawn\": it is drawn"),
            (json!({"nobody": {"field": "a"}}), "capture \"nobody\": unknown variable"),
            (json!({"total": {"json": "a"}}), "capture \"total\": \"a\" is not a JSON pointer"),
            (json!(["total"]), "\"capture\" wants {NAME: SOURCE}"),
        ] {
            let error = captures(form).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        let form = json!({"capture": {"total": {"field": "a"}}});
        let refused = Captures::of_documents(&form, false, &variables()).unwrap_err().message;
        assert!(refused.starts_with("capture: only operations that read"), "{refused}");
    }
}
