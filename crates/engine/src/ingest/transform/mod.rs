//! Transformation of lines before id and time are read: steps that rename, drop, convert, derive and add fields,
//! take them out of texts, and drop events.
//!
//! Values that no step touches keep their bytes, so that numbers stay exact.

mod condition;
mod grok;
mod patterns;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use jiff::fmt::strtime;
use jiff::tz::Offset;
use serde_json::Number;

use super::dead_letters::{Reason, Refusal};
use super::instant::{instant, unit};
use crate::plan::{Events, Expression, FieldType, LineFormat, PlanError, TransformStep};
use crate::util::calendar;
use crate::util::json::whole;
use crate::workload::json_pointer::Pointer;
use condition::Condition;
use grok::Grok;

/// Longest excerpt of a value in the reason of a dead letter, characters.
const SHOWN: usize = 60;

/// Most digits of an integer of 64 bits.
const LONGEST_INTEGER: i64 = 20;

/// Steps of a source.
#[derive(Debug)]
pub struct Transform {
    /// Steps for lines of all kinds; they run before the kind is read.
    pub all: Vec<Step>,
    /// Further steps, by kind.
    pub kinds: Vec<Vec<Step>>,
    /// Maximum length of a transformed line, bytes.
    pub longest: usize,
    /// Format of the lines.
    pub format: LineFormat,
}

/// One step.
#[derive(Debug)]
pub enum Step {
    /// Change a field.
    Change(Field),
    /// Drop the event if the condition holds.
    DropEvent(Condition),
}

/// Change of a field.
#[derive(Debug)]
pub struct Field {
    field: Path,
    act: Act,
}

#[derive(Debug)]
enum Act {
    Rename(Path),
    Drop,
    Convert(FieldType),
    Derive(Expression, Vec<Path>),
    Add(Vec<u8>),
    Grok(Grok),
}

/// Names of nested members.
#[derive(Debug)]
pub struct Path {
    names: Vec<Vec<u8>>,
}

impl Path {
    /// Parses a JSON pointer to a field. Refuses an invalid pointer, and the pointer to the whole line.
    fn parse(pointer: &str) -> Result<Self, PlanError> {
        let names = Pointer::parse(pointer)?.tokens().to_vec();
        if names.is_empty() {
            return Err(PlanError::new("a step needs a field, such as /a/b; got the whole line"));
        }
        Ok(Self { names })
    }
}

impl fmt::Display for Path {
    /// Writes the names of the path, separated by dots.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.names.join(&b'.')))
    }
}

impl Transform {
    /// Compiles the steps of a source; `None` if lines stay as they are. `longest`: maximum length of a
    /// transformed line, bytes. Refuses invalid steps.
    pub fn new(events: &Events, longest: usize) -> Result<Option<Self>, PlanError> {
        let steps = |steps: &[TransformStep]| steps.iter().map(Step::new).collect::<Result<Vec<_>, _>>();
        let all = steps(&events.transform)?;
        // In the order of the reader's names.
        let kinds = events.kinds.values().map(|kind| steps(&kind.transform)).collect::<Result<Vec<_>, _>>()?;
        let is_empty = events.format == LineFormat::Json && all.is_empty() && kinds.iter().all(Vec::is_empty);
        Ok((!is_empty).then_some(Self { all, kinds, longest, format: events.format }))
    }
}

/// Returns a line of text as a JSON object with the field `message`. Refuses text that is not UTF-8.
pub fn message(line: &[u8]) -> Result<Vec<u8>, Refusal> {
    let text = std::str::from_utf8(line).map_err(|_| Refusal::from(Reason::NoText))?;
    Ok([&b"{\"message\":"[..], &quoted(text), b"}"].concat())
}

/// Applies steps to a line without surrounding white space; returns the changed line, or `None` if a step drops the
/// event. The error is the reason of its dead letter.
pub fn apply<'a>(steps: &[Step], line: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, Refusal> {
    if steps.is_empty() {
        return Ok(Some(Cow::Borrowed(line)));
    }
    if std::str::from_utf8(line).is_err() {
        return Err(Reason::NoObject.into());
    }
    // Errors of the JSON itself do not name a step.
    let mut object = Object::parse(line)?;
    for step in steps {
        match step {
            Step::Change(change) => change.apply(&mut object)?,
            Step::DropEvent(condition) => {
                let failed = |problem| Refusal { reason: Reason::Transform, words: format!("drop_event: {problem}") };
                if condition.holds(&mut object).map_err(failed)? {
                    return Ok(None);
                }
            }
        }
    }
    let mut out = Vec::with_capacity(line.len());
    object.write(&mut out);
    Ok(Some(Cow::Owned(out)))
}

impl Act {
    /// Returns the step's name in plans.
    fn name(&self) -> &'static str {
        match self {
            Self::Rename(_) => "rename",
            Self::Drop => "drop",
            Self::Convert(_) => "convert",
            Self::Derive(..) => "derive",
            Self::Add(_) => "add",
            Self::Grok(_) => "grok",
        }
    }
}

impl Step {
    /// Compiles a step of the plan. Refuses invalid pointers, formats, patterns and conditions.
    pub(super) fn new(step: &TransformStep) -> Result<Self, PlanError> {
        let (field, act) = match step {
            TransformStep::Rename { field, to } => (field, Act::Rename(Path::parse(to)?)),
            TransformStep::Drop { field } => (field, Act::Drop),
            TransformStep::Convert { field, to } => (field, Act::Convert(*to)),
            TransformStep::Derive { field, value } => {
                let operands = value.operands().iter().map(|operand| Path::parse(operand)).collect::<Result<_, _>>()?;
                if let Expression::Date { format, .. } = value {
                    let epoch = calendar::at(0).expect("1970 is a year of the calendar");
                    strtime::format(format, epoch).map_err(|e| PlanError::new(format!("format {format:?}: {e}")))?;
                }
                if matches!(value, Expression::Part { split, .. } if split.is_empty()) {
                    return Err(PlanError::new("split must not be empty"));
                }
                (field, Act::Derive(value.clone(), operands))
            }
            TransformStep::Add { field, value } => (field, Act::Add(value.to_string().into_bytes())),
            TransformStep::Grok { field, patterns, custom } => {
                let grok = Grok::new(patterns, custom).map_err(|e| e.within(format!("grok {field}")))?;
                (field, Act::Grok(grok))
            }
            TransformStep::DropEvent { condition } => {
                let condition = Condition::new(condition).map_err(|e| e.within("drop_event".to_owned()))?;
                return Ok(Self::DropEvent(condition));
            }
        };
        Ok(Self::Change(Field { field: Path::parse(field)?, act }))
    }
}

impl Field {
    /// Changes the field in `object`. The error is the reason of a dead letter, with the step and the field.
    fn apply(&self, object: &mut Object<'_>) -> Result<(), Refusal> {
        let words = |problem: &str| format!("{} {}: {problem}", self.act.name(), self.field);
        let fits = self.change(object);
        let fits = fits.map_err(|problem| Refusal { reason: Reason::Transform, words: words(&problem) })?;
        if fits { Ok(()) } else { Err(Refusal { reason: Reason::NoMatch, words: words("no pattern fits") }) }
    }

    /// Changes the field in `object`; returns false if no pattern of a grok step fits it.
    /// Fails if the step cannot process the field: a missing field (not for rename, drop and add), a value of the wrong
    /// type, or a new name that exists already.
    fn change(&self, object: &mut Object<'_>) -> Result<bool, String> {
        let names = &self.field.names;
        match &self.act {
            Act::Grok(grok) => {
                let node = object.find(names)?.ok_or("the field is missing")?;
                let Node::Json(json) = &node else { return Err("an object is not a text".to_owned()) };
                let json = json.clone();
                let whole = text(&json).ok_or_else(|| format!("{} is not a text", excerpt(&json)))?;
                let Some(taken) = grok.captures(&whole)? else { return Ok(false) };
                for (field, part, to) in taken {
                    let value = match to {
                        None => quoted(part),
                        Some(to) => convert_text(part, to)
                            .ok_or_else(|| format!("{field}: {} is not {}", excerpt(part.as_bytes()), wanted(to)))?,
                    };
                    object.put(&field.names, Node::Json(Cow::Owned(value)))?;
                }
                return Ok(true);
            }
            Act::Rename(to) => {
                let Some(value) = object.take(names)? else { return Ok(true) };
                if object.find(&to.names)?.is_some() {
                    return Err(format!("the field {to} exists already"));
                }
                object.put(&to.names, value)?;
            }
            Act::Drop => drop(object.take(names)?),
            Act::Convert(to) => {
                let node = object.find(names)?.ok_or("the field is missing")?;
                let Node::Json(json) = &node else { return Err("an object cannot be converted".to_owned()) };
                let converted = convert(json, *to)?;
                *node = Node::Json(Cow::Owned(converted));
            }
            Act::Derive(expression, operands) => {
                let value = derive(expression, operands, object)?;
                object.put(names, Node::Json(Cow::Owned(value)))?;
            }
            Act::Add(value) => object.put(names, Node::Json(Cow::Owned(value.clone())))?,
        }
        Ok(true)
    }
}

/// A member's value.
enum Node<'a> {
    /// JSON: borrowed from the line, or the scalar result of a step.
    Json(Cow<'a, [u8]>),
    /// An object that a step looked into.
    Object(Object<'a>),
}

/// Members of an object, in order.
#[derive(Default)]
struct Object<'a>(Vec<(Cow<'a, [u8]>, Node<'a>)>);

impl<'a> Node<'a> {
    /// Returns the members of an object, which it parses if necessary; `None` for other values. Fails if the object
    /// has duplicate members.
    fn object(&mut self) -> Result<Option<&mut Object<'a>>, String> {
        if let Self::Json(Cow::Borrowed(json)) = self
            && json.starts_with(b"{")
        {
            *self = Self::Object(Object::parse(json).map_err(|refusal| refusal.words)?);
        }
        Ok(match self {
            Self::Object(object) => Some(object),
            Self::Json(_) => None,
        })
    }
}

impl<'a> Object<'a> {
    /// Parses an object, but not its nested objects. Refuses duplicate members.
    fn parse(json: &'a [u8]) -> Result<Self, Refusal> {
        let mut members = Vec::new();
        whole::members(json, |name, value| members.push((name, Node::Json(Cow::Borrowed(value)))))
            .map_err(Reason::from)?;
        let mut names = HashSet::with_capacity(members.len());
        // Steps and stores could choose different ones of duplicate members.
        if let Some((name, _)) = members.iter().find(|(name, _)| !names.insert(&**name)) {
            let words = format!("the field {} appears twice", excerpt(name));
            return Err(Refusal { reason: Reason::Transform, words });
        }
        drop(names);
        Ok(Self(members))
    }

    /// Returns the index of the member with this name; `None` if there is none.
    fn position(&self, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|(known, _)| **known == *name)
    }

    /// Returns the value of the field at the path `names`; `None` if it is missing or a value on the way is not an
    /// object. Fails if an object on the way has duplicate members.
    fn find(&mut self, names: &[Vec<u8>]) -> Result<Option<&mut Node<'a>>, String> {
        let Some((first, rest)) = names.split_first() else { return Ok(None) };
        let Some(at) = self.position(first) else { return Ok(None) };
        let node = &mut self.0[at].1;
        if rest.is_empty() {
            return Ok(Some(node));
        }
        node.object()?.map_or(Ok(None), |object| object.find(rest))
    }

    /// Removes the field at the path `names` and returns its value; `None` if it is missing. Fails if an object on the
    /// way has duplicate members.
    fn take(&mut self, names: &[Vec<u8>]) -> Result<Option<Node<'a>>, String> {
        let Some((first, rest)) = names.split_first() else { return Ok(None) };
        let Some(at) = self.position(first) else { return Ok(None) };
        if rest.is_empty() {
            return Ok(Some(self.0.remove(at).1));
        }
        self.0[at].1.object()?.map_or(Ok(None), |object| object.take(rest))
    }

    /// Sets the field at the path `names`, also if it exists, and creates the objects around it.
    /// Fails if a value on the way is not an object, or has duplicate members.
    fn put(&mut self, names: &[Vec<u8>], value: Node<'a>) -> Result<(), String> {
        let Some((first, rest)) = names.split_first() else { return Ok(()) };
        let at = self.position(first).unwrap_or_else(|| {
            self.0.push((Cow::Owned(first.clone()), Node::Object(Object::default())));
            self.0.len() - 1
        });
        if rest.is_empty() {
            self.0[at].1 = value;
            return Ok(());
        }
        let object = self.0[at].1.object()?;
        object.ok_or_else(|| format!("{} is not an object", excerpt(first)))?.put(rest, value)
    }

    /// Appends the object to `out` as JSON. Untouched values keep their bytes.
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (place, (name, node)) in self.0.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            match (name, std::str::from_utf8(name)) {
                // A name with escapes, or of a step.
                (Cow::Owned(_), Ok(name)) => {
                    serde_json::to_writer(&mut *out, name).expect("memory can be written to");
                }
                _ => {
                    out.push(b'"');
                    out.extend_from_slice(name);
                    out.push(b'"');
                }
            }
            out.push(b':');
            match node {
                Node::Json(json) => out.extend_from_slice(json),
                Node::Object(object) => object.write(out),
            }
        }
        out.push(b'}');
    }
}

/// Returns a JSON value as text for a message, cut after 60 characters.
fn excerpt(json: &[u8]) -> String {
    let text = String::from_utf8_lossy(json);
    match text.char_indices().nth(SHOWN) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Returns a text as a JSON string.
fn quoted(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).expect("text can be written as JSON")
}

/// Returns the content of a JSON string, or the digits of a number; `None` for other values.
fn digits(json: &[u8]) -> Option<Cow<'_, str>> {
    match json.first()? {
        // A string with escapes has no content to borrow.
        b'"' => match serde_json::from_slice::<&str>(json) {
            Ok(text) => Some(Cow::Borrowed(text)),
            Err(_) => serde_json::from_slice::<String>(json).ok().map(Cow::Owned),
        },
        b'-' | b'0'..=b'9' => std::str::from_utf8(json).ok().map(Cow::Borrowed),
        _ => None,
    }
}

/// Returns the content of a JSON string, a number or a boolean as text; `None` for other values.
fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    digits(json).or_else(|| match json {
        b"true" => Some("true".into()),
        b"false" => Some("false".into()),
        _ => None,
    })
}

/// Converts a JSON value to another type, as JSON. The error says why it does not fit.
fn convert(json: &[u8], to: FieldType) -> Result<Vec<u8>, String> {
    let converted = match to {
        FieldType::Integer | FieldType::Float => digits(json).and_then(|digits| convert_text(&digits, to)),
        FieldType::Boolean | FieldType::Text => text(json).and_then(|text| convert_text(&text, to)),
        FieldType::Time => Some(quoted(&date(json, None, "%Y-%m-%dT%H:%M:%S.%3fZ")?)),
    };
    converted.ok_or_else(|| format!("{} is not {}", excerpt(json), wanted(to)))
}

/// Returns a description of the values that can be converted to a type, for messages.
fn wanted(to: FieldType) -> &'static str {
    match to {
        FieldType::Integer => "an integer of 64 bits",
        FieldType::Float => "a finite number",
        FieldType::Boolean => "true, false, 1 or 0",
        FieldType::Text | FieldType::Time => "a text, a number, true or false",
    }
}

/// Converts the content of a value to JSON of another type; `None` if it does not fit. Text and times become JSON
/// strings, unchecked.
fn convert_text(text: &str, to: FieldType) -> Option<Vec<u8>> {
    match to {
        FieldType::Integer => integer(text).map(String::into_bytes),
        FieldType::Float => {
            let number = text.parse().ok().and_then(Number::from_f64);
            number.map(|number| number.to_string().into_bytes())
        }
        FieldType::Boolean => match text {
            "true" | "1" => Some(b"true".to_vec()),
            "false" | "0" => Some(b"false".to_vec()),
            _ => None,
        },
        FieldType::Text | FieldType::Time => Some(quoted(text)),
    }
}

/// Returns a number as an integer's digits; `None` if it has a fraction, or is not an integer of 64 bits. Does not
/// round: a float would lose digits.
fn integer(number: &str) -> Option<String> {
    let small = |digits: &str| {
        let signed = digits.parse::<i64>().map(|number| number.to_string());
        signed.or_else(|_| digits.parse::<u64>().map(|number| number.to_string())).ok()
    };
    small(number).or_else(|| {
        let (sign, unsigned) = number.strip_prefix('-').map_or(("", number), |unsigned| ("-", unsigned));
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole.strip_prefix('+').filter(|_| sign.is_empty()).unwrap_or(whole), fraction].concat();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // The number is `significant` with zeros behind it.
        let significant = digits.trim_end_matches('0');
        let zeros = i64::from(exponent) + (digits.len() - significant.len()) as i64 - fraction.len() as i64;
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Some("0".to_owned());
        }
        let fits = (0..=LONGEST_INTEGER - significant.len() as i64).contains(&zeros);
        fits.then(|| small(&format!("{sign}{significant}{}", "0".repeat(zeros as usize)))).flatten()
    })
}

/// Formats a JSON time in UTC, in the strftime format `format`. `from`: the strptime format of the time; `None` for
/// ISO 8601 or milliseconds since 1970. Fails if the value is not a time, seems to have another unit, or is outside
/// the years 0 to 9999.
fn date(json: &[u8], from: Option<&str>, format: &str) -> Result<String, String> {
    let milliseconds = match from {
        Some(from) => text(json).and_then(|text| parsed(from, &text)),
        None => instant(json),
    };
    let milliseconds = milliseconds.ok_or_else(|| format!("{} is not a time", excerpt(json)))?;
    if from.is_none() && unit(json).is_some() {
        return Err(format!("{} is not in milliseconds since 1970", excerpt(json)));
    }
    let at = calendar::at(milliseconds).ok_or_else(|| format!("{} is outside the years 0 to 9999", excerpt(json)))?;
    strtime::format(format, at).map_err(|e| e.to_string())
}

/// Parses a time in a strptime format; without an offset it is in UTC. Returns milliseconds since 1970; `None` also for
/// the name of another zone, whose offset is unknown.
fn parsed(format: &str, text: &str) -> Option<i64> {
    let broken_down = strtime::parse(format, text).ok()?;
    if let Ok(at) = broken_down.to_timestamp() {
        return Some(at.as_millisecond());
    }
    let zone = broken_down.iana_time_zone().filter(|zone| !["UTC", "Etc/UTC", "GMT"].contains(zone));
    if broken_down.offset().is_some() || zone.is_some() {
        return None;
    }
    Offset::UTC.to_timestamp(broken_down.to_datetime().ok()?).ok().map(|at| at.as_millisecond())
}

/// Returns the value of an expression as JSON. `operands`: paths of the fields of `object` that it reads. Fails if one
/// is missing or has the wrong type.
fn derive(expression: &Expression, operands: &[Path], object: &mut Object<'_>) -> Result<Vec<u8>, String> {
    let mut values = Vec::with_capacity(operands.len());
    for path in operands {
        match object.find(&path.names)? {
            Some(Node::Json(json)) => values.push((path, json.to_vec())),
            Some(Node::Object(_)) => return Err(format!("the field {path} is an object")),
            None => return Err(format!("the field {path} is missing")),
        }
    }
    let texts = || {
        let text = |(path, json): &(&Path, Vec<u8>)| {
            let content = text(json).map(Cow::into_owned);
            content.ok_or_else(|| format!("the field {path} is not a text, a number, true or false: {}", excerpt(json)))
        };
        values.iter().map(text).collect::<Result<Vec<String>, String>>()
    };
    match expression {
        Expression::Date { format, from, .. } => Ok(quoted(&date(&values[0].1, from.as_deref(), format)?)),
        Expression::Part { split, at, .. } => {
            let whole = &texts()?[0];
            let missing = || format!("{} has no part {at}", excerpt(whole.as_bytes()));
            whole.split(split).nth(*at).map(quoted).ok_or_else(missing)
        }
        Expression::Join { with, .. } => Ok(quoted(&texts()?.join(with))),
        Expression::Sum(_) => combined(&values, i64::checked_add, |a, b| a + b),
        Expression::Product(_) => combined(&values, i64::checked_mul, |a, b| a * b),
    }
}

/// Combines JSON numbers by `exact`, if all are integers, or by `float`. `values`: path and JSON of each. Fails if a
/// value is not a number, or if the result is too large.
fn combined(
    values: &[(&Path, Vec<u8>)],
    exact: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Result<Vec<u8>, String> {
    let (mut integers, mut floats) = (Vec::new(), Vec::new());
    for (path, json) in values {
        let digits = digits(json).filter(|_| !json.starts_with(b"\""));
        let digits = digits.ok_or_else(|| format!("the field {path} is not a number: {}", excerpt(json)))?;
        let number = digits.parse().ok().filter(|number: &f64| number.is_finite());
        let integer = digits.parse::<i64>().ok();
        // A longer integer would lose digits.
        let number = number.filter(|_| integer.is_some() || digits.contains(['.', 'e', 'E']));
        floats.push(number.ok_or_else(|| format!("the field {path} is too large: {}", excerpt(json)))?);
        integers.extend(integer);
    }
    let result = if integers.len() == floats.len() {
        let result = integers.into_iter().map(Some).reduce(|a, b| exact(a?, b?)).flatten();
        result.map(|number| number.to_string())
    } else {
        floats.into_iter().reduce(float).and_then(Number::from_f64).map(|number| number.to_string())
    };
    result.map(String::into_bytes).ok_or_else(|| "the result is too large".to_owned())
}

#[cfg(test)]
mod tests;
