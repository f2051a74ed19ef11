//! Contents of an answer: number of rows, outcome of a condition, and rows as JSON for display and assertions.

use std::fmt::Write;

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::workload::variables::Values;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::value::{CqlValue, Row};
use serde_json::{Map, Value};

use super::instant;
use crate::assertion;
use crate::assertion::Assertion;
use crate::outcome::Documents;

/// The answer to one statement.
#[derive(Debug)]
pub struct Answer {
    /// `None` for a write without a condition.
    pub rows: Option<QueryRowsResult>,
}

impl Documents for Answer {
    /// Returns the number of documents received. An answer without rows counts as one document.
    fn documents(&self) -> u64 {
        self.rows.as_ref().map_or(1, |rows| rows.rows_num() as u64)
    }
}

impl Answer {
    /// Reads the rows of an answer; a write without a condition has none. Fails if they cannot be decoded.
    pub fn new(result: QueryResult) -> Result<Self, Failure> {
        if !result.is_rows() {
            return Ok(Self { rows: None });
        }
        let broken = |error: &dyn std::error::Error| Failure::new(ErrorClass::Server, error.to_string());
        result.into_rows_result().map(|rows| Self { rows: Some(rows) }).map_err(|error| broken(&error))
    }

    /// Returns the size of the rows, in bytes; 0 without rows.
    pub fn size(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.rows_bytes_size() as u64)
    }

    /// Returns the answer, or a failure of class Client if it has no rows.
    pub fn or_not_found(self) -> Result<Self, Failure> {
        if self.documents() == 0 { Err(Failure::new(ErrorClass::Client, "not found")) } else { Ok(self) }
    }

    /// Returns the answer, or a failure if a condition of the statement (`IF NOT EXISTS`) was not met.
    pub fn applied(self) -> Result<Self, Failure> {
        let message = "not applied: the condition of the statement was not met";
        if self.refused() { Err(Failure::new(ErrorClass::Client, message)) } else { Ok(self) }
    }

    /// Returns whether the answer reports that a condition of the statement was not met.
    fn refused(&self) -> bool {
        let Some(rows) = &self.rows else { return false };
        let conditional = rows.column_specs().get_by_index(0).is_some_and(|column| column.name() == "[applied]");
        let applied = |row: &Row| row.columns.first() == Some(&Some(CqlValue::Boolean(true)));
        conditional && !rows.maybe_first_row::<Row>().ok().flatten().as_ref().is_some_and(applied)
    }

    /// Returns a failure if the answer contradicts the assertion on its number of rows, or on its first row's fields.
    /// A missing row is a failure if fields are asserted.
    pub fn judge(&self, assertion: &Assertion, values: &Values) -> Result<(), Failure> {
        assertion.judge_hits(self.documents(), "")?;
        if !assertion.has_fields() {
            return Ok(());
        }
        let first = self
            .first()
            .ok_or_else(|| assertion::assertion("cannot check fields: the answer contains no row".to_owned()))?;
        assertion.judge_fields(values, |name| assertion::field(&first, name).cloned())
    }

    /// Returns the texts in the first column of each row; skips rows with another value there.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.documents_as_json()
            .into_iter()
            .filter_map(|row| row.as_object()?.values().next()?.as_str().map(str::to_owned))
    }

    /// Returns the first row as a JSON object; `None` if there is none.
    pub fn first(&self) -> Option<Value> {
        self.rows.as_ref().and_then(|rows| Some(object(rows, rows.maybe_first_row().ok()??)))
    }

    /// Returns the rows as JSON objects; empty for an answer without rows. Leaves out rows that cannot be decoded.
    fn documents_as_json(&self) -> Vec<Value> {
        let Some(rows) = &self.rows else { return Vec::new() };
        rows.rows::<Row>().into_iter().flatten().flatten().map(|row| object(rows, row)).collect()
    }

    /// Formats the answer for display: the number of rows and one row per line, or "done" for a write.
    pub fn text(&self) -> String {
        match self.rows {
            None => "done".to_owned(),
            Some(_) => {
                let lines: Vec<_> = self.documents_as_json().iter().map(Value::to_string).collect();
                format!("{} rows\n{}", lines.len(), lines.join("\n"))
            }
        }
    }
}

/// Converts a row to a JSON object of its columns.
fn object(rows: &QueryRowsResult, row: Row) -> Value {
    let names = rows.column_specs().iter().map(|column| column.name().to_owned());
    let cells = row.columns.into_iter().map(|cell| cell.map_or(Value::Null, json));
    Value::Object(names.zip(cells).collect::<Map<_, _>>())
}

/// Converts a value to the JSON that a workload would use for it: times, addresses and ids as text, bytes as `0x...`,
/// other types without a JSON form as their CQL text.
fn json(value: CqlValue) -> Value {
    let list = |values: Vec<CqlValue>| Value::Array(values.into_iter().map(json).collect());
    match value {
        CqlValue::Empty => Value::String(String::new()),
        CqlValue::Ascii(text) | CqlValue::Text(text) => Value::String(text),
        CqlValue::Boolean(yes) => Value::Bool(yes),
        CqlValue::TinyInt(n) => n.into(),
        CqlValue::SmallInt(n) => n.into(),
        CqlValue::Int(n) => n.into(),
        CqlValue::BigInt(n) => n.into(),
        CqlValue::Counter(n) => n.0.into(),
        CqlValue::Float(x) => x.into(),
        CqlValue::Double(x) => x.into(),
        CqlValue::Timestamp(at) => Value::String(instant::text(at.0)),
        CqlValue::Date(day) => Value::String(instant::date_text(day.0)),
        CqlValue::Inet(address) => Value::String(address.to_string()),
        CqlValue::Uuid(id) => Value::String(id.to_string()),
        CqlValue::Timeuuid(id) => Value::String(id.to_string()),
        CqlValue::Blob(bytes) => Value::String(bytes.iter().fold("0x".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a String cannot fail");
            text
        })),
        CqlValue::List(values) | CqlValue::Set(values) | CqlValue::Vector(values) => list(values),
        CqlValue::Tuple(values) => {
            Value::Array(values.into_iter().map(|value| value.map_or(Value::Null, json)).collect())
        }
        CqlValue::Map(pairs) => {
            Value::Object(pairs.into_iter().map(|(key, value)| (key_text(key), json(value))).collect())
        }
        CqlValue::UserDefinedType { fields, .. } => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, value.map_or(Value::Null, json))).collect())
        }
        other => Value::String(other.to_string()),
    }
}

/// Converts the key of a map to text; a value that is not text becomes JSON.
fn key_text(key: CqlValue) -> String {
    match json(key) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use scylla::value::CqlTimestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_back_as_they_are_written() {
        assert_eq!(super::json(CqlValue::Text("a".into())), json!("a"));
        assert_eq!(super::json(CqlValue::Timestamp(CqlTimestamp(1500))), json!("1970-01-01T00:00:01.500Z"));
        assert_eq!(super::json(CqlValue::Blob(vec![0, 255])), json!("0x00ff"));
        let map = CqlValue::Map(vec![(CqlValue::Int(1), CqlValue::List(vec![CqlValue::Boolean(true)]))]);
        assert_eq!(super::json(map), json!({"1": [true]}));
    }
}
