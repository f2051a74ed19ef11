//! Judging and displaying answers.

use loadframe_engine::driver::Failure;
use loadframe_engine::workload::variables::Values;
use serde_json::{Map, Value};

use super::captured::{CapturedReply, reply, value};
use super::error::{client, refusal};
use super::operation::{Kind, Operation};
use super::resp::{Item, Reader};
use crate::assertion::Assertion;
use crate::capture::Memory;
use crate::crud::Neutral;

/// Judges the answer to the write of a read_modify_write: a failure if it is an error reply, or 0 (no document). Other
/// answers, also a missing one, pass.
pub fn changed(mut answer: Reader<'_>) -> Result<(), Failure> {
    match answer.next() {
        Some(Item::Error(words)) => Err(refusal(words)),
        Some(Item::Int(0)) => Err(client("not found")),
        _ => Ok(()),
    }
}

/// Judges the answer to an operation's command, including its assertion, and captures values into `memory`. Returns the
/// number of documents: the documents of a scan, the elements of a command's list reply, 0 for its null reply, else 1.
/// An error reply, a missing or existing document, and an aborted transaction are failures.
pub fn judge(operation: &Operation, answer: Reader<'_>, values: &Values, memory: &mut Memory) -> Result<u64, Failure> {
    let first = answer.clone().next().ok_or_else(|| client("no answer"))?;
    if let Item::Error(words) = first {
        return Err(refusal(words));
    }
    let documents = match &operation.kind {
        Kind::Command(command) => match first {
            Item::List(elements) => {
                // It lists the errors of its commands among their replies.
                let mut items = answer.clone();
                while command.is_exec
                    && let Some(item) = items.next()
                {
                    if let Item::Error(words) = item {
                        return Err(refusal(words));
                    }
                }
                elements as u64
            }
            Item::Null if command.is_exec => {
                return Err(client("the transaction was not executed: a key of its WATCH has changed"));
            }
            Item::Null => 0,
            _ => 1,
        },
        Kind::Neutral(neutral, _) => match (neutral, first) {
            (Neutral::Insert(_), Item::Int(0)) => return Err(client("already there")),
            (Neutral::Update(_) | Neutral::Delete(_), Item::Int(0)) => return Err(client("not found")),
            (Neutral::Read(_) | Neutral::ReadModifyWrite(_), _) if is_empty(answer.clone()) => {
                return Err(client("not found"));
            }
            (Neutral::Scan(_), Item::List(elements)) => elements as u64,
            _ => 1,
        },
    };
    if let Some(assertion) = &operation.assertion {
        judge_content(operation, assertion, answer.clone(), documents, values)?;
    }
    take(operation, &answer, values, memory).map(|()| documents)
}

/// Returns whether a list reply has only nulls or no elements, or the reply is not a list: the document is missing.
fn is_empty(mut answer: Reader<'_>) -> bool {
    let elements = answer.list().unwrap_or(0);
    (0..elements).all(|_| answer.next() == Some(Item::Null))
}

/// Returns a failure if the answer contradicts the assertion on the number of documents or the first one's fields.
fn judge_content(
    operation: &Operation,
    assertion: &Assertion,
    answer: Reader<'_>,
    documents: u64,
    values: &Values,
) -> Result<(), Failure> {
    assertion.judge_hits(documents, "")?;
    if assertion.has_fields() {
        let document = self::documents(operation, answer, values).into_iter().next();
        let json = document.map(|fields| Value::Object(fields).to_string());
        assertion.judge_json(values, json.as_deref().map(str::as_bytes), b"")?;
    }
    Ok(())
}

/// Returns the documents in the answer to a verb that reads; empty for other operations. Hashes hold text; text that is
/// a JSON number, boolean, list or mapping is converted. A read of named fields leaves out null fields.
pub fn documents(operation: &Operation, mut answer: Reader<'_>, values: &Values) -> Vec<Map<String, Value>> {
    match &operation.kind {
        Kind::Neutral(Neutral::Read(read), _) if !read.fields.is_empty() => {
            let elements = answer.list().unwrap_or(0);
            let mut document = Map::new();
            for name in read.names(values).into_iter().take(elements) {
                if let Some(Item::Bulk(text)) = answer.next() {
                    document.insert(name, value(text));
                }
            }
            vec![document]
        }
        Kind::Neutral(Neutral::Read(_) | Neutral::ReadModifyWrite(_), _) => vec![document(&mut answer)],
        Kind::Neutral(Neutral::Scan(_), _) => {
            let elements = answer.list().unwrap_or(0);
            (0..elements).map(|_| document(&mut answer)).collect()
        }
        _ => Vec::new(),
    }
}

/// Reads a list of alternating names and values, all texts, as a document; empty if the next item is not a list. Values
/// that are a JSON number, boolean, list or mapping are converted.
fn document(answer: &mut Reader<'_>) -> Map<String, Value> {
    let pairs = answer.list().unwrap_or(0) / 2;
    let pair = |_| Some((String::from_utf8_lossy(answer.text()?).into_owned(), value(answer.text()?)));
    (0..pairs).filter_map(pair).collect()
}

/// Captures values from an answer into `memory`, as the operation defines. Fails if a value is missing.
fn take(operation: &Operation, answer: &Reader<'_>, values: &Values, memory: &mut Memory) -> Result<(), Failure> {
    if operation.captures.is_empty() {
        return Ok(());
    }
    let document = documents(operation, answer.clone(), values).into_iter().next().map(Value::Object);
    memory.take(&operation.captures, |name, taken| {
        Ok(match taken {
            CapturedReply::Document(place) => place.in_value(name, document.as_ref()),
            CapturedReply::Reply(number) => reply(name, *number, answer.clone()),
        })
    })
}

/// Formats an answer for display. Documents are JSON, one per line, under their number; other answers look as in
/// redis-cli.
pub fn shown(operation: &Operation, answer: Reader<'_>, values: &Values) -> String {
    if !matches!(answer.clone().next(), Some(Item::List(_))) || matches!(operation.kind, Kind::Command(_)) {
        let (mut answer, mut lines) = (answer, Vec::new());
        while let Some(item) = answer.next() {
            lines.push(match item {
                Item::Status(text) | Item::Error(text) | Item::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                Item::Int(number) => number.to_string(),
                Item::Null => "(nil)".to_owned(),
                Item::List(elements) => format!("({elements} items)"),
            });
        }
        return lines.join("\n");
    }
    let documents = documents(operation, answer, values);
    let rows = documents.iter().map(|document| format!("\n{}", Value::Object(document.clone())));
    format!("{} documents{}", documents.len(), rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loadframe_engine::driver::{Context, ErrorClass};
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::{Captured, Variables};

    use super::super::collection::Collections;
    use super::*;

    /// Judges the reply `answer` to a command.
    fn judged(command: &[&str], answer: &[u8]) -> Result<u64, Failure> {
        let context = Context { variables: Variables::default(), corpora: Corpora::default() };
        let form = serde_json::json!({"command": command});
        let operation = Operation::map(&form, &context, &Collections::default(), Duration::from_secs(1)).unwrap();
        let draw = Draw::new(1, 2, 3);
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        judge(&operation, Reader::new(answer), &values, &mut Memory::default())
    }

    #[test]
    fn a_transaction_fails_with_its_commands_and_if_it_was_aborted() {
        assert_eq!(judged(&["EXEC"], b"*2\r\n+OK\r\n:1\r\n").unwrap(), 2);
        let failure = judged(&["exec"], b"*2\r\n+OK\r\n-WRONGTYPE not a list\r\n").unwrap_err();
        assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Client, "WRONGTYPE not a list"));
        assert!(judged(&["EXEC"], b"*1\r\n*1\r\n-OOM no\r\n").is_err_and(|no| no.class == ErrorClass::Rejected));
        assert!(judged(&["EXEC"], b"*-1\r\n").unwrap_err().message.contains("WATCH"));
        assert_eq!(judged(&["SET", "a", "1", "NX"], b"$-1\r\n").unwrap(), 0, "an assertion can refuse it");
    }

    #[test]
    fn a_text_is_taken_for_the_value_that_it_reads_as() {
        assert_eq!(value(b"7"), 7);
        assert_eq!(value(b"true"), true);
        assert_eq!(value(b"[1]"), serde_json::json!([1]));
        assert_eq!(value(b"Ann"), "Ann");
        assert_eq!(value(b"null"), "null");
        assert_eq!(value(b"\"a\""), "\"a\"");
        assert_eq!(value(b""), "");
    }

    #[test]
    fn a_document_without_a_field_is_not_there() {
        assert!(is_empty(Reader::new(b"*0\r\n")));
        assert!(is_empty(Reader::new(b"*2\r\n$-1\r\n$-1\r\n")));
        assert!(!is_empty(Reader::new(b"*2\r\n$-1\r\n$0\r\n\r\n")));
    }
}
