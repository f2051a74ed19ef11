//! Strict parsing of an operation's form. Messages about unknown words suggest the nearest known one.

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use serde_json::{Map, Value};

/// Returns the kind of an operation and its argument.
/// They are the only key of `form` that is not among `options`, and its value. Refuses further keys, and a form that is
/// not a mapping. The caller refuses a kind that is not among `kinds`.
pub fn kind<'a>(form: &'a Value, kinds: &[&str], options: &[&str]) -> Result<(&'a str, &'a Value), PlanError> {
    let mapping = form.as_object().ok_or_else(|| PlanError::new(format!("an operation is a mapping, not {form}")))?;
    let mut named = mapping.iter().filter(|(key, _)| !options.contains(&key.as_str()));
    match (named.next(), named.next()) {
        (Some((kind, argument)), None) => Ok((kind, argument)),
        (None, _) => Err(PlanError::new(format!("an operation names its kind, one of {}", kinds.join(", ")))),
        (Some((first, _)), Some((second, _))) => {
            match [first, second].into_iter().find(|key| !kinds.contains(&key.as_str())) {
                Some(key) => Err(PlanError::new(unknown("key", key, kinds.iter().chain(options).copied()))),
                None => Err(PlanError::new(format!("an operation has one kind, not both {first} and {second}"))),
            }
        }
    }
}

/// A mapping with a fixed set of keys.
pub struct Form<'a> {
    fields: &'a Map<String, Value>,
}

impl<'a> Form<'a> {
    /// Wraps `value`, which must be a mapping. Refuses keys that are not in `known`.
    pub fn new(value: &'a Value, known: &[&str]) -> Result<Self, PlanError> {
        let fields = value.as_object().ok_or_else(|| PlanError::new(format!("wants a mapping, not {value}")))?;
        match fields.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(PlanError::new(unknown("key", key, known.iter().copied()))),
            None => Ok(Self { fields }),
        }
    }

    /// Returns the value at `key`; `None` if it is missing or null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// Returns the value at `key`. Refuses a missing or null one.
    pub fn require(&self, key: &str) -> Result<&'a Value, PlanError> {
        self.get(key).ok_or_else(|| PlanError::new(format!("\"{key}\" is missing")))
    }

    /// Returns the string at `key`. Refuses a missing or empty one, and other values.
    pub fn text(&self, key: &str) -> Result<&'a str, PlanError> {
        let value = self.require(key)?;
        let text = value.as_str().filter(|text| !text.is_empty());
        text.ok_or_else(|| PlanError::new(format!("\"{key}\" wants a text, not {value}")))
    }

    /// Returns the mapping at `key`. Refuses a missing or other value.
    pub fn mapping(&self, key: &str) -> Result<&'a Value, PlanError> {
        let value = self.require(key)?;
        if value.is_object() {
            Ok(value)
        } else {
            Err(PlanError::new(format!("\"{key}\" wants a mapping, not {value}")))
        }
    }

    /// Returns the mapping at `key`, or a string that is one template variable, such as "${name}". Refuses a missing or
    /// other value.
    pub fn mapping_or_hole(&self, key: &str) -> Result<&'a Value, PlanError> {
        let value = self.require(key)?;
        let hole = value.as_str().is_some_and(|text| text.starts_with("${") && text.find('}') == Some(text.len() - 1));
        if hole { Ok(value) } else { self.mapping(key) }
    }

    /// Returns the positive whole number at `key`. Refuses a missing or other value.
    pub fn count(&self, key: &str) -> Result<u64, PlanError> {
        let value = self.require(key)?;
        let count = value.as_u64().filter(|count| *count > 0);
        count.ok_or_else(|| PlanError::new(format!("\"{key}\" wants a whole number above 0, not {value}")))
    }

    /// Returns the boolean at `key`; `None` if it is missing. Refuses another value.
    pub fn switch(&self, key: &str) -> Result<Option<bool>, PlanError> {
        let boolean = |value: &Value| {
            value.as_bool().ok_or_else(|| PlanError::new(format!("\"{key}\" wants true or false, not {value}")))
        };
        self.get(key).map(boolean).transpose()
    }

    /// Returns the duration at `key`, given in seconds, rounded to milliseconds; `None` if it is missing. Refuses
    /// numbers outside 0 to 1e9 and other values.
    pub fn milliseconds(&self, key: &str) -> Result<Option<i64>, PlanError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| (0.0..=1e9).contains(seconds));
        let wrong = || PlanError::new(format!("\"{key}\" wants seconds from 0 on, not {value}"));
        Ok(Some((seconds.ok_or_else(wrong)? * 1e3).round() as i64))
    }
}
