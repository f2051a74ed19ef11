//! What an answer holds: how many rows, and rows as JSON for assertions and for people.

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::workload::variables::Values;
use serde_json::Value;
use tokio_postgres::{Row, SimpleQueryMessage};

use super::error::failure;
use super::value::object;
use crate::assertion;
use crate::assertion::Assertion;

/// Rows that are kept for people; the others are only counted.
const SHOWN: usize = 100;
/// Bytes of rows that are kept for people, as text.
const SHOWN_BYTES: usize = 1 << 20;

/// The answer to one statement. Rows are counted as they come, and few of them are kept.
#[derive(Debug, Default)]
pub struct Answer {
    /// The first row that came, of a prepared statement that returns some.
    first: Option<Row>,
    /// How many came, or were written.
    pub documents: u64,
    /// The first rows in text, if people are to see them.
    texts: Vec<String>,
    /// The length of all texts.
    bytes: usize,
    /// Rows that came.
    rows: u64,
}

impl Answer {
    /// Count a row of a prepared statement. `shown`: people are to see it.
    pub fn add(&mut self, row: Row, shown: bool) {
        if shown {
            self.show(|| object(&row).to_string());
        }
        self.rows += 1;
        self.first.get_or_insert(row);
    }

    /// End the answer of a prepared statement. `written`: the number of rows that one without columns wrote.
    pub fn end(mut self, written: Option<u64>) -> Self {
        self.documents = written.unwrap_or(self.rows);
        self
    }

    /// Count a message of the simple protocol. `shown`: people are to see it.
    pub fn add_simple(&mut self, message: &SimpleQueryMessage, shown: bool) {
        match message {
            SimpleQueryMessage::Row(row) => {
                if shown {
                    let cells = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL"));
                    self.show(|| cells.collect::<Vec<_>>().join(" | "));
                }
                self.rows += 1;
            }
            // For a SELECT, too, it has the number of rows.
            SimpleQueryMessage::CommandComplete(count) => self.documents += count,
            _ => {}
        }
    }

    fn show(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < SHOWN && self.bytes < SHOWN_BYTES {
            let text = text();
            self.bytes += text.len();
            self.texts.push(text);
        }
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
        let mut first = self.first.as_ref().map(object)?;
        let inner = document.and_then(|name| first.get_mut(name.trim_matches('"'))).map(Value::take);
        inner.or(Some(first))
    }

    /// As people read it.
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
