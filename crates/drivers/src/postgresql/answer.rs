//! Answers to statements: the row count, and rows as JSON for assertions and display.

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::workload::variables::Values;
use serde_json::Value;
use tokio_postgres::{Row, SimpleQueryMessage};

use super::value::object;
use crate::assertion;
use crate::assertion::Assertion;
use crate::outcome::Documents;

/// Number of rows kept for display; further rows are only counted.
const SHOWN: usize = 100;
/// Size of the rows kept for display, in bytes of text.
const SHOWN_BYTES: usize = 1 << 20;

/// The answer to one statement. Counts the rows as they arrive and keeps some of them.
#[derive(Debug, Default)]
pub struct Answer {
    /// The first row of a prepared statement.
    first: Option<Row>,
    /// Number of rows returned or written.
    pub documents: u64,
    /// The first rows as text, for display.
    texts: Vec<String>,
    /// Total length of `texts`.
    bytes: usize,
    /// Number of rows returned.
    rows: u64,
}

impl Documents for Answer {
    /// Returns the number of rows returned or written.
    fn documents(&self) -> u64 {
        self.documents
    }
}

impl Answer {
    /// Counts a row of a prepared statement. `shown`: keep it for display.
    pub fn add(&mut self, row: Row, shown: bool) {
        if shown {
            self.show(|| object(&row).to_string());
        }
        self.rows += 1;
        self.first.get_or_insert(row);
    }

    /// Ends the answer of a prepared statement and returns it. `written`: the number of rows written by a statement
    /// without columns.
    pub fn end(mut self, written: Option<u64>) -> Self {
        self.documents = written.unwrap_or(self.rows);
        self
    }

    /// Counts a message of the simple protocol: a row, or the end of a statement with its number of rows. `shown`: keep
    /// a row for display.
    pub fn add_simple(&mut self, message: &SimpleQueryMessage, shown: bool) {
        match message {
            SimpleQueryMessage::Row(row) => {
                if shown {
                    let cells = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL"));
                    self.show(|| cells.collect::<Vec<_>>().join(" | "));
                }
                self.rows += 1;
            }
            // A SELECT also reports its number of rows.
            SimpleQueryMessage::CommandComplete(count) => self.documents += count,
            _ => {}
        }
    }

    /// Keeps a row for display, unless enough are kept; only then calls `text`.
    fn show(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < SHOWN && self.bytes < SHOWN_BYTES {
            let text = text();
            self.bytes += text.len();
            self.texts.push(text);
        }
    }

    /// Returns the answer, or a failure of class Client if it neither returned nor wrote a row: no document has this
    /// id.
    pub fn there(self) -> Result<Self, Failure> {
        if self.documents == 0 { Err(Failure::new(ErrorClass::Client, "no document has this id")) } else { Ok(self) }
    }

    /// Returns a failure if the answer contradicts the assertion on its number of rows or on fields.
    /// Fields are read from the first row, or from the JSON in its column `document`. A missing row is a failure if
    /// fields are asserted.
    pub fn judge(&self, assertion: &Assertion, document: Option<&str>, values: &Values) -> Result<(), Failure> {
        assertion.judge_hits(self.documents, "")?;
        if !assertion.has_fields() {
            return Ok(());
        }
        let first = self.first(document);
        let first =
            first.ok_or_else(|| assertion::assertion("cannot check fields: the answer contains no row".to_owned()))?;
        assertion.judge_fields(values, |name| assertion::field(&first, name).cloned())
    }

    /// Returns the first row as a JSON object, or the contents of its column `document`, if that is given and exists.
    /// `None` without a row of a prepared statement.
    pub fn first(&self, document: Option<&str>) -> Option<Value> {
        let mut first = self.first.as_ref().map(object)?;
        let inner = document.and_then(|name| first.get_mut(name.trim_matches('"'))).map(Value::take);
        inner.or(Some(first))
    }

    /// Formats the answer for display: the number of rows, and the rows that are kept.
    pub fn text(&self) -> String {
        let left = self.rows - self.texts.len() as u64;
        let mut lines = vec![format!("{} rows", self.documents)];
        lines.extend_from_slice(&self.texts);
        if left > 0 && !self.texts.is_empty() {
            lines.push(format!("... and {left} more"));
        }
        lines.join("\n")
    }
}
