//! What an answer holds: how many rows, and rows as JSON for assertions and for people.

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::variables::Values;
use serde_json::Value;
use tokio_postgres::{Row, SimpleQueryMessage};

use super::failure::failure;
use super::value::object;
use crate::assertion::{self, Assertion};

/// The answer to one statement.
#[derive(Debug, Default)]
pub struct Answer {
    /// The rows that came, of statements that return some.
    pub rows: Vec<Row>,
    /// How many came, or were written.
    pub documents: u64,
    /// The same in text, of the simple protocol.
    texts: Vec<String>,
}

impl Answer {
    /// The answer of a prepared statement: its rows, or without columns the number of rows that were written.
    pub fn new(rows: Vec<Row>, written: u64, returns: bool) -> Self {
        let documents = if returns { rows.len() as u64 } else { written };
        Self { rows, documents, texts: Vec::new() }
    }

    /// The answer of the simple protocol.
    pub fn simple(messages: &[SimpleQueryMessage]) -> Self {
        let mut answer = Self::default();
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => {
                    let cells: Vec<_> = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL")).collect();
                    answer.texts.push(cells.join(" | "));
                }
                // For a SELECT, too, it has the number of rows.
                SimpleQueryMessage::CommandComplete(count) => answer.documents += count,
                _ => {}
            }
        }
        answer
    }

    /// Fails if there is no row: the requested document does not exist.
    pub fn there(self) -> Result<Self, Failure> {
        if self.documents == 0 { Err(failure(ErrorClass::Client, "no document has this id")) } else { Ok(self) }
    }

    /// Judges it by what the workload asserts. Fields are those of the first row, or of the `document` in it.
    pub fn judge(&self, assertion: &Assertion, document: Option<&str>, values: &Values) -> Result<(), Failure> {
        assertion.judge_hits(self.documents, "")?;
        if !assertion.has_fields() {
            return Ok(());
        }
        let first = self.first(document);
        let first = first.ok_or_else(|| assertion::assertion("no row whose fields could be judged".to_owned()))?;
        assertion.judge_fields(values, |name| assertion::field(&first, name).cloned())
    }

    /// The first row as a JSON object, or the `document` in it.
    pub fn first(&self, document: Option<&str>) -> Option<Value> {
        let mut first = self.rows.first().map(object)?;
        let inner = document.and_then(|name| first.get_mut(name.trim_matches('"'))).map(Value::take);
        inner.or(Some(first))
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let mut lines: Vec<_> = self.rows.iter().map(object).map(|row: Value| row.to_string()).collect();
        lines.extend_from_slice(&self.texts);
        lines.insert(0, format!("{} rows", self.documents));
        lines.join("\n")
    }
}
