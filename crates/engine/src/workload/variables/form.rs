//! Definition of one variable in a workload, read key by key. Errors name the expected value.

use serde_json::{Map, Value};

use crate::plan::PlanError;
use crate::util::suggestions::unknown;

/// The mapping of a variable's kind: `{items: 100, from: 1}`.
pub struct Form<'a> {
    kind: &'a str,
    mapping: &'a Map<String, Value>,
}

impl<'a> Form<'a> {
    /// Wraps the value `argument` of a variable's `kind`. Refuses values that are not mappings, and keys that are not
    /// `known`.
    pub fn new(kind: &'a str, argument: &'a Value, known: &[&str]) -> Result<Self, PlanError> {
        let wrong = || PlanError::new(format!("{kind} wants a mapping of {}, not {argument}", known.join(", ")));
        let mapping = argument.as_object().ok_or_else(wrong)?;
        match mapping.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(PlanError::new(unknown(&format!("key of {kind}"), key, known.iter().copied()))),
            None => Ok(Self { kind, mapping }),
        }
    }

    /// Returns the value of a key, if it is present and not null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.mapping.get(key).filter(|value| !value.is_null())
    }

    /// Returns the value of a key, if it is present, even if it is null.
    pub fn present(&self, key: &str) -> Option<&'a Value> {
        self.mapping.get(key)
    }

    /// Returns the error for a wrong or missing value of a key. `wanted`: description of the expected value.
    pub fn wrong(&self, key: &str, wanted: &str) -> PlanError {
        match self.get(key) {
            Some(value) => PlanError::new(format!("{} wants {key} to be {wanted}, not {value}", self.kind)),
            None => PlanError::new(format!("{} wants {key}, {wanted}", self.kind)),
        }
    }

    /// Returns the integer at a key, of at least 1 and at most 2^53; refuses other values, and a missing one.
    pub fn items(&self, key: &str) -> Result<u64, PlanError> {
        let value = self.get(key).and_then(Value::as_u64);
        value.filter(|items| (1..=1 << 53).contains(items)).ok_or_else(|| self.wrong(key, "a whole number above 0"))
    }

    /// Returns the integer at a key, or `default` if it is missing; refuses other values.
    pub fn whole(&self, key: &str, default: i64) -> Result<i64, PlanError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_i64().ok_or_else(|| self.wrong(key, "a whole number"))
    }

    /// Returns the number at a key, or `default` if it is missing; refuses one that does not satisfy `fits`.
    /// Also refuses other values, and a missing number without a default. `wanted`: description for the error.
    pub fn number(
        &self,
        key: &str,
        default: Option<f64>,
        fits: impl Fn(f64) -> bool,
        wanted: &str,
    ) -> Result<f64, PlanError> {
        let number = self.get(key).map_or(default, Value::as_f64);
        number.filter(|number| fits(*number)).ok_or_else(|| self.wrong(key, wanted))
    }

    /// Returns the text at a key; refuses other values, and a missing one.
    pub fn text(&self, key: &str) -> Result<&'a str, PlanError> {
        self.get(key).and_then(Value::as_str).ok_or_else(|| self.wrong(key, "a text"))
    }

    /// Returns one of several words; the first if the key is missing. Refuses other values.
    pub fn word(&self, key: &str, words: &[&'static str]) -> Result<&'static str, PlanError> {
        let Some(value) = self.get(key) else { return Ok(words[0]) };
        let word = words.iter().find(|word| value.as_str() == Some(word));
        word.copied().ok_or_else(|| self.wrong(key, &format!("one of {}", words.join(", "))))
    }

    /// Returns the boolean at a key; false if it is missing. Refuses other values.
    pub fn flag(&self, key: &str) -> Result<bool, PlanError> {
        let Some(value) = self.get(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }
}
