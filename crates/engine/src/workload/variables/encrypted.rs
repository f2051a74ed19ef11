//! Encrypted values of other variables, for encrypted collections. Constant values are encrypted in advance.

use std::sync::Arc;

use serde_json::Value;

use super::encoded::Encoded;
use super::form::Form;
use super::{Captured, Encoding, Kind, Number, Values, Variable, VariableId, Variables};
use crate::plan::PlanError;
use crate::util::digits::push_i64;
use crate::util::draw::Draw;
use crate::workload::cipher::{Bound, Field};

const SEVERAL: &str = "it has several values";

/// Parsed form `{of: name, key: ..., field: name, as: text}`, with `bound` for the end of a range.
#[derive(Clone, Debug)]
pub struct UnboundEncrypted {
    of: String,
    field: Arc<Field>,
    bound: Option<Bound>,
}

/// The form with its variable resolved.
#[derive(Clone, Debug)]
pub struct Encrypted {
    pub of: VariableId,
    field: Arc<Field>,
    bound: Option<Bound>,
}

impl UnboundEncrypted {
    /// Parses `{of: name, key: ..., field: name, as: text, bound: none | low | high}`; refuses other keys and values.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("encrypted", argument, &["of", "key", "field", "as", "bound"])?;
        let how = form.get("as").ok_or_else(|| form.wrong("as", "how the field is encrypted"))?;
        let bound = match form.word("bound", &["none", "low", "high"])? {
            "low" => Some(Bound::Low),
            "high" => Some(Bound::High),
            _ => None,
        };
        Ok(Self {
            of: form.text("of")?.to_owned(),
            field: Arc::new(Field::new(form.text("key")?, form.text("field")?, how)?),
            bound,
        })
    }

    /// Resolves the variable; refuses an unknown one.
    pub fn bind(&self, variables: &Variables) -> Result<Encrypted, PlanError> {
        Ok(Encrypted { of: variables.find(&self.of)?, field: self.field.clone(), bound: self.bound })
    }
}

impl Encrypted {
    /// Encrypts a value, or a bound of a range. The error says why it cannot be encrypted.
    fn make(&self, plain: &Value) -> Result<Value, String> {
        match self.bound {
            Some(bound) => self.field.bound(plain, bound).map(Value::from),
            None => self.field.value(plain),
        }
    }

    /// Returns a variable `name` with the plain variable's values, encrypted in advance, and its order or weights.
    /// `None` unless the plain values are constant or listed. The error names a value that cannot be encrypted.
    pub fn beforehand(&self, variables: &Variables, name: &str) -> Result<Option<Variable>, PlanError> {
        let Variable { salt, per, kind, .. } = &variables.entries[self.of.0];
        let kind = match kind {
            Kind::Constant(value) => self.make(&value.value()).map(|made| Kind::Constant(Encoded::new(&made))),
            Kind::Listed(listed) => listed.map(|value| self.make(value)).map(Kind::Listed),
            _ => return Ok(None),
        };
        Ok(Some(Variable { name: name.to_owned(), salt: *salt, per: *per, kind: kind.map_err(PlanError::new)? }))
    }

    /// Refuses a variable with values that may not be encryptable: captured values, several values at once, and values
    /// that do not fit the field's type or the bound. Tries the encryption once for times.
    pub fn refuse_unfit(&self, variables: &Variables) -> Result<(), PlanError> {
        let Variable { name, kind, .. } = &variables.entries[self.of.0];
        let wrong = |what: &str| Err(PlanError::new(format!("the variable {name:?} cannot be encrypted: {what}")));
        if variables.rests_on_answers(self.of) {
            return wrong("its values come from answers, and are encrypted already");
        }
        match kind {
            // Encrypted in advance, with separate errors.
            Kind::Constant(_) | Kind::Listed(_) => Ok(()),
            Kind::Documents(_) => wrong(SEVERAL),
            Kind::Derived(derived) if derived.repeats().is_some() => wrong(SEVERAL),
            _ if self.field.is_text() => match self.bound {
                None => Ok(()),
                Some(_) => wrong("encrypted text cannot be compared by order"),
            },
            _ if self.field.is_number() => match variables.number(self.of, &Draw::new(0, 0, 0)) {
                None => wrong("the field is one of numbers"),
                Some(Number::Real(_)) if self.bound.is_none() => {
                    wrong("any number may be drawn, which the documents need not have; draw whole numbers or a choice")
                }
                Some(_) => Ok(()),
            },
            _ => {
                let draw = Draw::new(0, 0, 0);
                let values = Values { variables, draw: &draw, captured: &Captured::NONE };
                self.make(&self.drawn(&values)).map(drop).or_else(|reason| wrong(&reason))
            }
        }
    }

    /// Returns the plain value in this request, as a JSON number or string.
    fn drawn(&self, values: &Values<'_>) -> Value {
        match values.variables.number(self.of, values.draw) {
            Some(Number::Whole(number)) => Value::from(number),
            Some(Number::Real(number)) => Value::from(number),
            None => {
                let mut text = Vec::new();
                values.write(self.of, Encoding::Text, &mut text);
                Value::from(String::from_utf8_lossy(&text))
            }
        }
    }

    /// Appends the encrypted value of this request in an encoding; the largest 64-bit integer if it cannot be
    /// encrypted.
    pub fn write(&self, values: &Values<'_>, encoding: Encoding, out: &mut Vec<u8>) {
        match self.make(&self.drawn(values)) {
            Ok(Value::String(hex)) => {
                let quote: &[u8] = if encoding == Encoding::Json { b"\"" } else { b"" };
                out.extend_from_slice(quote);
                out.extend_from_slice(hex.as_bytes());
                out.extend_from_slice(quote);
            }
            // No document contains a number that is too large for the mapping.
            made => push_i64(out, made.ok().and_then(|made| made.as_i64()).unwrap_or(i64::MAX)),
        }
    }
}
