//! Conditions on the fields of a line.

use regex::Regex;
use serde_json::{Number, Value};

use super::grok::compile;
use super::{Node, Object, Path, digits, text};
use crate::plan::{self, PlanError};

/// A checked condition. A missing field satisfies only `missing`, and a field of another type no comparison.
#[derive(Debug)]
pub enum Condition {
    Field(Path, Test),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

#[derive(Debug)]
pub enum Test {
    Equals(Vec<Value>),
    Matches(Regex),
    Exists,
    Missing,
    Below(Number),
    AtMost(Number),
    Above(Number),
    AtLeast(Number),
}

impl Condition {
    /// Compiles a condition of the plan. Refuses invalid pointers and regular expressions.
    pub fn new(condition: &plan::EventCondition) -> Result<Self, PlanError> {
        let all = |inner: &[plan::EventCondition]| inner.iter().map(Self::new).collect::<Result<Vec<_>, _>>();
        Ok(match condition {
            plan::EventCondition::Field { field, test } => Self::Field(Path::parse(field)?, Test::new(test)?),
            plan::EventCondition::Not(inner) => Self::Not(Box::new(Self::new(inner)?)),
            plan::EventCondition::All(inner) => Self::All(all(inner)?),
            plan::EventCondition::Any(inner) => Self::Any(all(inner)?),
        })
    }

    /// Returns whether a line satisfies the condition. Fails if an object on the way to a field has duplicate members.
    pub(super) fn holds(&self, object: &mut Object<'_>) -> Result<bool, String> {
        match self {
            Self::Field(field, test) => Ok(test.holds(object.find(&field.names)?)),
            Self::Not(inner) => Ok(!inner.holds(object)?),
            Self::All(inner) => inner.iter().try_fold(true, |all, one| Ok(all && one.holds(object)?)),
            Self::Any(inner) => inner.iter().try_fold(false, |any, one| Ok(any || one.holds(object)?)),
        }
    }
}

impl Test {
    /// Compiles a test of the plan. Refuses an invalid regular expression.
    fn new(test: &plan::FieldTest) -> Result<Self, PlanError> {
        Ok(match test {
            plan::FieldTest::Equals(values) => Self::Equals(values.clone()),
            plan::FieldTest::Matches(expression) => {
                Self::Matches(compile(expression).map_err(|e| e.within(format!("matches {expression:?}")))?)
            }
            plan::FieldTest::Exists => Self::Exists,
            plan::FieldTest::Missing => Self::Missing,
            plan::FieldTest::Below(limit) => Self::Below(limit.clone()),
            plan::FieldTest::AtMost(limit) => Self::AtMost(limit.clone()),
            plan::FieldTest::Above(limit) => Self::Above(limit.clone()),
            plan::FieldTest::AtLeast(limit) => Self::AtLeast(limit.clone()),
        })
    }

    /// Returns whether a field's value satisfies the test; `None` is a missing field.
    fn holds(&self, value: Option<&mut Node<'_>>) -> bool {
        let json = match (self, value) {
            (Self::Missing, value) => return value.is_none(),
            (Self::Exists, value) => return value.is_some(),
            (_, Some(Node::Json(json))) => &**json,
            _ => return false,
        };
        match self {
            Self::Equals(values) => values.iter().any(|wanted| equals(json, wanted)),
            Self::Matches(regex) => text(json).is_some_and(|text| regex.is_match(&text)),
            Self::Below(limit) => order(json, limit).is_some_and(|order| order.is_lt()),
            Self::AtMost(limit) => order(json, limit).is_some_and(|order| order.is_le()),
            Self::Above(limit) => order(json, limit).is_some_and(|order| order.is_gt()),
            Self::AtLeast(limit) => order(json, limit).is_some_and(|order| order.is_ge()),
            Self::Exists | Self::Missing => unreachable!("answered above"),
        }
    }
}

/// Returns whether a JSON value equals `wanted`: numbers by value, strings unescaped. Arrays and objects never do.
fn equals(json: &[u8], wanted: &Value) -> bool {
    match wanted {
        Value::Null => json == b"null",
        Value::Bool(wanted) => json == if *wanted { &b"true"[..] } else { b"false" },
        Value::Number(wanted) => order(json, wanted).is_some_and(|order| order.is_eq()),
        Value::String(wanted) => json.starts_with(b"\"") && digits(json).is_some_and(|text| text == *wanted),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Compares a JSON number with `limit`, exactly if both are integers; `None` if it is not a number.
fn order(json: &[u8], limit: &Number) -> Option<std::cmp::Ordering> {
    let digits = digits(json).filter(|_| !json.starts_with(b"\""))?;
    match (digits.parse::<i128>(), limit.as_i128()) {
        (Ok(number), Some(limit)) => Some(number.cmp(&limit)),
        _ => digits.parse::<f64>().ok()?.partial_cmp(&limit.as_f64()?),
    }
}
